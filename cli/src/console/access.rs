//! Decides whether a request is allowed.
//!
//! A page of another site can make a browser send requests here. Such a request has a foreign `Origin`. If the other site
//! has its name resolved to this address, the request has a foreign `Host`.

use std::hint::black_box;
use std::net::IpAddr;

use axum::http::header::{AUTHORIZATION, COOKIE, HOST, ORIGIN};
use axum::http::uri::Authority;
use axum::http::{HeaderMap, HeaderName, Method};

use crate::args::ConsoleArgs;
use crate::exit::{self, Failure};
use crate::password_file::read_limited;
use crate::values::HostName;

/// Beginning of the name of the cookie with the token.
const COOKIE_NAME: &str = "multilock_console";

const SHORTEST_TOKEN: usize = 16;

#[derive(Debug)]
pub(super) struct Access {
    hosts: Vec<HostName>,
    token: Option<String>,
}

/// Reason why a request is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Refusal {
    Host,
    Origin,
}

impl Access {
    pub(super) fn of(args: &ConsoleArgs) -> Result<Self, Failure> {
        let token = args.token_file.as_ref().map(|file| {
            let text = read_limited(file).map_err(|error| error.to_string());
            text.and_then(|text| checked(text.trim())).map_err(|why| {
                let file = file.display();
                Failure::new(
                    exit::UNFIT,
                    format_args!("--token-file: {file} ({why}) is not allowed; allowed: a file with a token of {SHORTEST_TOKEN} or more letters, digits, and the characters - _ ."),
                )
            })
        });
        let token = token.transpose()?;
        if token.is_none() && !args.listen.ip().is_loopback() {
            return Err(Failure::usage(format_args!(
                "--listen: {} is not allowed without --token-file; allowed: an address of loopback",
                args.listen
            )));
        }
        Ok(Self {
            hosts: args.hosts.clone(),
            token,
        })
    }

    /// Checks the host and the origin.
    pub(super) fn check_source(
        &self,
        method: &Method,
        path: &str,
        headers: &HeaderMap,
    ) -> Result<(), Refusal> {
        let host = only(headers, &HOST).ok_or(Refusal::Host)?;
        let authority: Authority = host.parse().map_err(|_| Refusal::Host)?;
        if !self.is_own(authority.host()) {
            return Err(Refusal::Host);
        }
        // A service on another port of this host is of the same site. Anybody may link to the page.
        let site = HeaderName::from_static("sec-fetch-site");
        let is_by_this_page = path == "/"
            || !headers.contains_key(&site)
            || matches!(only(headers, &site), Some("same-origin" | "none"));
        let is_allowed = match only(headers, &ORIGIN) {
            Some(origin) => self.is_own_origin(origin, host),
            // Browsers leave the origin out of requests that only read, to whichever site.
            None => !headers.contains_key(ORIGIN) && method.is_safe(),
        };
        (is_by_this_page && is_allowed)
            .then_some(())
            .ok_or(Refusal::Origin)
    }

    /// Whether no token is needed, or the request has it.
    pub(super) fn has_token(&self, headers: &HeaderMap) -> bool {
        let bearer = only(headers, &AUTHORIZATION).and_then(|value| value.strip_prefix("Bearer "));
        let cookies = headers
            .get_all(COOKIE)
            .iter()
            .filter_map(|value| value.to_str().ok());
        let name = cookie_name(headers);
        let cookie = cookies
            .flat_map(|cookies| cookies.split("; "))
            .find_map(|cookie| cookie.strip_prefix(&name)?.strip_prefix('='));
        self.accepts(bearer.or(cookie).unwrap_or_default())
    }

    /// Whether this is the token, or none is needed. Takes the same time for each token of the right length.
    pub(super) fn accepts(&self, given: &str) -> bool {
        self.token.as_ref().is_none_or(|token| {
            let pairs = token.bytes().zip(given.bytes());
            let difference = pairs.fold(0, |sum, (ours, theirs)| black_box(sum | (ours ^ theirs)));
            difference == 0 && token.len() == given.len()
        })
    }

