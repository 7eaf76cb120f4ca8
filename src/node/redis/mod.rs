//! A real Redis server: its address, the set-up of a connection, its facts about itself, and the bytes
//! between.

pub(super) mod address;
pub(super) mod examine;
mod info;
pub(super) mod lookup;
mod pipeline;
pub(crate) mod questions;
mod refresh;
pub(super) mod resp;
pub(super) mod server;
mod server_answers;
mod setup;
mod socket;
pub(super) mod tls;
mod wire;
