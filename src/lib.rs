#![doc = include!("links.in")]
#![doc = include_str!("../README.md")]
#![cfg_attr(docsrs, feature(doc_cfg))]

mod acquire;
mod admin;
mod error;
mod events;
#[cfg(fuzzing)]
#[doc(hidden)]
pub mod fuzzing;
#[cfg(doc)]
pub mod guide;
mod hold;
mod interop;
mod lock;
mod masters;
mod node;
mod protocol;
mod queue;
mod round;
#[cfg(feature = "test-util")]
pub mod sim;
mod time;
mod values;

pub use admin::capabilities::Capabilities;
pub use admin::examination::{ClientConnection, Denial, DeniedCommand, Examination, ServerFacts};
pub use admin::force::{Forced, Spared};
pub use admin::inspect::{Inspection, NodeState};
pub use error::{
    ConnectError, ExtendError, InvalidInput, LockError, Loss, LossCause, Lost, NodeError, OnceError,
    RunError, Unfit, UnlockError,
};
#[cfg(feature = "metrics")]
pub use events::metrics_buckets;
pub use lock::MultiLock;
pub use lock::guard::MultiLockGuard;
pub use lock::hold_guard::Unlocked;
pub use lock::leader::Leader;
pub use lock::leadership::Leadership;
pub use lock::mode::{Either, Exclusive, Mode, Permit, Shared};
pub use lock::once::{Once, OnceJob};
pub use lock::owner::Owner;
pub use lock::set::{LockSet, LockSetError, RunSetError};
pub use lock::set_guard::{LockSetGuard, SetLoss, UnlockSetError};
pub use masters::Masters;
pub use masters::builder::MastersBuilder;
pub use masters::closing::{Closed, Closing};
pub use masters::config::{LONGEST_LEASE, Quarantine, Rounds};
pub use masters::credentials::{BoxError, Credentials};
pub use masters::node_options::Node;
pub use masters::status::{NodeConnection, NodeStatus, Status};
/// Version of the argument of [`Node::tls`].
#[cfg(feature = "rustls")]
pub use tokio_rustls::rustls;
/// Version of the result of [`MultiLockGuard::cancellation_token`].
pub use tokio_util::sync::CancellationToken;
pub use values::holder::Holder;
pub use values::last_force::LastForce;
pub use values::master_set::MasterSet;
pub use values::names::Names;
pub use values::policy::Policy;
pub use values::token::FencingToken;
pub use values::votes::{NodeVote, Vote, Votes};
