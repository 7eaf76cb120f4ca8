//! The log of one test's thread.

use std::fmt::{Debug, Write};
use std::sync::{Arc, LazyLock, Mutex};

use tracing::field::{Field, Visit};
use tracing::subscriber::{DefaultGuard, NoSubscriber};
use tracing::{Dispatch, Event, Level, Subscriber};
use tracing_subscriber::Registry;
use tracing_subscriber::layer::{Context, Layer, SubscriberExt};

/// The lines that were written since it was installed.
#[derive(Clone, Default)]
pub(crate) struct Log(Arc<Mutex<Vec<(Level, String)>>>);

impl Log {
    /// Begins with the next line.
    pub(crate) fn install() -> (Self, DefaultGuard) {
        // While there is just one subscriber, what another thread meets first is switched off for all by the want of one
        // there.
        static OTHER: LazyLock<Dispatch> = LazyLock::new(|| Dispatch::new(NoSubscriber::new()));
        LazyLock::force(&OTHER);
        let log = Self::default();
        let subscriber = Registry::default().with(log.clone());
        (log, tracing::subscriber::set_default(subscriber))
    }

    /// The lines of one level: the message, then each field as `name=value`.
    pub(crate) fn at(&self, level: Level) -> Vec<String> {
        let lines = self.0.lock().expect("no panic");
        let of_level = lines.iter().filter(|(its, _)| *its == level);
        of_level.map(|(_, line)| line.clone()).collect()
    }
}

impl<S: Subscriber> Layer<S> for Log {
    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        let mut line = Line::default();
        event.record(&mut line);
        let told = (*event.metadata().level(), line.message + &line.fields);
        self.0.lock().expect("no panic").push(told);
    }
}

#[derive(Default)]
struct Line {
    message: String,
    fields: String,
}

impl Visit for Line {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        if field.name() == "message" {
            self.message = format!("{value:?}");
        } else {
            write!(self.fields, " {}={value:?}", field.name()).expect("a string takes it");
        }
    }
}
