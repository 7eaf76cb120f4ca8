//! The charter, by which clients agree upon leases of more than 30 s, as an operator sees it: what every master stores,
//! and how to lower it again.

mod clients;
mod commands;
mod labels;
mod leases;
mod look;
mod master;
mod read;
mod reset;
mod scan;
mod take_away;
