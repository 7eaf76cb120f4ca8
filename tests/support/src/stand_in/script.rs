//! Answers in the place of a server.

use std::collections::BTreeMap;

/// Commands with their answers, and facts of INFO.
#[derive(Clone, Debug, Default)]
pub struct Script {
    /// By the words that a command begins with, in capitals.
    answers: BTreeMap<String, String>,
    /// Facts that INFO tells in place of the facts of the server behind; `None` is not told at all.
    facts: BTreeMap<String, Option<String>>,
}

/// Treatment of a command.
#[derive(Debug, PartialEq, Eq)]
pub enum Answer {
    /// It is answered by these bytes.
    Says(String),
    /// It is passed on, and so is its answer.
    Passed,
    /// The same, with changes in the answer of INFO.
    Edited(Edit),
}

/// A change of the text that INFO tells.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Edit(BTreeMap<String, Option<String>>);

impl Script {
    pub fn new() -> Self {
        Self::default()
    }

    /// Answers commands that begin with these words by a line as the protocol has it, such as `-ERR no`.
    #[must_use]
    pub fn says(mut self, command: &str, line: &str) -> Self {
        self.answers.insert(command.to_uppercase(), format!("{line}\r\n"));
        self
    }

    /// Answers them by a text.
    #[must_use]
    pub fn tells(mut self, command: &str, text: &str) -> Self {
        self.answers.insert(command.to_uppercase(), bulk(text));
        self
    }

    /// Answers as a server does that does not know them.
    #[must_use]
    pub fn knows_no(self, command: &str) -> Self {
        let line = format!("-ERR unknown command '{command}', with args beginning with: ");
        self.says(command, &line)
    }

    /// Has INFO tell this.
    #[must_use]
    pub fn fact(mut self, name: &str, value: &str) -> Self {
        self.facts.insert(name.to_owned(), Some(value.to_owned()));
        self
    }

    /// Has INFO not tell that.
    #[must_use]
    pub fn without(mut self, names: &[&str]) -> Self {
        self.facts
            .extend(names.iter().map(|&name| (name.to_owned(), None)));
        self
    }

    pub fn answer(&self, words: &[String]) -> Answer {
        let mut command = words.join(" ").to_uppercase();
        command.push(' ');
        // The longest beginning is the last one in the order of the table.
        let answers = self.answers.iter().rev();
        let known = answers
            .map(|(start, answer)| (format!("{start} "), answer))
            .find(|(start, _)| command.starts_with(start));
        match known {
            Some((_, answer)) => Answer::Says(answer.clone()),
            None if command.starts_with("INFO ") && !self.facts.is_empty() => {
                Answer::Edited(Edit(self.facts.clone()))
            }
            None => Answer::Passed,
        }
    }
}

impl Edit {
    /// The answer to INFO, changed.
    pub fn apply(mut self, reply: &[u8]) -> String {
        let reply = String::from_utf8_lossy(reply);
        // Behind the line with the length; RESP3 puts the kind of text in front.
        let text = reply.split_once("\r\n").map_or("", |(_, text)| text);
        let text = text.trim_start_matches("txt:").trim_end_matches("\r\n");
        let mut lines = Vec::new();
        for line in text.lines() {
            let name = line.split_once(':').map_or("", |(name, _)| name);
            match self.0.remove(name) {
                None => lines.push(line.to_owned()),
                Some(Some(value)) => lines.push(format!("{name}:{value}")),
                Some(None) => {}
            }
        }
        let besides = self.0.into_iter();
        lines.extend(besides.filter_map(|(name, value)| Some(format!("{name}:{}", value?))));
        bulk(&lines.join("\r\n"))
    }
}

fn bulk(text: &str) -> String {
    format!("${}\r\n{text}\r\n", text.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(script: &Script, command: &str) -> Answer {
        script.answer(&command.split(' ').map(str::to_owned).collect::<Vec<_>>())
    }

    #[test]
    fn the_longest_beginning_of_a_command_answers_it() {
        let script = Script::new().says("CLIENT", "-ERR no").says("client id", ":7");
        assert_eq!(answer(&script, "client ID"), Answer::Says(":7\r\n".into()));
        assert_eq!(
            answer(&script, "CLIENT KILL ID 1"),
            Answer::Says("-ERR no\r\n".into())
        );
        assert_eq!(answer(&script, "CLIENTS"), Answer::Passed);
        assert_eq!(answer(&script, "INFO"), Answer::Passed);
    }

    #[test]
    fn facts_are_changed_left_out_and_put_in() {
        let script = Script::new()
            .fact("role", "slave")
            .fact("new", "1")
            .without(&["maxmemory"]);
        let Answer::Edited(edit) = answer(&script, "INFO") else {
            panic!("INFO is passed on");
        };
        let text = "# Memory\r\nmaxmemory:0\r\nmaxmemory_policy:noeviction\r\nrole:master";
        let edited = bulk("# Memory\r\nmaxmemory_policy:noeviction\r\nrole:slave\r\nnew:1");
        assert_eq!(edit.clone().apply(bulk(text).as_bytes()), edited);
        let verbatim = format!("={}\r\ntxt:{text}\r\n", text.len() + 4);
        assert_eq!(edit.apply(verbatim.as_bytes()), edited);
    }
}
