//! Leaders, clients that watch them, and the texts of leaders about themselves.

use std::future::pending;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use multilock::sim::{Client, Cluster, Direction, Keep, Master, Network};
use multilock::{
    CancellationToken, FencingToken, Leader, Leadership, Masters, MultiLock, Quarantine, Unlocked,
};
use tokio::sync::watch::Receiver;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep, timeout};

use crate::plan::ms;

const LEASE: Duration = ms(3000);
/// Longer than a message, a look and a round need together.
const SOON: Duration = ms(60);

/// Terms in the order in which they began: the candidate, and its leadership.
type Terms = Arc<Mutex<Vec<(usize, Leadership)>>>;

struct Candidate {
    network: Network,
    stop: CancellationToken,
    leading: JoinHandle<()>,
}

async fn connect(cluster: &Cluster, network: &Network, place: usize) -> Masters {
    for node in 0..3 {
        network.set_distance(node, ms(1));
    }
    let builder = Masters::builder()
        .quarantine(Quarantine::Off)
        .lease(LEASE)
        .client_label(format!("candidate {place}"));
    let client = Client::new().network(network);
    cluster.connect_as(&client, builder).await.expect("connects")
}

async fn stand(
    cluster: &Cluster,
    place: usize,
    terms: &Terms,
    lock: impl Fn(&Masters) -> MultiLock,
) -> Candidate {
    let network = Network::new(3);
    let masters = connect(cluster, &network, place).await;
    let (lock, terms, stop) = (lock(&masters), Arc::clone(terms), CancellationToken::new());
    let until = stop.clone().cancelled_owned();
    let leading = tokio::spawn(async move {
        let led = lock.lead_until(until, |leadership| {
            terms.lock().expect("not poisoned").push((place, leadership));
            pending::<()>()
        });
        assert_eq!(led.await, Ok(None));
    });
    Candidate {
        network,
        stop,
        leading,
    }
}

fn plain(masters: &Masters) -> MultiLock {
    masters.red_lock("leader").grace(Duration::ZERO)
}

/// Candidates that have stood in the order of their numbers.
async fn three(cluster: &Cluster, terms: &Terms) -> Vec<Candidate> {
    let mut candidates = Vec::new();
    for place in 0..3 {
        candidates.push(stand(cluster, place, terms, plain).await);
        sleep(SOON).await;
    }
    candidates
}

/// The candidate that leads now. At any instant one at most has validity left, and tokens rise.
fn leads(terms: &Terms) -> Option<(usize, Leadership)> {
    let terms = terms.lock().expect("not poisoned");
    let valid: Vec<_> = terms
        .iter()
        .filter(|(_, leadership)| leadership.is_valid())
        .collect();
    assert!(valid.len() <= 1, "{valid:?} lead at the same time");
    assert!(
        terms
            .windows(2)
            .all(|pair| pair[0].1.fencing_token() < pair[1].1.fencing_token()),
        "{terms:?}"
    );
    valid.first().map(|term| (*term).clone())
}

fn captions(cluster: &Cluster) -> usize {
    let keys = cluster.iter().flat_map(Master::keys);
    keys.filter(|key| key.starts_with("multilock_about:")).count()
}

/// The leader is cut off, and then has its own again; one crashes; one steps down.
#[tokio::test(start_paused = true)]
async fn one_leads_at_a_time() {
    let (cluster, terms) = (Cluster::new(3), Terms::default());
    let candidates = three(&cluster, &terms).await;
    let checking = {
        let terms = Arc::clone(&terms);
        tokio::spawn(async move {
            loop {
                leads(&terms);
                sleep(ms(1)).await;
            }
        })
    };
    assert_eq!(leads(&terms).map(|(who, _)| who), Some(0));
    for node in 0..2 {
        candidates[0].network.cut(node, Direction::Both);
    }
    sleep(LEASE + SOON).await;
    assert_eq!(
        leads(&terms).map(|(who, _)| who),
        Some(1),
        "once the lease of the other has ended"
    );
    for node in 0..2 {
        candidates[0].network.heal(node);
    }
    sleep(LEASE).await;
    leads(&terms).expect("one leads").1.step_down();
    sleep(SOON).await;
    assert_eq!(
        leads(&terms).map(|(who, _)| who),
        Some(2),
        "it stood before the other stood again"
    );
    // A restart of a master that keeps nothing.
    cluster.master(0).restart(Keep::Nothing);
    sleep(LEASE).await;
    assert_eq!(leads(&terms).map(|(who, _)| who), Some(2));
    for candidate in candidates {
        candidate.stop.cancel();
        let ended = timeout(LEASE, candidate.leading).await;
        ended.expect("it is told to stop").expect("no panic");
    }
    checking.abort();
    assert!(
        checking.await.is_err_and(|error| error.is_cancelled()),
        "one at a time"
    );
    sleep(SOON).await;
    assert!(cluster.iter().all(|master| master.locks().is_empty()) && captions(&cluster) == 0);
}

