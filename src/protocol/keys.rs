//! Keys and channels that belong to names, and those of the masters.

use uuid::Uuid;

/// Key of a master's record (`protocol/record.rs`).
pub(crate) const SET: &str = "multilock_set";

/// Beginning of the key that stores a client's label (`lua/labels.lua`).
pub(crate) const CLIENT: &str = "multilock_client:";

/// Beginning of the channel on which a client is called (`lua/queue.lua`).
const CALLS: &str = "multilock:";

/// A key or channel that belongs to a name.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Key<'a> {
    prefix: &'static str,
    /// Colons before a name that has a brace of its own. Any other name is between `:{` and `}`.
    colons: &'static str,
    name: &'a str,
}

impl<'a> Key<'a> {
    /// Most bytes that a prefix adds to a name, with the bytes that the protocol puts around a word.
    pub(crate) const LONGEST_PREFIX: usize = 40;

    /// Text of the key in pieces: a name with a hash tag keeps it.
    pub(crate) fn parts(self) -> [&'a str; 4] {
        if self.name.contains('{') {
            [self.prefix, self.colons, self.name, ""]
        } else {
            [self.prefix, ":{", self.name, "}"]
        }
    }

    /// Key by Redisson's rule, under which the names `a` and `{a}` share a channel.
    const fn shared(prefix: &'static str, name: &'a str) -> Self {
        Self {
            prefix,
            colons: ":",
            name,
        }
    }

    /// Key by this crate's rule, under which no two names share a key.
    const fn own(prefix: &'static str, name: &'a str) -> Self {
        Self {
            prefix,
            colons: "::",
            name,
        }
    }

    pub(crate) fn text(self) -> String {
        self.parts().concat()
    }
}

macro_rules! keys {
    ($($(#[$about:meta])* $rule:ident $key:ident = $prefix:literal;)*) => {$(
        $(#[$about])*
        pub(crate) fn $key(name: &str) -> Key<'_> {
            Key::$rule($prefix, name)
        }
    )*};
}

// No name may begin with one of these prefixes.
keys! {
    /// Channel on which a release of the name is announced, as Redisson names it.
    shared channel = "redisson_lock__channel";
    /// Channel on which a release of a read/write lock is announced, as Redisson names it.
    shared read_write_channel = "redisson_rwlock";
    /// Key of the largest fencing token that was accepted for the name.
    own fence = "multilock_fence";
    /// Key of the owner fields that an operator forced out of the name, by the time at which each mark ends.
    own revocation_mark = "multilock_revoked";
    /// Key of the waiters for the name that want it alone, by ticket.
    own queue = "multilock_queue";
    /// Key of the waiters that want to read the name, by ticket.
    own readers_queue = "multilock_readers_queue";
    /// Key of all waiters for the name, by the time until which their tickets count.
    own deadlines = "multilock_deadlines";
    /// Key of the readers of the name, by the time at which their leases end.
    own readers = "multilock_readers";
    /// Key of the mark that the job of the name is done.
    own done = "multilock_done";
    /// Channel on which the terms of the name are published (`lua/captions.lua`).
    own leads = "multilock:leads";
}

/// Pattern of the channels on which a release is announced to waiters of Redisson's fair lock of the name. Each has a
/// channel: that of the name with the waiter behind it. Characters of a pattern in the name stand for themselves.
pub(crate) fn fair_channels(name: &str) -> String {
    escaped(&channel(name).text()) + ":*"
}

/// Pattern that matches this text alone.
pub(crate) fn escaped(text: &str) -> String {
    let mut pattern = String::new();
    for letter in text.chars() {
        if matches!(letter, '*' | '?' | '[' | ']' | '\\') {
            pattern.push('\\');
        }
        pattern.push(letter);
    }
    pattern
}

/// Keys that are listed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Listed {
    /// Names that may be locked.
    Names,
    /// Deadlines of the waiters for names without a brace of their own.
    Waiters,
    /// Deadlines of the waiters for names with a brace of their own.
    WaitersOfTagged,
}

impl Listed {
    pub(crate) const ALL: [Self; 3] = [Self::Names, Self::Waiters, Self::WaitersOfTagged];

    /// Text before and behind a name in such a key.
    fn around(self) -> (&'static str, &'static str) {
        match self {
            Self::Names => ("", ""),
            Self::Waiters => ("multilock_deadlines:{", "}"),
            Self::WaitersOfTagged => ("multilock_deadlines::", ""),
        }
    }

    /// Redis type of such a key.
    pub(crate) fn type_of_key(self) -> &'static str {
        match self {
            Self::Names => "hash",
            Self::Waiters | Self::WaitersOfTagged => "zset",
        }
    }

    /// Pattern of the keys of the names that match a pattern.
    pub(crate) fn pattern(self, names: &str) -> String {
        let (before, behind) = self.around();
        format!("{before}{names}{behind}")
    }

    /// Name of such a key; `None` for any other key.
    pub(crate) fn name_of(self, key: &str) -> Option<&str> {
        let (before, behind) = self.around();
        key.strip_prefix(before)?.strip_suffix(behind)
    }
}

/// Channel on which the waiters of a client are called.
pub(crate) fn calls(client: Uuid) -> String {
    format!("{CALLS}{client}")
}

