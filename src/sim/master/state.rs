//! What a master in memory is made of.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Weak;

use crate::sim::connection::{Ask, Pipe};
use crate::sim::store::{Bytes, Store};
use crate::sim::weather::Weather;

#[derive(Default)]
#[allow(
    clippy::struct_excessive_bools,
    reason = "each is a switch that a test may throw by itself"
)]
pub(super) struct State {
    pub(super) up: bool,
    /// Counts starts; part of the identity.
    pub(super) runs: u64,
    /// By its own clock when it was last started again, in ms; `None` for long ago.
    pub(super) started: Option<u64>,
    /// How far its clock is ahead of the others', in ms.
    pub(super) ahead: i64,
    /// Counts the times that all connections were broken.
    pub(super) resets: u64,
    pub(super) store: Store,
    pub(super) scripts: BTreeSet<&'static str>,
    pub(super) executed: BTreeMap<&'static str, u64>,
    pub(super) next_client: i64,
    pub(super) weather: Weather,
    pub(super) error: Option<String>,
    pub(super) lost_replies: usize,
    pub(super) reset_at_next: bool,
    pub(super) notices_lost: bool,
    pub(super) client_kill_denied: bool,
    pub(super) keep_abandoned: bool,
    pub(super) abandoned: Vec<(i64, VecDeque<Ask>)>,
    pub(super) pipes: Vec<Weak<Pipe>>,
}

impl State {
    /// How many connections listen to each of these words, where they are channels.
    pub(super) fn receivers_of(&mut self, words: &[Bytes]) -> BTreeMap<Bytes, usize> {
        self.pipes.retain(|pipe| pipe.strong_count() > 0);
        let pipes: Vec<_> = self.pipes.iter().filter_map(Weak::upgrade).collect();
        let listening = |word: &Bytes| {
            let channel = str::from_utf8(word).ok()?;
            let count = pipes.iter().filter(|pipe| pipe.listens_to(channel)).count();
            Some((word.clone(), count)).filter(|_| count > 0)
        };
        words.iter().filter_map(listening).collect()
    }

    /// How many connections listen to each channel.
    pub(super) fn receivers(&mut self) -> BTreeMap<Bytes, usize> {
        self.pipes.retain(|pipe| pipe.strong_count() > 0);
        let mut receivers = BTreeMap::new();
        for pipe in self.pipes.iter().filter_map(Weak::upgrade) {
            for channel in pipe.channels() {
                *receivers.entry(channel.into_bytes()).or_default() += 1;
            }
        }
        receivers
    }
}
