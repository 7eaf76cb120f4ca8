//! Locks on real servers, which the tests start themselves or find in `docker-compose.yml`.
//!
//! Tests of a whole process, such as of its environment or its memory, run in a child process.

mod beside;
mod capabilities;
mod client_labels;
mod connect;
mod contention;
mod credentials;
mod even_numbers;
mod examine;
mod fences;
mod foreign_keys;
mod jobs;
#[path = "../memory/journal.rs"]
#[allow(dead_code, reason = "few tests here look at the log")]
mod journal;
mod leading;
mod lifecycle;
mod listing;
mod many_holds;
mod metered;
mod once;
mod outages;
mod permits;
mod read_write;
mod reentry;
mod release;
mod renewal;
mod resp2;
mod round_trips;
mod server_errors;
mod several;
mod stale_sockets;
mod status;
mod support_selftest;
#[cfg(feature = "rustls")]
mod tls;
mod waiting;

use multilock_test_support as support;
