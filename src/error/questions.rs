//! Questions of [`LockError`] that other errors answer as well, for the refusal that they carry.

/// Gives an error the questions of [`LockError`](crate::LockError), which the refusal that it carries answers. The pattern
/// finds the refusal.
macro_rules! answers_as_its_refusal {
    ($error:ident $(<$output:ident>)?: $pattern:pat => $refusal:expr) => {
        impl $(<$output>)? $error $(<$output>)? {
            fn refusal(&self) -> Option<&crate::LockError> {
                match self {
                    $pattern => Some($refusal),
                    #[allow(unreachable_patterns, reason = "an error of one variant is a refusal always")]
                    _ => None,
                }
            }

            /// As [`LockError::is_contended`](crate::LockError::is_contended), for a lock that was not acquired.
            pub fn is_contended(&self) -> bool {
                self.refusal().is_some_and(crate::LockError::is_contended)
            }

            /// As [`LockError::is_unreachable`](crate::LockError::is_unreachable), for a lock that was not acquired.
            pub fn is_unreachable(&self) -> bool {
                self.refusal().is_some_and(crate::LockError::is_unreachable)
            }

            /// As [`LockError::is_permanent`](crate::LockError::is_permanent), for a lock that was not acquired.
            pub fn is_permanent(&self) -> bool {
                self.refusal().is_some_and(crate::LockError::is_permanent)
            }

            /// As [`LockError::votes`](crate::LockError::votes), for a lock that was not acquired.
            pub fn votes(&self) -> Option<&crate::Votes> {
                self.refusal().and_then(crate::LockError::votes)
            }

            /// As [`LockError::retry_after`](crate::LockError::retry_after), for a lock that was not acquired.
            pub fn retry_after(&self) -> Option<std::time::Duration> {
                self.refusal().and_then(crate::LockError::retry_after)
            }

            /// As [`LockError::holder`](crate::LockError::holder), for a lock that was not acquired.
            pub fn holder(&self) -> Option<&str> {
                self.refusal().and_then(crate::LockError::holder)
            }

            /// As [`LockError::about`](crate::LockError::about), for a lock that was not acquired.
            pub fn about(&self) -> Option<&str> {
                self.refusal().and_then(crate::LockError::about)
            }
        }
    };
}

pub(crate) use answers_as_its_refusal;
