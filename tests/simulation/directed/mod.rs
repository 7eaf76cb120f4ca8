//! Schedules aimed at single rules: each goes by a counter-example that refuted a weaker protocol, and is
//! judged by the same properties as the schedules at random.

mod beside_redisson;
mod busy;
mod cleanup;
mod clocks;
mod connections;
mod early_waiters;
mod fences;
mod first_master;
mod forgetting;
mod handing_on;
mod introduction;
mod jobs;
mod leading;
mod lease_ends;
mod leaving;
mod once;
mod permits;
mod queue;
mod read_write;
mod read_write_calls;
mod reading;
mod reentry;
mod sets;
mod several;
mod sticky;
mod thrifty;
mod tokens;
mod validity;
mod waiting;