/// Each look sees its masters at different moments, while leaders come and go.
#[tokio::test(start_paused = true)]
async fn a_watcher_is_shown_every_lasting_term_and_never_an_older_one() {
    let (cluster, terms) = (Cluster::new(3), Terms::default());
    let network = Network::new(3);
    let masters = connect(&cluster, &network, 9).await;
    // Far from one master, so its answers are older than those of the others.
    network.set_distance(2, ms(20));
    let mut told = masters.watch_leader("leader").expect("a name of a lock");
    let seen = Arc::<Mutex<Vec<FencingToken>>>::default();
    let watching = {
        let (seen, mut told) = (Arc::clone(&seen), told.clone());
        tokio::spawn(async move {
            while told.changed().await.is_ok() {
                let token = told.borrow_and_update().as_ref().map(|leader| leader.token);
                seen.lock().expect("not poisoned").extend(token);
            }
        })
    };
    let candidates = three(&cluster, &terms).await;
    let mut shown = Vec::new();
    for _ in 0..12 {
        sleep(SOON * 2).await;
        let (who, leadership) = leads(&terms).expect("one leads");
        let leader = told.borrow_and_update().clone().expect("it is shown");
        assert_eq!(leader.label.as_deref(), Some(&*format!("candidate {who}")));
        assert_eq!(
            (leader.token, leader.holder()),
            (leadership.fencing_token(), leadership.holder())
        );
        assert!(!shown.contains(&leader.token), "the last one has stepped down");
        shown.push(leader.token);
        leadership.step_down();
    }
    drop(candidates);
    drop(masters);
    watching.await.expect("no panic");
    let seen = seen.lock().expect("not poisoned");
    assert!(seen.is_sorted(), "{seen:?}");
    assert!(shown.iter().all(|token| seen.contains(token)), "{seen:?}");
}

/// A token is raised because masters know a larger one. The token that is shown is the raised one, which counts.
#[tokio::test(start_paused = true)]
async fn a_token_that_was_raised_is_shown() {
    let cluster = Cluster::new(3);
    let network = Network::new(3);
    let masters = connect(&cluster, &network, 0).await;
    let mut told = masters.watch_leader("leader").expect("a name of a lock");
    // Another client has been given a token that this one does not know.
    let other = connect(&cluster, &Network::new(3), 1).await;
    for master in cluster.iter() {
        let time = master.command(&["TIME"]).expect("the time");
        let [seconds, micros] = &time[..] else {
            panic!("{time:?}")
        };
        let number = |text: &String| text.parse::<u64>().expect("a number");
        let ahead = number(seconds) * 1_000_000 + number(micros) + 5_000_000;
        master
            .command(&[
                "SET",
                "multilock_fence:{leader}",
                &ahead.to_string(),
                "PX",
                "60000",
            ])
            .expect("free");
    }
    let guard = other
        .red_lock("leader")
        .announced()
        .about("raised")
        .lock()
        .await
        .expect("free");
    assert_eq!(
        cluster.master(0).executed().get("extend"),
        Some(&1),
        "it was raised"
    );
    let is_shown = |leader: &Option<Leader>| {
        leader
            .as_ref()
            .is_some_and(|leader| leader.token == guard.fencing_token())
    };
    assert!(
        timeout(SOON, told.wait_for(is_shown)).await.is_ok(),
        "{:?}",
        told.borrow()
    );
}

