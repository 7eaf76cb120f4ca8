//! Spans: a call for a lock, its rounds, and the hold that follows from it.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::sync::{Arc, LazyLock, Mutex};

use multilock::sim::Cluster;
use multilock::{LockError, Unlocked};
use tokio::time::{sleep, timeout};
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::subscriber::{DefaultGuard, NoSubscriber};
use tracing::{Dispatch, Event, Level, Subscriber};
use tracing_subscriber::Registry;
use tracing_subscriber::layer::{Context, Layer, SubscriberExt};
use tracing_subscriber::registry::LookupSpan;

use crate::support::{connect, ms, settle};

/// A span as it was seen.
#[derive(Clone, Debug, Default)]
struct Seen {
    name: &'static str,
    parent: Option<&'static str>,
    follows: Option<&'static str>,
    fields: BTreeMap<&'static str, Value>,
    events: Vec<(String, BTreeMap<&'static str, Value>)>,
    closed: bool,
}

/// Recorded value of a field: numbers have to be numbers.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Value {
    Number(u64),
    Text(String),
}

fn text(text: &str) -> Value {
    Value::Text(text.to_owned())
}

struct Fields<'a>(&'a mut BTreeMap<&'static str, Value>);

impl Visit for Fields<'_> {
    fn record_u64(&mut self, field: &Field, value: u64) {
        self.0.insert(field.name(), Value::Number(value));
    }

    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        self.0.insert(field.name(), Value::Text(format!("{value:?}")));
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.0.insert(field.name(), text(value));
    }
}

#[derive(Clone, Default)]
struct Watcher {
    open: Arc<Mutex<BTreeMap<u64, Seen>>>,
    over: Arc<Mutex<Vec<Seen>>>,
}

impl Watcher {
    /// Watches this thread.
    fn install() -> (Self, DefaultGuard) {
        // With a single subscriber, a span that a thread without one meets first would be switched off for all
        // threads.
        static OTHER: LazyLock<Dispatch> = LazyLock::new(|| Dispatch::new(NoSubscriber::new()));
        LazyLock::force(&OTHER);
        let watcher = Self::default();
        let subscriber = Registry::default().with(watcher.clone());
        (watcher, tracing::subscriber::set_default(subscriber))
    }

    fn change(&self, id: &Id, change: impl FnOnce(&mut Seen)) {
        if let Some(seen) = self.open.lock().expect("no panic").get_mut(&id.into_u64()) {
            change(seen);
        }
    }

    fn all(&self) -> Vec<Seen> {
        let mut all = self.over.lock().expect("no panic").clone();
        all.extend(self.open.lock().expect("no panic").values().cloned());
        all
    }

    /// All spans of this name, the closed ones first.
    fn named(&self, name: &str) -> Vec<Seen> {
        let mut all = self.all();
        all.retain(|seen| seen.name == name);
        all
    }

    fn everything(&self) -> String {
        format!("{:?}", self.all())
    }
}

impl<S: Subscriber + for<'a> LookupSpan<'a>> Layer<S> for Watcher {
    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, context: Context<'_, S>) {
        let span = context.span(id).expect("it is new");
        let mut seen = Seen {
            name: span.name(),
            parent: span.parent().map(|parent| parent.name()),
            ..Seen::default()
        };
        attributes.record(&mut Fields(&mut seen.fields));
        self.open.lock().expect("no panic").insert(id.into_u64(), seen);
    }

    fn on_record(&self, id: &Id, values: &Record<'_>, _: Context<'_, S>) {
        self.change(id, |seen| values.record(&mut Fields(&mut seen.fields)));
    }

    fn on_follows_from(&self, id: &Id, follows: &Id, context: Context<'_, S>) {
        let name = context.span(follows).map(|span| span.name());
        self.change(id, |seen| seen.follows = name);
    }

    fn on_event(&self, event: &Event<'_>, context: Context<'_, S>) {
        let mut fields = BTreeMap::new();
        event.record(&mut Fields(&mut fields));
        let Some(Value::Text(message)) = fields.remove("message") else {
            return;
        };
        if let Some(span) = context.event_span(event) {
            self.change(&span.id(), |seen| seen.events.push((message, fields)));
        }
    }

    fn on_close(&self, id: Id, _: Context<'_, S>) {
        // Ids are used again.
        let seen = self.open.lock().expect("no panic").remove(&id.into_u64());
        self.over
            .lock()
            .expect("no panic")
            .extend(seen.map(|seen| Seen { closed: true, ..seen }));
    }
}

