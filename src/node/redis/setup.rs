//! Login of a connection, and its name on the server.

use futures::future::join_all;
use redis::{Cmd, RedisConnectionInfo};

use super::pipeline::Pipe;
use super::questions::{denied, judge};
use crate::error::NodeError;
use crate::masters::credentials::Credentials;
use crate::protocol::fault::{Fault, FaultClass, is_code, is_unknown_command};

const TLS_THERE: &str = "this port may expect TLS, for which the URL begins with rediss://";

/// User of a URL that has a password and no user.
const DEFAULT_USER: &str = "default";

/// Logs in, and names the connection for `CLIENT LIST`. Returns whether the server speaks RESP3; without it
/// messages need a connection of their own. `may_need_tls` is set for a connection without TLS that could
/// have it.
pub(super) async fn log_in(
    pipe: &Pipe,
    login: &Login<'_>,
    connection_name: &str,
    may_need_tls: bool,
) -> Result<bool, NodeError> {
    let mut needs_auth = login.password.is_some();
    let mut answer = pipe.ask(&login.hello()).await;
    if needs_auth && answer.as_ref().is_err_and(wants_auth_first) {
        authenticate_first(pipe, login).await?;
        needs_auth = false;
        answer = pipe.ask(&hello()).await;
    }
    let resp3 = match answer {
        Err(fault) if speaks_no_resp3(&fault) => false,
        // A server with TLS takes the first bytes for a broken handshake. It ends the connection or answers
        // with an alert.
        Err(fault @ Fault::Unknown(_)) if may_need_tls => {
            return Err(NodeError::Unavailable(format!("{}; {TLS_THERE}", fault.vote())));
        }
        answer => {
            answer.map_err(|fault| judge(login.without(fault)))?;
            true
        }
    };
    if !resp3 && needs_auth {
        authenticate_first(pipe, login).await?;
    }
    if login.db != 0 {
        select(pipe, login.db).await?;
    }
    let introductions = [
        &["SETNAME", connection_name][..],
        // Redis before 7.2 does not know it.
        &["SETINFO", "LIB-NAME", "multilock"],
        &["SETINFO", "LIB-VER", env!("CARGO_PKG_VERSION")],
    ];
    // No lock depends on these commands, and an ACL may deny them.
    join_all(introductions.map(|words| pipe.ask(redis::cmd("CLIENT").arg(words)))).await;
    Ok(resp3)
}

/// Selects a database. The server may not have it, which no time mends.
async fn select(pipe: &Pipe, db: i64) -> Result<(), NodeError> {
    let answer = pipe.ask(redis::cmd("SELECT").arg(db)).await;
    answer.map(drop).map_err(|fault| match fault {
        Fault::Server(FaultClass::Unforeseen, error) => denied(&format_args!("SELECT {db}: {error}")),
        other => judge(other),
    })
}

/// Logs a new connection in by AUTH. Any error of the server is a refusal.
async fn authenticate_first(pipe: &Pipe, login: &Login<'_>) -> Result<(), NodeError> {
    authenticate(pipe, login).await.map_err(|fault| match fault {
        Fault::Server(_, error) => denied(&error),
        other => judge(other),
    })
}

/// Logs a connection in, also again, in order with its calls. After a refusal the connection stays as it was.
pub(super) async fn authenticate(pipe: &Pipe, login: &Login<'_>) -> Result<(), Fault> {
    let answer = pipe
        .ask(redis::cmd("AUTH").arg(login.user).arg(login.password))
        .await;
    answer.map(drop).map_err(|fault| login.without(fault))
}

/// User, password and database of a connection. Some servers repeat their input in an error, whole or cut
/// off. So errors must not quote a server with user or password.
pub(super) struct Login<'a> {
    user: Option<&'a str>,
    password: Option<&'a str>,
    db: i64,
}

/// Number of consecutive characters that count as a part of a password.
const TELLING: usize = 3;

impl<'a> Login<'a> {
    /// Takes the login from the credentials, if there are any, and else from the URL. A user of the URL without a password
    /// logs in with an empty one: as the default user it would have other rights.
    pub(super) fn new(settings: &'a RedisConnectionInfo, credentials: Option<&'a Credentials>) -> Self {
        let of_url = settings.password().or(settings.username().map(|_| ""));
        Self {
            user: credentials.and_then(Credentials::user).or(settings.username()),
            password: credentials.map(Credentials::secret).or(of_url),
            db: settings.db(),
        }
    }

    fn hello(&self) -> Cmd {
        let mut hello = hello();
        if let Some(password) = self.password {
            hello
                .arg("AUTH")
                .arg(self.user.unwrap_or(DEFAULT_USER))
                .arg(password);
        }
        hello
    }

    /// Censors the answer to a command that carried the login: of an error that may contain a part of it only
    /// the code is left.
    fn without(&self, fault: Fault) -> Fault {
        let Fault::Server(class, error) = fault else {
            return fault;
        };
        let (code, words) = error.split_once(' ').unwrap_or(("", &error));
        let repeats_nothing = is_code(code) || !self.may_be_in(code);
        if repeats_nothing && !self.may_be_in(words) {
            return Fault::Server(class, error);
        }
        let known = repeats_nothing && !code.is_empty() && code.bytes().all(|byte| byte.is_ascii_uppercase());
        let code = if known { code } else { "an error" };
        let error = format!("{code} (its text is left out, for it may repeat user or password)");
        Fault::Server(class, error.into())
    }

    fn may_be_in(&self, text: &str) -> bool {
        let text = text.to_lowercase();
        let user = self.user.filter(|user| !user.is_empty());
        user.is_some_and(|user| text.contains(&user.to_lowercase()))
            || self
                .password
                .is_some_and(|password| has_part(&text, &password.to_lowercase()))
    }
}

