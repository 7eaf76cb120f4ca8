//! Passwords and users that change while locks are held and wanted.

use std::collections::BTreeSet;
use std::fs;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::support::{Cluster, Server, WITHIN, held_everywhere, in_a_child, is_child, patient, until};
use futures::future::join_all;
use multilock::{BoxError, ConnectError, Credentials, Masters, MultiLockGuard, Node, Unlocked};
use tokio::task::JoinHandle;
use tokio::time::sleep;

/// Renewed every seven seconds, and as short as [`PATIENT`] allows.
const LEASE: Duration = Duration::from_secs(21);
const EVERYTHING: [&str; 5] = ["on", "resetkeys", "~*", "&*", "+@all"];

/// Servers on which `app` has the password `one`.
async fn servers(count: usize) -> Vec<Server> {
    let servers = join_all((0..count).map(|_| Server::start_with(&[]))).await;
    set_user(&servers, "app", &[&EVERYTHING[..], &[">one"]].concat()).await;
    servers
}

async fn set_user(servers: &[Server], user: &str, rules: &[&str]) {
    let command = [&["ACL", "SETUSER", user], rules].concat();
    join_all(servers.iter().map(|server| server.command(&command))).await;
}

/// Valid credentials, as an application would have them from its vault.
#[derive(Clone)]
struct Vault {
    credentials: Arc<Mutex<Credentials>>,
    sealed: Arc<AtomicBool>,
    asked: Arc<AtomicU64>,
}

impl Vault {
    fn new(credentials: Credentials) -> Self {
        Self {
            credentials: Arc::new(Mutex::new(credentials)),
            sealed: Arc::default(),
            asked: Arc::default(),
        }
    }

    fn set(&self, credentials: Credentials) {
        *self.credentials.lock().expect("not poisoned") = credentials;
    }

    async fn read(self) -> Result<Credentials, BoxError> {
        self.asked.fetch_add(1, Ordering::Relaxed);
        sleep(Duration::from_millis(1)).await;
        if self.sealed.load(Ordering::Relaxed) {
            return Err("the vault is sealed".into());
        }
        Ok(self.credentials.lock().expect("not poisoned").clone())
    }

    fn nodes(&self, servers: &[Server]) -> Vec<Node> {
        let node = |server: &Server| {
            let vault = self.clone();
            Node::url(server.url()).credentials(move || vault.clone().read())
        };
        servers.iter().map(node).collect()
    }
}

fn refreshed(user: &str, password: &str) -> Credentials {
    Credentials::new(user, password).refresh_after(Duration::from_millis(200))
}

/// The connections of a user, by their numbers.
async fn connections(server: &Server, user: &str) -> BTreeSet<String> {
    let list: String = redis::from_redis_value(server.command(&["CLIENT", "LIST"]).await).expect("text");
    let of_user = list
        .lines()
        .filter(|line| line.contains(&format!(" user={user} ")));
    of_user
        .filter_map(|line| Some(line.split(' ').next()?.to_owned()))
        .collect()
}

async fn all_connections(servers: &[Server], user: &str) -> Vec<BTreeSet<String>> {
    join_all(servers.iter().map(|server| connections(server, user))).await
}

/// How often each server has been asked to log a live connection in.
async fn log_ins(servers: &[Server]) -> Vec<u64> {
    let stats = join_all(servers.iter().map(Server::commandstats)).await;
    stats
        .iter()
        .map(|stats| stats.get("auth").copied().unwrap_or(0))
        .collect()
}

/// Tasks that lock and unlock as fast as they can; none may meet an error.
struct Load {
    over: Arc<AtomicBool>,
    grants: Arc<AtomicU64>,
    tasks: Vec<JoinHandle<()>>,
}

impl Load {
    fn start(masters: &Masters) -> Self {
        let (over, grants) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
        let task = |number: usize| {
            let (masters, over, grants) = (masters.clone(), Arc::clone(&over), Arc::clone(&grants));
            tokio::spawn(async move {
                while !over.load(Ordering::Relaxed) {
                    let lock = masters.red_lock(format!("load-{}", number % 4));
                    let guard = lock.wait(WITHIN).lock().await.expect("no error but votes");
                    grants.fetch_add(1, Ordering::Relaxed);
                    guard.unlock().await.expect("no error but votes");
                }
            })
        };
        let tasks = (0..8).map(task).collect();
        Self { over, grants, tasks }
    }

    /// Some more grants.
    async fn goes_on(&self) {
        let before = self.grants.load(Ordering::Relaxed);
        until("more is granted", async || {
            self.grants.load(Ordering::Relaxed) > before + 100
        })
        .await;
    }

