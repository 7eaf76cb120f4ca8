#![doc = include_str!("../README.md")]

mod acquisition;
mod attempt;
mod builder;
mod chance;
mod claim;
mod cleanup;
mod clock;
mod closing;
mod commands;
mod config;
mod deadline;
mod ends;
mod error;
mod extension;
mod fence;
mod field;
mod force;
#[cfg(fuzzing)]
#[doc(hidden)]
pub mod fuzzing;
mod guard;
mod hold;
mod holdings;
mod inspect;
mod listening;
mod lock;
mod masters;
mod membership;
mod name;
mod namespace;
mod node;
mod notice;
mod owner;
mod plan;
mod policy;
mod queue;
mod reckoning;
mod renewal;
mod reply;
mod request;
mod rota;
mod round;
mod rounded;
mod script;
mod sheet;
#[cfg(feature = "test-util")]
pub mod sim;
mod steps;
mod stragglers;
mod sync;
mod tally;
mod validity;
mod vote;
mod wait;
mod watchdog;

pub use builder::MastersBuilder;
pub use closing::{Closed, Closing};
pub use config::Quarantine;
pub use error::{
    ConnectError, ExtendError, InvalidInput, LockError, Loss, LossCause, Lost, NodeError, RunError,
    Unchartered, Unfit, UnlockError,
};
pub use fence::FencingToken;
pub use force::{Forced, Spared};
pub use guard::{MultiLockGuard, Unlocked};
pub use inspect::{Holder, Inspection, NodeState};
pub use lock::MultiLock;
pub use masters::Masters;
pub use name::Names;
pub use owner::Owner;
pub use policy::Policy;
pub use vote::{NodeVote, Vote, Votes};
