//! Network between one client and the masters.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;

use super::change::Change;

/// Lines of one client to the masters. Each has a delay of its own, and each may be cut. Messages on a cut
/// line are not lost: they arrive after the line has healed, if the connection still exists.
///
/// ```
/// # #[tokio::main(flavor = "current_thread", start_paused = true)]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use multilock::Masters;
/// use multilock::sim::{Client, Cluster, Direction, Network};
/// use std::time::Duration;
///
/// let (cluster, network) = (Cluster::new(3), Network::new(3));
/// let here = cluster.connect_as(&Client::new().network(&network), Masters::builder()).await?;
/// let there = cluster.connect(Masters::builder()).await?;
/// network.set_distance(0, Duration::from_millis(5));
/// (0..3).for_each(|node| network.cut(node, Direction::Both));
/// assert!(here.red_lock("a").try_lock().await.is_err());
/// assert!(there.red_lock("a").try_lock().await.is_ok());
/// (0..3).for_each(|node| network.heal(node));
/// # Ok(()) }
/// ```
#[derive(Clone, Debug, Default)]
pub struct Network {
    lines: Vec<Arc<NetworkLine>>,
}

/// Direction in which a line is cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// Requests do not arrive.
    ToMaster,
    /// Requests arrive and are executed; replies and notices do not come back.
    ToClient,
    /// Nothing passes.
    Both,
}

impl Network {
    /// Makes lines without delay to this number of masters.
    pub fn new(nodes: usize) -> Self {
        Self {
            lines: (0..nodes).map(|_| Arc::default()).collect(),
        }
    }

    /// Delays each request of this client to a master by `distance`.
    ///
    /// # Panics
    ///
    /// If there is no such master.
    pub fn set_distance(&self, node: usize, distance: Duration) {
        self.lines[node].change(|cut| cut.distance = distance);
    }

    /// Cuts the line to a master.
    ///
    /// # Panics
    ///
    /// If there is no such master.
    pub fn cut(&self, node: usize, direction: Direction) {
        self.lines[node].change(|cut| {
            cut.to_master |= direction != Direction::ToClient;
            cut.to_client |= direction != Direction::ToMaster;
        });
    }

    /// Makes the line to a master whole again.
    ///
    /// # Panics
    ///
    /// If there is no such master.
    pub fn heal(&self, node: usize) {
        self.lines[node].change(|cut| (cut.to_master, cut.to_client) = (false, false));
    }

    pub(super) fn lines(&self) -> impl Iterator<Item = Arc<NetworkLine>> {
        let missing = std::iter::repeat_with(Arc::default);
        self.lines.iter().cloned().chain(missing)
    }
}

/// Line to one master.
#[derive(Default)]
pub(super) struct NetworkLine {
    cut: Mutex<Cut>,
    /// Notified when the line changes, to move the messages on it.
    watched_by: Mutex<Vec<Change>>,
}

#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Cut {
    pub(super) to_master: bool,
    pub(super) to_client: bool,
    pub(super) distance: Duration,
}

impl NetworkLine {
    pub(super) fn now(&self) -> Cut {
        *self.cut.lock()
    }

    /// Notifies `changed` when the line changes.
    pub(super) fn watch(&self, changed: &Change) {
        self.watched_by.lock().push(changed.clone());
    }

    fn change(&self, change: impl FnOnce(&mut Cut)) {
        change(&mut self.cut.lock());
        for changed in self.watched_by.lock().iter() {
            changed.tell();
        }
    }
}

impl fmt::Debug for NetworkLine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.now().fmt(f)
    }
}