    async fn end(self) -> u64 {
        self.over.store(true, Ordering::Relaxed);
        for task in self.tasks {
            task.await.expect("no error but votes");
        }
        self.grants.load(Ordering::Relaxed)
    }
}

async fn still_held(guard: MultiLockGuard) {
    assert!(!guard.validity().is_zero(), "renewed all the time");
    assert_eq!(guard.unlock().await, Ok(Unlocked::Released));
}

/// Five masters under load, and a hold that is renewed all the time.
async fn under_load(vault: &Vault, servers: &[Server]) -> (Masters, MultiLockGuard, Load) {
    let builder = patient(vault.nodes(servers)).lease(LEASE);
    let masters = builder.connect().await.expect("masters that can be used");
    let guard = held_everywhere(&masters.red_lock("long")).await;
    let load = Load::start(&masters);
    load.goes_on().await;
    (masters, guard, load)
}

#[tokio::test]
async fn a_password_is_rotated_under_load() {
    let servers = servers(5).await;
    let vault = Vault::new(refreshed("app", "one"));
    let (_masters, guard, load) = under_load(&vault, &servers).await;
    let before = all_connections(&servers, "app").await;
    assert_eq!(log_ins(&servers).await, [0; 5]);
    // Both are valid for a while, and then only the new one.
    set_user(&servers, "app", &[">two"]).await;
    vault.set(refreshed("app", "two"));
    until("all are logged in again", async || {
        log_ins(&servers).await == [1; 5]
    })
    .await;
    set_user(&servers, "app", &["<one"]).await;
    load.goes_on().await;
    assert_eq!(
        all_connections(&servers, "app").await,
        before,
        "no connection was made anew"
    );
    // Which would be made with the new one.
    for server in &servers {
        let old = connections(server, "app").await;
        server.command(&["CLIENT", "KILL", "USER", "app"]).await;
        let renewed = async || {
            let new = connections(server, "app").await;
            !new.is_empty() && new.is_disjoint(&old)
        };
        until("it is connected again", renewed).await;
        load.goes_on().await;
    }
    still_held(guard).await;
    println!("{} grants while a password was rotated", load.end().await);
}

#[tokio::test]
async fn a_user_is_replaced_under_load() {
    let servers = servers(5).await;
    set_user(&servers, "next", &[&EVERYTHING[..], &[">two"]].concat()).await;
    let vault = Vault::new(refreshed("app", "one"));
    let (_masters, guard, load) = under_load(&vault, &servers).await;
    let before = all_connections(&servers, "app").await;
    vault.set(refreshed("next", "two"));
    until("all are logged in again", async || {
        all_connections(&servers, "next").await == before
    })
    .await;
    // Which ends the connections of that user.
    join_all(
        servers
            .iter()
            .map(|server| server.command(&["ACL", "DELUSER", "app"])),
    )
    .await;
    load.goes_on().await;
    assert_eq!(
        all_connections(&servers, "next").await,
        before,
        "no connection was made anew"
    );
    still_held(guard).await;
    println!("{} grants while a user was replaced", load.end().await);
}

/// As with a client that refreshes nothing: it notices when its connections end.
#[tokio::test]
async fn connections_of_a_user_that_is_deleted_are_made_anew_with_fresh_credentials() {
    let servers = servers(5).await;
    set_user(&servers, "next", &[&EVERYTHING[..], &[">two"]].concat()).await;
    let vault = Vault::new(Credentials::new("app", "one"));
    let (_masters, guard, load) = under_load(&vault, &servers).await;
    vault.set(Credentials::new("next", "two"));
    for server in &servers {
        server.command(&["ACL", "DELUSER", "app"]).await;
        until("it is connected again", async || {
            !connections(server, "next").await.is_empty()
        })
        .await;
        load.goes_on().await;
    }
    assert_eq!(vault.asked.load(Ordering::Relaxed), 10, "once a connection");
    still_held(guard).await;
    println!("{} grants while a user was deleted", load.end().await);
}

#[tokio::test]
async fn a_provider_that_fails_is_told_and_asked_again() {
    let servers = servers(3).await;
    let vault = Vault::new(Credentials::new("app", "one"));
    vault.sealed.store(true, Ordering::Relaxed);
    let error = patient(vault.nodes(&servers))
        .connect()
        .await
        .expect_err("no credentials");
    assert!(
        matches!(error, ConnectError::TooFew { reached: 0, .. }),
        "{error:?}"
    );
    let said = "no credentials: the vault is sealed";
    assert_eq!(error.to_string().matches(said).count(), 3, "{error}");
    // A provider that never answers.
    let hanging = servers.iter().map(|server| {
        Node::url(server.url()).credentials(std::future::pending::<Result<Credentials, BoxError>>)
    });
    let builder = patient(hanging).connect_timeout(Duration::from_millis(500));
    let error = builder.connect().await.expect_err("no credentials").to_string();
    assert!(
        error.contains("no credentials: their provider did not answer in time"),
        "{error}"
    );
    // A minority has none at first.
    let mut nodes = vault.nodes(&servers[..1]);
    nodes.extend(Vault::new(Credentials::new("app", "one")).nodes(&servers[1..]));
    let masters = patient(nodes).connect().await.expect("two are well");
    vault.sealed.store(false, Ordering::Relaxed);
    let guard = held_everywhere(&masters.red_lock("a")).await;
    still_held(guard).await;
}

