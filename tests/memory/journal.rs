//! The log lines that a test's thread writes, as a subscriber gets them.

use std::collections::BTreeMap;
use std::fmt::{self, Debug};
use std::sync::{Arc, LazyLock, Mutex};
use std::time::Duration;

use tokio::time::Instant;
use tracing::field::{Field, Visit};
use tracing::subscriber::{DefaultGuard, NoSubscriber};
use tracing::{Dispatch, Event, Level, Subscriber};
use tracing_subscriber::Registry;
use tracing_subscriber::filter::LevelFilter;
use tracing_subscriber::layer::{Context, Layer, SubscriberExt};

/// One line.
#[derive(Clone, Debug)]
pub(crate) struct Line {
    pub(crate) level: Level,
    pub(crate) message: String,
    pub(crate) fields: BTreeMap<&'static str, String>,
    /// Since the journal was begun, in tokio's time.
    pub(crate) after: Duration,
}

/// The message, then each field as `name=value`.
impl fmt::Display for Line {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)?;
        let mut fields = self.fields.iter();
        fields.try_for_each(|(name, value)| write!(f, " {name}={value}"))
    }
}

/// All lines so far, of the level `INFO` and above.
#[derive(Clone, Debug)]
pub(crate) struct Journal {
    lines: Arc<Mutex<Vec<Line>>>,
    begun: Instant,
}

struct Fields<'a>(&'a mut BTreeMap<&'static str, String>);

impl Visit for Fields<'_> {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        self.0.insert(field.name(), format!("{value:?}"));
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.0.insert(field.name(), value.to_owned());
    }
}

impl Journal {
    /// Begins to take down the lines of this thread.
    pub(crate) fn begin() -> (Self, DefaultGuard) {
        // With a single subscriber, a line that a thread without one meets first is switched off for all threads.
        static OTHER: LazyLock<Dispatch> = LazyLock::new(|| Dispatch::new(NoSubscriber::new()));
        LazyLock::force(&OTHER);
        let journal = Self {
            lines: Arc::default(),
            begun: Instant::now(),
        };
        let layer = journal.clone().with_filter(LevelFilter::INFO);
        let installed = tracing::subscriber::set_default(Registry::default().with(layer));
        (journal, installed)
    }

    pub(crate) fn lines(&self) -> Vec<Line> {
        self.lines.lock().expect("no panic").clone()
    }

    /// Those with this message, of any level.
    pub(crate) fn of(&self, message: &str) -> Vec<Line> {
        let mut lines = self.lines();
        lines.retain(|line| line.message == message);
        lines
    }

    pub(crate) fn warnings(&self) -> Vec<Line> {
        self.at(Level::WARN)
    }

    pub(crate) fn at(&self, level: Level) -> Vec<Line> {
        let mut lines = self.lines();
        lines.retain(|line| line.level == level);
        lines
    }
}

impl<S: Subscriber> Layer<S> for Journal {
    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        let mut fields = BTreeMap::new();
        event.record(&mut Fields(&mut fields));
        let line = Line {
            level: *event.metadata().level(),
            message: fields.remove("message").unwrap_or_default(),
            fields,
            after: self.begun.elapsed(),
        };
        self.lines.lock().expect("no panic").push(line);
    }
}
