//! Users without some of the permissions.

use multilock_test_support::{Script, Server, StandIn, label, three};

use super::{all, doctor, doctor_with, with_last, word};

/// Makes a user with all commands, changed by these rules, and returns its URL.
async fn user(server: &Server, rules: &[&str]) -> String {
    let user = [
        "ACL", "SETUSER", "app", "reset", "on", ">secret", "~*", "&*", "+@all",
    ];
    server.command(&[&user[..], rules].concat()).await;
    format!("redis://app:secret@{}", label(server))
}

/// With and without the permission to ask for its own permissions (`ACL DRYRUN`).
#[tokio::test]
async fn a_user_who_may_not_do_everything() {
    let servers = three(&[]).await;
    let node = label(&servers[2]);
    for blind in [&[][..], &["-acl"]] {
        let diagnose = async |rules: &[&str]| {
            let last = user(&servers[2], &[blind, rules].concat()).await;
            doctor(with_last(&servers, last)).await
        };
        for (lacking, found, seen, code) in [
            ("evalsha", ("error", "denied"), "may not run evalsha", 78),
            ("hset", ("error", "denied"), "may not run hset in a script", 78),
            (
                "publish",
                ("warning", "denied_in_part"),
                "may not run publish in a script: waiters wake by their timers",
                0,
            ),
            (
                "subscribe",
                ("warning", "denied_in_part"),
                "waiters wake by their timers",
                0,
            ),
            ("client|kill", ("warning", "denied_in_part"), "for a lease", 0),
            ("client|setname", ("warning", "denied_in_part"), "CLIENT LIST", 0),
        ] {
            let diagnosis = diagnose(&[&format!("-{lacking}")]).await;
            let remedy = format!("ACL SETUSER … +{lacking}");
            diagnosis.only(found, Some(&node), seen, &remedy, code);
        }
        let diagnosis = diagnose(&["resetkeys", "~a*"]).await;
        let codes = diagnosis.codes();
        assert!(codes.contains(&("error", "denied")), "{:#}", diagnosis.told);
        assert_eq!(
            diagnosis.told["masters"][2]["denied"][0]["why"], "key",
            "{:#}",
            diagnosis.told
        );
        let diagnosis = diagnose(&["resetchannels"]).await;
        let remedy = "&multilock:*";
        assert_eq!(diagnosis.code, Some(0), "{:#}", diagnosis.told);
        assert!(
            diagnosis.told["findings"][0]["remedy"]
                .as_str()
                .is_some_and(|told| told.contains(remedy))
        );
    }
    let last = format!("redis://app:wrong@{node}");
    let diagnosis = doctor(with_last(&servers, last)).await;
    diagnosis.only(
        ("error", "denied"),
        Some(&node),
        "WRONGPASS",
        "look at user and password",
        78,
    );
}

/// A permission that it lacks does not hide that there is no record.
#[tokio::test]
async fn a_master_without_a_client_as_a_user_with_few_permissions() {
    let servers = three(&[]).await;
    let last = user(&servers[2], &["-pubsub", "-config"]).await;
    let mut command = with_last(&servers, last);
    command.env("MULTILOCK_QUARANTINE", "auto");
    command.env("MULTILOCK_NODE_TIMEOUT", "1s");
    let diagnosis = doctor(command).await;
    let quarantines: Vec<&str> = diagnosis
        .findings()
        .iter()
        .filter(|finding| finding["code"] == "quarantine")
        .map(|finding| word(finding, "seen"))
        .collect();
    assert_eq!(quarantines.len(), 3, "{:#}", diagnosis.told);
    for seen in quarantines {
        assert!(seen.starts_with("no client has used it yet"), "{seen}");
    }
}

/// Redis before 7.0.
#[tokio::test]
async fn a_server_that_knows_no_acl_dryrun() {
    let servers = three(&[]).await;
    user(&servers[2], &["-evalsha"]).await;
    let unknown = "-ERR Unknown subcommand or wrong number of arguments for 'DRYRUN'. Try ACL HELP.";
    let old = StandIn::before(&servers[2], Script::new().says("ACL DRYRUN", unknown)).await;
    let diagnosis = doctor(with_last(&servers, format!("redis://app:secret@{}", old.label()))).await;
    let (node, remedy) = (old.label(), "ACL SETUSER … +evalsha");
    diagnosis.only(
        ("error", "denied"),
        Some(&node),
        "may not run evalsha",
        remedy,
        78,
    );
}

/// Over RESP2 a connection that has subscribed takes no other questions.
#[tokio::test]
async fn a_user_who_may_not_ask_what_he_may_do_over_resp2() {
    let servers = three(&[]).await;
    user(&servers[2], &["-acl"]).await;
    let script = Script::new().says("HELLO", "-NOPROTO unsupported protocol version");
    let odd = StandIn::before(&servers[2], script).await;
    let diagnosis = doctor(with_last(&servers, format!("redis://app:secret@{}", odd.label()))).await;
    assert_eq!(diagnosis.codes(), [("note", "resp3")], "{:#}", diagnosis.told);
    assert!(
        odd.received()
            .iter()
            .any(|command| command == "SUBSCRIBE multilock:examined")
    );
}

/// The permissions in docs/servers.md are enough: the permissions that it leaves out cause notes, and no other findings.
#[tokio::test]
async fn the_acl_of_the_docs() {
    let page = include_str!("../../../../docs/servers.md");
    let (_, acl) = page.split_once("ACL SETUSER app").expect("an ACL");
    let (acl, _) = acl.split_once("```").expect("the end of a block");
    let rules: Vec<&str> = ["ACL", "SETUSER", "app"]
        .into_iter()
        .chain(acl.split_whitespace())
        .collect();
    let servers = three(&[]).await;
    let mut urls = Vec::new();
    for server in &servers {
        server.command(&rules).await;
        urls.push(format!("redis://app:secret@{}", label(server)));
    }
    let diagnosis = doctor_with(all(&urls), &["--strict"]).await;
    assert_eq!(diagnosis.code, Some(0), "{:#}", diagnosis.told);
    let notes = [("note", "append_not_told"), ("note", "clients_not_told")];
    assert_eq!(diagnosis.codes(), [notes, notes, notes].concat());
}
