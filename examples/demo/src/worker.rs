//! One worker process: a few tasks that take turns at the invoices and the ledger.

use std::time::Duration;

use anyhow::{Context, Result};
use multilock::{LockError, Masters, MultiLockGuard, Vote, Votes};
use rand::RngExt;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use crate::args::Duty;
use crate::report::{INVOICES, Refusal, Report, Resource, UNLOCKED};

/// Tasks at the invoices that wait for their turn; one more does not wait, and one closes the ledger.
const PATIENT: usize = 2;
/// How long a patient one waits.
const PATIENCE: Duration = Duration::from_secs(1);
/// More than any job takes; a hold that begins with less is not worth having.
const JOB_TAKES_LESS_THAN: Duration = Duration::from_millis(500);
/// The witness answers at once; if it does not, the demo is over.
const WITNESS_ANSWERS_WITHIN: Duration = Duration::from_secs(5);

#[tokio::main(flavor = "current_thread")]
pub(crate) async fn work(duty: &Duty) -> Result<()> {
    let number = duty.number;
    let masters = Masters::from_env().await;
    let masters = masters.with_context(|| format!("worker {number}"))?;
    let mut tasks = JoinSet::new();
    for _ in 0..PATIENT {
        tasks.spawn(Task::new(&masters, duty).await?.charge_invoices(true));
    }
    tasks.spawn(Task::new(&masters, duty).await?.charge_invoices(false));
    tasks.spawn(Task::new(&masters, duty).await?.close_the_ledger());
    while let Some(ended) = tasks.join_next().await {
        ended
            .context("a task has panicked")?
            .with_context(|| format!("worker {number}"))?;
    }
    // Refused attempts are rolled back in the background.
    sleep(Duration::from_millis(200)).await;
    Ok(())
}

struct Task {
    masters: Masters,
    prefix: String,
    /// Worked on without its lock.
    unlocked: Option<Resource>,
    witness: BufReader<TcpStream>,
    /// The witness has said so.
    over: bool,
}

impl Task {
    async fn new(masters: &Masters, duty: &Duty) -> Result<Self> {
        let stream = TcpStream::connect(duty.witness).await;
        let mut stream = stream.context("the witness cannot be reached")?;
        stream.set_nodelay(true)?;
        stream.write_all(format!("{}\n", duty.number).as_bytes()).await?;
        Ok(Self {
            masters: masters.clone(),
            prefix: duty.prefix.clone(),
            unlocked: duty.break_lock.then_some(UNLOCKED),
            witness: BufReader::new(stream),
            over: false,
        })
    }

    /// A majority will do: an invoice must be charged even while a master is down.
    async fn charge_invoices(mut self, patient: bool) -> Result<()> {
        while !self.over {
            let invoice = Resource::Invoice(rand::rng().random_range(1..=INVOICES));
            if self.unlocked == Some(invoice) {
                self.job(invoice, None).await?;
                pause(5, 20).await;
                continue;
            }
            let lock = self.masters.red_lock(self.name(invoice));
            let lock = lock.min_validity(JOB_TAKES_LESS_THAN);
            let taken = if patient {
                self.say(invoice, Report::Want).await?;
                lock.wait(PATIENCE).lock().await
            } else {
                lock.try_lock().await
            };
            self.job_if(invoice, taken).await?;
            pause(5, 20).await;
        }
        Ok(())
    }

    /// Every master, or it waits until another day.
    async fn close_the_ledger(mut self) -> Result<()> {
        let lock = self.masters.multi_lock(self.name(Resource::Ledger));
        let lock = lock.min_validity(JOB_TAKES_LESS_THAN);
        while !self.over {
            let taken = lock.try_lock().await;
            self.job_if(Resource::Ledger, taken).await?;
            pause(50, 150).await;
        }
        Ok(())
    }

    async fn job_if(&mut self, resource: Resource, taken: Result<MultiLockGuard, LockError>) -> Result<()> {
        match taken {
            Ok(guard) => self.job(resource, Some(guard)).await,
            Err(error) => self.say(resource, Report::Refused(refusal(&error))).await,
        }
    }

    /// The critical section, and the release after it.
    async fn job(&mut self, resource: Resource, guard: Option<MultiLockGuard>) -> Result<()> {
        let locked = guard.is_some();
        self.say(resource, Report::Enter { locked }).await?;
        pause(2, 10).await;
        let valid = guard.as_ref().is_none_or(MultiLockGuard::is_valid);
        self.say(resource, Report::Leave { valid }).await?;
        let Some(guard) = guard else { return Ok(()) };
        if let Err(error) = guard.unlock().await {
            self.say(resource, Report::Trouble(error.to_string())).await?;
        }
        Ok(())
    }

    /// Tells the witness and waits for its answer. A witness that is gone ends the demo as well.
    async fn say(&mut self, resource: Resource, report: Report) -> Result<()> {
        let line = report.to_line(resource);
        let mut answer = String::new();
        let asked = async {
            self.witness.write_all(line.as_bytes()).await?;
            self.witness.read_line(&mut answer).await
        };
        let heard = timeout(WITNESS_ANSWERS_WITHIN, asked).await;
        let heard = heard.context("the witness does not answer")?;
        self.over |= heard.is_err() || answer.trim_end() != "go";
        Ok(())
    }

    fn name(&self, resource: Resource) -> String {
        format!("{}:{resource}", self.prefix)
    }
}

async fn pause(from_ms: u64, to_ms: u64) {
    let length = rand::rng().random_range(from_ms * 1000..to_ms * 1000);
    sleep(Duration::from_micros(length)).await;
}

/// Reason of a refusal. For a wait that ended in vain, the reason of its last attempt.
fn refusal(error: &LockError) -> Refusal {
    match error {
        LockError::Contended { .. } | LockError::TimedOut { last: None, .. } => Refusal::Contended,
        LockError::Unreachable { votes } => unreachable(votes),
        LockError::TimedOut { last: Some(last), .. } => refusal(last),
        other => Refusal::Other(other.to_string()),
    }
}

/// Names the masters that did not answer.
fn unreachable(votes: &Votes) -> Refusal {
    let silent = votes.iter().enumerate().filter(|(_, answer)| {
        matches!(
            answer.vote,
            Vote::Failed { .. } | Vote::NotSent { .. } | Vote::Late { .. } | Vote::Unknown { .. }
        )
    });
    let (masters, reasons): (Vec<_>, Vec<_>) = silent
        .map(|(index, answer)| {
            (
                format!("master {}", index + 1),
                format!("{}: {}", answer.node, answer.vote),
            )
        })
        .unzip();
    Refusal::Unreachable {
        missing: masters.join(" and "),
        because: reasons.join("; "),
    }
}
