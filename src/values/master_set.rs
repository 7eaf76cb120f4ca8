//! Set of masters, as all of its clients have to describe it.

use std::fmt;
use std::time::Duration;

use crate::time::rounded::Rounded;

/// Set of masters, as each of its clients describes it and each of its masters records it. Clients with different
/// descriptions could both hold a lock.
///
/// ```
/// # #[tokio::main(flavor = "current_thread", start_paused = true)]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let (_masters, cluster) = multilock::Masters::in_memory(3).await?;
/// use multilock::sim::Client;
/// use multilock::{ConnectError, Masters, Unfit};
///
/// // A service whose configuration was forgotten when the set grew.
/// let two = Client::new().masters(&[0, 1]);
/// match cluster.connect_as(&two, Masters::builder()).await {
///     Err(ConnectError::Unfit { reason: Unfit::OtherSet { set, listed, .. }, .. }) => {
///         assert_eq!((set.masters, listed.masters), (3, 2));
///     }
///     other => panic!("{other:?}"),
/// }
/// # Ok(()) }
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct MasterSet {
    /// Number of masters.
    pub masters: usize,
    /// Longest lease of a set [for tests](crate::MastersBuilder::for_tests).
    pub for_tests: Option<Duration>,
}

impl fmt::Display for MasterSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let plural = if self.masters == 1 { "" } else { "s" };
        write!(f, "{} master{plural}", self.masters)?;
        match self.for_tests {
            Some(longest) => write!(f, " for tests with leases of up to {}", Rounded(longest)),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_set_for_tests_is_distinguished_from_another_one() {
        let shown = |masters, for_tests| MasterSet { masters, for_tests }.to_string();
        assert_eq!(shown(3, None), "3 masters");
        assert_eq!(
            shown(1, Some(Duration::from_secs(2))),
            "1 master for tests with leases of up to 2s"
        );
    }
}
