//! Asks the masters while somebody looks at the page.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use futures::{Stream, TryStreamExt, stream};
use multilock::{Holder, Inspection, Masters, MastersBuilder};
use serde_json::Value;
use tokio::sync::watch;
use tokio::time::{Instant, sleep, sleep_until};

use super::snapshot::{Point, Snapshot};
use crate::doctor;

/// Least time between two looks.
const EVERY: Duration = Duration::from_secs(1);
/// A look at many locks takes no more than this part of the time.
const PART: u32 = 10;
/// Time between two examinations of the masters.
const EXAMINED_EVERY: Duration = Duration::from_secs(30);
/// Time for which an examination watches the clients' lists of masters.
const WATCHED_FOR: Duration = Duration::from_secs(5);
/// Points of a curve: a minute and a half.
const POINTS: usize = 90;
/// Age of a snapshot that is shown to a new viewer.
const FRESH: Duration = Duration::from_secs(2);

/// Looks at the masters, for all viewers together.
#[derive(Clone, Debug)]
pub(super) struct Looks {
    snapshots: watch::Receiver<Arc<Snapshot>>,
    viewers: watch::Sender<usize>,
}

impl Looks {
    /// Begins to ask the masters when the first viewer comes.
    pub(super) fn begin(masters: Masters, builder: MastersBuilder) -> Self {
        let (viewers, viewed) = watch::channel(0);
        let (examined, report) = watch::channel(Value::Null);
        let (taken, snapshots) = watch::channel(Arc::new(Snapshot::none()));
        tokio::spawn(examine(builder, viewed.clone(), examined));
        tokio::spawn(look(masters, viewed, report, taken));
        Self { snapshots, viewers }
    }

    /// Snapshots, for as long as somebody takes them.
    pub(super) fn stream(&self) -> impl Stream<Item = Arc<Snapshot>> + use<> {
        let mut snapshots = self.snapshots.clone();
        if snapshots.borrow_and_update().is_younger_than(FRESH) {
            snapshots.mark_changed();
        }
        let viewer = Viewer::new(&self.viewers);
        stream::unfold((snapshots, viewer), async |(mut snapshots, viewer)| {
            snapshots.changed().await.ok()?;
            let snapshot = Arc::clone(&snapshots.borrow_and_update());
            Some((snapshot, (snapshots, viewer)))
        })
    }
}

/// Somebody who looks.
#[derive(Debug)]
struct Viewer(watch::Sender<usize>);

impl Viewer {
    fn new(viewers: &watch::Sender<usize>) -> Self {
        viewers.send_modify(|count| *count += 1);
        Self(viewers.clone())
    }
}

impl Drop for Viewer {
    fn drop(&mut self) {
        self.0.send_modify(|count| *count -= 1);
    }
}

async fn look(
    masters: Masters,
    mut viewers: watch::Receiver<usize>,
    report: watch::Receiver<Value>,
    taken: watch::Sender<Arc<Snapshot>>,
) {
    let mut curves = Curves::default();
    while viewers.wait_for(|count| *count > 0).await.is_ok() {
        let begun = Instant::now();
        let locks: Result<Vec<Inspection>, _> = masters.held("*").try_collect().await;
        if let Ok(locks) = &locks {
            curves.add(locks);
        }
        let report = report.borrow().clone();
        taken.send_replace(Arc::new(Snapshot::new(
            &masters.status(),
            locks,
            &curves.points,
            &report,
        )));
        sleep_until(begun + EVERY.max(begun.elapsed() * PART)).await;
    }
}

async fn examine(
    builder: MastersBuilder,
    mut viewers: watch::Receiver<usize>,
    examined: watch::Sender<Value>,
) {
    while viewers.wait_for(|count| *count > 0).await.is_ok() {
        if let Ok(report) = doctor::report(builder.clone(), WATCHED_FOR).await {
            examined.send_replace(report);
        }
        sleep(EXAMINED_EVERY).await;
    }
}

/// Load of the locks, look by look.
#[derive(Debug, Default)]
struct Curves {
    points: VecDeque<Point>,
    /// Holders at the last look.
    before: Option<(Instant, HashMap<String, Holder>)>,
}

impl Curves {
    fn add(&mut self, locks: &[Inspection]) {
        let now = Instant::now();
        let holder = |lock: &Inspection| {
            let holder = lock.agreed.clone().or_else(|| lock.readers.first().cloned())?;
            Some((lock.name.clone(), holder))
        };
        let holders: HashMap<String, Holder> = locks.iter().filter_map(holder).collect();
        // After a while without a viewer, a curve begins anew.
        let before = self.before.take().filter(|(then, _)| now - *then < FRESH * 5);
        if before.is_none() {
            self.points.clear();
        }
        let grants = before.map(|(then, before)| {
            let changed = holders
                .iter()
                .filter(|(name, holder)| before.get(*name) != Some(holder));
            f64::from(u32::try_from(changed.count()).unwrap_or(u32::MAX)) / (now - then).as_secs_f64()
        });
        if self.points.len() == POINTS {
            self.points.pop_front();
        }
        self.points.push_back(Point {
            grants: grants.unwrap_or_default(),
            held: holders.len(),
            waiting: locks.iter().map(|lock| lock.waiting).sum(),
        });
        self.before = Some((now, holders));
    }
}
