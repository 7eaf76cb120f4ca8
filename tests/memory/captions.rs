//! Captions of holds, and the time for which masters keep them.

use std::time::Duration;

use multilock::sim::{Cluster, Master};
use multilock::{Closing, Holder, LockError, Masters, Unlocked};
use tokio::time::sleep;

use crate::support::{connect, connect_leasing, executed, ms, settle};

/// The keys of captions on a master.
fn captions(master: &Master) -> Vec<String> {
    let mut keys = master.keys();
    keys.retain(|key| key.starts_with("multilock_about:"));
    keys
}

fn all_captions(cluster: &Cluster) -> usize {
    cluster.iter().map(|master| captions(master).len()).sum()
}

async fn seen(masters: &Masters, name: &str) -> Option<Holder> {
    let seen = masters.red_lock(name).inspect().await.expect("all answer");
    seen[0].agreed.clone()
}

async fn about(masters: &Masters, name: &str) -> Option<String> {
    let holder = seen(masters, name).await?;
    holder.about().map(str::to_owned)
}

#[tokio::test(start_paused = true)]
async fn whoever_is_refused_or_looks_is_told_about_the_hold() {
    let cluster = Cluster::new(3);
    let (here, there) = (connect(&cluster).await, connect(&cluster).await);
    settle().await;
    let guard = here
        .red_lock(["a", "b"])
        .about("rows of 2026-11")
        .lock()
        .await
        .expect("free");
    assert_eq!(guard.holder().about(), Some("rows of 2026-11"));
    assert_eq!(all_captions(&cluster), 3, "one for each hold, not for each name");
    assert_eq!(about(&there, "b").await.as_deref(), Some("rows of 2026-11"));
    let label = here
        .red_lock("c")
        .lock()
        .await
        .expect("free")
        .holder()
        .to_string();
    for refused in [
        there.red_lock("a").try_lock().await.expect_err("held"),
        there.red_lock("b").wait(ms(100)).lock().await.expect_err("held"),
        there
            .red_lock("a")
            .write()
            .wait(ms(100))
            .lock()
            .await
            .expect_err("held"),
    ] {
        assert_eq!(
            (refused.about(), refused.holder()),
            (Some("rows of 2026-11"), Some(&*label))
        );
        let text = format!("held by {label} (rows of 2026-11), worth trying again in ");
        assert!(refused.to_string().contains(&text), "{refused}");
    }
    // A task of its own process that asks for the same is told without a master.
    let same = here.red_lock(["a", "b"]).about("rows of 2026-11").wait(ms(100));
    let refused = same.lock().await.expect_err("held");
    assert_eq!(refused.about(), Some("rows of 2026-11"));
    let forced = there
        .red_lock(["a", "b"])
        .force_release()
        .await
        .expect("all answer");
    assert_eq!(forced.former[0].about(), Some("rows of 2026-11"));
    assert_eq!(all_captions(&cluster), 0);
    drop(guard);
    let set = here
        .red_lock("a")
        .about("one")
        .and(here.red_lock("b").read().about("other"));
    let held = set.lock().await.expect("free");
    let refused = there
        .red_lock("a")
        .and(there.red_lock("c"))
        .try_lock()
        .await
        .expect_err("held");
    assert_eq!(refused.about(), Some("one"));
    let readers = there
        .red_lock("b")
        .inspect()
        .await
        .expect("all answer")
        .remove(0)
        .readers;
    assert_eq!(readers[0].about(), Some("other"));
    held.unlock().await.expect("all answer");
    assert_eq!(all_captions(&cluster), 0);
}

/// It is renewed with its hold, put back with it, and ends with it however that ends.
#[tokio::test(start_paused = true)]
async fn a_caption_lives_as_long_as_its_hold() {
    let cluster = Cluster::new(3);
    let masters = connect_leasing(&cluster, ms(3000)).await;
    let lock = masters.red_lock("a").about("rows");
    let guard = lock.lock().await.expect("free");
    sleep(ms(20_000)).await;
    for master in cluster.iter() {
        let left = master.time_left(&captions(master)[0]).expect("an end");
        let (hold, margin) = (master.time_left("a").expect("an end"), ms(1));
        assert!(left <= hold + margin && left > ms(1000), "{left:?} of {hold:?}");
    }
    // A master that has lost its memory gets both back.
    cluster.master(0).flush_all();
    sleep(ms(2000)).await;
    assert_eq!(all_captions(&cluster), 3);
    // A master that has lost the text alone does without.
    assert!(cluster.master(1).evict(&captions(cluster.master(1))[0]));
    sleep(ms(2000)).await;
    assert_eq!(about(&masters, "a").await.as_deref(), Some("rows"));
    guard.unlock().await.expect("all answer");
    assert_eq!(all_captions(&cluster), 0);

    drop(lock.lock().await.expect("free"));
    settle().await;
    assert_eq!(all_captions(&cluster), 0);

    // A lost round is rolled back whole.
    for master in cluster.iter().skip(1) {
        master
            .command(&["SET", "a", "another library's", "PX", "500"])
            .expect("free");
    }
    assert!(lock.try_lock().await.is_err());
    settle().await;
    assert_eq!(all_captions(&cluster), 0);
    sleep(ms(500)).await;

    lock.lock().await.expect("free").leak();
    sleep(ms(3100)).await;
    assert_eq!(all_captions(&cluster), 0, "it ends with the lease");

    let kept = lock.clone().at_least(ms(2000)).lock().await.expect("free");
    assert!(matches!(kept.unlock().await, Ok(Unlocked::KeptFor(_))));
    sleep(ms(3100)).await;
    assert_eq!(all_captions(&cluster), 0);

    let held = lock.lock().await.expect("free");
    masters.close(Closing::Release).await;
    assert_eq!(all_captions(&cluster), 0);
    drop(held);
}

