//! The log lines of this process.
//!
//! The subscriber is that of all threads: tracing remembers that nobody wants a line when a thread without a subscriber
//! is the first to reach it.

use std::{
    cell::RefCell,
    collections::BTreeMap,
    fmt,
    sync::{Arc, LazyLock, Mutex},
};

use tracing::{
    Event, Level, Metadata, Subscriber, callsite,
    field::{Field, Visit},
    span, subscriber,
};

#[derive(Debug, Default)]
pub(crate) struct LogLine {
    pub(crate) message: String,
    /// A constant of `log_id`, or a place in the code.
    pub(crate) name: &'static str,
    fields: BTreeMap<&'static str, String>,
}

impl LogLine {
    pub(crate) fn field(&self, name: &str) -> Option<&str> {
        self.fields.get(name).map(String::as_str)
    }
}

impl Visit for LogLine {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.fields.insert(field.name(), format!("{value:?}"));
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.fields.insert(field.name(), value.to_owned());
    }
}

type Hook = Arc<dyn Fn(&LogLine) + Send + Sync>;

static HOOKS: Mutex<Vec<Hook>> = Mutex::new(Vec::new());

static SUBSCRIBER: LazyLock<()> = LazyLock::new(|| {
    subscriber::set_global_default(Lines).unwrap();
    // A line that was reached in between is wanted, too.
    callsite::rebuild_interest_cache();
});

thread_local! {
    /// Those of the present [`capture`].
    static CAPTURED: RefCell<Option<Vec<LogLine>>> = const { RefCell::new(None) };
}

/// The lines that this thread logs meanwhile.
pub(crate) fn capture<T>(run: impl FnOnce() -> T) -> (T, Vec<LogLine>) {
    LazyLock::force(&SUBSCRIBER);
    CAPTURED.set(Some(Vec::new()));
    let result = run();
    (result, CAPTURED.take().unwrap_or_default())
}

/// Calls `hook` with each line of each thread from now on, on that thread.
pub(crate) fn on_each_line(hook: impl Fn(&LogLine) + Send + Sync + 'static) {
    LazyLock::force(&SUBSCRIBER);
    HOOKS.lock().unwrap().push(Arc::new(hook));
}

struct Lines;

impl Subscriber for Lines {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        let is_own = metadata
            .target()
            .starts_with("azure_scheduled_events_exporter");
        is_own && metadata.is_event() && *metadata.level() <= Level::INFO
    }

    fn new_span(&self, _: &span::Attributes<'_>) -> span::Id {
        span::Id::from_u64(1)
    }

    fn record(&self, _: &span::Id, _: &span::Record<'_>) {}

    fn record_follows_from(&self, _: &span::Id, _: &span::Id) {}

    fn event(&self, event: &Event<'_>) {
        let is_captured = CAPTURED.with_borrow(Option::is_some);
        // A hook may block this thread, and must not block others.
        let hooks = HOOKS.lock().unwrap().clone();
        if !is_captured && hooks.is_empty() {
            return;
        }
        let mut line = LogLine {
            name: event.metadata().name(),
            ..LogLine::default()
        };
        event.record(&mut line);
        line.message = line.fields.remove("message").unwrap_or_default();
        for hook in hooks {
            hook(&line);
        }
        CAPTURED.with_borrow_mut(|lines| lines.as_mut().map(|lines| lines.push(line)));
    }

    fn enter(&self, _: &span::Id) {}

    fn exit(&self, _: &span::Id) {}
}
