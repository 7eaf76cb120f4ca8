//! TLS to a master: the configuration, made once for all connections of a pool, and the handshake.

use std::fmt;
use std::path::PathBuf;

use crate::error::InvalidInput;

pub(crate) const CA_FILE: &str = "MULTILOCK_TLS_CA_FILE";
pub(crate) const CERT_FILE: &str = "MULTILOCK_TLS_CERT_FILE";
pub(crate) const KEY_FILE: &str = "MULTILOCK_TLS_KEY_FILE";

/// Files for TLS, in PEM, as the environment names them.
#[derive(Clone, Debug, Default)]
pub(crate) struct TlsFiles {
    /// Trusted authorities, in place of the platform's.
    pub(crate) ca: Option<PathBuf>,
    /// Certificate of the client, and its key.
    pub(crate) cert: Option<PathBuf>,
    pub(crate) key: Option<PathBuf>,
}

impl TlsFiles {
    /// First variable that is set, with its value.
    pub(crate) fn named(&self) -> Option<(&'static str, &PathBuf)> {
        let files = [
            (CA_FILE, &self.ca),
            (CERT_FILE, &self.cert),
            (KEY_FILE, &self.key),
        ];
        files
            .into_iter()
            .find_map(|(name, file)| Some((name, file.as_ref()?)))
    }

    /// Refuses a certificate without its key, and a key without its certificate.
    pub(crate) fn check(&self) -> Result<(), InvalidInput> {
        let alone = match (&self.cert, &self.key) {
            (Some(cert), None) => (CERT_FILE, cert, KEY_FILE),
            (None, Some(key)) => (KEY_FILE, key, CERT_FILE),
            _ => return Ok(()),
        };
        let (name, file, other) = alone;
        Err(InvalidInput::new(
            name,
            format!("{} alone", file.display()),
            format!("together with {other}"),
        ))
    }
}

/// TLS configuration of connections.
#[derive(Clone)]
pub(crate) struct Tls {
    #[cfg(feature = "rustls")]
    config: std::sync::Arc<parking_lot::Mutex<with_rustls::Loaded>>,
    /// None are named for an application's own configuration, and for the platform's authorities.
    #[cfg(feature = "rustls")]
    files: TlsFiles,
    /// Changed files that could not be used, by the log: the same for all masters of the client.
    #[cfg(feature = "rustls")]
    refused: std::sync::Arc<parking_lot::Mutex<Option<with_rustls::Refused>>>,
    #[cfg(feature = "rustls")]
    looking: crate::time::blocking::OneAtATime,
}

/// Shows nothing of the configuration: it may hold a key.
impl fmt::Debug for Tls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("TLS")
    }
}

#[cfg(not(feature = "rustls"))]
impl Tls {
    pub(crate) fn read(_: &TlsFiles) -> Result<Self, InvalidInput> {
        unreachable!("no URL asks for TLS without the feature")
    }

    #[allow(clippy::unused_async, reason = "called like the function with the feature")]
    pub(crate) async fn load(_: TlsFiles) -> Result<Self, InvalidInput> {
        unreachable!("no URL asks for TLS without the feature")
    }

    pub(crate) fn with_sessions_of_its_own(self) -> Self {
        self
    }
}

#[cfg(feature = "rustls")]
mod with_rustls {
    use std::fmt::Display;
    use std::io;
    use std::path::Path;
    use std::sync::Arc;
    use std::time::{Duration, SystemTime, UNIX_EPOCH};

    use humantime::format_rfc3339_seconds;
    use parking_lot::Mutex;
    use tokio::net::TcpStream;
    use tokio::task::spawn_blocking;
    use tokio_rustls::TlsConnector;
    use tokio_rustls::client::TlsStream;
    use tokio_rustls::rustls::client::Resumption;
    use tokio_rustls::rustls::crypto::CryptoProvider;
    use tokio_rustls::rustls::pki_types::pem::{self, PemObject};
    use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
    use tokio_rustls::rustls::{CertificateError, ClientConfig, Error, RootCertStore};

    use super::super::socket::without_tls;
    use super::{CA_FILE, CERT_FILE, KEY_FILE, Tls, TlsFiles};
    use crate::error::InvalidInput;
    use crate::events::log;
    use crate::time::blocking::OneAtATime;

    /// Number of sessions that are stored for one master: a server hands out two per connection.
    const SESSIONS: usize = 4;

    /// Times at which the files were changed.
    type Changed = [Option<SystemTime>; 3];

    /// Times of the files, and the reason why they could not be used.
    pub(super) type Refused = (Changed, InvalidInput);

