//! The protocol of `multilock` as a state machine that is explored exhaustively.
//!
//! Three nodes, two clients, one name. A *scope* bounds how often each client attempts, extends and
//! enters again, and how often connections break and nodes restart; within it everything may happen in
//! any order, and every state is visited. Each rule of the protocol is a switch in [`Rules`]: with all
//! of them every promise holds in every scope; a *weaker form*, with one of them off, must break a
//! promise, and the shortest way to do so is found. `cargo run -p multilock-model` prints both tables,
//! `MODEL_TRACE=revival cargo run -p multilock-model` a way.
//!
//! A machine of its own, and smaller, tells since when a master's memory counts, and which set it is in: its record.
//! Another one tells when a fence may be forgotten, and a third one in which order waiters come in and that calls bring
//! them all in.
//! Locks that many read or one writes have a machine as well, and so have readers' tokens.
//!
//! # Modelled
//!
//! - Requests: first in, first out per connection, executed at any later time; answers read at any
//!   later time, or never (a client may give up at any moment, which is cancellation, a deadline and a
//!   lost answer in one). Reading an answer and acting on it is one step, as is sending to all nodes:
//!   a delay of either is a delay of the messages.
//! - A connection that breaks leaves a socket that may still deliver its requests. The next connection has the server
//!   end that socket, if it may. Nothing is sent without a connection; releases stay pending. A restart ends all
//!   sockets at once and is seen at once; an answer that has arrived is still read.
//! - Time in ticks on all clocks together. A hold's validity counts from the start of its round and
//!   ends in the same tick as the earliest lease on a node that it may rest on; where clocks differ,
//!   nodes run a tick fast and a tick slow, and the drift is a tick. Anything may take any number of
//!   ticks.
//! - Attempts, the raise of a token, rollback to all nodes that may have granted, extension with
//!   retakes, re-entry, unlock, lapse and the release of a lapsed hold at any later time, obligations,
//!   quarantine and how many nodes in it may vote, fencing tokens with clocks that differ, force.
//! - Grants: a grant is passed on to the next hold of the same client. That hold has a token of its own from the block
//!   that was accepted. A grant is also passed on while a round is under way or the client sleeps.
//!
//! # Not modelled
//!
//! - Notices, waiting and fairness, but for the queue: safety only. That something is possible is checked by witnesses.
//! - Two tasks of a client that attempt at once: a task that is passed a grant has no attempt of its own under way.
//! - The choice between passing a grant on and its release: either may come at any time while the grant is valid.
//! - More than one name, several names at once, holds renewed in one call, other libraries' keys.
//! - Server errors, memory, scripts that were forgotten: an answer is one of the scripts' or none.
//! - A node that forgets without a restart that is seen, but for the record; clocks that are set. They are outside the
//!   promises.
//! - Fence keys that nodes lose with a restart, and their replacement by a floor. The switches are there, a scope that
//!   is small enough is not yet. Neither is a scope for the raise without its owner check. So nothing needs an extension
//!   to declare the last token of a block, either.
//! - A crashed client: it is like a client that never does anything again, and every client here may do so.
//!
//! Nodes that are alike may change places, so states are kept with their nodes in order. States are
//! told apart by 64 bits of their hash.

mod attempt;
mod client;
mod fences;
mod grant;
mod hold;
mod link;
mod model;
mod node;
mod properties;
mod queue;
mod reader_tokens;
mod record;
mod rules;
mod run;
mod scope;
mod scopes;
mod shared;
mod state;
mod step;
mod weaker;
mod world;

pub use fences::{explore_fences, refute_fences};
pub use model::{Action, Protocol};
pub use queue::{explore_queue, refute_queue};
pub use reader_tokens::{explore_reader_tokens, refute_reader_tokens};
pub use record::{explore_record, refute_record};
pub use rules::Rules;
pub use run::{Verdict, explore, refute, trace};
pub use scope::{Loss, Scope};
pub use scopes::scopes;
pub use shared::{explore_shared, refute_shared};
pub use state::State;
pub use weaker::{Weaker, weaker_forms};
