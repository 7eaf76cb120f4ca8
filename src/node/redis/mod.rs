//! A real Redis server: its address, the set-up of a connection, and the bytes on it.

pub(super) mod address;
mod happy_eyeballs;
mod pipeline;
mod refresh;
pub(super) mod resp;
pub(super) mod server;
mod setup;
mod socket;
pub(super) mod tls;
