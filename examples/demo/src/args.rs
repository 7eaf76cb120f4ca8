//! Role of this process: the demo itself, or one of the processes that it starts.

use std::net::SocketAddr;

use anyhow::{Context, Result, bail, ensure};

pub(crate) const USAGE: &str = "\
usage: demo [--nodes url,url,...] [--break-lock]
  --nodes       use these Redis masters instead of five of its own, and break none of them
  --break-lock  work on one invoice without its lock, so that the witness has something to see";

/// The first argument of a process that the demo starts.
pub(crate) const WORKER: &str = "worker";

#[derive(Debug)]
pub(crate) enum Role {
    Director(Options),
    Worker(Duty),
    Help,
}

#[derive(Debug, Default)]
pub(crate) struct Options {
    /// The user's own masters; empty for masters of the demo.
    pub(crate) nodes: Vec<String>,
    pub(crate) break_lock: bool,
}

/// Arguments of a worker. Its environment names the masters.
#[derive(Clone, Debug)]
pub(crate) struct Duty {
    pub(crate) number: usize,
    pub(crate) witness: SocketAddr,
    /// Prefix of every name that is locked.
    pub(crate) prefix: String,
    pub(crate) break_lock: bool,
}

impl Duty {
    pub(crate) fn to_args(&self) -> [String; 5] {
        [
            WORKER.to_owned(),
            self.number.to_string(),
            self.witness.to_string(),
            self.prefix.clone(),
            self.break_lock.to_string(),
        ]
    }

    fn from_args(args: &[String]) -> Result<Self> {
        let [number, witness, prefix, break_lock] = args else {
            bail!("a worker takes four arguments");
        };
        Ok(Self {
            number: number.parse().context("a worker's number")?,
            witness: witness.parse().context("the witness's address")?,
            prefix: prefix.clone(),
            break_lock: break_lock.parse().context("true or false")?,
        })
    }
}

pub(crate) fn role() -> Result<Role> {
    let args: Vec<String> = std::env::args_os()
        .skip(1)
        .map(|arg| arg.into_string().ok().context("an argument is not UTF-8"))
        .collect::<Result<_>>()?;
    match args.split_first() {
        Some((first, rest)) if first == WORKER => Duty::from_args(rest).map(Role::Worker),
        _ => options(&args),
    }
}

fn options(args: &[String]) -> Result<Role> {
    let mut options = Options::default();
    let mut args = args.iter();
    while let Some(arg) = args.next() {
        match arg.as_str() {
            "--nodes" => {
                let urls = args.next().context("--nodes needs URLs, separated by commas")?;
                let urls = urls.split(',').map(str::trim).filter(|url| !url.is_empty());
                options.nodes = urls.map(str::to_owned).collect();
                ensure!(!options.nodes.is_empty(), "--nodes names no master");
            }
            "--break-lock" => options.break_lock = true,
            "--help" | "-h" => return Ok(Role::Help),
            other => bail!("unknown argument '{other}'"),
        }
    }
    Ok(Role::Director(options))
}
