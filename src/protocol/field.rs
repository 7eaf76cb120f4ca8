//! The hash field that stands for a hold on the masters.

use std::fmt;

use uuid::Uuid;

/// Length of an id, a colon and a number.
const LONGEST: usize = 36 + 1 + 20;

/// Owner field as the masters store it, in Redisson's form `uuid:number`: the client, and a number that it
/// never uses again. Stored as two numbers and not as text, because a process may hold very many locks.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Field {
    pub(crate) client: Uuid,
    pub(crate) number: u64,
}

impl Field {
    /// Text that the masters store. It is not for logs: a client that knows the text can release the hold.
    pub(crate) fn text(self) -> String {
        let mut text = String::with_capacity(LONGEST);
        text.push_str(self.client.hyphenated().encode_lower(&mut Uuid::encode_buffer()));
        text.push(':');
        text.push_str(itoa::Buffer::new().format(self.number));
        text
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
        let field = Field { client, number: 7 };
        assert_eq!(field.text(), "01234567-89ab-cdef-0123-456789abcdef:7");
        assert_eq!(format!("{field:?}"), "Field(…:7)");
    }
}
