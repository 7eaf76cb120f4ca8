//! Fencing tokens: numbers that only rise, for a resource that checks their order itself.
//!
//! The client proposes a token, and the masters accept it together with the grant. A quorum that did both has never
//! accepted a token as high for the name before. So a grant that began after another was complete has the larger
//! token, whatever the clocks of clients show.
//!
//! Proposals come from the masters' clocks, in microseconds since 1970. So a fence can be deleted once its master's
//! clock is far enough past it. An acquire takes a block of tokens: one for each hold that its grant gets, by
//! hand-off or because the grant stays with its client.

use std::fmt;

/// Number that orders the holds of a name as they were granted.
///
/// Hand it to the resource with every write. The resource rejects a write with a smaller token than the
/// largest it has seen. So a holder that was paused past its lease can do no harm.
///
/// A token cannot be made of a stored number: compare [`get`](Self::get) with the stored `u64`.
///
/// A second entry into a hold has the same token. A hold that was handed on inside a process has a larger
/// token than the hold before. Its token is smaller than that of every grant after the process has released
/// the names.
///
/// ```
/// # #[tokio::main(flavor = "current_thread", start_paused = true)]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let (masters, _) = multilock::Masters::in_memory(3).await?;
/// use multilock::FencingToken;
///
/// /// Guarded resource. A database does the same by `UPDATE … SET token = $1 WHERE id = $2 AND token <= $1`.
/// struct Account { balance: i64, seen: FencingToken }
///
/// impl Account {
///     fn write(&mut self, balance: i64, token: FencingToken) -> bool {
///         let accepted = token >= self.seen;
///         if accepted {
///             (self.balance, self.seen) = (balance, token);
///         }
///         accepted
///     }
/// }
///
/// let mut account = Account { balance: 0, seen: FencingToken::NONE };
/// let stale = masters.red_lock("account:1").lock().await?.fencing_token();
/// let newer = masters.red_lock("account:1").lock().await?.fencing_token();
/// assert!(account.write(10, newer));
/// assert!(!account.write(20, stale), "token {} is smaller than {}", stale.get(), newer.get());
/// # Ok(()) }
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FencingToken(pub(crate) u64);

impl FencingToken {
    /// Token of a lock that was taken with `.fenced(false)`: smaller than every other.
    pub const NONE: Self = Self(0);

    /// Block of `size` tokens that begins with this token; a holder that shares its token takes a block of one.
    pub(crate) const fn block(self, size: u64) -> Block {
        let last = if self.0 == 0 {
            self
        } else {
            Self(self.0.saturating_add(size - 1))
        };
        Block { first: self, last }
    }

    /// Number of the token.
    pub const fn get(self) -> u64 {
        self.0
    }
}

/// Tokens that one acquire takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Block {
    pub(crate) first: FencingToken,
    /// Token that stays in the fences.
    pub(crate) last: FencingToken,
}

impl Block {
    /// Block of a grant without tokens.
    pub(crate) const NONE: Self = FencingToken::NONE.block(1);

    /// Number of tokens that an acquire takes, unless the client knows that its grant will have more holds.
    pub(crate) const SIZE: u64 = 64;

    /// Largest number of tokens that an acquire takes.
    pub(crate) const MOST: u64 = 4096;

    pub(crate) fn is_none(self) -> bool {
        self.first == FencingToken::NONE
    }

    /// Number of tokens in the block.
    pub(crate) fn size(self) -> u64 {
        self.last.0 - self.first.0 + 1
    }

    /// Token of the hold with this number.
    pub(crate) fn of_hold(self, number: u64) -> FencingToken {
        if self.is_none() {
            FencingToken::NONE
        } else {
            FencingToken(self.first.0.saturating_add(number))
        }
    }
}

impl From<FencingToken> for u64 {
    fn from(token: FencingToken) -> Self {
        token.0
    }
}

impl fmt::Display for FencingToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_its_number() {
        let token = FencingToken(42);
        assert_eq!(
            (token.get(), u64::from(token), token.to_string()),
            (42, 42, "42".into())
        );
    }
}
