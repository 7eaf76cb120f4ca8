//! Child processes that do not outlive the tests.

use std::io;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::sync::{LazyLock, mpsc};
use std::thread;

type Reply = mpsc::Sender<io::Result<Child>>;

/// The signal of `setpriv --pdeathsig` comes when the *thread* that started the child ends, which for a
/// thread of a test runner or of a runtime is too early. This one lives as long as the process.
static STARTER: LazyLock<mpsc::Sender<(Command, Reply)>> = LazyLock::new(|| {
    let (orders, received) = mpsc::channel::<(Command, Reply)>();
    thread::spawn(move || {
        for (mut command, reply) in received {
            // A failed send means that the caller has gone; the child must go too.
            if let Err(mpsc::SendError(Ok(mut child))) = reply.send(command.spawn()) {
                let _ = child.kill();
                let _ = child.wait();
            }
        }
    });
    orders
});

/// Not every `setpriv` knows the option (busybox's does not).
static SETPRIV: LazyLock<bool> = LazyLock::new(|| {
    Command::new("setpriv")
        .args(["--pdeathsig", "KILL", "true"])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|status| status.success())
});

/// A command for `program`. If the system can, it kills the program when this process ends in any way. Elsewhere,
/// a test run that is itself killed leaves its servers behind, and a test run that panics does not.
pub fn command(program: &str) -> Command {
    if *SETPRIV {
        let mut command = Command::new("setpriv");
        command
            .args(["--pdeathsig", "KILL", "--", program])
            // Ctrl-C at the terminal is for this process, which may have work left on the server.
            .process_group(0);
        command
    } else {
        Command::new(program)
    }
}

pub fn start(command: Command) -> io::Result<Child> {
    let (reply, child) = mpsc::channel();
    STARTER.send((command, reply)).map_err(io::Error::other)?;
    child.recv().map_err(io::Error::other)?
}
