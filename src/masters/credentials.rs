//! Logins of connections that may change.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use futures::future::{BoxFuture, FutureExt};
use tokio::time::{Instant, timeout_at};
use tokio_util::task::AbortOnDropHandle;

use crate::masters::config::{MAX_TIME, in_range};
use crate::time::blocking::OneAtATime;

/// Error that a provider of credentials may answer.
pub type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// Shortest refresh; a shorter one is a mistake in a unit.
const SHORTEST_REFRESH: Duration = Duration::from_millis(100);

/// Interval at which a file with a password is read again.
const FILE_REFRESH: Duration = Duration::from_secs(5);

/// User and password for a master, as [`Node::credentials`](crate::Node::credentials) gives them.
///
/// `Debug` shows neither.
#[derive(Clone, PartialEq, Eq)]
pub struct Credentials {
    user: Option<String>,
    password: String,
    refresh_after: Option<Duration>,
}

impl Credentials {
    /// Credentials of a named user.
    pub fn new(user: impl Into<String>, password: impl Into<String>) -> Self {
        Self {
            user: Some(user.into()),
            ..Self::password(password)
        }
    }

    /// Credentials of the user in the URL, or else of the server's default user.
    ///
    /// ```
    /// use multilock::{BoxError, Credentials, Node};
    ///
    /// async fn token() -> Result<Credentials, BoxError> {
    ///     let token = "asked of the provider";
    ///     Ok(Credentials::password(token).refresh_after(std::time::Duration::from_secs(45 * 60)))
    /// }
    ///
    /// let node = Node::url("rediss://app@10.0.0.1").credentials(token);
    /// ```
    pub fn password(password: impl Into<String>) -> Self {
        Self {
            user: None,
            password: password.into(),
            refresh_after: None,
        }
    }

    /// Sets the time after which the provider is asked again for a live connection; 100 ms at least. By
    /// default it is asked only for the next connection.
    ///
    /// For a token that expires, leave time for failures and new attempts: say three quarters of its life.
    #[must_use]
    pub fn refresh_after(mut self, after: Duration) -> Self {
        self.refresh_after = Some(after);
        self
    }

    pub(crate) fn user(&self) -> Option<&str> {
        self.user.as_deref()
    }

    pub(crate) fn secret(&self) -> &str {
        &self.password
    }

    pub(crate) fn refreshed_after(&self) -> Option<Duration> {
        self.refresh_after
    }

    /// Whether both stand for the same login.
    pub(crate) fn log_in_the_same(&self, other: &Self) -> bool {
        (&self.user, &self.password) == (&other.user, &other.password)
    }
}

impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Credentials")
            .field("refresh_after", &self.refresh_after)
            .finish_non_exhaustive()
    }
}

type CredentialsAnswer = Result<Credentials, BoxError>;

/// Source of credentials.
#[derive(Clone)]
pub(crate) struct Provider(Arc<dyn Fn() -> BoxFuture<'static, CredentialsAnswer> + Send + Sync>);

impl Provider {
    pub(crate) fn new<F, A>(ask: F) -> Self
    where
        F: Fn() -> A + Send + Sync + 'static,
        A: Future<Output = CredentialsAnswer> + Send + 'static,
    {
        Self(Arc::new(move || ask().boxed()))
    }

    /// Always gives the same credentials.
    pub(crate) fn fixed(user: Option<String>, password: String) -> Self {
        let credentials = Credentials {
            user,
            ..Credentials::password(password)
        };
        Self::new(move || std::future::ready(Ok(credentials.clone())))
    }

    /// Gives the content of a file as the password, without the end of its last line and a byte order mark.
    pub(crate) fn file(user: Option<String>, file: PathBuf) -> Self {
        let file = Arc::new(file);
        let reading = OneAtATime::default();
        Self::new(move || {
            let (user, file, reading) = (user.clone(), Arc::clone(&file), reading.clone());
            async move {
                let path = Arc::clone(&file);
                let refused = |why: &dyn fmt::Display| format!("the password file {}: {why}", file.display());
                let read = reading.run(move || std::fs::read_to_string(&*path)).await?;
                let text = read.map_err(|error| refused(&error))?;
                let password = text.trim_start_matches('\u{feff}').trim_end_matches(['\r', '\n']);
                if password.is_empty() {
                    return Err(refused(&"it is empty").into());
                }
                Ok(Credentials {
                    user,
                    password: password.to_owned(),
                    refresh_after: Some(FILE_REFRESH),
                })
            }
        })
    }

    /// Asks for the credentials that are valid now, until `end`. The application's provider runs in a task of
    /// its own, so that its panic does no harm. The task is dropped at the end.
    pub(crate) async fn ask(&self, end: Instant) -> Result<Credentials, String> {
        let provider = Arc::clone(&self.0);
        let asking = AbortOnDropHandle::new(tokio::spawn(async move { provider().await }));
        let why = match timeout_at(end, asking).await {
            Ok(Ok(Ok(credentials))) => match credentials.check() {
                Ok(()) => return Ok(credentials),
                Err(why) => why,
            },
            Ok(Ok(Err(error))) => error.to_string(),
            Ok(Err(_)) => "their provider has panicked".to_owned(),
            Err(_) => "their provider did not answer in time".to_owned(),
        };
        Err(format!("no credentials: {why}"))
    }
}

impl Credentials {
    fn check(&self) -> Result<(), String> {
        let Some(after) = self.refresh_after else {
            return Ok(());
        };
        in_range("refresh_after", after, SHORTEST_REFRESH, MAX_TIME).map_err(|error| error.to_string())
    }
}

impl fmt::Debug for Provider {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("…")
    }
}

