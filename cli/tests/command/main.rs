//! The command on real servers, which the tests start themselves, with real children.

mod account;
mod codes;
mod console;
mod crowd;
mod doctor;
mod incident;
mod loss;
mod names;
mod operator;
mod production;
mod pty;
mod stage;
mod terminal;
mod terms;
mod unread;
