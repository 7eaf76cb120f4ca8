//! Names of locks as arguments: one grammar for every command.
//!
//! An argument is one name, or several with commas between them. A comma or a backslash in a name, and a
//! hyphen at its beginning, has a backslash before it.

use std::fmt;
use std::ops::Deref;

use clap::{Arg, ArgMatches, Command, FromArgMatches};

const ID: &str = "names";

const HELP: &str = "\
Names of locks: separate arguments, or one argument with commas. In a name write \\, for a comma, \\\\ for a backslash, and \\- for a - at the beginning";

/// Tip for a name that was taken for an option.
pub(crate) fn tip(argument: &str) -> String {
    let name = Names(vec![argument.to_owned()]);
    format!("to name a lock {argument:?}, write '{name}'")
}

/// One name or several. As text they are one argument with the same meaning.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Names(Vec<String>);

impl Names {
    /// Reads one argument.
    fn parse(argument: &str) -> Result<Self, String> {
        let (mut names, mut name) = (Vec::new(), String::new());
        let mut letters = argument.chars();
        while let Some(letter) = letters.next() {
            match letter {
                ',' => names.push(std::mem::take(&mut name)),
                '\\' => match letters.next() {
                    Some(letter @ (',' | '\\' | '-')) => name.push(letter),
                    _ => return Err(String::from("allowed after a \\: a comma, a - or another \\")),
                },
                letter => name.push(letter),
            }
        }
        names.push(name);
        for name in &names {
            if name.is_empty() {
                return Err(String::from(
                    "a name is empty; allowed: names with commas between them, none of them empty",
                ));
            }
            if name.trim() != name {
                return Err(format!(
                    "{name:?} has a blank at an end; allowed: names without one, and commas without one around them"
                ));
            }
        }
        Ok(Self(names))
    }
}

impl Deref for Names {
    type Target = [String];

    fn deref(&self) -> &[String] {
        &self.0
    }
}

impl fmt::Display for Names {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (place, name) in self.0.iter().enumerate() {
            let comma = if place == 0 { "" } else { "," };
            let hyphen = if name.starts_with('-') { "\\" } else { "" };
            write!(
                f,
                "{comma}{hyphen}{}",
                name.replace('\\', "\\\\").replace(',', "\\,")
            )?;
        }
        Ok(())
    }
}

impl FromArgMatches for Names {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let given = matches.get_many::<Self>(ID).into_iter().flatten();
        Ok(Self(given.flat_map(|names| names.0.iter().cloned()).collect()))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

impl clap::Args for Names {
    fn augment_args(command: Command) -> Command {
        let names = Arg::new(ID)
            .value_name("NAME")
            .help(HELP)
            .num_args(1..)
            .required(true);
        command.arg(names.value_parser(Self::parse))
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(argument: &str) -> Vec<String> {
        Names::parse(argument).expect("names").0
    }

    #[test]
    fn an_argument_is_one_name_or_several() {
        assert_eq!(parsed("a"), ["a"]);
        assert_eq!(parsed("b,a,b"), ["b", "a", "b"]);
        assert_eq!(parsed("a b"), ["a b"]);
        assert_eq!(parsed(r"a\,b,c"), ["a,b", "c"]);
        assert_eq!(parsed(r"\-d,-e,f-g"), ["-d", "-e", "f-g"]);
        assert_eq!(parsed(r"DOMAIN\\job"), [r"DOMAIN\job"]);
    }

    #[test]
    fn what_would_be_another_name_than_meant_is_refused() {
        for (argument, says) in [
            ("", "a name is empty"),
            ("a,", "a name is empty"),
            (",a", "a name is empty"),
            ("a, b", r#"" b" has a blank"#),
            ("a ,b", r#""a " has a blank"#),
            (" ", r#"" " has a blank"#),
            ("a\n", r#""a\n" has a blank"#),
            ("\u{a0}a", "has a blank"),
            (r"DOMAIN\job", "allowed after a \\"),
            (r"a\", "allowed after a \\"),
            (r"a,\ b", "allowed after a \\"),
        ] {
            let refused = Names::parse(argument).expect_err(argument);
            assert!(refused.contains(says), "{argument:?}: {refused}");
            assert!(refused.contains("allowed"), "{argument:?}: {refused}");
        }
    }

    /// `MULTILOCK_NAMES` passes them on in this form.
    #[test]
    fn what_names_are_written_as_names_the_same() {
        let pieces = ["a", ",", r"\", "-", "é", ":"];
        let mut all = vec![String::new()];
        for _ in 0..4 {
            let longer = all
                .iter()
                .flat_map(|name| pieces.map(|piece| format!("{name}{piece}")));
            all.extend(longer.collect::<Vec<_>>());
        }
        all.retain(|name| !name.is_empty());
        for name in &all {
            let written = Names(vec![name.clone()]).to_string();
            assert_eq!(parsed(&written), [name.as_str()], "{written}");
            assert!(!written.starts_with('-'), "{written}");
        }
        assert_eq!(parsed(&Names(all.clone()).to_string()), all);
    }

    #[test]
    fn a_tip_names_what_was_meant() {
        assert_eq!(tip("-d"), r#"to name a lock "-d", write '\-d'"#);
    }
}