    /// Whether a page of this console has caused the request. A proxy in front may have replaced the host.
    fn is_own_origin(&self, origin: &str, host: &str) -> bool {
        // Browsers leave out the port of the scheme.
        let (theirs, port_of_scheme) = match origin.split_once("://") {
            Some(("http", theirs)) => (theirs, 80),
            Some(("https", theirs)) => (theirs, 443),
            _ => return false,
        };
        let is_named = |theirs: Authority| {
            let port = theirs.port_u16().unwrap_or(port_of_scheme);
            self.hosts.iter().any(|own| {
                own.name.eq_ignore_ascii_case(theirs.host()) && own.port.unwrap_or(port_of_scheme) == port
            })
        };
        theirs == host || theirs.parse().is_ok_and(is_named)
    }

    /// A name of another site can be made to resolve to this address; an address cannot.
    fn is_own(&self, host: &str) -> bool {
        let address = host.trim_start_matches('[').trim_end_matches(']');
        address.parse::<IpAddr>().is_ok()
            || host.eq_ignore_ascii_case("localhost")
            || self.hosts.iter().any(|own| own.name.eq_ignore_ascii_case(host))
    }
}

/// Name of the cookie with the token. Browsers send a cookie to every port of a host, so the port in the name tells the
/// consoles of a host apart.
pub(super) fn cookie_name(headers: &HeaderMap) -> String {
    let authority = only(headers, &HOST).and_then(|host| host.parse::<Authority>().ok());
    let port = authority.and_then(|authority| authority.port_u16());
    port.map_or_else(|| COOKIE_NAME.to_owned(), |port| format!("{COOKIE_NAME}_{port}"))
}

/// Whether the page was loaded by TLS, by the word of the browser.
pub(super) fn is_by_tls(headers: &HeaderMap) -> bool {
    only(headers, &ORIGIN).is_some_and(|origin| origin.starts_with("https://"))
}

/// The token is a part of a cookie and of a header.
fn checked(token: &str) -> Result<String, String> {
    let is_allowed = |letter: char| letter.is_ascii_alphanumeric() || "-_.".contains(letter);
    match token {
        short if short.len() < SHORTEST_TOKEN => Err(format!("{} characters", short.len())),
        token if token.chars().all(is_allowed) => Ok(token.to_owned()),
        _ => Err(String::from("another character")),
    }
}

