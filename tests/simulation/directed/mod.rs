//! Schedules aimed at single rules: each goes by a counter-example that refuted a weaker protocol, and is
//! judged by the same properties as the schedules at random.

mod charter;
mod cleanup;
mod clocks;
mod connections;
mod fences;
mod forgetting;
mod handing_on;
mod jobs;
mod leaving;
mod queue;
mod read_write;
mod read_write_calls;
mod reentry;
mod several;
mod tokens;
mod validity;
mod waiting;
