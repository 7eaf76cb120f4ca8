//! Captions: a text and a token of a hold, for people and for clients that watch a leader (`lua/captions.lua`). No
//! vote depends on them.

use std::sync::Arc;

use crate::error::{InvalidInput, is_shown};
use crate::values::token::FencingToken;

/// Longest text, in bytes.
const MAX_BYTES: usize = 256;

/// Caption of a hold, as its call site sets it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Caption {
    pub(crate) about: Option<Arc<str>>,
    /// Whether masters publish the terms: each grant, release and force.
    pub(crate) is_published: bool,
}

impl Caption {
    /// Makes the caption of these options; `None` without any of them.
    pub(crate) fn new(
        about: Option<&Arc<str>>,
        is_published: bool,
    ) -> Result<Option<Arc<Self>>, InvalidInput> {
        if about.is_none() && !is_published {
            return Ok(None);
        }
        if let Some(text) = about {
            checked("about", text)?;
        }
        Ok(Some(Arc::new(Self {
            about: about.cloned(),
            is_published,
        })))
    }

    /// Text for the masters.
    pub(crate) fn text(&self) -> &str {
        self.about.as_deref().unwrap_or_default()
    }
}

/// Facts by which people know a holder, as one master has them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct HolderFacts {
    /// Label of the client.
    pub(crate) label: Option<Arc<str>>,
    /// Text of the caption.
    pub(crate) about: Option<Arc<str>>,
    /// Token of the first hold of its grant, from the caption.
    pub(crate) token: Option<FencingToken>,
}

/// Checks a text for people.
pub(crate) fn checked<'a>(field: &'static str, text: &'a str) -> Result<&'a str, InvalidInput> {
    InvalidInput::unless_shown(field, "a text", text, MAX_BYTES).map(|()| text)
}

/// Parses a text from a master; `None` if no client of this crate can have set it.
pub(crate) fn parse(text: &str) -> Option<Arc<str>> {
    is_shown(text, MAX_BYTES).then(|| text.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_checked() {
        let check = |text: &str| {
            let caption = Caption::new(Some(&text.into()), false);
            caption
                .map(|caption| caption.is_some())
                .map_err(|error| error.to_string())
        };
        assert_eq!(Caption::new(None, false), Ok(None));
        assert_eq!(check("rows 1 to 1000 of Zürich"), Ok(true));
        assert_eq!(check(&"x".repeat(256)), Ok(true));
        for (text, value) in [
            (String::new(), "\"\""),
            ("a\nb".into(), "\"a\\nb\""),
            ("x".repeat(257), "a text of 257 bytes"),
        ] {
            let error =
                format!("about: {value} is not allowed; allowed: 1 to 256 bytes without control characters");
            assert_eq!(check(&text), Err(error));
            assert_eq!(parse(&text), None, "no client has set it");
        }
    }

    #[test]
    fn a_caption_may_have_no_text() {
        let caption = Caption::new(None, true)
            .expect("no text to check")
            .expect("it is published");
        assert_eq!(caption.text(), "");
    }
}
