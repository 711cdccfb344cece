//! What the exporter sends: each output is started from its own settings, and takes the journal where it sends each change
//! of an event.

use std::{collections::BTreeMap, path::PathBuf, sync::Arc};

use tokio::sync::Notify;

use super::tasks::Tasks;
use crate::{
    base::{time::Clock, worker::Worker},
    core::{
        journal::{Entry, Journal},
        lifecycle::SavedCursor,
    },
    outputs::{
        alertmanager::{AlertPusher, Target},
        metrics::MetricSource,
        otlp::{
            Signal,
            sender::{CollectorClient, RetryTiming, Sender, SignalQueue, metric_push},
            settings::{ExporterSettings, OtlpSettings},
        },
        textfile::Textfile,
    },
    program::CommandError,
};

/// The export by OTLP: a sender for each signal. What is sent of the journal has a queue.
pub(super) struct OtlpOutput {
    queues: Vec<Arc<SignalQueue>>,
    moved: Arc<Notify>,
}

impl OtlpOutput {
    /// Continues where an earlier process ended, by the names of the signals; their progress is kept if `is_durable`.
    pub(super) fn start(
        settings: &OtlpSettings,
        saved: &BTreeMap<String, SavedCursor>,
        is_durable: bool,
        source: MetricSource,
        tasks: &mut Tasks,
    ) -> Result<Self, CommandError> {
        let mut output = Self {
            queues: Vec::new(),
            moved: Arc::default(),
        };
        let (counters, clock) = (Arc::clone(&source.outputs), source.clock);
        let journal = Arc::clone(&source.snapshots.borrow().journal);
        for signal in [Signal::Traces, Signal::Logs] {
            let Some(exporter) = settings.exporter(signal) else {
                continue;
            };
            let (saved, moved) = (saved.get(signal.as_str()), Arc::clone(&output.moved));
            let queue = Arc::new(SignalQueue::new(signal, &journal, saved, moved));
            counters.exports.lock().insert(signal, queue.counts());
            let sender = Sender {
                client: connect(exporter, clock)?,
                queue: Arc::clone(&queue),
                settings: settings.clone(),
                snapshots: source.snapshots.clone(),
                is_durable,
                stop: tasks.stop.clone(),
            };
            tasks.spawn_output("OTLP sender", sender.run())?;
            output.queues.push(queue);
        }
        if let Some(exporter) = settings.exporter(Signal::Metrics) {
            let (client, stop) = (connect(exporter, clock)?, tasks.stop.clone());
            let counts = client.counts.clone();
            counters.exports.lock().insert(Signal::Metrics, counts);
            let pushing = metric_push::run(settings.clone(), client, source, stop);
            tasks.spawn_output("metric push", pushing)?;
        }
        Ok(output)
    }

    /// Sends the new entries of the journal, from which `dropped` have fallen off. Does not wait.
    pub(super) fn update(&self, journal: &Arc<Journal>, dropped: &[Arc<Entry>]) {
        for queue in &self.queues {
            queue.update(journal, dropped);
        }
    }

    pub(super) fn cursors(&self, journal: &Journal) -> BTreeMap<String, SavedCursor> {
        let queues = self.queues.iter();
        queues
            .map(|queue| (queue.signal.as_str().to_owned(), queue.saved(journal)))
            .collect()
    }

    pub(super) async fn moved(&self) {
        self.moved.notified().await;
    }
}

fn connect(settings: &ExporterSettings, clock: Clock) -> Result<CollectorClient, CommandError> {
    CollectorClient::new(settings, clock, RetryTiming::default())
        .map_err(CommandError::thread("resolves the names of collectors"))
}

pub(super) fn push_alerts(
    targets: Vec<Target>,
    source: &MetricSource,
    tasks: &mut Tasks,
) -> Result<(), CommandError> {
    for target in targets {
        let worker =
            Worker::start("alertmanager").map_err(CommandError::thread("pushes alerts"))?;
        let counters = Arc::clone(&source.outputs);
        let pusher = AlertPusher::new(target, worker, source.clock, counters)
            .map_err(CommandError::usage)?;
        let pushing = pusher.run(source.snapshots.clone(), tasks.stop.clone());
        tasks.spawn_output("alert push", pushing)?;
    }
    Ok(())
}

pub(super) fn write_textfile(
    path: Option<PathBuf>,
    source: &MetricSource,
    tasks: &mut Tasks,
) -> Result<(), CommandError> {
    if let Some(path) = path {
        let worker = Worker::start("textfile");
        let worker = worker.map_err(CommandError::thread("writes to --textfile.path"))?;
        let mut source = source.clone();
        source.options.process = false;
        let textfile = Textfile::create(path.clone(), source, worker).map_err(|cause| {
            CommandError::usage(format!(
                "--textfile.path: {} cannot be written: {cause}; use a file in a directory that this process can write to",
                path.display()
            ))
        })?;
        tasks.spawn_output("textfile", textfile.run(tasks.stop.clone()))?;
    }
    Ok(())
}