fn number(seen: &Seen, field: &str) -> u64 {
    match seen.fields.get(field) {
        Some(Value::Number(number)) => *number,
        other => panic!("{field} is a number: {other:?} in {seen:?}"),
    }
}

#[tokio::test(start_paused = true)]
async fn a_call_its_rounds_and_its_hold() {
    let cluster = Cluster::new(3);
    let masters = connect(&cluster).await;
    let (watcher, _installed) = Watcher::install();
    let request = tracing::span!(Level::INFO, "request");
    let lock = masters.red_lock(["a", "b"]);
    let calling = tracing::Instrument::instrument(async { lock.lock().await }, request);
    let guard = calling.await.expect("free");
    let [acquire] = &watcher.named("multilock.acquire")[..] else {
        panic!("{}", watcher.everything());
    };
    assert!(acquire.closed && acquire.parent == Some("request"), "{acquire:?}");
    assert_eq!(acquire.fields["names"], text("a+b"));
    assert_eq!(acquire.fields["policy"], text("redlock"));
    assert_eq!(acquire.fields["outcome"], text("granted"));
    assert_eq!(number(acquire, "rounds"), 1);
    assert!(number(acquire, "wait_ms") < 50);
    assert!((29_000..30_000).contains(&number(acquire, "validity_ms")));
    assert_eq!(number(acquire, "token"), u64::from(guard.fencing_token()));
    let [round] = &watcher.named("multilock.round")[..] else {
        panic!("{}", watcher.everything());
    };
    assert!(
        round.closed && round.parent == Some("multilock.acquire"),
        "{round:?}"
    );
    assert_eq!(round.fields["op"], text("acquire"));
    let counted = ["needed", "granted", "refused", "silent"].map(|field| number(round, field));
    assert_eq!(counted, [2, 2, 0, 0]);
    let [hold] = &watcher.named("multilock.hold")[..] else {
        panic!("{}", watcher.everything());
    };
    assert!(!hold.closed && hold.parent.is_none(), "{hold:?}");
    assert_eq!(hold.follows, Some("multilock.acquire"));
    assert_eq!(number(hold, "token"), u64::from(guard.fencing_token()));
    sleep(ms(11_000)).await;
    assert_eq!(guard.unlock().await, Ok(Unlocked::Released));
    let [hold] = &watcher.named("multilock.hold")[..] else {
        panic!("{}", watcher.everything());
    };
    assert!(hold.closed, "{hold:?}");
    assert_eq!(hold.fields["end"], text("released"));
    let [(event, fields)] = &hold.events[..] else {
        panic!("{hold:?}");
    };
    assert_eq!(event, "renewed");
    assert!(
        matches!(fields["validity_ms"], Value::Number(29_000..=30_000)),
        "{fields:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_refusal_a_wait_and_a_cancelled_call() {
    let cluster = Cluster::new(3);
    let (masters, others) = (connect(&cluster).await, connect(&cluster).await);
    let held = others.red_lock("a").lock().await.expect("free");
    cluster.master(2).freeze();
    let (watcher, _installed) = Watcher::install();
    let lock = masters.multi_lock("a");
    assert!(matches!(lock.try_lock().await, Err(LockError::Contended { .. })));
    let call = watcher.named("multilock.acquire").remove(0);
    assert_eq!(call.fields["outcome"], text("contended"));
    assert!(!call.fields.contains_key("token"), "{call:?}");
    cluster.master(0).freeze();
    assert!(masters.red_lock("b").try_lock().await.is_err());
    let rounds = watcher.named("multilock.round");
    let of = |seen: &Seen| ["needed", "granted", "refused", "silent"].map(|field| number(seen, field));
    let acquires: Vec<_> = rounds
        .iter()
        .filter(|round| round.fields["op"] == text("acquire"))
        .map(of)
        .collect();
    assert!(acquires.contains(&[2, 1, 0, 2]), "{acquires:?}");
    cluster.master(0).thaw();
    cluster.master(2).thaw();
    settle().await;
    let before = watcher.named("multilock.acquire").len();
    assert!(timeout(ms(200), lock.lock()).await.is_err());
    let calls = watcher.named("multilock.acquire");
    assert_eq!(calls.len(), before + 1);
    let cancelled = calls
        .iter()
        .find(|call| call.fields["outcome"] == text("cancelled"));
    let cancelled = cancelled.expect("it was dropped");
    assert_eq!(number(cancelled, "wait_ms"), 200);
    assert!(cancelled.closed);
    drop(held);
}

#[tokio::test(start_paused = true)]
async fn a_loss_is_an_event_of_the_hold() {
    let cluster = Cluster::new(3);
    let masters = connect(&cluster).await;
    let (watcher, _installed) = Watcher::install();
    let guard = masters.red_lock("a").lock().await.expect("free");
    for master in cluster.iter() {
        master.freeze();
    }
    guard.lost().await;
    settle().await;
    let hold = watcher.named("multilock.hold").remove(0);
    let lost = hold.events.iter().find(|(event, _)| event == "lost");
    let (_, fields) = lost.expect("it was lost");
    assert_eq!(fields["cause"], text("expired"));
    assert!(hold.closed && hold.fields["end"] == text("lost"), "{hold:?}");
    drop(guard);
}

#[tokio::test(start_paused = true)]
async fn who_enters_again_begins_no_hold_and_who_is_handed_one_does() {
    let cluster = Cluster::new(3);
    let masters = connect(&cluster).await;
    let (watcher, _installed) = Watcher::install();
    let first = masters.red_lock("a").lock().await.expect("free");
    let inner = masters
        .red_lock("a")
        .owner(first.owner())
        .lock()
        .await
        .expect("inside");
    assert_eq!(watcher.named("multilock.hold").len(), 1);
    assert_eq!(inner.unlock().await, Ok(Unlocked::StillHeld(1)));
    let next = masters.red_lock("a");
    let waits = tokio::spawn(async move { next.lock().await });
    settle().await;
    assert_eq!(first.unlock().await, Ok(Unlocked::HandedOn));
    let second = waits.await.expect("no panic").expect("handed on");
    let holds = watcher.named("multilock.hold");
    assert_eq!(holds.len(), 2);
    let tokens: Vec<_> = holds.iter().map(|hold| number(hold, "token")).collect();
    assert!(tokens.contains(&u64::from(second.fencing_token())), "{tokens:?}");
    let ended: Vec<_> = holds.iter().filter(|hold| hold.closed).collect();
    assert!(
        ended.len() == 1 && ended[0].fields["end"] == text("handed_on"),
        "{ended:?}"
    );
    let outcomes: Vec<_> = watcher
        .named("multilock.acquire")
        .into_iter()
        .map(|call| call.fields["outcome"].clone())
        .collect();
    for outcome in ["granted", "reentered", "handed_on"] {
        assert!(outcomes.contains(&text(outcome)), "{outcomes:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn no_owner_field_is_told() {
    let cluster = Cluster::new(3);
    let (masters, others) = (connect(&cluster).await, connect(&cluster).await);
    let (watcher, _installed) = Watcher::install();
    let around = tracing::span!(Level::INFO, "around");
    let everything = async {
        let guard = masters.red_lock("a").lock().await.expect("free");
        let _ = others.red_lock("a").try_lock().await;
        sleep(ms(11_000)).await;
        masters.red_lock("a").force_release().await.expect("all answer");
        guard.lost().await;
        settle().await;
        let again = others.red_lock("a").lock().await.expect("free");
        (guard, again)
    };
    let (_guard, _again) = tracing::Instrument::instrument(everything, around).await;
    let field = cluster.master(0).fields("a").remove(0);
    let (client, _) = field.split_once(':').expect("client:number");
    let told = watcher.everything();
    assert!(told.contains("lock acquired"), "{told}");
    assert!(!told.contains(client), "an owner field in {told}");
}
