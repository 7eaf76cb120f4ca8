//! How does a client connect by TLS to masters with certificates of a private authority?
//!
//! ```text
//! cargo run --features rustls --example tls -- ca.pem rediss://a:6380 rediss://b:6380 rediss://c:6380
//! ```
//! From the environment the same takes one line before `Masters::from_env`,
//! `rustls::crypto::ring::default_provider().install_default()`, and the variables
//! `MULTILOCK_TLS_CA_FILE=ca.pem MULTILOCK_NODES=rediss://a:6380,…`.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use multilock::rustls::crypto::ring;
use multilock::rustls::pki_types::CertificateDer;
use multilock::rustls::pki_types::pem::PemObject;
use multilock::rustls::{ClientConfig, RootCertStore};
use multilock::{Masters, Node};

#[tokio::main]
async fn main() -> Result<()> {
    let mut arguments = std::env::args().skip(1);
    let authority = arguments
        .next()
        .context("the file with the authority's certificate")?;
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_file(&authority)?)?;
    // The cryptography is the application's choice; this one comes with rustls's feature `ring`.
    let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()?
        .with_root_certificates(roots)
        .with_no_client_auth();
    let config = Arc::new(config);
    let nodes = arguments.map(|url| Node::url(url).tls(Arc::clone(&config)));
    // Handshakes take longer than plain connections; the default is 1 s. So may the answers of masters that are far away, for
    // which the default is 50 ms.
    let connecting = Masters::builder()
        .nodes(nodes)
        .connect_timeout(Duration::from_secs(10))
        .node_timeout(Duration::from_secs(2));
    let masters = connecting.connect().await?;
    let guard = masters.red_lock("example:tls").lock().await?;
    println!("held on {masters:?} with {}", guard.votes());
    guard.unlock().await?;
    Ok(())
}
