//! The exporter against the simulator.

use azure_scheduled_events_exporter::{
    file::{OsFilesystem, replace},
    simulator::Scenario,
};

use super::{TestServer, linux_vm};
use crate::support::{
    ask_until,
    process::{Process, json},
};

fn simulated(scenario: &str, speed: f64) -> TestServer {
    let scenario = Scenario::parse("test", "test", scenario.as_bytes()).unwrap();
    TestServer::of_vm(linux_vm(Some("web_0")), vec![scenario], speed)
}

/// An exporter of one VM of the simulator, and its address.
async fn exporter_of(server: &TestServer, vm: &str, flags: &[&str]) -> (Process, String) {
    let url = format!("--imds.url=http://{}/vm/{vm}", server.host());
    let listen = "--web.listen-address=127.0.0.1:0";
    let mut process = Process::start([&[listen, &url][..], flags].concat());
    let address = process.address().await;
    (process, address)
}

#[tokio::test]
async fn backup_approves_on_the_same_simulator_what_its_leader_does_not() {
    let scenario = r#"{"events": [{"event_type": "Reboot", "event_source": "User", "notice": "10d",
        "resources": ["WestNO_0", "WestNO_1"]}]}"#;
    for (leader_flags, delay, decisions) in [
        // Without this flag, the leader approves nothing.
        (&[][..], "1s", ["approved_elsewhere", "approved"]),
        (
            &["--approve.user-events"],
            "9m",
            ["approved", "approved_elsewhere"],
        ),
    ] {
        let server = simulated(scenario, 1.0);
        let (_leader, leader) = exporter_of(&server, "WestNO_0", leader_flags).await;
        let delay = format!("--approve.delay={delay}");
        let backup_flags = ["--approve.user-events", &delay];
        let (_backup, backup) = exporter_of(&server, "WestNO_1", &backup_flags).await;
        for (address, vm, decision) in [
            (leader, "WestNO_0", decisions[0]),
            (backup, "WestNO_1", decisions[1]),
        ] {
            let shown = ask_until(
                decision,
                || json(&address, "/api/v1/events"),
                |it| it["events"][0]["approval"]["decision"] == decision,
            );
            let shown = shown.await;
            assert_eq!(shown["vm"]["metadata_name"], vm);
            assert_eq!(shown["events"][0]["scope"], "self");
        }
        let requests = server.get("/simulator/state").json()["requests"].clone();
        assert_eq!(requests["approvals"], 1);
    }
}

#[tokio::test]
async fn demo_has_the_scale_set_and_name_of_its_flags() {
    let mut demo = Process::start([
        "demo",
        "--web.listen-address=127.0.0.1:0",
        "--vm.name=batch_1a2b3c4d",
        "--vm.scale-set=batch",
        "--vm.os-type=windows",
    ]);
    let line = demo.says("VM identity resolved").await;
    for words in ["name=batch_1a2b3c4d", "vm_scale_set=batch"] {
        assert!(line.contains(words), "{line}");
    }
}

#[tokio::test]
async fn exporter_tells_of_a_move_to_the_physical_host_that_the_simulator_writes() {
    let folder = tempfile::tempdir().unwrap();
    let (scenario, pool) = (folder.path().join("move.json"), folder.path().join("pool"));
    let text =
        r#"{"events": [{"event_type": "Redeploy", "started_for": "5s", "moves_to": "AMS2"}]}"#;
    replace(&mut OsFilesystem, &scenario, text.as_bytes()).unwrap();
    let listen = "--web.listen-address=127.0.0.1:0";
    let mut simulator = Process::start([
        "simulate",
        listen,
        &format!("--scenario={}", scenario.display()),
        &format!("--kvp-pool-file={}", pool.display()),
    ]);
    let imds = simulator.says("simulator started").await;
    let imds = imds.rsplit_once("imds_url=").unwrap().1;
    let mut exporter = Process::start([
        listen,
        &format!("--imds.url={imds}"),
        &format!("--vm.kvp-pool-file={}", pool.display()),
    ]);
    let address = exporter.address().await;
    let events = ask_until(
        "the end",
        || json(&address, "/api/v1/events"),
        |it| it["events"][0]["phase"] == "ended",
    );
    let event = events.await["events"][0].clone();
    let hosts = [&event["physical_host"], &event["moved_to"]];
    assert_eq!(hosts, ["host-a", "AMS2"]);
    exporter.says("moved_to=AMS2").await;
}
