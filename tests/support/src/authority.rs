//! An authority of one's own, and masters that it has certified.

use std::fs;
use std::path::PathBuf;

use futures::future::join_all;
use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair};
use tempfile::TempDir;

use super::Server;

/// A certificate authority: its own certificate in `ca.pem`, and the certificates that it signed. These are for
/// `localhost` (`cert.pem`, `key.pem`) and for a client (`client.pem`, `client-key.pem`).
#[derive(Debug)]
pub struct Authority(TempDir);

impl Authority {
    #[expect(clippy::new_without_default, reason = "each is another one")]
    pub fn new() -> Self {
        let dir = tempfile::tempdir().expect("a directory");
        let write = |file: &str, pem: String| fs::write(dir.path().join(file), pem).expect("a file");
        let mut authority = CertificateParams::new(Vec::new()).expect("parameters");
        // Or two of them would have the same name, and be told apart by their signatures alone.
        let name = dir.path().display().to_string();
        authority.distinguished_name.push(DnType::CommonName, name);
        authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().expect("a key");
        let certificate = authority.self_signed(&key).expect("a certificate");
        write("ca.pem", certificate.pem());
        let issuer = Issuer::new(authority, key);
        for (name, cert, private) in [
            ("localhost", "cert.pem", "key.pem"),
            ("client", "client.pem", "client-key.pem"),
        ] {
            let key = KeyPair::generate().expect("a key");
            let leaf = CertificateParams::new(vec![name.to_owned()]).expect("parameters");
            write(cert, leaf.signed_by(&key, &issuer).expect("a certificate").pem());
            write(private, key.serialize_pem());
        }
        Self(dir)
    }

    pub fn file(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    pub fn path(&self, name: &str) -> String {
        self.file(name).to_str().expect("UTF-8").to_owned()
    }

    /// Servers that it has certified. `clients` is `yes` where they must show a certificate too.
    pub async fn servers(&self, count: usize, clients: &str) -> Vec<Server> {
        let files = [
            ("--tls-cert-file", "cert.pem"),
            ("--tls-key-file", "key.pem"),
            ("--tls-ca-cert-file", "ca.pem"),
        ];
        let files: Vec<String> = files
            .into_iter()
            .flat_map(|(option, file)| [option.to_owned(), self.path(file)])
            .collect();
        let mut args = vec!["--tls-port", "{tls_port}", "--tls-auth-clients", clients];
        args.extend(files.iter().map(String::as_str));
        join_all((0..count).map(|_| Server::start_with(&args))).await
    }
}
