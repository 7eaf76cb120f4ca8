//! The hash field that stands for a hold on the masters.

use std::fmt;
use std::num::NonZeroU64;

use uuid::Uuid;

/// Length of an id, a colon, a number and the letters.
const LONGEST: usize = 36 + 1 + 20 + 4;

/// Fact about a grant that masters know by a letter behind the number, in this order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Letter {
    /// A grant with a caption (`lua/captions.lua`).
    Captioned,
    /// A grant with terms that are published (`lua/captions.lua`).
    Published,
    /// A permit (`lua/permits.lua`).
    Permit,
    /// A grant that may become idle. `lua/acquire.lua` looks for the letter at the end.
    Sticky,
}

const LETTERS: [(Letter, char); 4] = [
    (Letter::Captioned, 'c'),
    (Letter::Published, 'p'),
    (Letter::Permit, 'k'),
    (Letter::Sticky, 's'),
];

/// Some letters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Letters(u8);

impl Letters {
    /// Adds a letter, if `is_wanted`.
    pub(crate) fn with(self, letter: Letter, is_wanted: bool) -> Self {
        Self(self.0 | u8::from(is_wanted) << letter as u8)
    }

    pub(crate) fn has(self, letter: Letter) -> bool {
        self.0 & 1 << letter as u8 != 0
    }
}

/// Owner field as the masters store it, in Redisson's form `uuid:number`: the client, and a number that it
/// never uses again. Stored as two numbers and not as text, because a process may hold very many locks.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Field {
    pub(crate) client: Uuid,
    pub(crate) number: u64,
    pub(crate) letters: Letters,
}

/// Message of a master about a field, on the channel of the field's client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FieldMessage {
    /// A waiter with this ticket wants a name of the field.
    Recall { number: u64, ticket: NonZeroU64 },
    /// A call that does not wait for a holder wants a name of the field.
    Try { number: u64 },
    /// The field was forced out of a name.
    Forced { number: u64 },
}

impl Field {
    /// Text that the masters store, and not for logs: a client that knows the text can release the hold.
    pub(crate) fn text(self) -> String {
        let mut text = String::with_capacity(LONGEST);
        text.push_str(self.client.hyphenated().encode_lower(&mut Uuid::encode_buffer()));
        text.push(':');
        text.push_str(itoa::Buffer::new().format(self.number));
        for (_, letter) in LETTERS
            .into_iter()
            .filter(|(letter, _)| self.letters.has(*letter))
        {
            text.push(letter);
        }
        text
    }
}

impl FieldMessage {
    /// Parses a message. The name behind the other words is for people who look at the channel.
    pub(crate) fn parse(message: &str) -> Option<Self> {
        let mut words = message.splitn(3, ' ');
        let first = words.next()?;
        let kind = first.chars().next()?;
        let number = first[kind.len_utf8()..].parse().ok()?;
        match kind {
            'x' => Some(Self::Forced { number }),
            '?' => Some(Self::Try { number }),
            '!' => Some(Self::Recall {
                number,
                ticket: words.next()?.parse().ok()?,
            }),
            _ => None,
        }
    }

    pub(crate) fn number(self) -> u64 {
        let (Self::Recall { number, .. } | Self::Try { number } | Self::Forced { number }) = self;
        number
    }
}

impl fmt::Debug for Field {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Field(…:{})", self.number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_redisson_writes_it_and_no_secret_in_logs() {
        let client = Uuid::from_u128(0x0123_4567_89ab_cdef_0123_4567_89ab_cdef);
        let field = |is_marked| Field {
            client,
            number: 7,
            letters: LETTERS.iter().fold(Letters::default(), |letters, (letter, _)| {
                letters.with(*letter, is_marked)
            }),
        };
        assert_eq!(field(true).text(), "01234567-89ab-cdef-0123-456789abcdef:7cpks");
        let field = field(false);
        assert_eq!(field.text(), "01234567-89ab-cdef-0123-456789abcdef:7");
        assert_eq!(format!("{field:?}"), "Field(…:7)");
    }

    #[test]
    fn messages() {
        let ticket = NonZeroU64::new(99).expect("not 0");
        assert_eq!(
            FieldMessage::parse("!7 99 the till"),
            Some(FieldMessage::Recall { number: 7, ticket })
        );
        assert_eq!(
            FieldMessage::parse("x7 the till"),
            Some(FieldMessage::Forced { number: 7 })
        );
        assert_eq!(
            FieldMessage::parse("?7 9007199254740991 the till"),
            Some(FieldMessage::Try { number: 7 })
        );
        for odd in ["7 the till", "!7", "!7 0 a", "!x 9 a", "x a", ""] {
            assert_eq!(FieldMessage::parse(odd), None, "{odd}");
        }
    }
}