/// Each text is that of the hold that is shown with it.
#[tokio::test(start_paused = true)]
async fn a_hold_is_handed_on_under_the_same_text_alone() {
    let cluster = Cluster::new(3);
    let masters = connect(&cluster).await;
    let lock = |text: &str| masters.red_lock("a").about(text);
    let first = lock("one").lock().await.expect("free");
    let (same, other) = (lock("one"), lock("other"));
    let waits = tokio::spawn(async move { same.lock().await });
    settle().await;
    let before = executed(&cluster, "acquire");
    assert_eq!(first.unlock().await, Ok(Unlocked::HandedOn));
    let second = waits.await.expect("no panic").expect("handed on");
    assert_eq!(executed(&cluster, "acquire"), before);
    let waits = tokio::spawn(async move { other.lock().await });
    settle().await;
    assert_eq!(second.unlock().await, Ok(Unlocked::Released));
    let third = waits.await.expect("no panic").expect("free");
    assert_eq!(about(&masters, "a").await.as_deref(), Some("other"));
    third.unlock().await.expect("all answer");
    // The same of a grant that stays with its client.
    assert_eq!(
        lock("one").sticky().lock().await.expect("free").unlock().await,
        Ok(Unlocked::Stays)
    );
    let before = executed(&cluster, "acquire");
    assert_eq!(
        lock("one").sticky().lock().await.expect("idle").unlock().await,
        Ok(Unlocked::Stays)
    );
    assert_eq!(executed(&cluster, "acquire"), before);
    let _held = lock("other").sticky().lock().await.expect("it was released");
    assert_eq!(about(&masters, "a").await.as_deref(), Some("other"));
}

#[tokio::test(start_paused = true)]
async fn a_text_that_cannot_be_shown_is_refused_before_any_master_is_asked() {
    let cluster = Cluster::new(3);
    let masters = connect(&cluster).await;
    for (text, value) in [
        (String::new(), "\"\""),
        ("a\nb".to_owned(), "\"a\\nb\""),
        ("x".repeat(257), "a text of 257 bytes"),
    ] {
        let LockError::Invalid(invalid) = masters.red_lock("a").about(text).lock().await.expect_err("odd")
        else {
            panic!("another error");
        };
        assert_eq!((invalid.field, &*invalid.value), ("about", value));
        assert_eq!(invalid.allowed, "1 to 256 bytes without control characters");
    }
    let odd = masters
        .red_lock("a")
        .sticky()
        .announced()
        .lock()
        .await
        .expect_err("odd");
    assert!(
        odd.to_string()
            .starts_with("sticky: true is not allowed; allowed: false with announced, which lead sets, "),
        "{odd}"
    );
    assert_eq!(executed(&cluster, "acquire"), 0);
    assert!(masters.red_lock("a").about("x".repeat(256)).lock().await.is_ok());
}

/// Only the shown text depends on the keys.
#[tokio::test(start_paused = true)]
async fn a_key_of_another_type_is_in_nobodys_way() {
    let cluster = Cluster::new(3);
    let masters = connect_leasing(&cluster, ms(3000)).await;
    let guard = masters.red_lock("a").about("rows").lock().await.expect("free");
    for master in cluster.iter() {
        let key = &captions(master)[0];
        master.command(&["DEL", key]).expect("there");
        master.command(&["SET", key, "odd"]).expect("free");
    }
    let holder = seen(&masters, "a").await.expect("held");
    assert_eq!(holder.about(), None);
    sleep(Duration::from_secs(10)).await;
    assert!(guard.is_valid());
    guard.unlock().await.expect("all answer");
    assert_eq!(all_captions(&cluster), 0);
}
