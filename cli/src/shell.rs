//! `multilock completions` and `man`: descriptions of the arguments for shells and readers.

use clap::CommandFactory;

use crate::args::{Args, CompletionsArgs, ManArgs};
use crate::exit::Failure;
use crate::inspect::print;

pub(crate) fn completions(args: &CompletionsArgs) -> Result<u8, Failure> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Args::command(), "multilock", &mut script);
    print(&String::from_utf8_lossy(&script))?;
    Ok(0)
}

pub(crate) fn man(args: &ManArgs) -> Result<u8, Failure> {
    let mut command = Args::command();
    // This copies the global arguments to the verbs.
    command.build();
    let page = match &args.verb {
        None => command,
        Some(verb) => {
            let found = command.find_subcommand(verb).cloned();
            let found = found.ok_or_else(|| Failure::usage(format_args!("there is no command '{verb}'")))?;
            found.display_name(format!("multilock-{verb}"))
        }
    };
    let mut text = Vec::new();
    clap_mangen::Man::new(page).render(&mut text)?;
    print(&String::from_utf8_lossy(&text))?;
    Ok(0)
}