#[cfg(test)]
mod tests {
    #[cfg(unix)]
    use tokio::task::spawn_blocking;

    use super::*;
    #[cfg(unix)]
    use crate::time::blocking::tests::a_thread_is_left;

    const WITHIN: Duration = Duration::from_secs(1);

    async fn error_of<A: Future<Output = CredentialsAnswer> + Send + 'static>(
        ask: impl Fn() -> A + Send + Sync + 'static,
    ) -> String {
        let asked = Provider::new(ask).ask(Instant::now() + WITHIN).await;
        asked.expect_err("no credentials")
    }

    #[tokio::test(start_paused = true)]
    async fn whatever_a_provider_does_there_is_an_answer_in_time() {
        assert_eq!(
            error_of(|| async { Err("the vault is sealed".into()) }).await,
            "no credentials: the vault is sealed"
        );
        assert_eq!(
            error_of(std::future::pending).await,
            "no credentials: their provider did not answer in time"
        );
        assert_eq!(
            error_of(|| async { panic!("on purpose") }).await,
            "no credentials: their provider has panicked"
        );
        let at_once = || async { Ok(Credentials::password("s3cret").refresh_after(Duration::ZERO)) };
        let error = error_of(at_once).await;
        assert!(
            error.starts_with("no credentials: refresh_after: 0s is not allowed; allowed: 100ms to "),
            "{error}"
        );
        assert!(!error.contains("s3cret"), "{error}");
    }

    #[tokio::test(start_paused = true)]
    async fn a_provider_without_an_answer_is_dropped_at_the_end() {
        let asked = Arc::new(());
        let of_provider = Arc::clone(&asked);
        let provider = Provider::new(move || {
            let asked = Arc::clone(&of_provider);
            async move {
                std::future::pending::<()>().await;
                drop(asked);
                Err("never".into())
            }
        });
        assert!(provider.ask(Instant::now() + WITHIN).await.is_err());
        // A task that is aborted ends when the runtime comes to it.
        tokio::task::yield_now().await;
        assert_eq!(Arc::strong_count(&asked), 2, "this one's, and the provider's");
    }

    #[test]
    fn credentials_are_not_shown() {
        let credentials = Credentials::new("app", "s3cret").refresh_after(WITHIN);
        assert_eq!(
            format!("{credentials:?}"),
            "Credentials { refresh_after: Some(1s), .. }"
        );
    }

    #[tokio::test]
    async fn a_file_holds_a_password_and_nothing_else() {
        let dir = tempfile::tempdir().expect("a directory");
        let file = dir.path().join("password");
        let provider = Provider::file(Some("app".into()), file.clone());
        let ask = async || provider.ask(Instant::now() + Duration::from_secs(10)).await;
        let error = ask().await.expect_err("no file");
        assert!(error.contains(file.to_str().expect("UTF-8")), "{error}");
        for (text, password) in [
            ("s3cret\n", "s3cret"),
            (" a b \r\n", " a b "),
            ("\u{feff}s3cret\r\n", "s3cret"),
        ] {
            std::fs::write(&file, text).expect("written");
            let read = ask().await.expect("a password");
            assert!(
                read.log_in_the_same(&Credentials::new("app", password)),
                "{text:?}"
            );
            assert_eq!(read.refreshed_after(), Some(FILE_REFRESH));
        }
        for text in ["\n", "\u{feff}\n"] {
            std::fs::write(&file, text).expect("written");
            assert!(ask().await.is_err_and(|error| error.ends_with("it is empty")));
        }
    }

    #[cfg(unix)]
    #[test]
    fn a_file_that_hangs_takes_one_thread_however_often_it_is_read() {
        let dir = tempfile::tempdir().expect("a directory");
        let file = dir.path().join("password");
        rustix::fs::mkfifoat(rustix::fs::CWD, &file, rustix::fs::Mode::RWXU).expect("a pipe");
        let provider = Provider::file(None, file.clone());
        let runtime = a_thread_is_left(async |within| {
            let asked = provider.ask(Instant::now() + within).await;
            let error = asked.expect_err("nobody writes");
            assert!(error.ends_with("did not answer in time"), "{error}");
        });
        runtime.block_on(async {
            // The read that hangs ends, and the next one finds a file.
            let pipe = dir.path().join("pipe");
            std::fs::rename(&file, &pipe).expect("renamed");
            std::fs::write(&file, "s3cret").expect("written");
            let write = spawn_blocking(move || std::fs::write(pipe, "late"));
            let read = provider.ask(Instant::now() + 10 * WITHIN).await;
            assert_eq!(read.expect("a password").password, "s3cret");
            write.await.expect("no panic").expect("written");
        });
    }
}
