//! Fencing tokens: numbers that only rise, for a resource that checks for itself who comes first.
//!
//! A token is proposed by the client and accepted by the masters together with the grant. A quorum
//! that did both has never accepted one as high for the name before, so a grant that began after
//! another was complete has the larger token, whatever the clocks of clients say. Proposals come from the
//! masters' clocks, in microseconds since 1970: so a fence can be forgotten once its master's clock is far enough
//! past it. An acquire takes a block of tokens, one for each hold to which what it gives passes on.

use std::fmt;

/// Tells the holds of a name apart in the order in which they were granted.
///
/// Hand it to the resource with every write; the resource rejects a write with a smaller token than
/// the largest it has seen. Then a holder that was paused past its lease can do no harm. Re-entry
/// gives the same token. A hold that was handed on inside a process has a larger one than the hold before, and a smaller one
/// than whatever is granted once the process has released the names.
///
/// ```
/// # #[tokio::main(flavor = "current_thread", start_paused = true)]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let (masters, _) = multilock::Masters::in_memory(3).await?;
/// use multilock::FencingToken;
///
/// /// What is guarded. A database does the same by `UPDATE … SET token = $1 WHERE id = $2 AND token <= $1`.
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
    /// What a lock has that was taken with `.fenced(false)`: smaller than every other.
    pub const NONE: Self = Self(0);

    /// An acquire takes so many at once, for holds that pass from task to task of one process.
    pub(crate) const BLOCK: u64 = 64;

    /// The last one of a block that begins with this one.
    pub(crate) const fn last_of_block(self) -> Self {
        if self.0 == 0 {
            self
        } else {
            Self(self.0.saturating_add(Self::BLOCK - 1))
        }
    }

    /// The block that begins with this one, for a hold that alone has it.
    pub(crate) const fn block(self) -> Block {
        Block {
            first: self,
            last: self.last_of_block(),
        }
    }

    /// This one alone, for one that shares it.
    pub(crate) const fn single(self) -> Block {
        Block {
            first: self,
            last: self,
        }
    }

    /// That of a hold in a block that begins with this one.
    pub(crate) fn of_hold(self, number: u32) -> Self {
        if self == Self::NONE {
            self
        } else {
            Self(self.0.saturating_add(u64::from(number)))
        }
    }

    /// The number.
    pub const fn get(self) -> u64 {
        self.0
    }
}

/// The tokens that one acquire takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Block {
    pub(crate) first: FencingToken,
    /// What the fences are left at.
    pub(crate) last: FencingToken,
}

impl Block {
    pub(crate) fn is_none(self) -> bool {
        self.first == FencingToken::NONE
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
