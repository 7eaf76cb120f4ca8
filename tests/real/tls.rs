//! TLS: the authorities that a client trusts, its own certificate, resumed sessions, and the cost of many handshakes.

use std::fs;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use crate::journal::Journal;
use crate::support::{
    Authority, Keep, PATIENT, Server, WITHIN, held_everywhere, in_a_child, is_child, patient, until,
};
use futures::future::join_all;
use multilock::rustls::crypto::ring;
use multilock::rustls::pki_types::pem::PemObject;
use multilock::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use multilock::rustls::{ClientConfig, RootCertStore};
use multilock::{ConnectError, Masters, MastersBuilder, Node, Unlocked};
use tokio::io::AsyncWriteExt;
use tokio::net::TcpListener;
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::subscriber::NoSubscriber;
use tracing::{Dispatch, Event, Metadata, Subscriber};

/// Parts of an authority that its clients need.
trait Trusted {
    fn config(&self, identity: bool) -> Arc<ClientConfig>;
    fn nodes(&self, servers: &[Server], identity: bool) -> Vec<Node>;
}

impl Trusted for Authority {
    /// Configuration that trusts it, and shows a certificate where `identity` is set. Each has sessions of its own.
    fn config(&self, identity: bool) -> Arc<ClientConfig> {
        let certificates =
            |file: &str| CertificateDer::from_pem_file(self.file(file)).expect("a certificate");
        let mut roots = RootCertStore::empty();
        roots.add(certificates("ca.pem")).expect("an authority");
        let builder = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .expect("versions")
            .with_root_certificates(roots);
        let config = if identity {
            let key = PrivateKeyDer::from_pem_file(self.file("client-key.pem")).expect("a key");
            builder
                .with_client_auth_cert(vec![certificates("client.pem")], key)
                .expect("a pair")
        } else {
            builder.with_no_client_auth()
        };
        Arc::new(config)
    }

    fn nodes(&self, servers: &[Server], identity: bool) -> Vec<Node> {
        let node = |server| Node::url(url(server, "localhost")).tls(self.config(identity));
        servers.iter().map(node).collect()
    }
}

fn url(server: &Server, host: &str) -> String {
    format!("rediss://{host}:{}", server.tls_port())
}

fn urls(servers: &[Server], host: &str) -> String {
    let urls: Vec<String> = servers.iter().map(|server| url(server, host)).collect();
    urls.join(",")
}

async fn works(masters: &Masters) {
    let guard = masters.multi_lock("works").try_lock().await.expect("free");
    assert_eq!(guard.unlock().await, Ok(Unlocked::Released));
}

/// So often they were connected to, locked and unlocked.
async fn assert_used(servers: &[Server], times: u64) {
    for server in servers {
        let stats = server.commandstats().await;
        // A lock and its release; and the record, which the first one has it store.
        assert_eq!(stats.get("evalsha"), Some(&(2 * times + 1)), "{stats:?}");
    }
}

/// The trusted certificates are a variable of the process, and so is the choice of cryptography: each part has a process
/// of its own.
#[tokio::test]
async fn over_tls() {
    if is_child() {
        return child().await;
    }
    let (ours, theirs) = (Authority::new(), Authority::new());
    let servers = ours.servers(3, "no").await;
    let test = "tls::over_tls";
    let (by_name, by_address) = (urls(&servers, "localhost"), urls(&servers, "127.0.0.1"));
    let (trusted, foreign, missing) = (ours.path("ca.pem"), theirs.path("ca.pem"), ours.path("none.pem"));
    for (nodes, authority, expected) in [
        (&by_name, &trusted, ""),
        (&by_name, &foreign, "UnknownIssuer"),
        (&by_name, &missing, "no authority is trusted here"),
        (&by_address, &trusted, "not valid for name"),
    ] {
        let variables = [
            ("MULTILOCK_NODES", nodes.as_str()),
            ("MULTILOCK_NODE_TIMEOUT", "5s"),
            ("MULTILOCK_CONNECT_TIMEOUT", "5s"),
            ("SSL_CERT_FILE", authority),
            ("SSL_CERT_DIR", ""),
            ("MULTILOCK_TEST_EXPECTED", expected),
        ];
        in_a_child(test, &variables).await;
    }
    assert_used(&servers, 1).await;
}

async fn child() {
    let expected = std::env::var("MULTILOCK_TEST_EXPECTED").expect("set by the parent");
    let error = Masters::from_env().await.expect_err("no provider yet");
    assert!(matches!(error, ConnectError::Invalid(_)), "{error:?}");
    let error = error.to_string();
    for words in [
        "no rustls crypto provider is installed",
        "CryptoProvider::install_default()",
    ] {
        assert!(error.contains(words), "{error}");
    }
    ring::default_provider().install_default().expect("the first one");
    let masters = Masters::from_env().await;
    if expected.is_empty() {
        return works(&masters.expect("masters that can be used")).await;
    }
    let error = masters.expect_err("not to be trusted");
    let before_any = expected.starts_with("no authority");
    assert_eq!(matches!(error, ConnectError::Invalid(_)), before_any, "{error:?}");
    assert!(error.to_string().contains(&expected), "{error}");
}

