//! Cases of other projects' tests, by their names. `docs/experiments.md` lists each, and how this crate differs.
//!
//! Most run on masters in memory, in paused time. Cases about processes or connections run on real servers.

mod curator_leader_latch;
mod curator_semaphore;
mod distributed_lock;
mod latch;
mod listed;
#[path = "../memory/support.rs"]
#[expect(dead_code, reason = "the suite `memory` needs more of it")]
mod memory;
mod redisson;
mod redlock_net;
mod steps;
