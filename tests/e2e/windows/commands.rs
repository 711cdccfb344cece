//! The exporter in a console, and `watch` and `approve` beside it.

use std::{
    fs::{self, File},
    process::{Child, Command, Stdio},
};

use serde_json::Value;

use super::{
    Ended,
    service::{PROGRAM, UP, Windows},
};
use crate::support::{Daemon, wait_until};

impl Windows {
    /// The exporter in a console.
    async fn exporter(&self) -> Daemon {
        let [imds, listen] = self.flags();
        let daemon = Daemon::start_with(
            "console",
            &self.wine.program,
            [PROGRAM, &imds, &listen],
            &self.wine.variables(),
            self.wine.folder.path(),
        );
        self.page("/metrics", UP).await;
        daemon
    }

    fn watch(&self, stdout: Stdio) -> Child {
        let url = format!("--url=http://{}", self.address);
        let flags = ["watch", &url, r"--since=C:\printed.json"];
        let mut command = self.wine.command(PROGRAM, &flags);
        command.stdout(stdout).spawn().unwrap()
    }

    fn approve(&self) -> Ended {
        let [imds, _listen] = self.flags();
        self.wine.run(PROGRAM, &["approve", "--all-mine", &imds])
    }
}

async fn assert_success(mut watch: Child) {
    let status = wait_until("watch ends", async || watch.try_wait().unwrap()).await;
    assert_eq!(status.code(), Some(0));
}

#[tokio::test]
async fn watch_ends_by_ctrl_c_or_a_closed_pipe_and_remembers_its_lines() {
    let windows = Windows::start().await;
    let exporter = windows.exporter().await;
    let log = exporter.log();
    assert!(log.contains("message=listening"), "{log}");
    let metrics = windows.page("/metrics", UP).await;
    assert!(metrics.contains("azure_scheduled_event_info{"), "{metrics}");
    let path = windows.wine.folder.path().join("lines");
    let printed = async || {
        let stdout = File::create(&path).unwrap();
        let watch = windows.watch(stdout.into());
        let lines = wait_until("a line", async || {
            Some(fs::read_to_string(&path).unwrap()).filter(|text| text.ends_with('\n'))
        })
        .await;
        // Wine makes a Ctrl-C of this signal.
        let interrupt = format!("kill -s INT {}", watch.id());
        let sent = Command::new("sh").args(["-c", &interrupt]).status();
        assert!(sent.unwrap().success());
        assert_success(watch).await;
        let lines = lines.lines();
        let line = lines.map(|line| serde_json::from_str::<Value>(line).unwrap());
        line.map(|line| line["transition"].clone())
            .collect::<Vec<_>>()
    };
    assert_eq!(printed().await, ["pending"]);

    let mut unread = windows.watch(Stdio::piped());
    drop(unread.stdout.take());
    windows.approve().assert(0, "Approved: Freeze ");
    assert_success(unread).await;
    // Nobody has read it.
    assert_eq!(printed().await, ["started"]);
    windows.approve().assert(0, "waits for an approval");
}
