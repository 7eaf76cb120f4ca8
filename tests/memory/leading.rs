//! Campaigns for the lead: the faults that end a candidacy or a term, and the faults that only take time to cure.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use multilock::sim::{Cluster, Master};
use multilock::{Closing, FencingToken, Leadership, LockError, LossCause, MultiLock, Owner, RunError};
use tokio::sync::mpsc::unbounded_channel;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep};
use tracing::Level;

use crate::journal::{Journal, Line};
use crate::support::{connect, connect_leasing, executed, ms, settle};

/// A term begins with each grant: how many have begun, and the task that leads, which never ends by itself.
fn stand(lock: MultiLock) -> (Arc<AtomicU64>, JoinHandle<Result<(), RunError<()>>>) {
    let terms = Arc::new(AtomicU64::new(0));
    let begun = Arc::clone(&terms);
    let leading = tokio::spawn(async move {
        let body = async |_| {
            begun.fetch_add(1, Ordering::Relaxed);
            std::future::pending::<()>().await;
        };
        lock.lead(body).await
    });
    (terms, leading)
}

/// A fault that an operator can repair does not end a candidacy: a missing permission, or masters that are away.
#[tokio::test(start_paused = true)]
async fn a_candidate_goes_on_after_what_time_may_cure() {
    const DENIED: &str = "NOPERM this user has no permissions to run the 'evalsha' command";
    let cluster = Cluster::new(3);
    let masters = connect(&cluster).await;
    let (journal, _installed) = Journal::begin();
    cluster.iter().for_each(|master| master.answer_with(Some(DENIED)));
    let (terms, leading) = stand(masters.red_lock("leader"));
    sleep(ms(300_000)).await;
    assert!(!leading.is_finished() && terms.load(Ordering::Relaxed) == 0);
    let lines = journal.of("cannot lead yet");
    assert!(
        (4..=5).contains(&lines.len()),
        "{} lines in five minutes",
        lines.len()
    );
    assert_eq!(journal.warnings().len(), lines.len(), "and no others");
    assert!(lines[0].fields["error"].contains("NOPERM"), "{:?}", lines[0]);
    let left_out = |line: &Line| line.fields["left_out"].parse::<u32>().expect("a number");
    let left_out: u32 = lines.iter().map(left_out).sum();
    assert!(left_out < 60, "its pauses grow: {left_out}");
    cluster.iter().for_each(|master| master.answer_with(None));
    sleep(ms(10_100)).await;
    assert_eq!(terms.load(Ordering::Relaxed), 1, "it leads once that is mended");
    leading.abort();
    settle().await;

    // In an outage the attempt goes on, and so its log is that of a wait.
    cluster.iter().take(2).for_each(Master::freeze);
    let shown = |message| journal.of(message).len();
    let before = shown("cannot lead yet");
    let (_, leading) = stand(masters.red_lock("leader"));
    sleep(ms(60_000)).await;
    assert!((5..=7).contains(&shown("still waiting for a lock")));
    assert_eq!(shown("cannot lead yet"), before);
    leading.abort();

    // The same while it waits for a bounded time, and nobody leads.
    let (terms, leading) = stand(masters.red_lock("leader").wait(ms(300)));
    sleep(ms(60_000)).await;
    assert!(!leading.is_finished());
    assert!(shown("cannot lead yet") > before);
    cluster.iter().for_each(Master::thaw);
    sleep(ms(10_100)).await;
    assert_eq!(terms.load(Ordering::Relaxed), 1);
    leading.abort();
}

/// To wait for a leader is no error, and neither to lead for long.
#[tokio::test(start_paused = true)]
async fn a_candidate_stands_by_and_a_leader_lasts_without_a_warning() {
    let cluster = Cluster::new(3);
    let (here, there) = (connect(&cluster).await, connect(&cluster).await);
    let (journal, _installed) = Journal::begin();
    let (_, leading) = stand(here.red_lock("leader"));
    settle().await;
    let (second, waits) = stand(there.red_lock("leader"));
    let (third, waits_in_turns) = stand(there.red_lock("leader").wait(ms(2000)));
    sleep(ms(3_600_000)).await;
    assert!(journal.warnings().is_empty(), "{:#?}", journal.warnings());
    let lines = journal.of("standing by to lead");
    // After 30 s, 1, 5, 15, 30, 45 minutes and an hour; the other one never waits for so long.
    assert!((6..=7).contains(&lines.len()), "{lines:#?}");
    assert_eq!(lines[0].level, Level::INFO);
    waits.abort();
    leading.abort();
    sleep(ms(2100)).await;
    let led = (second.load(Ordering::Relaxed), third.load(Ordering::Relaxed));
    assert_eq!(led, (0, 1), "it stood again soon after each wait");
    waits_in_turns.abort();
}

