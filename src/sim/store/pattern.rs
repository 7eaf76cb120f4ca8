//! Patterns of keys, as `SCAN` has them: `*`, `?`, `[abc]`, `[^a-c]`, and a backslash before a character that stands for
//! itself.

/// Whether a text matches a pattern.
pub(super) fn matches(pattern: &[u8], text: &[u8]) -> bool {
    match pattern {
        [] => text.is_empty(),
        [b'*', rest @ ..] => (0..=text.len()).any(|skipped| matches(rest, &text[skipped..])),
        [b'[', rest @ ..] => {
            let (Some(end), [first, later @ ..]) = (rest.iter().position(|byte| *byte == b']'), text) else {
                return false;
            };
            is_in(&rest[..end], *first) && matches(&rest[end + 1..], later)
        }
        [b'?', rest @ ..] => !text.is_empty() && matches(rest, &text[1..]),
        [b'\\', letter, rest @ ..] | [letter, rest @ ..] => {
            text.first() == Some(letter) && matches(rest, &text[1..])
        }
    }
}

/// Whether a byte is one of a class, such as `abc`, `a-c` or `^abc`.
fn is_in(class: &[u8], byte: u8) -> bool {
    let (is_negated, mut class) = match class {
        [b'^', rest @ ..] => (true, rest),
        class => (false, class),
    };
    let mut is_listed = false;
    while let [first, rest @ ..] = class {
        (is_listed, class) = match rest {
            [b'-', last, rest @ ..] => (is_listed || (*first..=*last).contains(&byte), rest),
            rest => (is_listed || *first == byte, rest),
        };
    }
    is_listed != is_negated
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_match_as_those_of_redis() {
        for (pattern, text, is_match) in [
            ("*", "", true),
            ("*", "anything", true),
            ("a*c", "abbc", true),
            ("a*c", "abbd", false),
            ("a?c", "abc", true),
            ("a?c", "ac", false),
            ("a[bx-z]c", "ayc", true),
            ("a[bx-z]c", "aac", false),
            ("a[^b]c", "abc", false),
            ("a[^b]c", "adc", true),
            ("a\\*c", "a*c", true),
            ("a\\*c", "abc", false),
            ("multilock_deadlines:{*}", "multilock_deadlines:{a}", true),
            ("a[b", "ab", false),
        ] {
            assert_eq!(
                matches(pattern.as_bytes(), text.as_bytes()),
                is_match,
                "{pattern} {text}"
            );
        }
    }
}
