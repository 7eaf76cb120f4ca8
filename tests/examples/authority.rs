//! An authority of one's own, and masters that it has certified.

use std::fs;
use std::path::PathBuf;

use futures::future::join_all;
use multilock_test_support::Server;
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use tempfile::TempDir;

/// Its certificate in `ca.pem`, and what it signed for `localhost` in `cert.pem` and `key.pem`.
pub(crate) struct Authority(TempDir);

impl Authority {
    pub(crate) fn new() -> Self {
        let dir = tempfile::tempdir().expect("a directory");
        let write = |file: &str, pem: String| fs::write(dir.path().join(file), pem).expect("a file");
        let mut authority = CertificateParams::new(Vec::new()).expect("parameters");
        authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().expect("a key");
        write(
            "ca.pem",
            authority.self_signed(&key).expect("a certificate").pem(),
        );
        let issuer = Issuer::new(authority, key);
        let key = KeyPair::generate().expect("a key");
        let leaf = CertificateParams::new(vec!["localhost".to_owned()]).expect("parameters");
        write(
            "cert.pem",
            leaf.signed_by(&key, &issuer).expect("a certificate").pem(),
        );
        write("key.pem", key.serialize_pem());
        Self(dir)
    }

    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    pub(crate) async fn servers(&self, count: usize) -> Vec<Server> {
        let path = |name: &str| self.file(name).to_str().expect("UTF-8").to_owned();
        let (cert, key, ca) = (path("cert.pem"), path("key.pem"), path("ca.pem"));
        let port = ["--tls-port", "{tls_port}", "--tls-auth-clients", "no"];
        let files = [
            "--tls-cert-file",
            &cert,
            "--tls-key-file",
            &key,
            "--tls-ca-cert-file",
            &ca,
        ];
        let args = [port.as_slice(), &files].concat();
        join_all((0..count).map(|_| Server::start_with(&args))).await
    }
}
