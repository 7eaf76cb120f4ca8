//! The masters that the examples run on.

use multilock::{ConnectError, Masters, Quarantine};

/// Those that the environment names (`MULTILOCK_NODES=url,url,...`), else those of `make cluster-up`.
pub(crate) async fn connect() -> Result<Masters, ConnectError> {
    if std::env::var_os("MULTILOCK_NODES").is_some() {
        return Masters::from_env().await;
    }
    let local = (7401..=7405).map(|port| format!("redis://127.0.0.1:{port}"));
    // These keep every write they acknowledge (appendfsync always), also through a restart.
    Masters::builder()
        .nodes(local)
        .quarantine(Quarantine::Off)
        .connect()
        .await
}
