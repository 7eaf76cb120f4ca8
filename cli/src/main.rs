//! The command `multilock`: runs a program under a lock over N independent Redis masters, and inspects such
//! locks.

#[cfg(unix)]
mod args;
#[cfg(unix)]
mod connect;
#[cfg(unix)]
mod console;
#[cfg(unix)]
mod doctor;
#[cfg(unix)]
mod exit;
#[cfg(unix)]
mod force;
#[cfg(unix)]
mod forget;
#[cfg(unix)]
mod inspect;
#[cfg(unix)]
mod leave;
#[cfg(unix)]
mod list;
#[cfg(unix)]
mod names;
#[cfg(unix)]
mod password_file;
#[cfg(unix)]
mod report;
#[cfg(unix)]
mod run;
#[cfg(unix)]
mod say;
#[cfg(unix)]
mod shell;
#[cfg(unix)]
mod sources;
#[cfg(unix)]
mod terminal;
#[cfg(unix)]
mod translation;
#[cfg(unix)]
mod values;
#[cfg(unix)]
mod wait_ready;
#[cfg(unix)]
mod writer;

#[cfg(unix)]
use std::env;
#[cfg(unix)]
use std::io::{self, Write};
#[cfg(unix)]
use std::process::ExitCode;

#[cfg(unix)]
use crate::args::{Args, HoldArgs, OutcomeFiles, RunArgs, Verb};
#[cfg(unix)]
use crate::connect::{Patience, connect, connect_for_a_look};
#[cfg(unix)]
use crate::exit::{End, Failure};
#[cfg(unix)]
use crate::names::Names;
#[cfg(unix)]
use crate::say::Voice;

/// Programs run in process groups, get signals, and may have a terminal.
#[cfg(not(unix))]
fn main() {
    compile_error!(
        "the command needs Unix: process groups, signals and terminals; the library needs none of them"
    );
}

#[cfg(unix)]
fn main() -> ExitCode {
    if let Some(code) = run::supervisor::main() {
        return code;
    }
    let mut args = match Args::of_process() {
        Ok(args) => args,
        Err(error) => {
            if error.use_stderr() {
                report_refused(&error);
            }
            let printed = error.print().and_then(|()| io::stdout().flush());
            return ExitCode::from(match printed {
                _ if error.use_stderr() => exit::USAGE,
                // A closed output is no reason to fail.
                Err(error) if error.kind() != io::ErrorKind::BrokenPipe => exit::OWN,
                _ => 0,
            });
        }
    };
    let voice = args.verb.voice();
    let end = perform(&mut args, voice).unwrap_or_else(|failure| {
        voice.fail(&failure.message);
        End::Code(failure.code)
    });
    writer::finish();
    end.exit()
}

/// Leaves the report of a command that cannot be parsed.
#[cfg(unix)]
fn report_refused(error: &clap::Error) {
    let files = OutcomeFiles::of_refused(env::args_os().skip(1));
    let text = error.to_string();
    // Tips and usage follow.
    let message = text.split("\n\n").next().unwrap_or_default();
    let message = message.strip_prefix("error: ").unwrap_or(message);
    run::report_refused(&files, &Names::default(), message);
}

#[cfg(unix)]
fn perform(args: &mut Args, voice: Voice) -> Result<End, Failure> {
    match &args.verb {
        Verb::Completions(args) => return shell::completions(args).map(End::Code),
        Verb::Man(args) => return shell::man(args).map(End::Code),
        Verb::Run(_) | Verb::Hold(_) => run::signals::block_stops()?,
        _ => {}
    }
    args.take_variables().inspect_err(|failure| {
        if let Verb::Run(RunArgs { take, .. }) | Verb::Hold(HoldArgs { take, .. }) = &args.verb {
            run::report_refused(&take.files, &take.names, &failure.message);
        }
    })?;
    let args = &*args;
    // `run` and `hold` report a file that is missing.
    if !matches!(args.verb, Verb::Run(_) | Verb::Hold(_)) {
        password_file::check()?;
    }
    #[cfg(feature = "tls")]
    install_crypto_provider()?;
    // The renewals have a thread: a write to stdout may block the other one.
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()?;
    let end = runtime.block_on(async {
        match &args.verb {
            Verb::Run(run) => run::run(run, &args.masters, voice).await,
            Verb::Hold(hold) => run::hold(hold, &args.masters, voice).await,
            _ => look_after(args, voice).await.map(End::Code),
        }
    });
    // A thread that asks a name server, or reads a pipe, may never end.
    runtime.shutdown_background();
    end
}

/// The commands for operators.
#[cfg(unix)]
async fn look_after(args: &Args, voice: Voice) -> Result<u8, Failure> {
    let connected = async || connect(args.masters.builder()?, Patience::None, |_| Ok(()), voice).await;
    let seen = || connect_for_a_look(&args.masters);
    match &args.verb {
        Verb::Doctor(doctor) => doctor::doctor(doctor, &args.masters, voice).await,
        Verb::WaitReady(wait) => wait_ready::wait_ready(wait, &args.masters, voice).await,
        Verb::Console(console) => console::console(console, &args.masters).await,
        Verb::ForceRelease(force) => force::force_release(force, &connected().await?, voice).await,
        Verb::ForgetDone(forget) => forget::forget_done(forget, &connected().await?).await,
        Verb::List(list) => list::list(list, &seen().await?, voice).await,
        Verb::Inspect(look) => inspect::inspect(look, &seen().await?, voice).await,
        Verb::Held(look) => inspect::held(look, &seen().await?, voice).await,
        Verb::Watch(look) => inspect::watch(look, &seen().await?).await,
        _ => unreachable!("these connect in their own way, or not at all"),
    }
}

/// `rediss://` needs a crypto provider, and a library leaves it to its application.
#[cfg(all(unix, feature = "tls"))]
fn install_crypto_provider() -> Result<(), Failure> {
    rustls::crypto::ring::default_provider()
        .install_default()
        .map_err(|_| Failure::own("another crypto provider was installed before"))
}
