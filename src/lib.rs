#![doc = include!("links.in")]
#![doc = include_str!("../README.md")]
#![cfg_attr(docsrs, feature(doc_cfg))]

mod acquire;
mod builder;
mod capabilities;
mod client_label;
mod closing;
mod config;
mod connecting;
mod credentials;
mod env;
mod error;
mod events;
mod examination;
mod examine;
mod force;
#[cfg(fuzzing)]
#[doc(hidden)]
pub mod fuzzing;
mod guard;
#[cfg(doc)]
pub mod guide;
mod hold;
mod holder;
mod inspect;
mod lead;
mod lock;
mod master_set;
mod masters;
mod mode;
mod names;
mod namespace;
mod node;
mod node_options;
mod options;
mod owned_entry;
mod owner;
mod policy;
mod protocol;
mod queue;
mod round;
mod set;
mod set_guard;
#[cfg(feature = "test-util")]
pub mod sim;
mod status;
mod time;
mod token;
mod votes;

pub use builder::MastersBuilder;
pub use capabilities::Capabilities;
pub use closing::{Closed, Closing};
pub use config::{LONGEST_LEASE, Quarantine};
pub use credentials::{BoxError, Credentials};
pub use error::{
    ConnectError, ExtendError, InvalidInput, LockError, Loss, LossCause, Lost, NodeError, RunError, Unfit,
    UnlockError,
};
#[cfg(feature = "metrics")]
pub use events::metrics_buckets;
pub use examination::{ClientConnection, Denial, DeniedCommand, Examination, ServerFacts};
pub use force::{Forced, Spared};
pub use guard::MultiLockGuard;
pub use holder::Holder;
pub use inspect::{Inspection, NodeState};
pub use lock::MultiLock;
pub use master_set::MasterSet;
pub use masters::Masters;
pub use mode::{Either, Exclusive, Mode, Shared};
pub use names::Names;
pub use node_options::Node;
pub use owned_entry::Unlocked;
pub use owner::Owner;
pub use policy::Policy;
pub use set::{LockSet, LockSetError, RunSetError};
pub use set_guard::{LockSetGuard, SetLoss, UnlockSetError};
pub use status::{NodeConnection, NodeStatus, Status};
pub use token::FencingToken;
/// What [`Node::tls`] takes is of this version.
#[cfg(feature = "rustls")]
pub use tokio_rustls::rustls;
/// What [`MultiLockGuard::cancellation_token`] gives is of this version.
pub use tokio_util::sync::CancellationToken;
pub use votes::{NodeVote, Vote, Votes};
