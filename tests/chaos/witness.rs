//! The witness: a resource outside of the locks that every holder writes to, and the book of its messages.
//!
//! Of each name there is a fenced resource, which takes a write only if no larger token has written
//! before, and an unfenced twin, which takes everything. So it is with reads, which the resource does not remember.

use std::collections::{BTreeMap, HashMap};
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use anyhow::{Context, Result};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;

use crate::event::{Done, Event, Micros, Said, Task, now};
use crate::settings::EVERY_MASTER;

/// Answers a task that is to go on, and to hold nothing for long.
pub const BRIEF: &str = "brief";

#[derive(Debug, Default)]
struct Book {
    events: Vec<Event>,
    /// The largest token that has written, by name.
    fences: HashMap<String, u64>,
    inside: BTreeMap<Task, Inside>,
    /// Tasks that work, and when they had a lock last.
    working: BTreeMap<Task, Micros>,
    /// Nobody is to hold anything for long.
    brief: bool,
    over: bool,
}

#[derive(Clone, Debug)]
struct Inside {
    names: Vec<String>,
    token: u64,
    from: Micros,
}

/// Ends when dropped.
#[derive(Debug)]
pub struct Witness {
    address: SocketAddr,
    book: Arc<Mutex<Book>>,
    listening: JoinHandle<()>,
}

impl Witness {
    pub async fn start() -> Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let address = listener.local_addr()?;
        let book = Arc::new(Mutex::new(Book::default()));
        let heard = Arc::clone(&book);
        let listening = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(hear(stream, Arc::clone(&heard)));
            }
        });
        Ok(Self {
            address,
            book,
            listening,
        })
    }

    pub fn address(&self) -> SocketAddr {
        self.address
    }

    pub fn done(&self, done: Done) {
        let mut book = lock(&self.book);
        book.over |= done == Done::Over;
        book.events.push(Event::done(now(), done));
    }

    /// From here on nobody begins a long hold, or may again.
    pub fn brief(&self, brief: bool) {
        lock(&self.book).brief = brief;
    }

    /// Holders, with the beginning of each hold, under names for which a majority is enough.
    pub fn inside_majority_names(&self) -> Vec<(Task, Micros)> {
        let book = lock(&self.book);
        let inside = book.inside.iter();
        inside
            .filter(|(_, inside)| !inside.names.iter().any(|name| name == EVERY_MASTER))
            .map(|(task, inside)| (*task, inside.from))
            .collect()
    }

    /// The tasks at work that have had no lock since `moment`.
    pub fn waiting_since(&self, moment: Micros) -> Vec<Task> {
        let book = lock(&self.book);
        let waiting = book.working.iter().filter(|(_, last)| **last <= moment);
        waiting.map(|(task, _)| *task).collect()
    }

    pub fn working(&self) -> usize {
        lock(&self.book).working.len()
    }

    pub fn events(&self) -> Vec<Event> {
        lock(&self.book).events.clone()
    }

    /// The events since the last time. The new book begins with the tasks at work.
    pub fn take_events(&self) -> Vec<Event> {
        let mut book = lock(&self.book);
        let working = book.working.keys();
        let hello = working
            .map(|task| Event::said(now(), *task, Said::Hello))
            .collect();
        std::mem::replace(&mut book.events, hello)
    }
}

impl Drop for Witness {
    fn drop(&mut self) {
        self.listening.abort();
    }
}

fn lock(book: &Mutex<Book>) -> MutexGuard<'_, Book> {
    book.lock().unwrap_or_else(PoisonError::into_inner)
}

/// One connection is one task: its numbers, then its words, each answered.
async fn hear(stream: TcpStream, book: Arc<Mutex<Book>>) {
    let mut task = None;
    // A worker that was killed resets its connection.
    let _ = listen(stream, &book, &mut task).await;
    if let Some(task) = task {
        lock(&book).note(task, Said::Gone);
    }
}

async fn listen(stream: TcpStream, book: &Mutex<Book>, task: &mut Option<Task>) -> Result<()> {
    stream.set_nodelay(true)?;
    let (from, mut to) = stream.into_split();
    let mut lines = BufReader::new(from).lines();
    let first = lines.next_line().await?.context("no number")?;
    let (worker, number) = first.split_once(' ').context("two numbers")?;
    let teller = Task {
        worker: worker.parse()?,
        task: number.parse()?,
    };
    *task = Some(teller);
    while let Some(line) = lines.next_line().await? {
        let said = Said::parse(&line).unwrap_or_else(|error| panic!("{teller} said '{line}': {error:#}"));
        let answer = lock(book).note(teller, said);
        to.write_all(format!("{answer}\n").as_bytes()).await?;
    }
    Ok(())
}

impl Book {
    /// Writes it down; how the task is to go on.
    fn note(&mut self, task: Task, mut said: Said) -> &'static str {
        let at = now();
        match &mut said {
            Said::Hello => {
                self.working.insert(task, 0);
            }
            Said::Gone => {
                self.working.remove(&task);
                self.inside.remove(&task);
            }
            Said::Enter {
                names, token, from, ..
            } => {
                self.working.insert(task, *from);
                let (names, token, from) = (names.clone(), *token, *from);
                self.inside.insert(task, Inside { names, token, from });
            }
            Said::Write { accepted, .. } => *accepted = self.write(task),
            Said::Read { accepted, .. } => *accepted = self.is_newest(task),
            Said::Leave { .. } => {
                self.inside.remove(&task);
            }
            Said::Downgrade { .. }
            | Said::Lost { .. }
            | Said::Unlocked { .. }
            | Said::Refused { .. }
            | Said::Ran { .. } => {}
        }
        self.events.push(Event::said(at, task, said));
        match (self.over, self.brief) {
            (true, _) => "stop",
            (false, true) => BRIEF,
            (false, false) => "go",
        }
    }

    /// Write of the fenced resource: all names of the hold or none.
    fn write(&mut self, task: Task) -> bool {
        let newest = self.is_newest(task);
        if let Some(Inside { names, token, .. }) = self.inside.get(&task).filter(|_| newest) {
            for name in names {
                self.fences.insert(name.clone(), *token);
            }
        }
        newest
    }

    /// Whether no larger token has written any name of the hold.
    fn is_newest(&self, task: Task) -> bool {
        self.inside.get(&task).is_some_and(|Inside { names, token, .. }| {
            let mut written = names.iter().filter_map(|name| self.fences.get(name));
            written.all(|seen| token >= seen)
        })
    }
}