/// Value of a header that is there once.
fn only<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Option<&'a str> {
    let mut values = headers.get_all(name).iter();
    match (values.next(), values.next()) {
        (Some(value), None) => value.to_str().ok(),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderValue;

    use super::*;
    use crate::values::host_name;

    fn host(text: &str) -> HostName {
        host_name(text).expect("a name")
    }

    fn access(token: Option<&str>) -> Access {
        Access {
            hosts: ["console.example", "other.example:8443"].map(host).to_vec(),
            token: token.map(str::to_owned),
        }
    }

    fn headers(all: &[(HeaderName, &'static str)]) -> HeaderMap {
        let pairs = all.iter().cloned();
        pairs
            .map(|(name, value)| (name, HeaderValue::from_static(value)))
            .collect()
    }

    #[test]
    fn another_sites_name_is_refused() {
        let check = |host| access(None).check_source(&Method::GET, "/events", &headers(&[(HOST, host)]));
        for own in [
            "localhost",
            "LOCALHOST:7411",
            "127.0.0.1:7411",
            "[::1]:7411",
            "10.0.0.9",
            "console.example:80",
        ] {
            assert_eq!(check(own), Ok(()), "{own}");
        }
        for other in [
            "evil.example",
            "localhost.evil.example",
            "127.0.0.1.evil.example",
            "console.example.evil",
            "",
        ] {
            assert_eq!(check(other), Err(Refusal::Host), "{other}");
        }
        assert_eq!(
            access(None).check_source(&Method::GET, "/", &HeaderMap::new()),
            Err(Refusal::Host)
        );
    }

    #[test]
    fn another_sites_page_is_refused() {
        let check = |method: &Method, origin| {
            access(None).check_source(
                method,
                "/events",
                &headers(&[(HOST, "localhost:7411"), (ORIGIN, origin)]),
            )
        };
        assert_eq!(check(&Method::POST, "http://localhost:7411"), Ok(()));
        for other in [
            "http://localhost:7412",
            "http://evil.example",
            "null",
            "localhost:7411",
            "",
        ] {
            assert_eq!(check(&Method::GET, other), Err(Refusal::Origin), "{other}");
        }
        let none = headers(&[(HOST, "localhost:7411")]);
        assert_eq!(access(None).check_source(&Method::GET, "/", &none), Ok(()));
        assert_eq!(
            access(None).check_source(&Method::POST, "/force", &none),
            Err(Refusal::Origin)
        );
    }

    /// It is of the same site, and gets the cookie. By its own word it may come from the page.
    #[test]
    fn another_port_of_this_host_is_refused_by_the_word_of_the_browser() {
        let site = HeaderName::from_static("sec-fetch-site");
        let check = |from| {
            access(None).check_source(
                &Method::POST,
                "/force",
                &headers(&[
                    (HOST, "localhost:7411"),
                    (ORIGIN, "http://localhost:7411"),
                    (site.clone(), from),
                ]),
            )
        };
        assert_eq!(check("same-origin"), Ok(()));
        for other in ["same-site", "cross-site", ""] {
            assert_eq!(check(other), Err(Refusal::Origin), "{other}");
        }
    }

    /// An image of another site has no origin, and would be a viewer.
    #[test]
    fn another_site_may_link_to_the_page_and_no_more() {
        let site = HeaderName::from_static("sec-fetch-site");
        let check = |path, from| {
            access(None).check_source(
                &Method::GET,
                path,
                &headers(&[(HOST, "localhost"), (site.clone(), from)]),
            )
        };
        for from in ["cross-site", "same-site"] {
            assert_eq!(check("/", from), Ok(()), "{from}");
            assert_eq!(check("/events", from), Err(Refusal::Origin), "{from}");
        }
        for from in ["same-origin", "none"] {
            assert_eq!(check("/events", from), Ok(()), "{from}");
        }
    }

    #[test]
    fn a_proxy_may_replace_the_host() {
        let check = |origin| {
            access(None).check_source(
                &Method::POST,
                "/force",
                &headers(&[(HOST, "127.0.0.1:7411"), (ORIGIN, origin)]),
            )
        };
        for own in [
            "https://console.example",
            "http://console.example",
            "https://other.example:8443",
        ] {
            assert_eq!(check(own), Ok(()), "{own}");
        }
        for other in [
            "https://console.example.evil",
            "https://console.example:8443",
            "http://console.example:9999",
            "https://other.example",
            "ftp://console.example",
        ] {
            assert_eq!(check(other), Err(Refusal::Origin), "{other}");
        }
    }

    #[test]
    fn a_token_is_needed_if_there_is_one() {
        let token = "0123456789abcdef";
        let check = |all: &[(HeaderName, &'static str)]| {
            access(Some(token)).has_token(&headers(&[&[(HOST, "localhost:7411")], all].concat()))
        };
        assert!(access(None).has_token(&HeaderMap::new()));
        assert!(check(&[(AUTHORIZATION, "Bearer 0123456789abcdef")]));
        assert!(check(&[(COOKIE, "a=b; multilock_console_7411=0123456789abcdef")]));
        for wrong in [
            "Bearer ",
            "Bearer 0123456789abcdeg",
            "Bearer 0123456789abcdef0",
            "0123456789abcdef",
        ] {
            assert!(!check(&[(AUTHORIZATION, wrong)]), "{wrong}");
        }
        assert!(!check(&[(COOKIE, "multilock_console_7411=0123456789abcde")]));
        let of_another_port = [(COOKIE, "multilock_console_7412=0123456789abcdef")];
        assert!(!check(&of_another_port));
        assert!(!check(&[]));
    }

    #[test]
    fn a_token_is_long_enough_and_fits_a_cookie() {
        assert!(checked("0123456789abcdef").is_ok());
        assert!(checked("0123456789abcde").is_err());
        assert!(checked("0123456789abcde;").is_err());
    }
}
