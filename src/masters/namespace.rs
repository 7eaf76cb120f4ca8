//! Prefix of every name, so that applications can share masters without sharing locks.

use crate::error::InvalidInput;
use crate::values::names::{Names, unless_reserved};

/// Longest namespace, in bytes.
const MAX_BYTES: usize = 128;

/// Prefix of every name on the masters; none by default.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Namespace(Option<String>);

impl Namespace {
    pub(crate) fn new(namespace: impl Into<String>) -> Self {
        Self(Some(namespace.into()))
    }

    pub(crate) fn check(&self) -> Result<(), InvalidInput> {
        let Some(text) = &self.0 else { return Ok(()) };
        let unfit = |symbol: char| symbol.is_whitespace() || symbol.is_control() || "{}".contains(symbol);
        let of = "bytes without braces, spaces and control characters";
        InvalidInput::unless_fits("namespace", "a namespace", text, MAX_BYTES, unfit, of)?;
        unless_reserved("namespace", text)
    }

    /// Names as the masters know them. An empty name stays empty, so that it is refused.
    pub(crate) fn within(&self, names: Names) -> Names {
        let Some(text) = &self.0 else { return names };
        let full = |name: &str| {
            if name.is_empty() {
                String::new()
            } else {
                format!("{text}:{name}")
            }
        };
        Names::from(names.iter().map(full).collect::<Vec<_>>())
    }

    /// Beginning of every name, if there is one.
    pub(crate) fn prefix(&self) -> Option<String> {
        self.0.as_ref().map(|text| format!("{text}:"))
    }

    /// User's own name for a name on the masters.
    pub(crate) fn own<'a>(&self, name: &'a str) -> &'a str {
        let own = self
            .0
            .as_deref()
            .and_then(|text| name.strip_prefix(text)?.strip_prefix(':'));
        own.unwrap_or(name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_namespace_goes_in_front_of_every_name() {
        let prod = Namespace::new("prod");
        let names = prod.within(["b", "a", ""].into());
        assert_eq!(names.iter().collect::<Vec<_>>(), ["", "prod:a", "prod:b"]);
        assert_eq!(prod.own("prod:a"), "a");
        let none = Namespace::default();
        assert_eq!(none.within("a".into()), Names::from("a"));
        assert_eq!(none.own("prod:a"), "prod:a");
    }

    #[test]
    fn what_would_change_the_keys_is_refused() {
        let check = |text: &str| Namespace::new(text).check().map_err(|error| error.to_string());
        assert_eq!(check("prod:eu-1"), Ok(()));
        for (text, value) in [
            ("", "\"\""),
            ("a b", "\"a b\""),
            ("{a}", "\"{a}\""),
            ("a\n", "\"a\\n\""),
        ] {
            assert_eq!(
                check(text),
                Err(format!(
                    "namespace: {value} is not allowed; allowed: 1 to 128 bytes without braces, spaces and control \
                     characters"
                ))
            );
        }
        assert!(check(&"x".repeat(129)).is_err_and(|error| error.contains("a namespace of 129 bytes")));
    }
}
