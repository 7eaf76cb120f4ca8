//! Names that a lock covers.

use std::borrow::Cow;
use std::sync::Arc;

use crate::error::InvalidInput;

/// Longest name, in bytes.
const MAX_BYTES: usize = 4096;
/// Most names of one lock: a script handles all of them in one go and blocks the server meanwhile.
const MAX_NAMES: usize = 64;

/// One or more names that are locked together: sorted, each once.
///
/// Names are made from a string of any kind, or from an array, slice or vector of strings, owned or borrowed, or
/// collected from an iterator. The order of the names does not matter. So two locks on overlapping names can never
/// wait for each other in a circle.
///
/// A lock has 1 to 64 names. Each has 1 to 4,096 bytes, with the [namespace](crate::MastersBuilder::namespace). All characters
/// are allowed. A name must not begin as the keys and channels beside locks do: `multilock_`, `redisson_lock__channel`,
/// `redisson_lock_token`, `redisson_rwlock`.
///
/// ```
/// use multilock::Names;
///
/// let accounts = ["account:2", "account:1"];
/// assert_eq!(Names::from(accounts), Names::from(vec!["account:1".to_owned(), "account:2".to_owned()]));
/// assert_eq!(Names::from_iter(accounts).to_string(), "account:1+account:2");
/// assert_eq!(Names::from("invoice:42").to_string(), "invoice:42");
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Names(Arc<[Box<str>]>);

impl Names {
    fn new<S: AsRef<str>>(names: impl IntoIterator<Item = S>) -> Self {
        let mut names: Vec<Box<str>> = names.into_iter().map(|name| name.as_ref().into()).collect();
        names.sort_unstable();
        names.dedup();
        Self(names.into())
    }

    /// The names in their order, each once.
    ///
    /// ```
    /// let names = multilock::Names::from(["b", "a", "b"]);
    /// assert_eq!(names.iter().collect::<Vec<_>>(), ["a", "b"]);
    /// ```
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &str> {
        self.0.iter().map(AsRef::as_ref)
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    pub(crate) fn contains_all(&self, other: &Self) -> bool {
        // A lock and its hold share the allocation.
        Arc::ptr_eq(&self.0, &other.0) || other.0.iter().all(|name| self.0.binary_search(name).is_ok())
    }

    /// First name that is in both.
    pub(crate) fn shared_with<'a>(&'a self, other: &Self) -> Option<&'a str> {
        self.iter()
            .find(|name| other.0.binary_search_by(|own| (**own).cmp(name)).is_ok())
    }

    pub(crate) fn overlaps(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0) || self.shared_with(other).is_some()
    }

    pub(crate) fn check(&self) -> Result<(), InvalidInput> {
        if self.0.is_empty() || self.0.len() > MAX_NAMES {
            let allowed = format!("1 to {MAX_NAMES} names");
            return Err(InvalidInput::new(
                "names",
                format!("{} names", self.0.len()),
                allowed,
            ));
        }
        for name in self.iter() {
            if name.is_empty() || name.len() > MAX_BYTES {
                return Err(InvalidInput::unfit_text(
                    "name", "a name", name, MAX_BYTES, "bytes",
                ));
            }
            unless_reserved("name", name)?;
        }
        Ok(())
    }
}

impl std::fmt::Display for Names {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0.join("+"))
    }
}

macro_rules! one_name {
    ($($text:ty),+) => {
        $(impl From<$text> for Names {
            fn from(name: $text) -> Self {
                Self::new([name])
            }
        })+
    };
}

one_name!(
    &str,
    &&str,
    String,
    &String,
    Box<str>,
    &Box<str>,
    Arc<str>,
    &Arc<str>,
    Cow<'_, str>,
    &Cow<'_, str>
);

macro_rules! several_names {
    ($([$($size:tt)*] $names:ty),+) => {
        $(impl<S: AsRef<str>, $($size)*> From<$names> for Names {
            fn from(names: $names) -> Self {
                Self::new(names)
            }
        })+
    };
}

several_names!(
    [const N: usize] [S; N],
    [const N: usize] &[S; N],
    [] &[S],
    [] Vec<S>,
    [] &Vec<S>
);

impl<S: AsRef<str>> FromIterator<S> for Names {
    fn from_iter<I: IntoIterator<Item = S>>(names: I) -> Self {
        Self::new(names)
    }
}

/// Beginnings of the keys and channels that belong to names. A name with such a beginning could be one of
/// them.
const RESERVED: [&str; 4] = [
    "multilock_",
    "redisson_lock__channel",
    "redisson_lock_token",
    "redisson_rwlock",
];

/// Refuses a text with a reserved beginning: a name with it could be a key or a channel of another name.
pub(crate) fn unless_reserved(field: &'static str, text: &str) -> Result<(), InvalidInput> {
    if !RESERVED.iter().any(|reserved| text.starts_with(reserved)) {
        return Ok(());
    }
    let allowed = format!(
        "{field}s that do not begin as the keys beside locks do: {}",
        RESERVED.join(", ")
    );
    Err(InvalidInput::new(field, format!("{text:?}"), allowed))
}

#[cfg(test)]
mod tests;
