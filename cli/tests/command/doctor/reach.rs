//! Masters that cannot be asked, or may have forgotten.

use multilock::{Closing, Masters, Policy};
use multilock_test_support::{Keep, PATIENT, label, three, until};
use tokio::net::TcpStream;

use super::{all, doctor, doctor_with, word};
use crate::stage::{ms, urls};

#[tokio::test]
async fn masters_out_of_reach() {
    let servers = three(&[]).await;
    servers[1].kill().await;
    let diagnosis = doctor(all(&urls(&servers))).await;
    let node = label(&servers[1]);
    diagnosis.only(("warning", "unreachable"), Some(&node), "refused", "start it", 0);
    let strict = doctor_with(all(&urls(&servers)), &["--strict"]).await;
    assert_eq!(strict.code, Some(1));
    // Takes connections, and says nothing.
    servers[2].freeze().await;
    let diagnosis = doctor(all(&urls(&servers))).await;
    servers[2].thaw().await;
    let codes = [
        ("error", "too_few"),
        ("warning", "unreachable"),
        ("warning", "unreachable"),
    ];
    assert_eq!(diagnosis.codes(), codes, "{:#}", diagnosis.told);
    assert_eq!(diagnosis.code, Some(69));
    assert!(
        diagnosis.told["masters"][2]["error"]
            .as_str()
            .is_some_and(|error| error.contains("no answer"))
    );
}

#[tokio::test]
async fn a_master_with_as_many_clients_as_it_takes() {
    let servers = three(&[]).await;
    let only = TcpStream::connect(("127.0.0.1", servers[1].port()))
        .await
        .expect("a connection");
    until("it takes no more clients", async || {
        let set = servers[1]
            .try_command(&["CONFIG", "SET", "maxclients", "1"])
            .await;
        set.is_err()
    })
    .await;
    let diagnosis = doctor(all(&urls(&servers))).await;
    drop(only);
    let node = label(&servers[1]);
    diagnosis.only(
        ("warning", "not_ready"),
        Some(&node),
        "max number of clients",
        "maxclients",
        0,
    );
}

#[tokio::test]
async fn a_master_in_quarantine() {
    let servers = three(&[]).await;
    let command = || {
        let mut command = all(&urls(&servers));
        command
            .env("MULTILOCK_QUARANTINE", "auto")
            .env("MULTILOCK_NODE_TIMEOUT", "2s")
            .env("MULTILOCK_FOR_TESTS", "10s");
        command
    };
    let diagnosis = doctor(command()).await;
    assert_eq!(
        diagnosis.code,
        Some(69),
        "no client has met any: {:#}",
        diagnosis.told
    );
    // Without a client the time does not begin, however often doctor looks.
    for finding in diagnosis
        .findings()
        .iter()
        .filter(|finding| finding["code"] == "quarantine")
    {
        assert!(
            word(finding, "seen").contains("no client has used it yet"),
            "{finding}"
        );
        assert!(
            word(finding, "remedy").contains("multilock wait-ready --all"),
            "{finding}"
        );
    }
    let builder = Masters::builder().nodes(urls(&servers)).for_tests(ms(10_000));
    let builder = builder.node_timeout(ms(2_000)).connect_timeout(PATIENT);
    let client = builder.connect().await.expect("masters that can be used");
    client.ready(Policy::MultiLock).await.expect("in the end");
    client.close(Closing::Release).await;
    doctor(command()).await.is_well();
    servers[2].restart(Keep::Data).await;
    let diagnosis = doctor(command()).await;
    let node = label(&servers[2]);
    diagnosis.only(
        ("warning", "quarantine"),
        Some(&node),
        "has no vote for",
        "wait",
        0,
    );
}
