//! The masters that the examples run on.

use multilock::{ConnectError, InvalidInput, Masters, MastersBuilder, Quarantine};

/// Connects to the masters that the environment names (`MULTILOCK_NODES=url,url,...`), else to those of `make cluster-up`.
#[allow(dead_code, reason = "an example that sets an option takes the builder")]
pub(crate) async fn connect() -> Result<Masters, ConnectError> {
    builder()?.connect().await
}

/// The same, for an example that sets an option.
pub(crate) fn builder() -> Result<MastersBuilder, InvalidInput> {
    let variable = |name: &str| std::env::var(name).ok();
    if variable("MULTILOCK_NODES").is_some() {
        return MastersBuilder::from_variables(variable);
    }
    let local = (7401..=7405).map(|port| format!("redis://127.0.0.1:{port}"));
    // These keep every write they acknowledge (appendfsync always), also through a restart.
    Ok(Masters::builder().nodes(local).quarantine(Quarantine::Off))
}
