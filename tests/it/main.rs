//! The integration tests, in one binary: the library is linked once, and the fakes are shared.

#[cfg(test)]
mod support;

/// Alertmanager is told at once, each by itself, until it is over.
#[cfg(test)]
mod alertmanager;
/// Which events are approved, when, by whom and how often; and that nothing is where nobody asked for it.
#[cfg(test)]
mod approvals;
/// Approvals are sent as Microsoft documents them, and only a 200 is one.
#[cfg(test)]
mod approving;
/// The command line of the real program: exit codes, lines, signals.
#[cfg(test)]
mod cli;
/// Documents in, goldens out: what is read, and what Prometheus sees of it.
#[cfg(test)]
mod documents;
/// The name of this VM is read, or it is a failure.
#[cfg(test)]
mod identity;
/// Everything else that can come from that address is a failure with its reason.
#[cfg(test)]
mod imds_errors;
/// Good answers of IMDS are read, whatever their form on the wire.
#[cfg(test)]
mod imds_success;
/// The exporter is killed at any moment and loses nothing.
#[cfg(test)]
mod kills;
/// Events are followed without contradiction, whatever comes in whatever order.
#[cfg(test)]
mod lifecycle_properties;
/// Damaged documents: nothing panics, and nothing readable is lost.
#[cfg(test)]
mod malformed;
/// Spans reach a collector over real sockets, or are counted.
#[cfg(test)]
mod otlp;
/// The whole exporter: what its metrics say while IMDS answers, fails, or does neither.
#[cfg(test)]
mod polling;
/// Whole lives, as timelines: what happened, and which samples changed, step by step.
#[cfg(test)]
mod scenarios;
/// The simulated Azure answers as the real one is documented to, and plays its scenarios as their goldens say.
#[cfg(test)]
mod simulator;
/// What survives a restart, and what bad files and bad disks cost.
#[cfg(test)]
mod state;
/// The rules of the house, held over the sources and the documents.
#[cfg(test)]
mod tidy;
/// The web room over sockets: types, negotiation, bounds, whole pictures.
#[cfg(test)]
mod web;
