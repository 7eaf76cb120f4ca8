//! Real Redis servers and a network that misbehaves on demand, for the integration tests.
//!
//! * [`Cluster`]: n independent masters; [`Server`]: one of them, or one with options of its own.
//! * [`Proxy`]: a TCP proxy that delays, holds, cuts and abandons connections.
//! * [`StandIn`]: a server that answers as another one does, by a [`Script`], with a real one behind it.
//! * [`scripts`]: the scripts, for calls by hand.
//! * `Authority` (feature `authority`): certificates of one's own, and servers with them.
//! * [`native::Native`]: a server as a process, with methods that return errors instead of panicking.
//! * [`foreign`]: stand-ins for the lock libraries that others run on the same masters; [`contest`]: ours and
//!   theirs want the same lock.
//! * [`linearizability`]: a checker of recorded calls, which knows neither leases nor validity.
//! * [`undisturbed`]: a test of short leases, once more if the machine stood still meanwhile.
//! * Beside them the few sentences that many tests need: [`connect`], [`until`], [`vote`] …
//!
//! The masters are native processes. With `MULTILOCK_TEST_CLUSTER=compose` a [`Cluster`] uses the
//! running masters of `docker-compose.yml` instead; [`Server::start_with`] and [`Proxy`] do not change.

mod address;
#[cfg(feature = "authority")]
mod authority;
mod child;
pub mod clock;
mod cluster;
mod container;
pub mod contest;
mod exclusive;
pub mod foreign;
pub mod linearizability;
mod locks;
pub mod native;
mod proxy;
pub mod scripts;
mod server;
pub mod spawn;
mod stand_in;
mod undisturbed;

#[cfg(feature = "authority")]
pub use authority::Authority;
pub use child::{child, in_a_child, is_child};
pub use cluster::Cluster;
pub use locks::{
    PATIENT, WITHIN, acquire, all_executed, called_before, connect, connect_beside, extend, field,
    heard_from_all, held_everywhere, label, patient, release, start, three, until, until_free, vote, waiters,
    within,
};
pub use proxy::{Direction, Proxy};
pub use server::{Keep, Server};
pub use stand_in::{Script, StandIn};
pub use undisturbed::undisturbed;