/// A process has handed on all tokens of a block, so that its next one is larger. A master that is asked again for a grant would
/// not know its size, and would show a token of its middle. So the grant of a leader, which is not handed on, has an ordinary one.
#[tokio::test(start_paused = true)]
async fn the_token_is_the_same_on_a_master_that_is_asked_again() {
    let cluster = Cluster::new(3);
    let network = Network::new(3);
    let masters = connect(&cluster, &network, 0).await;
    let lock = masters.red_lock("leader");
    let mut holder = lock.lock().await.expect("free");
    for _ in 1..64 {
        let lock = lock.clone();
        let next = tokio::spawn(async move { lock.lock().await });
        tokio::task::yield_now().await;
        assert_eq!(holder.unlock().await, Ok(Unlocked::HandedOn));
        holder = next.await.expect("no panic").expect("granted");
    }
    assert_eq!(holder.unlock().await, Ok(Unlocked::Released));
    let mut told = masters.watch_leader("leader").expect("a name of a lock");
    let guard = lock.announced().about("leads").lock().await.expect("free");
    sleep(SOON).await;
    cluster.master(2).evict("leader");
    sleep(LEASE).await;
    let shown = told.borrow_and_update().as_ref().map(|leader| leader.token);
    assert_eq!(shown, Some(guard.fencing_token()));
}

async fn next(told: &mut Receiver<Option<Leader>>) -> Duration {
    let begun = Instant::now();
    let changed = timeout(LEASE * 10, told.changed()).await;
    changed.expect("it changes").expect("it goes on");
    told.borrow_and_update();
    begun.elapsed()
}

/// A leader that is handed on would be shown with the token of the one before.
#[tokio::test(start_paused = true)]
async fn terms_of_one_process_are_told_apart() {
    let (cluster, terms) = (Cluster::new(3), Terms::default());
    let watcher = connect(&cluster, &Network::new(3), 9).await;
    let mut told = watcher.watch_leader("leader").expect("a name of a lock");
    let masters = connect(&cluster, &Network::new(3), 0).await;
    let standing: Vec<_> = [0, 1]
        .into_iter()
        .map(|place| {
            let (lock, terms) = (plain(&masters), Arc::clone(&terms));
            tokio::spawn(async move {
                lock.lead(|leadership| {
                    terms.lock().expect("not poisoned").push((place, leadership));
                    pending::<()>()
                })
                .await
            })
        })
        .collect();
    for _ in 0..6 {
        sleep(SOON * 2).await;
        let (_, leadership) = leads(&terms).expect("one leads");
        let leader = told.borrow_and_update().clone().expect("it is shown");
        assert_eq!(leader.token, leadership.fencing_token());
        leadership.step_down();
        assert!(next(&mut told).await < SOON);
    }
    assert!(standing.iter().all(|one| !one.is_finished()), "both stand");
    standing.iter().for_each(JoinHandle::abort);
}

/// The end of a hold takes its text along on each master, also where the release comes late and by a batch.
#[tokio::test(start_paused = true)]
async fn a_text_never_outlives_its_hold() {
    let cluster = Cluster::new(3);
    let network = Network::new(3);
    let masters = connect(&cluster, &network, 0).await;
    let lock = masters.red_lock("a").about("rows");
    let guard = lock.lock().await.expect("free");
    assert_eq!(captions(&cluster), 3);
    // One master is cut off, and gets its release with many others.
    let others: Vec<_> = (0..50)
        .map(|n| masters.red_lock(format!("b{n}")).about("rows"))
        .collect();
    let mut guards = Vec::new();
    for other in &others {
        guards.push(other.lock().await.expect("free"));
    }
    network.cut(2, Direction::Both);
    drop((guard, guards));
    sleep(SOON).await;
    assert!(captions(&cluster) <= 51, "those of the one that is cut off");
    network.heal(2);
    sleep(ms(1000)).await;
    assert_eq!(captions(&cluster), 0);
    // A master that was away when the hold began learns of both from the renewal.
    cluster.master(1).freeze();
    let guard = lock.lock().await.expect("a majority");
    sleep(SOON * 2).await;
    cluster.master(1).thaw();
    sleep(LEASE).await;
    assert_eq!(captions(&cluster), 3);
    sleep(LEASE * 3).await;
    assert_eq!(
        (captions(&cluster), guard.is_valid()),
        (3, true),
        "both are renewed"
    );
    guard.leak();
    sleep(LEASE + SOON).await;
    assert_eq!(captions(&cluster), 0);
}

