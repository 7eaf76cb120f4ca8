//! The names that a lock covers.

use std::borrow::Cow;
use std::sync::Arc;

use crate::error::InvalidInput;

/// The longest name, in bytes.
const MAX_BYTES: usize = 4096;
/// The most names of one lock: a script handles all of them in one go and blocks the server meanwhile.
const MAX_NAMES: usize = 64;

/// One or more names that are locked together: sorted, each once.
///
/// Made from a string of any kind, or from an array, slice or vector of strings, owned or borrowed, or
/// collected from an iterator. The order in which names are
/// given does not matter, so two locks on overlapping names can never wait for each other in a circle.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Names(Arc<[Box<str>]>);

impl Names {
    fn new<S: AsRef<str>>(names: impl IntoIterator<Item = S>) -> Self {
        let mut names: Vec<Box<str>> = names.into_iter().map(|name| name.as_ref().into()).collect();
        names.sort_unstable();
        names.dedup();
        Self(names.into())
    }

    pub(crate) fn iter(&self) -> impl ExactSizeIterator<Item = &str> {
        self.0.iter().map(AsRef::as_ref)
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    pub(crate) fn contains_all(&self, other: &Self) -> bool {
        // A lock and its hold share them.
        Arc::ptr_eq(&self.0, &other.0) || other.0.iter().all(|name| self.0.binary_search(name).is_ok())
    }

    pub(crate) fn overlaps(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0) || other.0.iter().any(|name| self.0.binary_search(name).is_ok())
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
                let value = if name.is_empty() {
                    "\"\"".into()
                } else {
                    format!("a name of {} bytes", name.len())
                };
                return Err(InvalidInput::new(
                    "name",
                    value,
                    format!("1 to {MAX_BYTES} bytes"),
                ));
            }
            if RESERVED.iter().any(|reserved| name.starts_with(reserved)) {
                let allowed = format!(
                    "names that do not begin as the keys beside locks do: {}",
                    RESERVED.join(", ")
                );
                return Err(InvalidInput::new("name", format!("{name:?}"), allowed));
            }
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

impl<S: AsRef<str>, const N: usize> From<[S; N]> for Names {
    fn from(names: [S; N]) -> Self {
        Self::new(names)
    }
}

impl<S: AsRef<str>, const N: usize> From<&[S; N]> for Names {
    fn from(names: &[S; N]) -> Self {
        Self::new(names)
    }
}

impl<S: AsRef<str>> From<&[S]> for Names {
    fn from(names: &[S]) -> Self {
        Self::new(names)
    }
}

impl<S: AsRef<str>> From<Vec<S>> for Names {
    fn from(names: Vec<S>) -> Self {
        Self::new(names)
    }
}

impl<S: AsRef<str>> From<&Vec<S>> for Names {
    fn from(names: &Vec<S>) -> Self {
        Self::new(names)
    }
}

impl<S: AsRef<str>> FromIterator<S> for Names {
    fn from_iter<I: IntoIterator<Item = S>>(names: I) -> Self {
        Self::new(names)
    }
}

/// How the keys and channels begin that belong to names. A name that begins so could be one of them.
const RESERVED: [&str; 3] = ["multilock_", "redisson_lock__channel", "redisson_lock_token"];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sorted_and_each_once() {
        let names = Names::from(["b", "a", "b"]);
        assert_eq!(names.iter().collect::<Vec<_>>(), ["a", "b"]);
        assert_eq!(names, Names::from(vec!["a", "b"]));
    }

    #[test]
    fn told_and_counted_together() {
        let names = Names::from(["b", "a", "c"]);
        assert_eq!((names.len(), names.to_string()), (3, "a+b+c".to_owned()));
    }

    #[test]
    fn some_names_lie_within_others_or_beside_them() {
        let of = |names: &[&str]| Names::from(names);
        let both = of(&["a", "b"]);
        for (other, within, beside) in [
            (both.clone(), true, false),
            (of(&["a", "b"]), true, false),
            (of(&["b"]), true, false),
            (of(&["b", "c"]), false, false),
            (of(&["c"]), false, true),
        ] {
            assert_eq!(both.contains_all(&other), within, "{other}");
            assert_eq!(both.overlaps(&other), !beside, "{other}");
        }
    }

    #[test]
    fn made_of_what_people_have() {
        let one = [
            Names::from("a"),
            Names::from(&"a"),
            Names::from("a".to_owned()),
            Names::from(&"a".to_owned()),
            Names::from(Box::<str>::from("a")),
            Names::from(Arc::<str>::from("a")),
            Names::from(&Arc::<str>::from("a")),
            Names::from(Cow::from("a")),
        ];
        assert!(one.iter().all(|names| names.iter().eq(["a"])));
        let owned = vec!["b".to_owned(), "a".to_owned()];
        let many = [
            Names::from(["b", "a"]),
            Names::from(&["b", "a"]),
            Names::from(&["b", "a"][..]),
            Names::from(vec![Cow::from("b"), Cow::from("a")]),
            Names::from(&owned),
            Names::from(&owned[..]),
            Names::from([&owned[0], &owned[1]]),
            Names::from(vec![Arc::<str>::from("b"), Arc::<str>::from("a")]),
            owned.iter().collect(),
        ];
        assert!(many.iter().all(|names| names.iter().eq(["a", "b"])));
    }

    #[test]
    fn names_that_look_like_our_own_keys_are_refused() {
        for name in [
            "multilock_marker",
            "redisson_lock_token:{a}",
            "redisson_lock__channel:{a}",
        ] {
            let error = Names::from(["a", name]).check().expect_err("a key of ours");
            assert_eq!((error.field, error.value), ("name", format!("{name:?}")));
            assert!(
                error
                    .allowed
                    .contains("multilock_, redisson_lock__channel, redisson_lock_token")
            );
        }
        assert_eq!(Names::from(["multilock", "redisson_lock"]).check(), Ok(()));
    }

    #[test]
    fn empty_and_endless_names_are_refused() {
        let message = |names: Names| names.check().map_err(|e| e.to_string());
        assert_eq!(message("a".into()), Ok(()));
        assert_eq!(
            message("".into()),
            Err("name: \"\" is not allowed; allowed: 1 to 4096 bytes".into())
        );
        assert_eq!(
            message("x".repeat(4097).into()),
            Err("name: a name of 4097 bytes is not allowed; allowed: 1 to 4096 bytes".into())
        );
        assert_eq!(message("x".repeat(4096).into()), Ok(()));
        let so_many = |names: u8| message((0..names).map(|n| n.to_string()).collect());
        for names in [0, 65, 66] {
            let told = format!("names: {names} names is not allowed; allowed: 1 to 64 names");
            assert_eq!(so_many(names), Err(told));
        }
        assert_eq!(so_many(64), Ok(()));
    }
}
