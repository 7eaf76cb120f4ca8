//! n independent masters.

use std::env;
use std::panic::resume_unwind;

use tokio::task::JoinHandle;

use super::container;
use super::exclusive::Exclusive;
use super::server::Server;

#[derive(Debug)]
pub struct Cluster {
    servers: Vec<Server>,
    /// After the servers: they are given back before the next test may take them.
    _exclusive: Option<Exclusive>,
}

impl Cluster {
    /// n empty masters: processes of this test's own, or with `MULTILOCK_TEST_CLUSTER=compose` the first
    /// n of the compose file, for this test alone. There a test must not hold two clusters: it would wait for itself.
    pub async fn start(n: usize) -> Self {
        let compose = match env::var("MULTILOCK_TEST_CLUSTER").as_deref() {
            Ok("compose") => true,
            Ok("native") | Err(_) => false,
            Ok(other) => panic!("MULTILOCK_TEST_CLUSTER is 'compose' or 'native', not '{other}'"),
        };
        assert!(
            !compose || n <= container::COUNT,
            "the compose file has {} masters, not {n}",
            container::COUNT
        );
        let exclusive = if compose {
            Some(
                Exclusive::take()
                    .await
                    .unwrap_or_else(|error| panic!("{error:#}")),
            )
        } else {
            None
        };
        // All at once: waiting for one after the other would be most of a test's time.
        let starting: Vec<JoinHandle<_>> = (1..=n)
            .map(|number| {
                tokio::spawn(async move {
                    if compose {
                        Server::container(number).await
                    } else {
                        Server::native(&[], &[]).await
                    }
                })
            })
            .collect();
        let mut servers = Vec::with_capacity(n);
        for server in starting {
            let server = server
                .await
                .unwrap_or_else(|error| resume_unwind(error.into_panic()));
            servers.push(server.unwrap_or_else(|error| panic!("{error:#}")));
        }
        Self {
            servers,
            _exclusive: exclusive,
        }
    }

    pub fn urls(&self) -> Vec<String> {
        self.servers.iter().map(Server::url).collect()
    }

    pub fn servers(&self) -> &[Server] {
        &self.servers
    }

    /// The i-th master, counted from 0.
    pub fn server(&self, i: usize) -> &Server {
        &self.servers[i]
    }
}