/// Whether the text contains the secret, or a recognisable part of it.
fn has_part(text: &str, secret: &str) -> bool {
    let characters: Vec<char> = secret.chars().collect();
    let mut parts = characters.windows(TELLING.min(characters.len()).max(1));
    parts.any(|part| text.contains(&part.iter().collect::<String>()))
}

fn hello() -> Cmd {
    let mut hello = redis::cmd("HELLO");
    hello.arg(3);
    hello
}

/// Whether a HELLO with a password was answered as if it had none. Before AUTH, a server without HELLO may
/// answer just that. Valkey does from 9.1 on, in place of `unknown command`. After AUTH the same HELLO is
/// understood.
fn wants_auth_first(fault: &Fault) -> bool {
    matches!(fault, Fault::Server(_, error) if error.starts_with("NOAUTH"))
}

/// Whether a server or a proxy does not know HELLO, or not this version of the protocol, as opposed to a
/// refused login.
fn speaks_no_resp3(fault: &Fault) -> bool {
    let Fault::Server(_, error) = fault else {
        return false;
    };
    if is_unknown_command(error) {
        return true;
    }
    let error = error.to_ascii_lowercase();
    let words = ["noproto", "unsupported protocol"];
    words.iter().any(|words| error.contains(words))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::fault::FaultClass;
    use proptest::prelude::*;
    use redis::IntoConnectionInfo;

    fn said(user: Option<&str>, password: &str, error: &str) -> String {
        let login = Login {
            user,
            password: Some(password),
            db: 0,
        };
        let fault = Fault::Server(FaultClass::Denied, error.into());
        judge(login.without(fault)).to_string()
    }

    #[test]
    fn a_server_is_quoted_where_it_repeats_nothing() {
        let usual = "WRONGPASS invalid username-password pair or user is disabled.";
        assert_eq!(
            said(Some("app"), "s3cret", usual),
            format!(
                "it denies access: {usual} (see https://docs.rs/multilock/latest/multilock/guide/faq/index.html#denied)"
            )
        );
        let echoed = "ERR unknown command 'AUTH', with args beginning with: 'app' 's3c";
        assert_eq!(
            said(None, "s3cret", echoed),
            "it denies access: ERR (its text is left out, for it may repeat user or password) \
             (see https://docs.rs/multilock/latest/multilock/guide/faq/index.html#denied)"
        );
        assert!(!said(Some("app"), "other", echoed).contains("app"));
        assert!(said(None, "s3cret", "s3cret").starts_with("it denies access: an error ("));
        for (password, echo) in [
            ("s3cret", "s3cret is no command"),
            ("s3cret", "s3c is no command"),
            ("S3CRET", "S3CRET is no command"),
            ("SECRET", "SECRET is no command"),
        ] {
            let said = said(Some("app"), password, echo);
            assert!(said.starts_with("it denies access: an error ("), "{said}");
        }
        // A code is no part of a password that happens to contain it.
        let usual = "NOAUTH Authentication required.";
        assert!(said(None, "noah's ark", usual).contains(usual));
    }

    #[test]
    fn credentials_come_before_those_of_the_url() {
        let login = |url: &str, credentials: Option<&Credentials>| {
            let info = url.into_connection_info().expect("a URL");
            let login = Login::new(info.redis_settings(), credentials);
            (login.user.map(str::to_owned), login.password.map(str::to_owned))
        };
        let of = |user: &str, password: &str| (Some(user.to_owned()), Some(password.to_owned()));
        let app = Credentials::new("app", "s3cret");
        assert_eq!(login("redis://job@db", Some(&app)), of("app", "s3cret"));
        let password = Credentials::password("s3cret");
        assert_eq!(login("redis://job@db", Some(&password)), of("job", "s3cret"));
        assert_eq!(login("redis://job:own@db", None), of("job", "own"));
        assert_eq!(login("redis://job@db", None), of("job", ""));
        assert_eq!(login("redis://db", None), (None, None));
    }

    #[test]
    fn a_server_that_speaks_no_resp3_is_distinguished_from_one_that_does_not_let_in() {
        let speaks_none = |line: &str| {
            let server = redis::parse_redis_value(format!("-{line}\r\n").as_bytes()).expect("an error");
            speaks_no_resp3(&Fault::check(server).expect_err("an error"))
        };
        for line in [
            "ERR unknown command `HELLO`, with args beginning with: `3`, ",
            "ERR unknown command 'hello'",
            "NOPROTO unsupported protocol version",
            "NOPROTO sorry, this protocol version is not supported.",
            "unsupported command",
            "ERR unsupported command 'HELLO'",
        ] {
            assert!(speaks_none(line), "{line}");
        }
        for line in [
            "WRONGPASS invalid username-password pair or user is disabled.",
            "NOAUTH HELLO must be called with the client already authenticated",
            "LOADING Redis is loading the dataset in memory",
        ] {
            assert!(!speaks_none(line), "{line}");
        }
        assert!(!speaks_no_resp3(&Fault::Unknown("connection closed".into())));
    }

    proptest! {
        /// Servers repeat their input in any form and length: no recognisable part of it is left.
        #[test]
        fn nothing_is_repeated(password in "[QXZ0-9!'\" äß]{3,12}", cut in 0_usize..12, code in "ERR|NOAUTH|[A-P]{3}") {
            let length = password.char_indices().map(|(at, _)| at).nth(cut).unwrap_or(password.len());
            let echo = format!("{code} what is '{}'?", &password[..length]);
            let said = said(None, &password, &echo);
            if cut >= TELLING {
                prop_assert!(!has_part(&said, &password), "{password}: {said}");
            } else {
                prop_assert!(!said.contains(&*password), "{password}: {said}");
            }
        }
    }
}
