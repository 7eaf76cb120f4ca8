use std::fs;
use std::io;
use std::net::Ipv4Addr;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use multilock_test_support::Authority;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
#[cfg(unix)]
use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer, UnixTime};
use tokio_rustls::rustls::{CertificateError, Error, HandshakeKind, ServerConfig};

use super::*;
#[cfg(unix)]
use crate::time::blocking::tests::a_thread_is_left;
use crate::{Masters, Node};

/// Runs a server for `connections` connections, which sends a byte on each and reads one. Returns its port.
async fn serve(authority: &Authority, connections: usize) -> u16 {
    let cert = CertificateDer::from_pem_file(authority.file("cert.pem")).expect("a certificate");
    let key = PrivateKeyDer::from_pem_file(authority.file("key.pem")).expect("a key");
    let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .expect("versions")
        .with_no_client_auth()
        .with_single_cert(vec![cert], key)
        .expect("a pair");
    let acceptor = TlsAcceptor::from(Arc::new(config));
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))
        .await
        .expect("a free port");
    let port = listener.local_addr().expect("bound").port();
    tokio::spawn(async move {
        for _ in 0..connections {
            let (stream, _) = listener.accept().await.expect("a connection");
            let mut stream = acceptor.accept(stream).await.expect("a handshake");
            stream.write_all(b"!").await.expect("open");
            let _ = stream.read(&mut [0]).await;
        }
    });
    port
}

/// Kind of the handshake of a connection that was used.
async fn handshake(tls: &Tls, port: u16) -> Option<HandshakeKind> {
    let stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port))
        .await
        .expect("listening");
    let mut stream = tls.handshake("localhost", stream).await.expect("trusted");
    // The ticket by which a session is resumed comes after the handshake.
    stream.read_exact(&mut [0]).await.expect("open");
    let kind = stream.get_ref().1.handshake_kind();
    stream.shutdown().await.expect("open");
    kind
}

/// A text with the time of the attempt would be another one each second.
#[test]
fn a_certificate_out_of_date_is_told_by_its_own_time_alone() {
    let at = |seconds| UnixTime::since_unix_epoch(Duration::from_secs(seconds));
    let said = |error| {
        let error = io::Error::new(io::ErrorKind::InvalidData, Error::InvalidCertificate(error));
        with_rustls::explained(error).to_string()
    };
    for time in [2000, 3000] {
        let (time, not_after, not_before) = (at(time), at(1000), at(9000));
        assert_eq!(
            said(CertificateError::ExpiredContext { time, not_after }),
            "invalid peer certificate: expired at 1970-01-01T00:16:40Z"
        );
        assert_eq!(
            said(CertificateError::NotValidYetContext { time, not_before }),
            "invalid peer certificate: not valid before 1970-01-01T02:30:00Z"
        );
    }
    let other = said(CertificateError::UnknownIssuer);
    assert_eq!(other, "invalid peer certificate: UnknownIssuer");
}

fn install_provider() {
    // Another test may have installed it before.
    let _ = ring::default_provider().install_default();
}

#[tokio::test]
async fn the_second_connection_to_a_master_resumes_the_session_of_the_first() {
    install_provider();
    let authority = Authority::new();
    let files = TlsFiles {
        ca: Some(authority.file("ca.pem")),
        ..TlsFiles::default()
    };
    let shared = Tls::load(files).await.expect("a configuration");
    // More masters on one host than sessions are stored, so that they would displace each other's.
    let mut masters = Vec::new();
    for _ in 0..9 {
        masters.push((
            shared.clone().with_sessions_of_its_own(),
            serve(&authority, 3).await,
        ));
    }
    for expected in [
        HandshakeKind::Full,
        HandshakeKind::Resumed,
        HandshakeKind::Resumed,
    ] {
        for (tls, port) in &masters {
            assert_eq!(handshake(tls, *port).await, Some(expected));
        }
    }
}

/// Files of an authority, its certificate and key for clients as well.
fn all_files(authority: &Authority) -> TlsFiles {
    TlsFiles {
        ca: Some(authority.file("ca.pem")),
        cert: Some(authority.file("cert.pem")),
        key: Some(authority.file("key.pem")),
    }
}

