//! Sequential models of locks: which call may follow in which state.

/// Sequential lock that a history is compared with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Model {
    /// One holder, and only the holder releases.
    OwnerAware,
    /// The same, and the holder may acquire again. As many releases free it.
    Reentrant,
    /// One holder, with a token larger than all before.
    Fenced,
    /// One holder with a larger token, which stays the same when the holder acquires again.
    ReentrantFenced,
    /// At most this number of holders.
    Permits(usize),
}

/// Effect of a call on the lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// The owner has it from now on, with this token if one is known.
    Acquire { token: Option<u64> },
    /// The owner gives it up, or one of several entries.
    Release,
    /// The owner's hold ends, with all entries, and nobody asked for that.
    Expire,
}

/// State of a [`Model`].
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct State {
    /// In the order of owners, so that equal states are the same.
    holders: Vec<Holder>,
    largest_token: u64,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Holder {
    owner: usize,
    entries: usize,
    token: Option<u64>,
}

impl Model {
    /// Name of the model, without its size.
    pub fn name(self) -> &'static str {
        match self {
            Self::OwnerAware => "owner-aware",
            Self::Reentrant => "re-entrant",
            Self::Fenced => "fenced",
            Self::ReentrantFenced => "re-entrant fenced",
            Self::Permits(_) => "permits",
        }
    }

    fn most_holders(self) -> usize {
        match self {
            Self::Permits(permits) => permits,
            _ => 1,
        }
    }

    fn is_reentrant(self) -> bool {
        matches!(self, Self::Reentrant | Self::ReentrantFenced)
    }

    fn is_fenced(self) -> bool {
        matches!(self, Self::Fenced | Self::ReentrantFenced)
    }

    /// State after the call, or `None` if the model does not allow the call.
    pub fn apply(self, state: &State, owner: usize, action: Action) -> Option<State> {
        let place = state.holders.binary_search_by_key(&owner, |holder| holder.owner);
        match (action, place) {
            (Action::Acquire { token }, Err(place)) => self.acquire(state, place, owner, token),
            (Action::Acquire { token }, Ok(place)) => self.enter(state, place, token),
            (Action::Release | Action::Expire, Err(_)) => None,
            (Action::Release, Ok(place)) => {
                let mut state = state.clone();
                state.holders[place].entries -= 1;
                state.holders.retain(|holder| holder.entries > 0);
                Some(state)
            }
            (Action::Expire, Ok(place)) => {
                let mut state = state.clone();
                state.holders.remove(place);
                Some(state)
            }
        }
    }

    fn acquire(self, state: &State, place: usize, owner: usize, token: Option<u64>) -> Option<State> {
        let token = token.filter(|_| self.is_fenced());
        let rises = token.is_none_or(|token| token > state.largest_token);
        if state.holders.len() >= self.most_holders() || !rises {
            return None;
        }
        let mut state = state.clone();
        let entries = 1;
        state.holders.insert(
            place,
            Holder {
                owner,
                entries,
                token,
            },
        );
        state.largest_token = token.unwrap_or(state.largest_token);
        Some(state)
    }

    fn enter(self, state: &State, place: usize, token: Option<u64>) -> Option<State> {
        let token = token.filter(|_| self.is_fenced());
        let held = state.holders[place].token;
        let differs = held.zip(token).is_some_and(|(held, token)| held != token);
        if !self.is_reentrant() || differs {
            return None;
        }
        let mut state = state.clone();
        state.holders[place].entries += 1;
        Some(state)
    }
}

impl std::fmt::Display for State {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if self.holders.is_empty() {
            f.write_str("free")?;
        }
        for (place, holder) in self.holders.iter().enumerate() {
            let separator = if place > 0 { ", " } else { "" };
            let Holder { owner, entries, .. } = holder;
            write!(f, "{separator}held by {owner} ({entries} times)")?;
        }
        write!(f, ", largest token {}", self.largest_token)
    }
}