/// The error shows the master's answer to a wrong password, and never the password.
#[tokio::test]
async fn credentials_that_are_refused_are_not_shown() {
    let servers = servers(3).await;
    let vault = Vault::new(Credentials::new("app", "s3cret"));
    let builder = patient(vault.nodes(&servers));
    let shown = format!("{builder:?}");
    let error = builder.connect().await.expect_err("the wrong password");
    assert!(
        matches!(error, ConnectError::Unfit { .. }) && error.to_string().contains("WRONGPASS"),
        "{error}"
    );
    assert!(
        !format!("{shown} {error} {error:?}").contains("s3cret"),
        "{shown} {error:?}"
    );
}

#[tokio::test]
async fn labels_are_shown_in_place_of_addresses() {
    let cluster = Cluster::start(3).await;
    let nodes = cluster.urls().into_iter().zip(1..);
    let nodes = nodes.map(|(url, number)| Node::url(url).label(format!("eu-{number}")));
    let masters = patient(nodes).connect().await.expect("masters that can be used");
    assert_eq!(format!("{masters:?}"), "[\"eu-1\", \"eu-2\", \"eu-3\"]");
    let guard = masters.multi_lock("a").try_lock().await.expect("free");
    let votes: Vec<String> = (&guard.votes())
        .into_iter()
        .map(|vote| vote.node.to_string())
        .collect();
    assert_eq!(votes, ["eu-1", "eu-2", "eu-3"]);
    assert_eq!(guard.unlock().await, Ok(Unlocked::Released));
}

/// The files that a process is given. One of them changes.
#[tokio::test]
async fn from_files_that_the_environment_names() {
    if is_child() {
        let masters = Masters::from_env().await.expect("masters that can be used");
        assert_eq!(format!("{masters:?}"), "[\"eu-1\", \"eu-2\", \"eu-3\"]");
        let file = std::env::var("MULTILOCK_TEST_DONE").expect("set by the parent");
        while !fs::exists(&file).expect("a directory") {
            let guard = masters.multi_lock("a").try_lock().await.expect("free");
            assert_eq!(guard.unlock().await, Ok(Unlocked::Released));
            sleep(Duration::from_millis(20)).await;
        }
        return;
    }
    let servers = servers(3).await;
    let dir = tempfile::tempdir().expect("a directory");
    let path = |name: &str| dir.path().join(name).to_str().expect("UTF-8").to_owned();
    let (nodes, password, done) = (path("nodes"), path("password"), path("done"));
    let urls: Vec<String> = servers.iter().map(Server::url).collect();
    fs::write(&nodes, format!("# ours\n{}\n", urls.join("\n"))).expect("written");
    fs::write(&password, "one\n").expect("written");
    let variables = [
        ("MULTILOCK_NODES_FILE", nodes.as_str()),
        ("MULTILOCK_NODE_LABELS", "eu-1,eu-2,eu-3"),
        ("MULTILOCK_USER", "app"),
        ("MULTILOCK_PASSWORD_FILE", &password),
        ("MULTILOCK_NODE_TIMEOUT", "10s"),
        ("MULTILOCK_CONNECT_TIMEOUT", "10s"),
        ("MULTILOCK_TEST_DONE", &done),
    ];
    let rotating = async {
        until("the process is connected", async || {
            all_connections(&servers, "app")
                .await
                .iter()
                .all(|found| !found.is_empty())
        })
        .await;
        let before = all_connections(&servers, "app").await;
        set_user(&servers, "app", &[">two"]).await;
        fs::write(&password, "two\n").expect("written");
        // It is read every five seconds.
        until("all are logged in again", async || {
            log_ins(&servers).await == [1; 3]
        })
        .await;
        set_user(&servers, "app", &["<one"]).await;
        assert_eq!(
            all_connections(&servers, "app").await,
            before,
            "no connection was made anew"
        );
        fs::write(&done, "").expect("written");
    };
    let test = "credentials::from_files_that_the_environment_names";
    tokio::join!(in_a_child(test, &variables), rotating);
}