/// Masters that were set back show an older term, which is not believed.
#[tokio::test(start_paused = true)]
async fn a_quorum_that_has_been_set_back_is_not_believed() {
    let cluster = Cluster::new(3);
    let (watcher, masters) = (
        connect(&cluster, &Network::new(3), 9).await,
        connect(&cluster, &Network::new(3), 0).await,
    );
    let mut told = watcher.watch_leader("leader").expect("a name of a lock");
    let lock = masters.red_lock("leader").announced();
    let older = lock.lock().await.expect("free");
    next(&mut told).await;
    cluster.iter().for_each(Master::save);
    older.unlock().await.expect("all answer");
    let newer = lock.lock().await.expect("free");
    sleep(SOON).await;
    cluster.iter().for_each(|master| master.restart(Keep::Saved));
    sleep(SOON).await;
    for _ in 0..LEASE.as_millis() * 2 {
        let shown = told.borrow().as_ref().map(|leader| leader.token);
        assert!(
            shown.is_none_or(|token| token >= newer.fencing_token()),
            "{shown:?}"
        );
        sleep(ms(1)).await;
    }
}

/// A minority that did not hear of the end of a term goes on showing it.
#[tokio::test(start_paused = true)]
async fn a_minority_shows_no_leader() {
    let cluster = Cluster::new(3);
    let (watcher, network) = (connect(&cluster, &Network::new(3), 9).await, Network::new(3));
    let masters = connect(&cluster, &network, 0).await;
    let mut told = watcher.watch_leader("leader").expect("a name of a lock");
    let guard = masters.red_lock("leader").announced().lock().await.expect("free");
    next(&mut told).await;
    // One master does not get the release.
    network.cut(2, Direction::Both);
    guard.unlock().await.expect("a majority answers");
    assert!(next(&mut told).await < SOON && told.borrow().is_none());
    assert!(!cluster.master(2).fields("leader").is_empty());
}

/// A leader of two names is released, the next one is forced out, and the last one leaves its names locked for a while. A watcher
/// of the second name hears of each grant and each end at once.
#[tokio::test(start_paused = true)]
async fn every_name_of_a_leader_is_told_of_however_its_term_ends() {
    let cluster = Cluster::new(3);
    let watcher = connect(&cluster, &Network::new(3), 9).await;
    let masters = connect(&cluster, &Network::new(3), 0).await;
    let mut told = watcher.watch_leader("leader").expect("a name of a lock");
    let lock = masters.red_lock(["first", "leader"]).announced();
    sleep(SOON).await;
    for end in ["released", "forced", "kept"] {
        let lock = match end {
            "kept" => lock.clone().at_least(LEASE),
            _ => lock.clone(),
        };
        let guard = lock.lock().await.expect("free");
        assert!(next(&mut told).await < SOON && told.borrow().is_some(), "{end}");
        if end == "forced" {
            let names = watcher.red_lock(["first", "leader"]);
            names.force_release().await.expect("forced");
        }
        // A guard that was forced out has nothing to release.
        let _ = guard.unlock().await;
        assert!(next(&mut told).await < SOON && told.borrow().is_none(), "{end}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_text_is_that_of_the_hold_that_it_is_shown_with() {
    let cluster = Cluster::new(3);
    let masters = connect(&cluster, &Network::new(3), 0).await;
    let mut last = masters.red_lock("a").about("0").lock().await.expect("free");
    for turn in 1..6 {
        let text = turn.to_string();
        let lock = masters.red_lock("a").about(text.clone());
        let waiting = tokio::spawn(async move { lock.lock().await.expect("its turn") });
        sleep(SOON).await;
        last.unlock().await.expect("all answer");
        last = waiting.await.expect("no panic");
        let seen = masters
            .red_lock("a")
            .inspect()
            .await
            .expect("all answer")
            .remove(0);
        let holder = seen.agreed.expect("it is held");
        assert_eq!((holder.about(), &holder), (Some(&*text), &last.holder()));
    }
}
