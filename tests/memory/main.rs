//! What needs no servers: locks on masters in memory, which run the real Lua files, in time that costs nothing.

mod cancellation;
mod chaos_checker;
mod charter;
mod client_labels;
mod clock_step;
mod contention;
mod docs;
mod fair_lock;
mod fencing;
mod handing_on;
mod jobs;
mod late_masters;
mod late_messages;
mod logged_out;
mod namespace;
mod quarantine;
mod read_write;
mod reentry;
mod renewal;
mod runtimes;
mod several;
mod support;
mod waiting;
mod waiting_through;
