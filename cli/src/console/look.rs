//! Asks the masters while somebody looks at the page.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use futures::{Stream, TryStreamExt, stream};
use multilock::{Holder, Inspection, Masters, MastersBuilder};
use tokio::sync::watch;
use tokio::time::{Instant, sleep, sleep_until};

use super::snapshot::{Examined, Point, Snapshot};
use crate::doctor;

/// Least time between two looks.
const EVERY: Duration = Duration::from_secs(1);
/// A look at many locks takes no more than this part of the time, unless that would be a pause of more than `LONGEST`.
const PART: u32 = 10;
const LONGEST: Duration = Duration::from_secs(5);
/// Time between two examinations of the masters.
const EXAMINED_EVERY: Duration = Duration::from_secs(30);
/// Time for which an examination watches the clients' lists of masters.
const WATCHED_FOR: Duration = Duration::from_secs(5);
/// Points of a curve, one for each look.
const POINTS: usize = 90;
/// Age of a snapshot that a new viewer gets at once.
const FRESH: Duration = Duration::from_secs(10);

/// Looks at the masters, for all viewers together.
#[derive(Clone, Debug)]
pub(super) struct Looks {
    snapshots: watch::Receiver<Option<Arc<Snapshot>>>,
    viewers: watch::Sender<usize>,
}

impl Looks {
    /// Begins to ask the masters when the first viewer comes.
    pub(super) fn begin(masters: Masters, builder: MastersBuilder) -> Self {
        let (viewers, viewed) = watch::channel(0);
        let (report, examined) = watch::channel(None);
        let (taken, snapshots) = watch::channel(None);
        tokio::spawn(examine(builder, viewed.clone(), report));
        tokio::spawn(look(masters, viewed, examined, taken));
        Self { snapshots, viewers }
    }

    /// Snapshots, for as long as somebody takes them.
    pub(super) fn stream(&self) -> impl Stream<Item = Arc<Snapshot>> + use<> {
        let mut snapshots = self.snapshots.clone();
        let is_fresh = |snapshot: &Option<Arc<Snapshot>>| {
            snapshot.as_ref().is_some_and(|last| last.is_younger_than(FRESH))
        };
        if is_fresh(&snapshots.borrow_and_update()) {
            snapshots.mark_changed();
        }
        let viewer = Viewer::new(&self.viewers);
        stream::unfold((snapshots, viewer), async |(mut snapshots, viewer)| {
            snapshots.changed().await.ok()?;
            let snapshot = snapshots.borrow_and_update().clone()?;
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
    examined: watch::Receiver<Option<Examined>>,
    taken: watch::Sender<Option<Arc<Snapshot>>>,
) {
    loop {
        if viewers.wait_for(|count| *count > 0).await.is_err() {
            return;
        }
        // After a time without a viewer a curve begins anew.
        let mut curves = Curves::default();
        while *viewers.borrow() > 0 {
            let begun = Instant::now();
            let locks: Result<Vec<Inspection>, _> = masters.held("*").try_collect().await;
            if let Ok(locks) = &locks {
                curves.add(locks);
            }
            let examined = examined.borrow().clone();
            let snapshot = Snapshot::new(&masters.status(), locks, &curves.points, examined.as_ref());
            taken.send_replace(Some(Arc::new(snapshot)));
            let took = begun.elapsed();
            sleep_until(begun + EVERY.max((took * PART).min(took + LONGEST))).await;
        }
    }
}

async fn examine(
    builder: MastersBuilder,
    mut viewers: watch::Receiver<usize>,
    examined: watch::Sender<Option<Examined>>,
) {
    while viewers.wait_for(|count| *count > 0).await.is_ok() {
        let report = doctor::report(builder.clone(), WATCHED_FOR).await.ok();
        let at = Instant::now();
        examined.send_replace(report.map(|report| Examined { at, report }));
        sleep(EXAMINED_EVERY).await;
        if *viewers.borrow() == 0 {
            // It is old when the next viewer comes.
            examined.send_replace(None);
        }
    }
}

/// Load of the locks, look by look.
#[derive(Debug, Default)]
struct Curves {
    points: VecDeque<Point>,
    /// Holders at the last look.
    before: Option<(Instant, Holders)>,
}

/// Holders of each name.
type Holders = HashMap<String, Vec<Holder>>;

impl Curves {
    fn add(&mut self, locks: &[Inspection]) {
        let now = Instant::now();
        let holders = |lock: &Inspection| lock.agreed.iter().chain(&lock.readers).cloned().collect();
        let holders: Holders = locks
            .iter()
            .map(|lock| (lock.name.clone(), holders(lock)))
            .collect();
        let grants = self.before.take().map(|(then, before)| {
            let is_new = |name: &String, holder: &Holder| {
                before.get(name).is_none_or(|before| !before.contains(holder))
            };
            let all = holders
                .iter()
                .flat_map(|(name, holders)| holders.iter().map(move |holder| (name, holder)));
            let count = all.filter(|(name, holder)| is_new(name, holder)).count();
            f64::from(u32::try_from(count).unwrap_or(u32::MAX)) / (now - then).as_secs_f64()
        });
        if self.points.len() == POINTS {
            self.points.pop_front();
        }
        self.points.push_back(Point {
            grants: grants.unwrap_or_default(),
            held: holders.values().filter(|holders| !holders.is_empty()).count(),
            waiting: locks.iter().map(|lock| lock.waiting).sum(),
        });
        self.before = Some((now, holders));
    }
}
