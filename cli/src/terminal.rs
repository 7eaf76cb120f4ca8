//! The terminal, which the program gets when it wants it. As in a shell, its group becomes the foreground.

use std::fs::{File, OpenOptions};
use std::io::{self, IsTerminal};
use std::os::fd::AsFd;

use nix::unistd::getpgrp;
use rustix::process::{Pid, getpid};
use rustix::termios::{OptionalActions, Termios, tcgetattr, tcgetpgrp, tcsetattr, tcsetpgrp};

/// The terminal that controls this process.
#[derive(Debug)]
pub(crate) struct Terminal {
    device: File,
    /// Process group of this process.
    own: Pid,
    /// Settings of the terminal when it was lent for the first time.
    modes: Option<Termios>,
    is_lent: bool,
}

impl Terminal {
    /// Opens the terminal. Returns `None` if this process has none, as under cron.
    pub(crate) fn of_process() -> Option<Self> {
        let device = OpenOptions::new().read(true).write(true).open("/dev/tty");
        Some(Self {
            device: device.ok()?,
            own: own_group()?,
            modes: None,
            is_lent: false,
        })
    }

    /// Whether this process is in the foreground.
    pub(crate) fn is_ours(&self) -> bool {
        tcgetpgrp(&self.device) == Ok(self.own)
    }

    /// Whether the terminal is the program's from the beginning. That is so if a shell has made this process
    /// a job of its own, and no pipe leads to another program, which may read the keys.
    pub(crate) fn is_for_program(&self) -> bool {
        self.own == getpid() && io::stdin().is_terminal() && io::stdout().is_terminal() && self.is_ours()
    }

    pub(crate) fn is_lent(&self) -> bool {
        self.is_lent
    }

    /// Makes a group the foreground.
    pub(crate) fn lend(&mut self, group: Pid) {
        if self.modes.is_none() {
            self.modes = tcgetattr(&self.device).ok();
        }
        self.is_lent = tcsetpgrp(&self.device, group).is_ok();
    }

    /// Makes the own group the foreground again, if it was before.
    pub(crate) fn take_back(&mut self) {
        if std::mem::take(&mut self.is_lent) {
            let _ = tcsetpgrp(&self.device, self.own);
        }
    }

    /// Restores its settings, because a killed program could not.
    pub(crate) fn restore(&self) {
        if let Some(modes) = &self.modes
            && self.is_ours()
        {
            let _ = tcsetattr(&self.device, OptionalActions::Now, modes);
        }
    }
}

/// Process group of this process. `None` if the group was made outside of the container in which this is
/// process 1.
pub(crate) fn own_group() -> Option<Pid> {
    // The function of rustix panics in that case.
    Pid::from_raw(getpgrp().as_raw())
}

/// Whether this device is a terminal, with this process in its foreground. A job in the background gets no
/// signals of its keys, and would draw over the prompt.
pub(crate) fn is_in_foreground(device: &(impl IsTerminal + AsFd)) -> bool {
    device.is_terminal() && tcgetpgrp(device).ok() == own_group()
}

/// Hands the terminal of a group that is gone to another one.
pub(crate) fn inherit(from: Pid, to: Pid) {
    if let Ok(device) = File::open("/dev/tty")
        && tcgetpgrp(&device) == Ok(from)
    {
        let _ = tcsetpgrp(&device, to);
    }
}