    /// Configuration, and the times of its files when they were read.
    #[derive(Clone)]
    pub(super) struct Loaded {
        rustls: Arc<ClientConfig>,
        changed: Changed,
    }

    impl TlsFiles {
        fn changed(&self) -> Changed {
            let changed = |file: &Path| file.metadata()?.modified();
            [&self.ca, &self.cert, &self.key].map(|file| changed(file.as_deref()?).ok())
        }
    }

    impl Tls {
        /// Uses the application's configuration.
        pub(crate) fn new(config: Arc<ClientConfig>) -> Self {
            Self::of(config, Changed::default(), TlsFiles::default())
        }

        fn of(rustls: Arc<ClientConfig>, changed: Changed, files: TlsFiles) -> Self {
            let config = Arc::new(Mutex::new(Loaded { rustls, changed }));
            Self {
                config,
                files,
                refused: Arc::default(),
                looking: OneAtATime::default(),
            }
        }

        /// Uses the files, or else the authorities that the platform trusts. Blocks for the milliseconds of
        /// reading.
        pub(crate) fn read(files: &TlsFiles) -> Result<Self, InvalidInput> {
            // A change while they are read is noticed by the next connection.
            let changed = files.changed();
            Ok(Self::of(Arc::new(configure(files)?), changed, files.clone()))
        }

        /// Reads the files as [`Self::read`] does, off the runtime's threads.
        pub(crate) async fn load(files: TlsFiles) -> Result<Self, InvalidInput> {
            let loaded = spawn_blocking(move || Self::read(&files)).await;
            let refuse = |error| {
                unusable(
                    format!("loading failed: {error}"),
                    "certificates that can be read",
                )
            };
            loaded.unwrap_or_else(|error| Err(refuse(error)))
        }

        /// Gives one master its own sessions. Sessions are found by the host's name, and several masters on
        /// different ports may share the name.
        pub(crate) fn with_sessions_of_its_own(self) -> Self {
            let Loaded { rustls, changed } = self.config.lock().clone();
            let mut config = (*rustls).clone();
            config.resumption = Resumption::in_memory_sessions(SESSIONS);
            Self {
                refused: self.refused,
                ..Self::of(Arc::new(config), changed, self.files)
            }
        }

        /// Configuration of the next connection. Files that have changed are read again. While they cannot be used, because
        /// they are being replaced, the last configuration is kept.
        pub(super) async fn current(&self) -> Arc<ClientConfig> {
            let last = self.config.lock().rustls.clone();
            if self.files.named().is_none() {
                return last;
            }
            let this = self.clone();
            match self.looking.run(move || this.look()).await {
                Ok(Ok(current)) => current,
                Ok(Err(refused)) => {
                    self.warn(refused);
                    last
                }
                // The runtime ends.
                Err(_) => last,
            }
        }

        /// Reads the files if they have changed. Blocks for the time that this takes.
        fn look(&self) -> Result<Arc<ClientConfig>, Refused> {
            let (last, changed) = (self.config.lock().clone(), self.files.changed());
            if last.changed == changed {
                return Ok(last.rustls);
            }
            let fresh = Self::read(&self.files).map_err(|error| (changed, error))?;
            let fresh = fresh.with_sessions_of_its_own().config.lock().clone();
            *self.config.lock() = fresh.clone();
            Ok(fresh.rustls)
        }

        /// Logs files that cannot be used, once until they change again or the reason does.
        fn warn(&self, refused: Refused) {
            let mut logged = self.refused.lock();
            if logged.as_ref() != Some(&refused) {
                log::tls_files_refused(&refused.1);
                *logged = Some(refused);
            }
        }

        pub(crate) async fn handshake(
            &self,
            host: &str,
            stream: TcpStream,
        ) -> io::Result<TlsStream<TcpStream>> {
            let name = ServerName::try_from(host.to_owned()).map_err(io::Error::other)?;
            let connector = TlsConnector::from(self.current().await);
            let stream = connector.connect(name, stream).await.map_err(explained)?;
            let kind = stream.get_ref().1.handshake_kind();
            log::tls_established(host, &kind);
            Ok(stream)
        }
    }

    /// Separates a server without TLS from a server that is not trusted, or that does not trust the client.
    pub(super) fn explained(error: io::Error) -> io::Error {
        let reason = error.get_ref().and_then(|error| error.downcast_ref());
        let is_ended = matches!(
            error.kind(),
            io::ErrorKind::UnexpectedEof | io::ErrorKind::ConnectionReset
        );
        match reason {
            Some(Error::InvalidMessage(_)) => without_tls("the answer is not TLS"),
            Some(Error::InvalidCertificate(invalid)) => match out_of_date(invalid) {
                Some(since) => io::Error::new(error.kind(), format!("invalid peer certificate: {since}")),
                None => error,
            },
            _ if is_ended => without_tls(error),
            _ => error,
        }
    }

