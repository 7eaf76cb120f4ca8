//! A terminal with a shell in it, as somebody would sit before it.

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::path::Path;
use std::process::Stdio;
use std::sync::{Arc, Mutex};
use std::thread;

use multilock_test_support::{Server, WITHIN};
use rustix::fs::{Mode, OFlags, open};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use tokio::process::{Child, Command};
use tokio::time::{Instant, sleep};

use crate::stage::{PROGRAM, ms, multilock, urls, with_variables_of};

pub(crate) const CTRL_C: &str = "\x03";
pub(crate) const CTRL_D: &str = "\x04";
pub(crate) const CTRL_Z: &str = "\x1a";

/// A shell with job control, in which `multilock` is the command with these masters.
pub(crate) struct Pty {
    keyboard: File,
    screen: Arc<Mutex<String>>,
    /// End of the last look at the screen.
    seen: usize,
    _shell: Child,
}

impl Pty {
    pub(crate) async fn start(servers: &[Server]) -> Self {
        let device = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).expect("a terminal");
        grantpt(&device).expect("a terminal of one's own");
        unlockpt(&device).expect("a terminal that can be opened");
        let name = ptsname(&device, Vec::new()).expect("its name");
        let user = open(
            name,
            OFlags::RDWR | OFlags::NOCTTY | OFlags::CLOEXEC,
            Mode::empty(),
        );
        let shell = shell(servers, &user.expect("its other end"));
        let screen = Arc::new(Mutex::new(String::new()));
        let keyboard = File::from(device);
        show(
            keyboard.try_clone().expect("a second descriptor"),
            Arc::clone(&screen),
        );
        let mut pty = Self {
            keyboard,
            screen,
            seen: 0,
            _shell: shell,
        };
        pty.until("ready> ").await;
        pty
    }

    /// Types a line.
    pub(crate) fn line(&mut self, text: &str) {
        self.keys(&format!("{text}\n"));
    }

    pub(crate) fn keys(&mut self, keys: &str) {
        self.keyboard.write_all(keys.as_bytes()).expect("it reads");
    }

    /// Waits until this text is on the screen, below the text of the last wait.
    pub(crate) async fn until(&mut self, text: &str) {
        let deadline = Instant::now() + WITHIN;
        loop {
            let screen = self.screen();
            if let Some(at) = screen[self.seen..].find(text) {
                self.seen += at + text.len();
                return;
            }
            let shown = &screen[self.seen..];
            assert!(Instant::now() < deadline, "{text:?} is not shown: {shown:?}");
            sleep(ms(10)).await;
        }
    }

    /// Gives a started program time to come to rest. Tests also pass if that takes longer.
    pub(crate) async fn settle(&self) {
        sleep(ms(300)).await;
    }

    /// Text that was on the screen so far.
    pub(crate) fn screen(&self) -> String {
        self.screen.lock().expect("no panic").clone()
    }
}

/// Starts a shell in a session of its own, with this controlling terminal.
fn shell(servers: &[Server], terminal: &OwnedFd) -> Child {
    let end = || Stdio::from(terminal.try_clone().expect("a descriptor"));
    let like = multilock(&urls(servers));
    let dir = Path::new(PROGRAM).parent().expect("a directory");
    let mut shell = Command::new("setsid");
    with_variables_of(&mut shell, &like);
    shell
        .args([
            "--ctty",
            "env",
            "--default-signal",
            "bash",
            "--norc",
            "--noprofile",
            "--noediting",
            "-i",
        ])
        .env("PS1", "ready> ")
        // One that can redraw a line, wherever the tests run.
        .env("TERM", "xterm")
        .env(
            "PATH",
            format!("{}:{}", dir.display(), std::env::var("PATH").unwrap_or_default()),
        )
        .stdin(end())
        .stdout(end())
        .stderr(end())
        .kill_on_drop(true);
    shell.spawn().expect("a shell")
}

/// Keeps the output to the terminal, until no process has it open any more.
fn show(mut device: File, screen: Arc<Mutex<String>>) {
    thread::spawn(move || {
        let mut some = [0; 4096];
        while let Ok(count @ 1..) = device.read(&mut some) {
            let text = String::from_utf8_lossy(&some[..count]);
            screen.lock().expect("no panic").push_str(&text);
        }
    });
}