/// A fault that no time cures ends a candidacy at once, also in a pause.
#[tokio::test(start_paused = true)]
async fn a_candidate_that_never_can_lead_says_why() {
    let cluster = Cluster::new(3);
    let masters = connect(&cluster).await;
    let fixed = masters.red_lock("leader").lease(ms(5000));
    let ended = fixed.lead(async |_| ()).await;
    let Err(RunError::Lock(LockError::Invalid(invalid))) = ended else {
        panic!("{ended:?}");
    };
    assert_eq!((invalid.field, &*invalid.value), ("lease", "5s"));
    assert!(invalid.allowed.starts_with("none with lead"), "{invalid}");
    assert_eq!(executed(&cluster, "acquire"), 0, "no master was asked");
    let me = Owner::new();
    let owned = masters.red_lock("leader").owner(&me);
    let ended = owned.lead(async |_| ()).await;
    let Err(RunError::Lock(LockError::Invalid(invalid))) = ended else {
        panic!("{ended:?}");
    };
    assert_eq!((invalid.field, &*invalid.value), ("owner", "set"));
    assert!(invalid.allowed.starts_with("not set with lead"), "{invalid}");
    assert_eq!(executed(&cluster, "acquire"), 0, "no master was asked");
    cluster.iter().for_each(Master::freeze);
    let (_, leading) = stand(masters.red_lock("leader").wait(Duration::ZERO));
    sleep(ms(60_000)).await;
    let begun = Instant::now();
    tokio::spawn(async move { masters.close(Closing::Release).await });
    let ended = leading.await.expect("no panic");
    assert!(
        matches!(ended, Err(RunError::Lock(LockError::Closed))),
        "{ended:?}"
    );
    assert!(begun.elapsed() < ms(100), "{:?}", begun.elapsed());
}

/// A leader's body, until it is told to stop; then it goes on for `after` with its lock.
async fn until_told(leadership: Leadership, after: Duration) -> FencingToken {
    leadership.cancellation_token().cancelled().await;
    sleep(after).await;
    assert!(leadership.is_valid(), "it is renewed until the body ends");
    leadership.fencing_token()
}

