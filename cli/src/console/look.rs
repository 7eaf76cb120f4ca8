//! Asks the masters while somebody looks at the page.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use futures::{Stream, TryStreamExt, stream};
use multilock::{Holder, Inspection, Masters, MastersBuilder, NodeStatus, Status};
use tokio::sync::watch;
use tokio::time::{Instant, sleep, sleep_until, timeout};

use super::snapshot::{Examined, Listed, Point, Snapshot};
use crate::doctor;
use crate::exit::unanswered;
use crate::list::POLICY;

/// Least time between two looks.
const EVERY: Duration = Duration::from_secs(1);
/// A look at many locks takes no more than this part of the time, unless that would be a pause of more than `LONGEST`.
const PART: u32 = 10;
const LONGEST: Duration = Duration::from_secs(5);
/// Time between two examinations of the masters, if the connections tell of no change.
const EXAMINED_EVERY: Duration = Duration::from_secs(30);
/// Least time between two examinations.
const EXAMINED_AFTER: Duration = Duration::from_secs(2);
/// Time for which an examination watches the clients' lists of masters.
const WATCHED_FOR: Duration = Duration::from_secs(5);
/// Points of a curve, one for each look.
const POINTS: usize = 90;
/// Age of a snapshot that a new viewer gets at once.
const FRESH: Duration = Duration::from_secs(10);
/// Viewers at a time; each has a connection.
pub(super) const MOST_VIEWERS: usize = 200;

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
        let (found, listed) = watch::channel(None);
        let (taken, snapshots) = watch::channel(None);
        tokio::spawn(examine(masters.clone(), builder, viewed.clone(), report));
        tokio::spawn(list(masters.clone(), viewed.clone(), found));
        tokio::spawn(compose(masters, viewed, examined, listed, taken));
        Self { snapshots, viewers }
    }

    /// Snapshots, for as long as somebody takes them; `None` with too many viewers.
    pub(super) fn stream(&self) -> Option<impl Stream<Item = Arc<Snapshot>> + use<>> {
        let viewer = Viewer::new(&self.viewers)?;
        let mut snapshots = self.snapshots.clone();
        let is_fresh = |snapshot: &Option<Arc<Snapshot>>| {
            snapshot.as_ref().is_some_and(|last| last.is_younger_than(FRESH))
        };
        if is_fresh(&snapshots.borrow_and_update()) {
            snapshots.mark_changed();
        }
        let shown = stream::unfold((snapshots, viewer), async |(mut snapshots, viewer)| {
            snapshots.changed().await.ok()?;
            let snapshot = snapshots.borrow_and_update().clone()?;
            Some((snapshot, (snapshots, viewer)))
        });
        Some(shown)
    }
}

/// Somebody who looks.
#[derive(Debug)]
struct Viewer(watch::Sender<usize>);

impl Viewer {
    fn new(viewers: &watch::Sender<usize>) -> Option<Self> {
        let is_room = |count: &mut usize| {
            let is_room = *count < MOST_VIEWERS;
            *count += usize::from(is_room);
            is_room
        };
        viewers.send_if_modified(is_room).then(|| Self(viewers.clone()))
    }
}

impl Drop for Viewer {
    fn drop(&mut self) {
        self.0.send_modify(|count| *count -= 1);
    }
}

/// Reads the locks.
async fn list(
    masters: Masters,
    mut viewers: watch::Receiver<usize>,
    found: watch::Sender<Option<Arc<Listed>>>,
) {
    while viewers.wait_for(|count| *count > 0).await.is_ok() {
        // After a time without a viewer a curve begins again.
        let mut curves = Curves::default();
        while *viewers.borrow() > 0 {
            let begun = Instant::now();
            let locks: Result<Vec<Inspection>, _> = masters.held("*").try_collect().await;
            let locks = locks.map_err(|error| unanswered(error, &masters, POLICY).message);
            curves.add(locks.as_deref().ok());
            found.send_replace(Some(Arc::new(Listed::new(locks, &curves.points))));
            let took = begun.elapsed();
            sleep_until(begun + EVERY.max((took * PART).min(took + LONGEST))).await;
        }
        // The list is old when the next viewer comes.
        found.send_replace(None);
    }
}

/// Composes a snapshot when the locks have been read, and each second if that takes longer: the status of the masters
/// costs them nothing.
async fn compose(
    masters: Masters,
    mut viewers: watch::Receiver<usize>,
    examined: watch::Receiver<Option<Examined>>,
    mut listed: watch::Receiver<Option<Arc<Listed>>>,
    taken: watch::Sender<Option<Arc<Snapshot>>>,
) {
    while viewers.wait_for(|count| *count > 0).await.is_ok() {
        if let Ok(Err(_ended)) = timeout(EVERY, listed.changed()).await {
            return;
        }
        let locks = listed.borrow_and_update().clone();
        let snapshot = Snapshot::new(&masters.status(), locks, examined.borrow().as_ref());
        taken.send_replace(Some(Arc::new(snapshot)));
    }
}

/// Examines the masters every 30 s, and when the state of a connection changes.
async fn examine(
    masters: Masters,
    builder: MastersBuilder,
    mut viewers: watch::Receiver<usize>,
    examined: watch::Sender<Option<Examined>>,
) {
    let mut status = masters.watch_status();
    while viewers.wait_for(|count| *count > 0).await.is_ok() {
        let before = votes(&status.borrow_and_update());
        let report = doctor::report(builder.clone(), WATCHED_FOR).await.ok();
        let at = Instant::now();
        examined.send_replace(report.map(|report| Examined { at, report }));
        let changed = async {
            sleep(EXAMINED_AFTER).await;
            status.wait_for(|now| votes(now) != before).await.map(drop)
        };
        let _ = timeout(EXAMINED_EVERY, changed).await;
        if *viewers.borrow() == 0 {
            // It is old when the next viewer comes.
            examined.send_replace(None);
        }
    }
}

/// Whether each master has a vote, by its connection.
fn votes(status: &Status) -> Vec<bool> {
    status.nodes.iter().map(NodeStatus::has_vote).collect()
}

/// Load of the locks, look by look.
#[derive(Debug, Default)]
struct Curves {
    /// `None` for a look that too few masters answered.
    points: VecDeque<Option<Point>>,
    /// Holders at the last look.
    before: Option<(Instant, Holders)>,
}

/// Holders of each name.
type Holders = HashMap<String, Vec<Holder>>;

impl Curves {
    fn add(&mut self, locks: Option<&[Inspection]>) {
        if self.points.len() == POINTS {
            self.points.pop_front();
        }
        let point = locks.map(|locks| self.point(locks));
        self.points.push_back(point);
    }

    fn point(&mut self, locks: &[Inspection]) -> Point {
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
        let held = holders.values().filter(|holders| !holders.is_empty()).count();
        self.before = Some((now, holders));
        Point {
            grants: grants.unwrap_or_default(),
            held,
            waiting: locks.iter().map(|lock| lock.waiting).sum(),
        }
    }
}