#[tokio::test]
async fn a_master_keeps_its_own_configuration_beside_the_files() {
    install_provider();
    let authority = Authority::new();
    let files = all_files(&authority);
    let own = Tls::load(files.clone()).await.expect("a configuration");
    let own = own.current().await;
    let mut builder = Masters::builder()
        .node(Node::url("rediss://a").tls(Arc::clone(&own)))
        .nodes(["rediss://b", "rediss://c"]);
    builder.tls_files = files;
    let servers = builder.servers("multilock".into()).await.expect("all valid");
    let mut used = Vec::new();
    for server in servers {
        used.push(server.tls.expect("TLS").current().await);
    }
    assert!(Arc::ptr_eq(&used[0], &own));
    assert!(!Arc::ptr_eq(&used[1], &own));
    assert!(!Arc::ptr_eq(&used[1], &used[2]), "sessions of their own");
}

#[tokio::test]
async fn each_file_that_changes_is_read_again_once() {
    install_provider();
    let authority = Authority::new();
    let tls = Tls::load(all_files(&authority)).await.expect("a configuration");
    let mut before = tls.current().await;
    for name in ["ca.pem", "cert.pem", "key.pem"] {
        let file = fs::File::options().append(true).open(authority.file(name));
        let file = file.expect("a file");
        file.set_modified(SystemTime::now() + Duration::from_secs(60))
            .expect("a time");
        let after = tls.current().await;
        assert!(!Arc::ptr_eq(&after, &before), "{name}");
        before = tls.current().await;
        assert!(Arc::ptr_eq(&after, &before), "{name}");
    }
}

#[cfg(unix)]
#[test]
fn a_file_that_hangs_takes_one_thread_however_often_it_is_read() {
    install_provider();
    let authority = Authority::new();
    let tls = Tls::read(&all_files(&authority)).expect("a configuration");
    let (file, kept) = (authority.file("ca.pem"), authority.file("kept.pem"));
    fs::rename(&file, &kept).expect("renamed");
    rustix::fs::mkfifoat(rustix::fs::CWD, &file, rustix::fs::Mode::RWXU).expect("a pipe");
    let runtime = a_thread_is_left(async |within| {
        let asked = timeout(within, tls.current()).await;
        assert!(asked.is_err(), "nobody writes");
    });
    // The read that hangs ends.
    fs::write(&file, "no authority").expect("written");
    fs::rename(&kept, &file).expect("renamed");
    runtime.block_on(tls.current());
}

#[tokio::test]
async fn files_that_cannot_be_used_are_named_with_the_reason() {
    install_provider();
    let (authority, other) = (Authority::new(), Authority::new());
    let write = |name: &str, text: &str| {
        let file = authority.file(name);
        fs::write(&file, text).expect("a file");
        file
    };
    let none = write("none.pem", "no certificate here\n");
    // All the content is in one line, with the secret.
    let odd = write(
        "odd.pem",
        "-----BEGIN PRIVATE KEY-----MIGHAgEAMBMGByqGSM49\n-----END PRIVATE KEY-----\n",
    );
    let missing = authority.file("missing.pem");
    let (cert, key) = (authority.file("cert.pem"), authority.file("key.pem"));
    let stranger = other.file("key.pem");
    for (ca, pair, variable, file, why) in [
        (Some(&missing), None, CA_FILE, &missing, "No such file"),
        (Some(&none), None, CA_FILE, &none, "there is none in it"),
        (Some(&key), None, CA_FILE, &key, "there is none in it"),
        (
            Some(&cert),
            Some((&missing, &key)),
            CERT_FILE,
            &missing,
            "No such file",
        ),
        (
            Some(&cert),
            Some((&cert, &none)),
            KEY_FILE,
            &none,
            "there is none in it",
        ),
        (Some(&cert), Some((&cert, &odd)), KEY_FILE, &odd, "it is not PEM"),
        (
            Some(&cert),
            Some((&cert, &stranger)),
            KEY_FILE,
            &stranger,
            "KeyMismatch",
        ),
    ] {
        let (cert, key) = pair.unzip();
        let files = TlsFiles {
            ca: ca.cloned(),
            cert: cert.cloned(),
            key: key.cloned(),
        };
        let error = Tls::load(files).await.expect_err("must be refused");
        assert_eq!(error.field, variable);
        assert!(
            error.value.starts_with(&format!("{} (", file.display())) && error.value.contains(why),
            "{error}"
        );
        assert!(
            !format!("{error:?}").contains("MIGHAgEA") && !error.value.contains("45, 45"),
            "{error}"
        );
    }
}