/// The scheme and the port do not fit each other: the message names that as the cause.
#[tokio::test]
async fn a_port_with_tls_is_told_from_one_without() {
    let ours = Authority::new();
    let servers = ours.servers(1, "no").await;
    let server = &servers[0];
    let to_plain = format!("rediss://localhost:{}", server.port());
    let secured = Node::url(to_plain).tls(ours.config(false));
    let plain = Node::url(format!("redis://localhost:{}", server.tls_port()));
    // A server that says nothing, and a server that says something else.
    let silent = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let silent_node = Node::url(format!("rediss://{}", silent.local_addr().expect("bound")));
    let odd = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let odd_node = Node::url(format!("rediss://{}", odd.local_addr().expect("bound")));
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = odd.accept().await {
            let _ = stream.write_all(b"-ERR unknown command\r\n").await;
        }
    });
    let without = "this port may have no TLS, for which the URL begins with redis://";
    let with = "this port may expect TLS, for which the URL begins with rediss://";
    // Servers that may say nothing are waited for in full.
    let short = Duration::from_secs(1);
    for (node, says, connect_timeout) in [
        (secured, without, short),
        (plain, with, PATIENT),
        (silent_node.tls(ours.config(false)), without, short),
        (odd_node.tls(ours.config(false)), without, short),
    ] {
        let connecting = patient([node.clone()]).connect_timeout(connect_timeout);
        let error = connecting.connect().await.expect_err("no such port").to_string();
        assert!(error.contains(says), "{node:?}: {error}");
    }
    // A server that is not trusted has TLS.
    let foreign = Authority::new();
    let node = Node::url(url(server, "localhost")).tls(foreign.config(false));
    let error = patient([node])
        .connect()
        .await
        .expect_err("not trusted")
        .to_string();
    assert!(
        error.contains("UnknownIssuer") && !error.contains("this port may"),
        "{error}"
    );
}

#[tokio::test]
async fn a_private_authority_and_client_certificates() {
    if is_child() {
        ring::default_provider().install_default().expect("the first one");
        return works(&Masters::from_env().await.expect("masters that can be used")).await;
    }
    let (ours, theirs) = (Authority::new(), Authority::new());
    let servers = ours.servers(3, "yes").await;
    let masters = patient(ours.nodes(&servers, true)).connect().await;
    works(&masters.expect("masters that can be used")).await;
    let variables = [
        ("MULTILOCK_NODES", urls(&servers, "localhost")),
        ("MULTILOCK_NODE_TIMEOUT", "5s".into()),
        ("MULTILOCK_CONNECT_TIMEOUT", "5s".into()),
        ("MULTILOCK_TLS_CA_FILE", ours.path("ca.pem")),
        ("MULTILOCK_TLS_CERT_FILE", ours.path("client.pem")),
        ("MULTILOCK_TLS_KEY_FILE", ours.path("client-key.pem")),
        // Which is not asked.
        ("SSL_CERT_FILE", theirs.path("ca.pem")),
    ];
    let variables = variables.each_ref().map(|(name, value)| (*name, value.as_str()));
    in_a_child("tls::a_private_authority_and_client_certificates", &variables).await;
    assert_used(&servers, 2).await;
    for nodes in [ours.nodes(&servers, false), theirs.nodes(&servers, true)] {
        let error = patient(nodes)
            .connect()
            .await
            .expect_err("not let in, or not trusted");
        assert!(
            matches!(error, ConnectError::TooFew { reached: 0, .. }),
            "{error}"
        );
    }
    assert_used(&servers, 2).await;
}

/// Servers and clients move to another authority one by one, as when certificates are rotated.
#[tokio::test]
async fn certificates_that_are_replaced_are_read_again() {
    if !is_child() {
        return in_a_child("tls::certificates_that_are_replaced_are_read_again", &[]).await;
    }
    ring::default_provider().install_default().expect("the first one");
    let (journal, _installed) = Journal::begin();
    let refused =
        || journal.of("TLS files have changed and cannot be used; connections go on with those of before");
    let (ours, next) = (Authority::new(), Authority::new());
    let servers = ours.servers(2, "yes").await;
    let variable = |name: &str| match name {
        "MULTILOCK_NODES" => Some(urls(&servers, "localhost")),
        "MULTILOCK_NODE_TIMEOUT" | "MULTILOCK_CONNECT_TIMEOUT" => Some("5s".into()),
        "MULTILOCK_QUARANTINE" => Some("off".into()),
        "MULTILOCK_TLS_CA_FILE" => Some(ours.path("ca.pem")),
        "MULTILOCK_TLS_CERT_FILE" => Some(ours.path("client.pem")),
        "MULTILOCK_TLS_KEY_FILE" => Some(ours.path("client-key.pem")),
        _ => None,
    };
    let builder = MastersBuilder::from_variables(variable).expect("options");
    let masters = builder.connect().await.expect("masters that can be used");
    works(&masters).await;
    let replace = |file| fs::copy(next.file(file), ours.file(file)).expect("a file");
    assert!(refused().is_empty(), "{:#?}", refused());
    // The certificate without its key is of no use: the last pair is kept. Neither another connection nor another master
    // writes a second line.
    replace("client.pem");
    let lock = masters.red_lock("a").wait(WITHIN);
    for _ in 0..2 {
        end_connections(&servers).await;
        let guard = lock.lock().await.expect("let in with the last pair");
        assert_eq!(guard.unlock().await, Ok(Unlocked::Released));
    }
    let lines = refused();
    assert_eq!(lines.len(), 1, "{lines:#?}");
    let (error, key) = (&lines[0].fields["error"], ours.path("client-key.pem"));
    assert!(error.contains(&key) && error.contains("KeyMismatch"), "{error}");
    for file in ["client-key.pem", "ca.pem", "cert.pem", "key.pem"] {
        replace(file);
    }
    join_all(servers.iter().map(|server| server.restart(Keep::Data))).await;
    let guard = lock.lock().await.expect("trusted, and let in with the new pair");
    assert_eq!(guard.unlock().await, Ok(Unlocked::Released));
    assert_eq!(refused().len(), 1, "{:#?}", refused());
}