/// Key that stores a client's label.
pub(crate) fn client(client: Uuid) -> String {
    format!("{CLIENT}{client}")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::values::names::Names;

    /// Beginning of the key of a hold's caption, which the scripts alone know.
    const ABOUT: &str = "multilock_about:";

    /// Beginnings of keys that the scripts alone make.
    const FORCED: &str = "multilock_forced";
    const PERMITS: &str = "multilock_permits";

    /// Key of the number of permits that the name has. The scripts make it, from the key of the deadlines or from the name.
    fn permits(name: &str) -> Key<'_> {
        Key::own(PERMITS, name)
    }

    #[test]
    fn keys_as_redisson_lays_them_out() {
        assert_eq!(channel("order").text(), "redisson_lock__channel:{order}");
        assert_eq!(channel("{order}:1").text(), "redisson_lock__channel:{order}:1");
        assert_eq!(read_write_channel("order").text(), "redisson_rwlock:{order}");
    }

    #[test]
    fn fair_channels_are_those_of_the_name_alone() {
        assert_eq!(fair_channels("order"), "redisson_lock__channel:{order}:*");
        assert_eq!(fair_channels("{order}:1"), "redisson_lock__channel:{order}:1:*");
        assert_eq!(
            fair_channels(r"a*b?[c]\d"),
            r"redisson_lock__channel:{a\*b\?\[c\]\\d}:*"
        );
    }

    #[test]
    fn names_with_braces_have_keys_of_their_own() {
        assert_eq!(fence("a").text(), "multilock_fence:{a}");
        assert_eq!(fence("{a}").text(), "multilock_fence::{a}");
        assert_eq!(
            revocation_mark("{order}:1").text(),
            "multilock_revoked::{order}:1"
        );
        // Redisson's waiters listen to this channel.
        assert_eq!(channel("{a}").text(), channel("a").text());
    }

    proptest! {
        #[test]
        fn no_two_names_share_a_key(one in "[a:{}]{1,6}", other in "[a:{}]{1,6}") {
            for key in [fence, revocation_mark, queue, readers_queue, deadlines, readers, done, permits] {
                prop_assert_eq!(one == other, key(&one).text() == key(&other).text());
            }
        }
    }

    #[test]
    fn clients_are_called_where_the_scripts_call_them() {
        let script = include_str!("../../lua/queue.lua");
        assert!(script.contains(&format!("'publish', '{CALLS}' .. (client or waiter)")));
        assert!(script.contains(&format!("'numsub', '{CALLS}' .. ")));
        assert_eq!(
            calls(Uuid::nil()),
            "multilock:00000000-0000-0000-0000-000000000000"
        );
    }

    /// The scripts make these keys from the queue's key.
    #[test]
    fn readers_are_where_the_scripts_look_for_them() {
        let script = include_str!("../../lua/queue.lua");
        let made = format!(
            "string.sub(queue, #'{}' + 1)\n      return '{}' .. name, '{}' .. name",
            queue("a").prefix,
            readers_queue("a").prefix,
            readers("a").prefix
        );
        assert!(script.contains(&made));
    }

    #[test]
    fn forces_are_where_the_scripts_store_them() {
        let script = include_str!("../../lua/forces.lua");
        assert!(script.contains(&format!("return '{FORCED}' .. string.match(key, ':.*$')")));
        assert!(Names::from(format!("{FORCED}:{{a}}")).check().is_err());
    }

    #[test]
    fn numbers_of_permits_are_where_the_scripts_store_them() {
        let script = include_str!("../../lua/permits.lua");
        assert!(script.contains("(string.find(pool, '{', 1, true) and '::' .. pool or ':{' .. pool .. '}')"));
        for prefix in [PERMITS, queue("a").prefix, deadlines("a").prefix] {
            assert!(script.contains(&format!("beside(pool, '{prefix}')")), "{prefix}");
        }
        assert_eq!(permits("{a}").text(), "multilock_permits::{a}");
        assert_eq!(permits("a").text(), "multilock_permits:{a}");
    }

    #[test]
    fn labels_are_where_the_scripts_look_for_them() {
        let script = include_str!("../../lua/labels.lua");
        assert!(script.contains(&format!("redis.pcall('get', '{CLIENT}' .. client)")));
        assert!(client(Uuid::nil()).starts_with("multilock_client:00000000-"));
    }

    #[test]
    fn captions_are_where_the_scripts_store_and_publish_them() {
        let script = include_str!("../../lua/captions.lua");
        assert!(script.contains(&format!("return '{ABOUT}' .. owner")));
        assert!(script.contains(&format!("'{}' .. ", leads("a").prefix)));
        assert_eq!(leads("a").text(), "multilock:leads:{a}");
        assert_eq!(leads("{a}").text(), "multilock:leads::{a}");
    }

    #[test]
    fn no_name_is_taken_for_a_key_of_ours() {
        let client = client(Uuid::nil());
        for key in [SET, ABOUT, &client] {
            assert!(Names::from(key).check().is_err(), "{key}");
        }
        for key in [
            channel,
            read_write_channel,
            fence,
            revocation_mark,
            queue,
            readers_queue,
            deadlines,
            readers,
            done,
            permits,
        ] {
            let key = key("a").text();
            assert!(Names::from(&key).check().is_err(), "{key}");
        }
    }
}
