//! Sources of values: options, or variables of the environment. An error names the source.

use std::env;
use std::ffi::OsStr;
use std::sync::OnceLock;

use crate::args::MastersArgs;
use crate::exit::Failure;

/// Fields of the library with values of variables or of files.
static NOTED: OnceLock<Sources> = OnceLock::new();

/// Fields of the library, and the sources of their values.
#[derive(Debug, Default)]
pub(crate) struct Sources {
    values: Vec<(&'static str, String)>,
    /// Variables that are read here, and not by the library.
    read_here: Vec<String>,
}

impl Sources {
    /// Takes the value of the variable of a field, unless the option was given. A blank variable counts as not set, because
    /// Compose and Helm pass those on.
    pub(crate) fn take<T>(
        &mut self,
        field: &'static str,
        given: &mut Option<T>,
        parse: impl Fn(&str) -> Result<T, &'static str>,
    ) -> Result<(), Failure> {
        let variable = variable(field);
        self.read_here.push(variable.clone());
        let Some(value) = env::var_os(&variable).filter(|_| given.is_none()) else {
            return Ok(());
        };
        let text = utf8(&variable, &value)?;
        if text.trim().is_empty() {
            return Ok(());
        }
        let refuse = |allowed| Failure::usage(format_args!("{variable}: {text:?} is not allowed; {allowed}"));
        *given = Some(parse(text).map_err(refuse)?);
        self.values.push((field, variable));
        Ok(())
    }

    /// Notes the variable of a field that the library reads.
    pub(crate) fn of_library(&mut self, field: &'static str) {
        let variable = variable(field);
        if is_set(&variable) {
            self.values.push((field, variable));
        }
    }

    /// Notes the source of the list of masters.
    pub(crate) fn of_masters(&mut self, args: &MastersArgs) {
        let source = if args.nodes.is_some() {
            "--nodes"
        } else if args.nodes_file.is_some() {
            "--nodes-file"
        } else if is_set("MULTILOCK_NODES") {
            "MULTILOCK_NODES"
        } else {
            "MULTILOCK_NODES_FILE"
        };
        let of_field = |field| (field, source.to_owned());
        self.values.extend(["node", "nodes"].map(of_field));
    }

    /// Keeps the sources for errors.
    pub(crate) fn note(self) {
        // This process takes its variables once.
        let _ = NOTED.set(self);
    }
}

/// Variable of a field.
fn variable(field: &str) -> String {
    format!("MULTILOCK_{}", field.to_ascii_uppercase())
}

/// Whether a variable has a value that is not blank.
pub(crate) fn is_set(variable: &str) -> bool {
    env::var_os(variable).is_some_and(|value| value.to_str().is_none_or(|text| !text.trim().is_empty()))
}

/// Source of the value of a field, if it is known to be no option of that field.
pub(crate) fn source(field: &str) -> Option<&'static str> {
    let noted = NOTED.get()?;
    let found = noted.values.iter().find(|(known, _)| *known == field);
    found.map(|(_, source)| source.as_str())
}

/// Whether this command reads a variable, so that the arguments have its value.
pub(crate) fn is_read_here(variable: &str) -> bool {
    NOTED
        .get()
        .is_some_and(|noted| noted.read_here.iter().any(|known| known == variable))
}

fn utf8<'a>(variable: &str, value: &'a OsStr) -> Result<&'a str, Failure> {
    let refuse = || {
        Failure::usage(format_args!(
            "{variable}: a value that is not UTF-8 is not allowed; allowed: text in UTF-8"
        ))
    };
    value.to_str().ok_or_else(refuse)
}