/// The kinds of the handshakes that were logged in this thread.
#[derive(Clone, Default)]
struct Handshakes(Arc<Mutex<Vec<String>>>);

impl Handshakes {
    fn kinds(&self) -> Vec<String> {
        self.0.lock().expect("not poisoned").clone()
    }
}

impl Visit for Handshakes {
    fn record_debug(&mut self, field: &Field, value: &dyn std::fmt::Debug) {
        if field.name() == "kind" {
            self.0.lock().expect("not poisoned").push(format!("{value:?}"));
        }
    }
}

impl Subscriber for Handshakes {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target().starts_with("multilock")
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        event.record(&mut self.clone());
    }

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

async fn end_connections(servers: &[Server]) {
    join_all(
        servers
            .iter()
            .map(|server| server.command(&["CLIENT", "KILL", "USER", "default"])),
    )
    .await;
}

/// How late a task of this runtime wakes at worst, until this is dropped.
struct Lateness {
    worst: Arc<Mutex<Duration>>,
    ticking: tokio::task::JoinHandle<()>,
}

impl Lateness {
    fn watch() -> Self {
        const TICK: Duration = Duration::from_millis(1);
        let worst: Arc<Mutex<Duration>> = Arc::default();
        let noted = Arc::clone(&worst);
        let ticking = tokio::spawn(async move {
            loop {
                let begun = Instant::now();
                tokio::time::sleep(TICK).await;
                let late = begun.elapsed().saturating_sub(TICK);
                let mut worst = noted.lock().expect("not poisoned");
                *worst = late.max(*worst);
            }
        });
        Self { worst, ticking }
    }

    fn worst(self) -> Duration {
        self.ticking.abort();
        *self.worst.lock().expect("not poisoned")
    }
}

/// All masters are lost and connected again at once, ten times, and then restarted. The sessions are resumed, and the
/// renewals go on. The cost of the handshakes for the runtime is printed: machines differ too much to judge it.
#[tokio::test]
async fn a_storm_of_reconnections() {
    let seen = Handshakes::default();
    // With a single subscriber, an event that a thread without one meets first would be switched off for all threads.
    let _other = Dispatch::new(NoSubscriber::new());
    let _logged = tracing::subscriber::set_default(seen.clone());
    let ours = Authority::new();
    let servers = ours.servers(5, "yes").await;
    let builder = patient(ours.nodes(&servers, true)).lease(Duration::from_secs(21));
    let masters = builder.connect().await.expect("masters that can be used");
    let guard = held_everywhere(&masters.red_lock("a")).await;
    assert_eq!(seen.kinds(), ["Some(Full)"; 5]);
    let idle = Lateness::watch();
    tokio::time::sleep(Duration::from_millis(300)).await;
    let idle = idle.worst();
    let storms = Lateness::watch();
    for storm in 1..=10 {
        end_connections(&servers).await;
        until("all are connected again", async || {
            seen.kinds().len() == 5 * (storm + 1)
        })
        .await;
    }
    let storms = storms.worst();
    assert_eq!(seen.kinds()[5..], ["Some(Resumed)"; 50]);
    let restarts = Lateness::watch();
    join_all(servers.iter().map(|server| server.restart(Keep::Data))).await;
    until("all are connected again", async || seen.kinds().len() >= 60).await;
    let restarts = restarts.worst();
    println!(
        "a task wakes late by: idle {idle:?}, reconnecting {storms:?}, with five servers starting {restarts:?}"
    );
    let again = held_everywhere(&masters.red_lock("b")).await;
    assert_eq!(again.unlock().await, Ok(Unlocked::Released));
    assert!(!guard.validity().is_zero());
    assert_eq!(guard.unlock().await, Ok(Unlocked::Released));
}