#[tokio::test(start_paused = true)]
async fn a_leader_that_is_to_stop_brings_its_work_to_an_end() {
    let cluster = Cluster::new(3);
    let (here, there) = (connect_leasing(&cluster, ms(1000)).await, connect(&cluster).await);
    let (lock, begun) = (here.red_lock("leader"), Instant::now());
    let led = lock.lead_until(sleep(ms(5000)), |leadership| until_told(leadership, ms(9000)));
    let (led, others) = tokio::join!(led, async {
        sleep(ms(13_900)).await;
        there.red_lock("leader").try_lock().await.map(drop)
    });
    assert!(
        led.expect("no error")
            .is_some_and(|token| token > FencingToken::NONE)
    );
    assert_eq!(begun.elapsed().as_secs(), 14);
    assert!(
        others.is_err_and(|error| error.is_contended()),
        "it is held until the body ends"
    );
    drop(
        there
            .red_lock("leader")
            .try_lock()
            .await
            .expect("it was given up"),
    );

    // A leader that does not look at its cancellation token is dropped, and the next one leads at once.
    let (journal, _installed) = Journal::begin();
    let lock = lock.grace(ms(3000));
    let led = lock.lead_until(sleep(ms(5000)), |_| std::future::pending::<()>());
    let (next, waits) = (there.red_lock("leader"), Instant::now());
    let (led, next) = tokio::join!(led, async {
        sleep(ms(1)).await;
        next.lock().await
    });
    assert_eq!(led, Ok(None));
    assert_eq!(waits.elapsed().as_millis() / 100, 80);
    drop(next.expect("the other one has stepped down"));
    assert_eq!(journal.of("stepped down; the leader's work was dropped").len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_candidate_that_is_to_stop_leaves_the_queues() {
    let cluster = Cluster::new(3);
    let (here, there) = (connect(&cluster).await, connect(&cluster).await);
    let leads = there.red_lock("leader").lock().await.expect("free");
    let body = async |_: Leadership| panic!("another one leads");
    let led: Result<Option<()>, _> = here.red_lock("leader").lead_until(sleep(ms(5000)), body).await;
    assert_eq!(led, Ok(None));
    settle().await;
    assert_eq!(
        here.red_lock("leader").inspect().await.expect("all answer")[0].waiting,
        0
    );
    // The same in the pause after an error, and where nobody leads.
    drop(leads);
    cluster.iter().for_each(Master::freeze);
    let begun = Instant::now();
    let led: Result<Option<()>, _> = here.red_lock("leader").lead_until(sleep(ms(60_000)), body).await;
    assert_eq!((led, begun.elapsed().as_secs()), (Ok(None), 60));
    cluster.iter().for_each(Master::thaw);
    // A loss in the grace period is the end as well.
    let stop = async {
        sleep(ms(1000)).await;
        cluster.iter().for_each(Master::freeze);
    };
    let lock = here.red_lock("leader").grace(ms(100_000));
    assert_eq!(
        lock.lead_until(stop, |_| std::future::pending::<()>()).await,
        Ok(None)
    );
    assert!(begun.elapsed() < ms(95_000), "{:?}", begun.elapsed());
}

/// Two candidates in two processes, and a task that a leader has spawned and that outlives its body.
#[tokio::test(start_paused = true)]
async fn a_leader_that_steps_down_stands_again_behind_the_others() {
    let cluster = Cluster::new(3);
    let clients = [connect(&cluster).await, connect(&cluster).await];
    let (terms, mut begun) = unbounded_channel();
    let candidates = [0, 1].map(|who: usize| {
        let (lock, terms) = (clients[who].red_lock("leader").grace(ms(100)), terms.clone());
        tokio::spawn(async move {
            lock.lead(|leadership| {
                let _ = terms.send((who, leadership));
                std::future::pending::<()>()
            })
            .await
        })
    });
    let (mut last, mut ended) = (FencingToken::NONE, Vec::<Leadership>::new());
    for _ in 0..4 {
        let (who, leadership) = begun.recv().await.expect("one leads");
        assert!(
            ended
                .iter()
                .all(|ended| !ended.is_valid() && ended.cancellation_token().is_cancelled())
        );
        assert!(leadership.fencing_token() > last && leadership.ensure_valid().is_ok());
        last = leadership.fencing_token();
        leadership.wanted().await;
        assert!(leadership.is_wanted() && !leadership.cancellation_token().is_cancelled());
        leadership.step_down();
        assert_eq!(who, ended.len() % 2, "they take turns");
        ended.push(leadership);
    }
    let (_, leadership) = begun.recv().await.expect("one leads");
    let is_over = leadership.cancellation_token();
    for candidate in candidates {
        candidate.abort();
    }
    is_over.cancelled().await;
    settle().await;
    assert!(!leadership.is_valid() && leadership.votes().granted() >= 2);
    assert!(cluster.iter().all(|master| master.locks().is_empty()));
    // The clones keep no connection alive.
    drop(clients);
    settle().await;
    assert_eq!(cluster.iter().flat_map(Master::channels).next(), None);
    assert_eq!(leadership.votes().granted(), 0, "there is nobody left to tell");
}

/// The bound of a hold ends a term as planned: with notice, within the bound, and without a loss. Half of the term is left to
/// lead if the grace period is longer.
#[tokio::test(start_paused = true)]
async fn the_longest_term_ends_as_planned() {
    for (grace, leads_for) in [(ms(3000), 7), (ms(60_000), 5)] {
        let cluster = Cluster::new(3);
        let masters = connect_leasing(&cluster, ms(4000)).await;
        let (journal, _installed) = Journal::begin();
        let lock = masters.red_lock("leader").max_hold(ms(10_000)).grace(grace);
        let (begun, mut terms) = (Instant::now(), 0);
        let led = lock.lead(|leadership| {
            terms += 1;
            let term = terms;
            async move {
                assert_eq!(
                    begun.elapsed().as_secs(),
                    (term - 1) * 10,
                    "the term before was over"
                );
                let told = Instant::now();
                leadership.cancellation_token().cancelled().await;
                assert_eq!(told.elapsed().as_secs(), leads_for);
                assert!(leadership.is_valid(), "there is time to save the work");
                if term < 3 {
                    std::future::pending::<()>().await;
                }
                term
            }
        });
        assert_eq!(led.await, Ok(3));
        assert!(journal.warnings().is_empty(), "{:#?}", journal.warnings());
        assert_eq!(journal.of("stepped down; the leader's work was dropped").len(), 2);
    }
}

/// A leader that steps down shortly before its longest term is over does not lose its lock in the grace period.
#[tokio::test(start_paused = true)]
async fn a_grace_period_ends_with_the_longest_term() {
    let cluster = Cluster::new(3);
    let masters = connect_leasing(&cluster, ms(4000)).await;
    let (journal, _installed) = Journal::begin();
    let lock = masters.red_lock("leader").max_hold(ms(10_000)).grace(ms(60_000));
    let begun = Instant::now();
    let led = lock.lead_until(sleep(ms(4000)), |_| std::future::pending::<()>());
    assert_eq!((led.await, begun.elapsed().as_secs()), (Ok(None), 10));
    assert!(journal.warnings().is_empty(), "{:#?}", journal.warnings());
}

/// A task that the body has left behind learns of the end of the term before the next leader may begin.
#[tokio::test(start_paused = true)]
async fn a_term_has_ended_before_its_lock_is_released() {
    let cluster = Cluster::new(3);
    let masters = connect(&cluster).await;
    let (hand_out, mut tokens) = unbounded_channel();
    let lock = masters.red_lock("leader");
    let held_up = cluster.clone();
    let leading = tokio::spawn(async move {
        lock.lead(async |leadership: Leadership| {
            hand_out.send(leadership.cancellation_token()).expect("awaited");
            held_up.iter().for_each(|master| master.hold_requests(true));
        })
        .await
    });
    let token = tokens.recv().await.expect("it leads");
    settle().await;
    assert!(token.is_cancelled() && !leading.is_finished());
    cluster.iter().for_each(|master| master.hold_requests(false));
    leading.await.expect("no panic").expect("released");
}

/// A candidate that waits for a bounded time has waited for its turn, so its pauses do not grow.
#[tokio::test(start_paused = true)]
async fn a_candidate_that_waits_in_vain_asks_again_soon() {
    let cluster = Cluster::new(3);
    let (here, there) = (connect(&cluster).await, connect(&cluster).await);
    let mut longest = Duration::ZERO;
    for _ in 0..10 {
        let guard = here.red_lock("leader").lock().await.expect("free");
        let (terms, leading) = stand(there.red_lock("leader").wait(ms(50)));
        sleep(ms(30_000)).await;
        guard.unlock().await.expect("held");
        let begun = Instant::now();
        while terms.load(Ordering::Relaxed) == 0 {
            sleep(ms(10)).await;
        }
        longest = longest.max(begun.elapsed());
        leading.abort();
        settle().await;
    }
    assert!(longest < ms(300), "{longest:?}");
}

#[tokio::test(start_paused = true)]
async fn a_loss_is_told_to_the_tasks_of_a_leader() {
    let cluster = Cluster::new(3);
    let masters = connect(&cluster).await;
    let lock = masters.red_lock("leader");
    let (told, mut losses) = unbounded_channel();
    let mut terms = 0;
    let led = lock.lead(|leadership| {
        terms += 1;
        let (is_last, told, lock) = (terms == 2, told.clone(), lock.clone());
        async move {
            if is_last {
                return leadership.holder().clone();
            }
            let (watches, is_over) = (leadership.clone(), leadership.cancellation_token());
            tokio::spawn(async move {
                is_over.cancelled().await;
                let _ = told.send(watches.lost().await);
            });
            lock.force_release().await.expect("all answer");
            std::future::pending().await
        }
    });
    assert_eq!(led.await.map(|holder| holder.client_label().is_some()), Ok(true));
    assert_eq!(
        losses.recv().await.map(|loss| loss.cause),
        Some(LossCause::TakenAway)
    );
}
