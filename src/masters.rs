//! The N masters and what every round, guard and background task shares.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tokio::runtime::Handle;
use tokio_util::task::AbortOnDropHandle;
use uuid::Uuid;

use crate::clock::Clock;
use crate::config::Config;
use crate::node::{Connector, Keeping, Roster, Slot};
use crate::vote::{Vote, Votes};

/// N independent Redis masters, their connections and their background work.
///
/// One per process: cheap to clone, one connection per master, shared by every lock. Made by
/// [`Masters::builder`] or [`Masters::from_env`]. When the last clone and the last guard are gone,
/// every connection is closed and no task is left.
#[derive(Clone)]
pub struct Masters {
    pub(crate) pool: Arc<Pool>,
}

impl Masters {
    /// The number of masters, reachable or not.
    #[allow(clippy::len_without_is_empty, reason = "there is always at least one")]
    pub fn len(&self) -> usize {
        self.pool.slots.len()
    }
}

impl fmt::Debug for Masters {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list()
            .entries(self.pool.slots.iter().map(|slot| slot.label()))
            .finish()
    }
}

/// The shared part of [`Masters`].
#[derive(Debug)]
pub(crate) struct Pool {
    pub(crate) slots: Vec<Arc<Slot>>,
    pub(crate) config: Config,
    pub(crate) clock: Clock,
    /// This client's half of every owner field.
    pub(crate) client: Uuid,
    next_owner: AtomicU64,
    /// Where background work goes, also from a drop outside the runtime.
    pub(crate) runtime: Handle,
    /// Keeps the connections up; ends with the pool.
    _keepers: Vec<AbortOnDropHandle<()>>,
}

impl Pool {
    /// Starts connecting to every master in the background. Needs a tokio runtime.
    pub(crate) fn start(connectors: Vec<Connector>, config: Config, clock: Clock) -> Arc<Self> {
        let runtime = Handle::current();
        let roster = Arc::new(Roster::new(connectors.len()));
        let slots: Vec<_> = connectors
            .iter()
            .enumerate()
            .map(|(place, connector)| Arc::new(Slot::new(place, connector.label(), clock)))
            .collect();
        let keepers = slots
            .iter()
            .zip(connectors)
            .map(|(slot, connector)| {
                let keeping = Keeping {
                    connector,
                    roster: Arc::clone(&roster),
                    connect_timeout: config.connect_timeout,
                    node_timeout: config.node_timeout,
                };
                AbortOnDropHandle::new(runtime.spawn(Arc::clone(slot).keep(keeping)))
            })
            .collect();
        Arc::new(Self {
            slots,
            config,
            clock,
            client: Uuid::new_v4(),
            next_owner: AtomicU64::new(1),
            runtime,
            _keepers: keepers,
        })
    }

    /// A field that no hold of any client ever had before.
    pub(crate) fn fresh_field(&self) -> Arc<str> {
        let number = self.next_owner.fetch_add(1, Ordering::Relaxed);
        format!("{}:{number}", self.client).into()
    }

    pub(crate) fn evidence(&self, votes: &[Vote]) -> Votes {
        Votes::new(self.slots.iter().map(|slot| slot.label()), votes)
    }
}
