//! A connection to a master in memory: requests one way, replies and notices the other, in order.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::time::Instant;

use super::observer::Fate;
use super::store::Bytes;
use crate::events::Op;
use crate::node::{self, By, ChannelForm, Listener, ReplyTo};
use crate::protocol::command::{Request, Script};

/// Request of a client.
pub(super) enum Ask {
    Script {
        script: &'static Script,
        by: By,
        keys: Vec<Bytes>,
        args: Vec<Bytes>,
    },
    Load(&'static Script),
    Listen {
        form: ChannelForm,
        channel: String,
        on: bool,
    },
}

impl Ask {
    fn script(request: &Request, by: By) -> Self {
        // `EVALSHA sha numkeys key… arg…`, taken apart.
        let mut words = request.words().into_iter().skip(2);
        let count = words
            .next()
            .and_then(|count| String::from_utf8(count).ok()?.parse().ok())
            .unwrap_or(0);
        let keys = words.by_ref().take(count).collect();
        Self::Script {
            script: request.script,
            by,
            keys,
            args: words.collect(),
        }
    }

    fn size(&self) -> usize {
        match self {
            Self::Script { keys, args, .. } => keys.iter().chain(args).map(Vec::len).sum(),
            Self::Load(_) | Self::Listen { .. } => 0,
        }
    }

    /// Whether the answer of the request is awaited until the connection ends.
    pub(super) fn awaits_end(&self) -> bool {
        matches!(self, Self::Script { script, .. } if matches!(script.op, Op::Release | Op::Withdraw))
    }

    pub(super) fn by_sha(&self) -> bool {
        matches!(self, Self::Script { by: By::Sha, .. })
    }
}

/// A request on its way.
pub(super) struct Envelope {
    pub(super) ask: Ask,
    sent: Instant,
    /// Fate, which is decided when the request is next in line.
    pub(super) fate: Option<Fate>,
    pub(super) reply: ReplyTo,
}

impl Envelope {
    /// Time at which the request arrives, if requests take `delay`.
    fn arrives(&self, delay: Duration) -> Instant {
        let more = match self.fate {
            Some(Fate::RequestDelayed(more)) => more,
            _ => Duration::ZERO,
        };
        self.sent + delay + more
    }

    /// Additional time that the reply takes.
    pub(super) fn reply_delay(&self) -> Duration {
        match self.fate {
            Some(Fate::ReplyDelayed(more)) => more,
            _ => Duration::ZERO,
        }
    }
}

/// Messages on their way.
pub(super) struct MemoryPipe {
    /// `None` once the connection has ended.
    requests: Mutex<Option<VecDeque<Envelope>>>,
    notices: Mutex<VecDeque<Notice>>,
    /// Bytes of calls without an answer.
    waiting: AtomicUsize,
    /// Time of the last answer or notice.
    last_received: Mutex<Option<Instant>>,
    moved: Notify,
}

/// A message on its way to the client.
struct Notice {
    published: Instant,
    form: ChannelForm,
    channel: String,
    message: String,
}

impl MemoryPipe {
    pub(super) fn new() -> Self {
        Self {
            requests: Mutex::new(Some(VecDeque::new())),
            notices: Mutex::default(),
            waiting: AtomicUsize::new(0),
            last_received: Mutex::default(),
            moved: Notify::new(),
        }
    }

    /// Sends a message to the client, which listens to the channel or pattern.
    pub(super) fn publish(&self, form: ChannelForm, channel: &str, message: &str) {
        self.notices.lock().push_back(Notice {
            published: Instant::now(),
            form,
            channel: channel.to_owned(),
            message: message.to_owned(),
        });
        self.moved.notify_one();
    }

    /// Time at which the next request arrives, if requests take `delay`. `fate` decides the request's fate,
    /// once.
    pub(super) fn next_request(&self, fate: impl FnOnce(&Ask) -> Fate, delay: Duration) -> Option<Instant> {
        let mut requests = self.requests.lock();
        let next = requests.as_mut()?.front_mut()?;
        if next.fate.is_none() {
            next.fate = Some(fate(&next.ask));
        }
        Some(next.arrives(delay))
    }

    /// Time at which the next notice was published.
    pub(super) fn next_notice(&self) -> Option<Instant> {
        self.notices.lock().front().map(|notice| notice.published)
    }

    /// Whether the connection has to break instead of delivering its next request.
    pub(super) fn breaks_before_next(&self) -> bool {
        let requests = self.requests.lock();
        let next = requests.as_ref().and_then(VecDeque::front);
        next.is_some_and(|envelope| envelope.fate == Some(Fate::ResetBefore))
    }

    /// Hands the next notice to the listener.
    pub(super) fn deliver_notice(&self, listener: &Listener) {
        let next = self.notices.lock().pop_front();
        if let Some(notice) = next {
            self.note_received();
            listener(notice.form, &notice.channel, &notice.message);
        }
    }

    /// Ends the connection, which fails the calls without an answer. Returns the requests that were not
    /// executed.
    pub(super) fn close(&self) -> Option<VecDeque<Ask>> {
        let requests = self.requests.lock().take()?;
        Some(requests.into_iter().map(|envelope| envelope.ask).collect())
    }

    /// Resolves when something was sent or published.
    pub(super) async fn moved(&self) {
        self.moved.notified().await;
    }

    pub(super) fn take_request(&self) -> Option<Envelope> {
        self.requests.lock().as_mut()?.pop_front()
    }

    /// Notes that the call will get no answer any more.
    pub(super) fn is_over(&self, ask: &Ask) {
        self.waiting.fetch_sub(ask.size(), Ordering::Relaxed);
    }

    pub(super) fn note_received(&self) {
        *self.last_received.lock() = Some(Instant::now());
    }

    fn send(&self, ask: Ask, reply: ReplyTo) {
        self.waiting.fetch_add(ask.size(), Ordering::Relaxed);
        if let Some(requests) = &mut *self.requests.lock() {
            requests.push_back(Envelope {
                ask,
                sent: Instant::now(),
                fate: None,
                reply,
            });
        }
        self.moved.notify_one();
    }
}

/// Client's end of the connection.
#[derive(Clone)]
pub(super) struct MemoryWire(pub(super) Arc<MemoryPipe>);

impl node::Wire for MemoryWire {
    fn call(&self, request: &Request, by: By, reply: ReplyTo) {
        self.0.send(Ask::script(request, by), reply);
    }

    fn load(&self, script: &'static Script, reply: ReplyTo) {
        self.0.send(Ask::Load(script), reply);
    }

    fn listen(&self, on: bool, form: ChannelForm, channel: &str, reply: ReplyTo) {
        let channel = channel.to_owned();
        self.0.send(Ask::Listen { form, channel, on }, reply);
    }

    fn waiting(&self) -> usize {
        self.0.waiting.load(Ordering::Relaxed)
    }

    fn last_received(&self) -> Option<Instant> {
        *self.0.last_received.lock()
    }
}