    /// Describes a certificate that is not valid now. The library's words have the present time, so each attempt would have
    /// another reason.
    fn out_of_date(invalid: &CertificateError) -> Option<String> {
        // A certificate has years of four digits, as this format has.
        let at = |time: &UnixTime| format_rfc3339_seconds(UNIX_EPOCH + Duration::from_secs(time.as_secs()));
        match invalid {
            CertificateError::ExpiredContext { not_after, .. } => {
                Some(format!("expired at {}", at(not_after)))
            }
            CertificateError::NotValidYetContext { not_before, .. } => {
                Some(format!("not valid before {}", at(not_before)))
            }
            _ => None,
        }
    }

    fn configure(files: &TlsFiles) -> Result<ClientConfig, InvalidInput> {
        // The application chooses the cryptography; a library must not choose it for the process.
        let provider = CryptoProvider::get_default().ok_or_else(|| {
            let allowed = "the same after the application has called CryptoProvider::install_default(), or a \
                           configuration by Node::tls";
            unusable("no rustls crypto provider is installed", allowed)
        })?;
        let roots = match &files.ca {
            Some(file) => authorities(file)?,
            None => platform()?,
        };
        let builder = ClientConfig::builder_with_provider(Arc::clone(provider))
            .with_safe_default_protocol_versions()
            .map_err(|error| unusable(error, "a crypto provider with TLS 1.2 or 1.3"))?
            .with_root_certificates(roots);
        let (Some(cert), Some(key)) = (&files.cert, &files.key) else {
            return Ok(builder.with_no_client_auth());
        };
        let chain = certificates(CERT_FILE, cert)?;
        let allowed = "a private key in PEM";
        let pair = PrivateKeyDer::from_pem_file(key)
            .map_err(|error| refused(KEY_FILE, key, unread(&error), allowed))?;
        let allowed = format!("the private key of the certificate in {CERT_FILE}");
        let config = builder.with_client_auth_cert(chain, pair);
        config.map_err(|error| refused(KEY_FILE, key, error, &allowed))
    }

    /// Authorities that the platform trusts, or that `SSL_CERT_FILE` and `SSL_CERT_DIR` name.
    fn platform() -> Result<RootCertStore, InvalidInput> {
        let found = rustls_native_certs::load_native_certs();
        let mut roots = RootCertStore::empty();
        roots.add_parsable_certificates(found.certs);
        if !roots.is_empty() {
            return Ok(roots);
        }
        let reasons: Vec<String> = found.errors.iter().map(ToString::to_string).collect();
        let reason = format!("no authority is trusted here: {}", reasons.join(", "));
        let allowed = format!(
            "the same with certificates of authorities where the platform keeps them, where SSL_CERT_FILE or \
             {CA_FILE} say, or a configuration by Node::tls"
        );
        Err(unusable(reason, &allowed))
    }

    fn authorities(file: &Path) -> Result<RootCertStore, InvalidInput> {
        let mut roots = RootCertStore::empty();
        for certificate in certificates(CA_FILE, file)? {
            let added = roots.add(certificate);
            added.map_err(|error| refused(CA_FILE, file, error, "certificates of authorities in PEM"))?;
        }
        Ok(roots)
    }

    fn certificates(
        variable: &'static str,
        file: &Path,
    ) -> Result<Vec<CertificateDer<'static>>, InvalidInput> {
        let read = CertificateDer::pem_file_iter(file).and_then(Iterator::collect);
        let found = read.and_then(|found: Vec<_>| {
            let some = !found.is_empty();
            some.then_some(found).ok_or(pem::Error::NoItemsFound)
        });
        found.map_err(|error| refused(variable, file, unread(&error), "certificates in PEM"))
    }

    /// Describes the error without the library's words, which may quote the file.
    fn unread(error: &pem::Error) -> String {
        match error {
            pem::Error::Io(error) => error.to_string(),
            pem::Error::NoItemsFound => "there is none in it".to_owned(),
            _ => "it is not PEM".to_owned(),
        }
    }

    /// Error with the reason, and without the content of the file.
    fn refused(variable: &'static str, file: &Path, why: impl Display, allowed: &str) -> InvalidInput {
        InvalidInput::new(
            variable,
            format!("{} ({why})", file.display()),
            format!("a file with {allowed}"),
        )
    }

    fn unusable(why: impl Display, allowed: &str) -> InvalidInput {
        InvalidInput::new("node", format!("rediss:// ({why})"), allowed)
    }
}

#[cfg(all(test, feature = "rustls"))]
mod tests;
