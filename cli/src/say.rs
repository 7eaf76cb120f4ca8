//! Messages of the command to people, on stderr.

use std::borrow::Cow;
use std::env;
use std::fmt;
use std::io::{self, BufRead, IsTerminal, Write};
use std::time::Duration;

use crate::exit::Failure;
use crate::terminal::is_in_foreground;
use crate::writer;

/// Amount of messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Voice {
    /// None: the exit code suffices.
    Quiet,
    /// Failures and warnings.
    Normal,
    /// Every step.
    Verbose,
}

impl Voice {
    pub(crate) fn fail(self, message: &str) {
        self.tell(Self::Normal, &message);
    }

    pub(crate) fn warn(self, message: impl fmt::Display) {
        self.tell(Self::Normal, &message);
    }

    pub(crate) fn detail(self, message: impl fmt::Display) {
        self.tell(Self::Verbose, &message);
    }

    fn tell(self, least: Self, message: &dyn fmt::Display) {
        if self >= least {
            writer::write(line(message));
        }
    }

    /// Whether a line may be redrawn now, during a wait.
    pub(crate) fn may_redraw(self) -> bool {
        // Such a terminal would show the sequences as text.
        let is_dumb = env::var_os("TERM").is_some_and(|kind| kind == "dumb");
        self >= Self::Normal && !is_dumb && is_in_foreground(&io::stderr())
    }
}

/// A message in its form on stderr.
pub(crate) fn line(message: &dyn fmt::Display) -> String {
    format!("multilock: {}\n", lines(&message.to_string()))
}

/// Prints these lines and a question on the terminal, and returns whether the answer is yes.
pub(crate) fn confirmed(states: &[String], question: &str) -> Result<bool, Failure> {
    if !io::stdin().is_terminal() {
        return Err(Failure::usage(
            "without a terminal nobody can be asked: give --yes",
        ));
    }
    writer::settle();
    let mut stderr = io::stderr();
    for line in states {
        let _ = writeln!(stderr, "{}", visible(line));
    }
    let _ = write!(stderr, "{question} [y/N] ");
    let _ = stderr.flush();
    let mut answer = String::new();
    io::stdin().lock().read_line(&mut answer)?;
    let answer = answer.trim().to_ascii_lowercase();
    Ok(matches!(answer.as_str(), "y" | "yes"))
}

/// A line on the terminal that is redrawn while this process is in the foreground. When it is dropped, it is
/// cleared.
#[derive(Debug)]
pub(crate) struct LiveLine {
    voice: Voice,
    is_drawn: bool,
}

impl LiveLine {
    pub(crate) fn begin(voice: Voice) -> Self {
        Self {
            voice,
            is_drawn: false,
        }
    }

    pub(crate) fn draw(&mut self, text: impl fmt::Display) {
        // On a terminal that was stopped, it would be drawn over and over later.
        if self.voice.may_redraw() && writer::is_idle() {
            let text = text.to_string();
            let text = visible(&text);
            // Wrapping is off, so that a long line stays one line.
            writer::write(format!("\r\x1b[K\x1b[?7lmultilock: {text}\x1b[?7h"));
            self.is_drawn = true;
        }
    }

    /// Clears the line, so that a line that stays can be written.
    pub(crate) fn erase(&mut self) {
        if std::mem::take(&mut self.is_drawn) && self.voice.may_redraw() {
            writer::write("\r\x1b[K".to_owned());
        }
    }
}

impl Drop for LiveLine {
    fn drop(&mut self) {
        self.erase();
    }
}

/// A text in one line, for a terminal, which would obey its control characters.
pub(crate) fn visible(text: &str) -> Cow<'_, str> {
    replace(text, is_unseen, |letter| letter.escape_default().to_string())
}

/// Whether a character is not seen: a terminal obeys it, or it has no width, or it turns the direction of the text behind it.
/// Another name would be read than the one that is there.
fn is_unseen(letter: char) -> bool {
    letter.is_control()
        || matches!(letter, '\u{ad}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}')
}

/// Lines for a terminal.
pub(crate) fn lines(text: &str) -> Cow<'_, str> {
    escape(text, |letter| letter.escape_default().to_string())
}

/// Lines with other control characters replaced.
pub(crate) fn escape(text: &str, by: impl Fn(char) -> String) -> Cow<'_, str> {
    replace(
        text,
        |letter| is_unseen(letter) && !matches!(letter, '\n' | '\t'),
        by,
    )
}

fn replace(text: &str, is_replaced: impl Fn(char) -> bool, by: impl Fn(char) -> String) -> Cow<'_, str> {
    if !text.contains(&is_replaced) {
        return Cow::Borrowed(text);
    }
    let letters = text.chars().map(|letter| {
        if is_replaced(letter) {
            by(letter)
        } else {
            letter.to_string()
        }
    });
    Cow::Owned(letters.collect())
}

/// A duration to a tenth of a second, or from a minute on in whole seconds: `29.7s`, `5m 3s`.
pub(crate) struct Rough(pub(crate) Duration);

impl fmt::Display for Rough {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seconds = self.0.as_secs();
        if seconds < 60 {
            write!(f, "{:.1}s", self.0.as_secs_f64())
        } else {
            humantime::format_duration(Duration::from_secs(seconds)).fmt(f)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_terminal_obeys_is_written_out() {
        assert_eq!(visible("a\u{200b}b\u{feff}"), r"a\u{200b}b\u{feff}");
        assert_eq!(visible("rtl\u{202e}abc\u{2066}\n"), r"rtl\u{202e}abc\u{2066}\n");
        assert_eq!(lines("a\n\u{202e}b"), "a\n\\u{202e}b");
        assert_eq!(visible("Zürich, 東京"), "Zürich, 東京");
    }
}
