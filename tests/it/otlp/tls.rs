//! HTTPS: only a collector that the given authority vouches for gets spans, and it may ask who sends them.

use azure_scheduled_events_exporter::snapshot::ExportFailure;

use super::sending::Sending;
use crate::support::{Pki, collector::FakeCollector, pki::Door};

/// A collector behind a door of this authority.
async fn collector(pki: &Pki, asks_who: bool) -> (FakeCollector, Door) {
    let collector = FakeCollector::scripted([]).await;
    let door = pki.door("127.0.0.1", asks_who, collector.address).await;
    (collector, door)
}

#[tokio::test]
async fn the_given_authority_is_trusted_and_no_other() {
    let (ours, theirs) = (Pki::new(), Pki::new());
    let (_collector, door) = collector(&ours, false).await;
    let ca = ours.path("ca.pem");
    let mut sending = Sending::start(
        &door.base(),
        &[("OTEL_EXPORTER_OTLP_CERTIFICATE", &ca)],
        None,
    );
    sending.append([1]).await;
    sending.until(|counts| counts.exported == 1).await;
    let (stranger, strange_door) = collector(&theirs, false).await;
    let mut sending = Sending::start(
        &strange_door.base(),
        &[("OTEL_EXPORTER_OTLP_CERTIFICATE", &ca)],
        None,
    );
    sending.append([1]).await;
    let counts = sending
        .until(|counts| counts.failures[&ExportFailure::Tls] >= 2)
        .await;
    assert_eq!((counts.exported, counts.spooled), (0, 1));
    assert!(stranger.received().is_empty());
}

#[tokio::test]
async fn a_collector_that_asks_who_sends_is_shown_our_certificate() {
    let pki = Pki::new();
    let (collector, door) = collector(&pki, true).await;
    let (ca, certificate, key) = (
        pki.path("ca.pem"),
        pki.path("client.pem"),
        pki.path("client-key.pem"),
    );
    let trusted = ("OTEL_EXPORTER_OTLP_CERTIFICATE", ca.as_str());
    let mut nameless = Sending::start(&door.base(), &[trusted], None);
    nameless.append([1]).await;
    let counts = nameless
        .until(|counts| counts.failures[&ExportFailure::Tls] >= 2)
        .await;
    assert_eq!(counts.exported, 0);
    let environment = [
        trusted,
        ("OTEL_EXPORTER_OTLP_CLIENT_CERTIFICATE", &certificate),
        ("OTEL_EXPORTER_OTLP_CLIENT_KEY", &key),
    ];
    let mut known = Sending::start(&door.base(), &environment, None);
    known.append([2]).await;
    known.until(|counts| counts.exported == 1).await;
    assert_eq!(collector.taken(), ["2"]);
}

#[tokio::test]
async fn a_certificate_that_is_not_there_yet_is_waited_for() {
    let pki = Pki::new();
    let (_collector, door) = collector(&pki, false).await;
    let late = pki.path("late.pem");
    let mut sending = Sending::start(
        &door.base(),
        &[("OTEL_EXPORTER_OTLP_CERTIFICATE", &late)],
        None,
    );
    sending.append([1]).await;
    let counts = sending
        .until(|counts| counts.failures[&ExportFailure::Tls] >= 1)
        .await;
    assert_eq!(counts.exported, 0);
    pki.write("empty.pem", "");
    pki.write("late.pem", &pki.authority());
    sending.until(|counts| counts.exported == 1).await;
}

#[tokio::test]
async fn an_authority_that_is_renewed_is_read_again() {
    let (ours, theirs) = (Pki::new(), Pki::new());
    let (_collector, door) = collector(&ours, false).await;
    ours.write("trusted.pem", &theirs.authority());
    let trusted = ours.path("trusted.pem");
    let mut sending = Sending::start(
        &door.base(),
        &[("OTEL_EXPORTER_OTLP_CERTIFICATE", &trusted)],
        None,
    );
    sending.append([1]).await;
    sending
        .until(|counts| counts.failures[&ExportFailure::Tls] >= 2)
        .await;
    ours.write("trusted.pem", &ours.authority());
    sending.until(|counts| counts.exported == 1).await;
}

#[tokio::test]
async fn a_certificate_that_holds_nothing_is_a_failure_of_tls() {
    let pki = Pki::new();
    pki.write("empty.pem", "");
    let (collector, door) = collector(&pki, false).await;
    let empty = pki.path("empty.pem");
    let mut sending = Sending::start(
        &door.base(),
        &[("OTEL_EXPORTER_OTLP_CERTIFICATE", &empty)],
        None,
    );
    sending.append([1]).await;
    sending
        .until(|counts| counts.failures[&ExportFailure::Tls] >= 2)
        .await;
    assert!(collector.received().is_empty());
}
