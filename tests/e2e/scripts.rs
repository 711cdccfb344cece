//! The scripts of docs/scripts.md as they stand there, with the simulator, the exporter and `watch`, and that of
//! packaging/azure for classic VMs. tests/packages/scripts has what they do with each line.
//! `systemctl`, `kubectl`, `scontrol` and `squeue` are replaced by programs that record their calls.

use std::{
    fs,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
    process::Command,
};

use serde_json::{Value, json};

use crate::support::{
    ANY_PORT, Daemon, Listening, Reply, Request, Tool, block, client,
    exporter::{Exporter, PROGRAM},
    get, run, system, wait_until,
};

/// Slurm's answers for a node whose state, reason and jobs are in files, in the form of 22.05.
const SCONTROL: &str = r#"#!/bin/sh
cd "$HOME" || exit
case $1 in
    -o) echo >>shown; [ -e node-state ] && printf 'NodeName=%s Arch=x86_64 State=%s Weight=1 BootTime=%s CfgTRES=cpu=2%s\n' \
        "$4" "$(cat node-state)" "$(cat node-boot)" "$(cat node-reason)"; exit ;;
    requeue) : >jobs ;;
    update) case $3 in
        state=drain) echo MIXED+DRAIN >node-state; printf ' Reason=%s [root@2026-11-29T00:41:59]' "${4#reason=}" >node-reason ;;
        state=resume) echo IDLE >node-state; : >node-reason ;;
    esac ;;
esac
printf 'scontrol %s\n' "$*" >>calls
"#;
const SQUEUE: &str =
    "#!/bin/sh\ncat \"$HOME/jobs\"\nresult=$?\necho >>\"$HOME/squeue-calls\"\nexit $result\n";

fn write_program(path: &Path, text: &str) {
    fs::write(path, text).unwrap();
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
}

/// A VM `web_0` with the simulator, the exporter and the programs that the scripts call.
struct TestVm {
    simulator: Exporter,
    exporter: Exporter,
    /// The last one, because it has the logs.
    folder: tempfile::TempDir,
}

impl TestVm {
    async fn start() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path();
        let simulator = Exporter::simulator(path, &["--vm.name=web_0"]).await;
        let imds = format!("--imds.url={}", simulator.url(""));
        let flags = ["--imds.poll-interval=200ms"];
        let exporter = Exporter::of_vm(&simulator, "web_0", &flags, &[], path).await;
        let programs = path.join("bin");
        fs::create_dir(&programs).unwrap();
        let url = exporter.url("");
        let wrapper = format!(
            "#!/bin/sh\ncommand=$1\nshift\ncase $command in\n\
             watch) case $* in *--url=*) ;; *) set -- --url='{url}' \"$@\" ;; esac\n\
             echo $$ >\"$HOME/watch.pid\"; exec '{PROGRAM}' watch \"$@\" ;;\n\
             approve) [ ! -e \"$HOME/refused\" ]; result=$?; printf 'approve %s\\n' \"$*\" >>\"$HOME/calls\"\n\
             [ $result -eq 0 ] && exec '{PROGRAM}' approve '{imds}' \"$@\" ;;\nesac\n"
        );
        write_program(&programs.join("azure-scheduled-events-exporter"), &wrapper);
        for name in ["systemctl", "kubectl"] {
            // The call is written last, because tests go on when they read it.
            let recorder = format!(
                "#!/bin/sh\n[ \"$1\" != create ] || cat >>\"$HOME/objects\"\n\
                 [ ! -e \"$HOME/$1-fails\" ]\nresult=$?\n\
                 printf '{name} %s\\n' \"$*\" >>\"$HOME/calls\"\nexit $result\n"
            );
            write_program(&programs.join(name), &recorder);
        }
        write_program(&programs.join("scontrol"), SCONTROL);
        write_program(&programs.join("squeue"), SQUEUE);
        Self {
            simulator,
            exporter,
            folder,
        }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Runs a script of the page once `watch` is known to wait.
    async fn script(&self, name: &str, variables: &[(&str, &str)]) -> Script {
        let script = self.path(name);
        let text = block("docs/scripts.md", &format!("# {name}: "));
        write_program(&script, &text);
        self.start_script(&script, variables).await
    }

    /// Runs the script `prepare` of the page with a file of variables that the page shows.
    async fn prepare(&self, name: &str) -> Script {
        let page = "docs/scripts.md";
        let variables = self.path("variables");
        fs::write(&variables, block(page, &format!("# /etc/default/{name}"))).unwrap();
        let prepare = self.path("prepare");
        write_program(&prepare, &block(page, "# prepare: "));
        write_program(&self.path("bin/slurm-node"), &block(page, "# slurm-node: "));
        let script = self.path(name);
        let start = format!(
            "#!/bin/sh\nset -a\n. '{}'\nexec '{}'\n",
            variables.display(),
            prepare.display()
        );
        write_program(&script, &start);
        let url = self.exporter.url("");
        self.start_script(&script, &[("URL", &url)]).await
    }

    async fn start_script(&self, script: &Path, variables: &[(&str, &str)]) -> Script {
        let path = format!(
            "{}:{}",
            self.path("bin").display(),
            std::env::var("PATH").unwrap()
        );
        let state = self.path("state");
        fs::create_dir_all(&state).unwrap();
        let variables = variables
            .iter()
            .map(|(name, value)| (*name, (*value).as_ref()));
        let variables: Vec<_> = variables
            .chain([
                ("PATH", path.as_ref()),
                ("STATE_DIRECTORY", state.as_os_str()),
            ])
            .collect();
        let watch = self.path("watch.pid");
        fs::remove_file(&watch).ok();
        let daemon = Daemon::start_with("script", script, [""; 0], &variables, self.folder.path());
        wait_until("the script has started watch", async || {
            fs::read_to_string(&watch)
                .ok()
                .filter(|pid| pid.ends_with('\n'))
        })
        .await;
        // Written with the first answer of the exporter.
        wait_until("watch has read the exporter", async || {
            state.join("printed").exists().then_some(())
        })
        .await;
        Script {
            _daemon: daemon,
            watch,
        }
    }

    /// Announces events; returns their ids.
    async fn announce(&self, events: Value) -> Vec<String> {
        self.simulator.play(json!({"events": events})).await;
        let count = events.as_array().unwrap().len();
        let state = get(&client(), &self.simulator.url("/simulator/state"))
            .await
            .unwrap();
        let state: Value = serde_json::from_str(&state).unwrap();
        let all = state["events"].as_array().unwrap();
        let ids = all
            .iter()
            .map(|event| event["event_id"].as_str().unwrap().to_owned());
        ids.skip(all.len() - count).collect()
    }

    async fn prepared(&self) {
        wait_until("a preparation has begun", async || {
            self.path("state/prepared").exists().then_some(())
        })
        .await;
    }

    /// An idle node of Slurm; returns the time of its boot.
    fn slurm_node(&self) -> String {
        let boot = run(Command::new("uptime").arg("-s"), "").replace(' ', "T");
        for (name, text) in [
            ("node-state", "IDLE"),
            ("node-reason", ""),
            ("node-boot", &boot),
            ("jobs", ""),
        ] {
            fs::write(self.path(name), text).unwrap();
        }
        boot
    }

    /// Waits until nothing is prepared.
    async fn undone(&self) {
        wait_until("nothing is prepared", async || {
            (!self.path("state/prepared").exists()).then_some(())
        })
        .await;
    }

    /// The calls of the recorded programs, once there are as many as expected.
    async fn expect_calls(&self, expected: &[String]) {
        wait_until(&format!("{expected:#?}"), async || {
            let calls = fs::read_to_string(self.path("calls")).unwrap_or_default();
            let calls: Vec<_> = calls.lines().collect();
            assert!(
                calls
                    .iter()
                    .zip(expected)
                    .all(|(call, expected)| call == expected)
                    && calls.len() <= expected.len(),
                "{calls:#?} instead of {expected:#?}"
            );
            (calls.len() == expected.len()).then_some(())
        })
        .await;
    }
}

/// A running script. Its pipeline ends with `watch`.
struct Script {
    _daemon: Daemon,
    watch: PathBuf,
}

impl Drop for Script {
    fn drop(&mut self) {
        let pid = fs::read_to_string(&self.watch).unwrap_or_default();
        let kill = format!("kill -s TERM {}", pid.trim());
        // It fails only if watch has ended by itself.
        Command::new("sh").args(["-c", &kill]).status().ok();
    }
}

/// A restart that waits for an approval, and is over two seconds after it.
fn restart(event_type: &str) -> Value {
    json!({"event_type": event_type, "notice": "15m", "started_for": "2s"})
}

fn calls(lines: &[&str]) -> Vec<String> {
    lines.iter().map(|line| (*line).to_owned()).collect()
}

#[tokio::test]
async fn service_is_stopped_before_a_reboot_and_started_after_it() {
    const STOP: &str = "systemctl stop postgresql.service";
    const START: &str = "systemctl start postgresql.service";
    let vm = TestVm::start().await;
    let script = vm.prepare("before-reboot").await;
    // An id is data: `approve` gets it as one argument, and no shell runs it.
    let hostile = format!(
        "-n $(touch {0}) `touch {0}` ;' \"x\" *",
        vm.path("run").display()
    );
    let mut reboot = restart("Reboot");
    reboot["event_id"] = json!(hostile);
    let freeze = json!({"event_type": "Freeze", "notice": "15m"});
    vm.announce(json!([freeze, reboot])).await;
    let mut expected = calls(&[STOP]);
    expected.push(format!("approve -- {hostile}"));
    expected.push(START.to_owned());
    vm.expect_calls(&expected).await;
    assert!(!vm.path("run").exists(), "the id was run");

    // A failure ends no loop, nothing is approved that is not prepared, and both are tried again.
    fs::write(vm.path("stop-fails"), "").unwrap();
    let ids = vm.announce(json!([restart("Reboot")])).await;
    expected.push(STOP.to_owned());
    vm.expect_calls(&expected).await;
    fs::write(vm.path("refused"), "").unwrap();
    fs::remove_file(vm.path("stop-fails")).unwrap();
    expected.extend([STOP.to_owned(), format!("approve -- {}", ids[0])]);
    vm.expect_calls(&expected).await;

    // A script that is started again approves what was not approved yet, and undoes what has ended meanwhile.
    drop(script);
    fs::remove_file(vm.path("refused")).unwrap();
    fs::write(vm.path("start-fails"), "").unwrap();
    let script = vm.prepare("before-reboot").await;
    expected.extend([STOP.to_owned(), format!("approve -- {}", ids[0])]);
    expected.push(START.to_owned());
    vm.expect_calls(&expected).await;
    drop(script);
    fs::remove_file(vm.path("start-fails")).unwrap();
    let script = vm.prepare("before-reboot").await;
    expected.push(START.to_owned());
    vm.expect_calls(&expected).await;
    // It starts nothing that it has not stopped.
    vm.undone().await;
    drop(script);
    let _script = vm.prepare("before-reboot").await;
    let last = vm.announce(json!([restart("Reboot")])).await;
    expected.extend([
        STOP.to_owned(),
        format!("approve -- {}", last[0]),
        START.to_owned(),
    ]);
    vm.expect_calls(&expected).await;
}

#[tokio::test]
async fn node_is_drained_before_a_redeploy_and_uncordoned_after_it() {
    const DRAIN: &str =
        "kubectl drain node-7 --ignore-daemonsets --delete-emptydir-data --timeout=1m";
    let vm = TestVm::start().await;
    let _script = vm.prepare("drain-node").await;
    let freeze = json!({"event_type": "Freeze", "notice": "15m"});
    let ids = vm.announce(json!([freeze, restart("Redeploy")])).await;
    let mut expected = calls(&[
        DRAIN,
        &format!("approve -- {}", ids[1]),
        "kubectl uncordon node-7",
    ]);
    vm.expect_calls(&expected).await;
    // Nothing is undone while another event is open.
    let mut longer = restart("Reboot");
    longer["started_for"] = json!("4s");
    let ids = vm.announce(json!([restart("Redeploy"), longer])).await;
    let mut both = ids.clone();
    both.sort();
    let both = both
        .iter()
        .map(|id| [DRAIN.to_owned(), format!("approve -- {id}")]);
    expected.extend(both.flatten());
    expected.push("kubectl uncordon node-7".to_owned());
    vm.expect_calls(&expected).await;
    // A node that cannot be drained in time keeps its event waiting.
    fs::write(vm.path("drain-fails"), "").unwrap();
    vm.announce(json!([restart("Reboot")])).await;
    expected.push(DRAIN.to_owned());
    vm.expect_calls(&expected).await;
    vm.simulator.clear().await;
    expected.push("kubectl uncordon node-7".to_owned());
    vm.expect_calls(&expected).await;
}

#[tokio::test]
async fn runner_that_finishes_a_job_is_approved_when_it_has_stopped() {
    const STOP: &str = "systemctl stop gitlab-runner.service";
    const START: &str = "systemctl start gitlab-runner.service";
    let vm = TestVm::start().await;
    let _script = vm.prepare("drain-runner").await;
    // A stop that is not done when `timeout` ends fails.
    fs::write(vm.path("stop-fails"), "").unwrap();
    let mut redeploy = restart("Redeploy");
    redeploy["event_id"] = json!("602d9444-d2cd-49c7-8624-8643e7171297");
    let ids = vm.announce(json!([redeploy])).await;
    let mut expected = calls(&[STOP]);
    vm.expect_calls(&expected).await;
    fs::remove_file(vm.path("stop-fails")).unwrap();
    expected.extend([
        STOP.to_owned(),
        format!("approve -- {}", ids[0]),
        START.to_owned(),
    ]);
    vm.expect_calls(&expected).await;
    // The event names this VM again.
    vm.undone().await;
    vm.announce(json!([redeploy])).await;
    expected.extend_from_within(1..);
    vm.expect_calls(&expected).await;
}

const RESUME: &str = "scontrol update nodename=node-7 state=resume";

fn drain(kind: &str, id: &str) -> String {
    format!(
        "scontrol update nodename=node-7 state=drain reason=Azure Scheduled Events: {kind} {id}"
    )
}

#[tokio::test]
async fn slurm_node_is_approved_when_it_has_no_job_and_resumed_when_slurmd_has_registered() {
    let vm = TestVm::start().await;
    let write = |name: &str, text: &str| fs::write(vm.path(name), text).unwrap();
    let boot = vm.slurm_node();
    write("jobs", "7\n");
    let script = vm.prepare("drain-slurm").await;
    let mut redeploy = restart("Redeploy");
    let hostile = format!("\"$(touch {})\" state=resume", vm.path("run").display());
    redeploy["event_id"] = json!(hostile);
    vm.announce(json!([{"event_type": "Freeze", "notice": "15m"}, redeploy]))
        .await;
    let mut expected = vec![drain("Redeploy", &hostile)];
    vm.expect_calls(&expected).await;
    assert!(!vm.path("run").exists(), "the id was run");
    // The script is started again while a job runs, and then `squeue` fails.
    drop(script);
    fs::remove_file(vm.path("squeue-calls")).ok();
    // The first attempt is over when there is a second one.
    let asked = async |file: &str, count: usize| {
        wait_until("Slurm is asked", async || {
            let asked = fs::read_to_string(vm.path(file)).unwrap_or_default();
            (asked.lines().count() >= count).then_some(())
        })
        .await;
    };
    let _script = vm.prepare("drain-slurm").await;
    asked("squeue-calls", 1).await;
    fs::remove_file(vm.path("jobs")).unwrap();
    asked("squeue-calls", 3).await;
    write("node-boot", "1999-01-01T00:00:00");
    write("jobs", "");
    expected.push(format!("approve -- {hostile}"));
    vm.expect_calls(&expected).await;
    // The node has rebooted, but slurmd has not registered yet.
    fs::remove_file(vm.path("shown")).unwrap();
    asked("shown", 2).await;
    vm.expect_calls(&expected).await;
    write("node-boot", &boot);
    expected.push(RESUME.to_owned());
    vm.expect_calls(&expected).await;
}

#[tokio::test]
async fn slurm_node_is_left_alone_if_it_was_drained_otherwise() {
    let vm = TestVm::start().await;
    let write = |name: &str, text: &str| fs::write(vm.path(name), text).unwrap();
    vm.slurm_node();
    let _script = vm.prepare("drain-slurm").await;
    let mut expected = Vec::new();
    // An event that is cancelled before the job has ended.
    write("jobs", "8\n");
    let ids = vm.announce(json!([restart("Reboot")])).await;
    expected.push(drain("Reboot", &ids[0]));
    vm.expect_calls(&expected).await;
    vm.simulator.clear().await;
    expected.push(RESUME.to_owned());
    vm.expect_calls(&expected).await;

    // Jobs are requeued before an eviction, which is not approved.
    vm.undone().await;
    let ids = vm
        .announce(json!([{"event_type": "Preempt", "notice": "5m"}]))
        .await;
    expected.push(drain("Preempt", &ids[0]));
    expected.push("scontrol requeue Incomplete 8".to_owned());
    vm.expect_calls(&expected).await;
    vm.simulator.clear().await;
    expected.push(RESUME.to_owned());
    vm.expect_calls(&expected).await;

    // A node that was drained for another reason is approved, and stays drained.
    vm.undone().await;
    write("node-state", "IDLE+DRAIN");
    write("node-reason", " Reason=disk [root@2026-11-29T00:42:07]");
    let ids = vm.announce(json!([restart("Reboot")])).await;
    expected.push(format!("approve -- {}", ids[0]));
    vm.expect_calls(&expected).await;
    // One that is down is left alone: it may get jobs at any time.
    vm.undone().await;
    write("node-state", "DOWN");
    vm.announce(json!([restart("Reboot")])).await;
    vm.prepared().await;
    vm.simulator.clear().await;
    vm.undone().await;
    vm.expect_calls(&expected).await;
    // A controller that does not answer ends no loop.
    vm.undone().await;
    fs::remove_file(vm.path("node-state")).unwrap();
    let ids = vm.announce(json!([restart("Reboot")])).await;
    vm.prepared().await;
    write("node-state", "IDLE");
    expected.push(drain("Reboot", &ids[0]));
    expected.push(format!("approve -- {}", ids[0]));
    expected.push(RESUME.to_owned());
    vm.expect_calls(&expected).await;
}

/// Checks objects against the schemas of the newest tested Kubernetes.
fn assert_valid(objects: &str) {
    let check = r#"
        cache=${XDG_CACHE_HOME:-$HOME/.cache}/azure-scheduled-events-exporter
        source tests/tools/pins
        schemas=$cache/kubernetes-schemas-$(cat tests/tools/pins tests/packages/schemas | sha256sum | cut -c1-12)
        kubeconform=$cache/kubeconform-$KUBECONFORM_VERSION/kubeconform
        [ -x "$kubeconform" ] && [ -d "$schemas" ] || { echo "missing; run: tests/tools/install chart" >&2; exit 1; }
        "$kubeconform" -strict -summary -schema-location \
          "$schemas/$KUBERNETES_VERSION/{{ .ResourceKind }}{{ .KindSuffix }}.json"
    "#;
    let mut bash = Command::new("bash");
    bash.args(["-euc", check])
        .current_dir(env!("CARGO_MANIFEST_DIR"));
    let summary = run(&mut bash, objects);
    assert!(
        summary.contains("Valid: 3, Invalid: 0, Errors: 0, Skipped: 0"),
        "{summary}"
    );
}

#[tokio::test]
async fn each_change_becomes_a_kubernetes_event_of_the_node() {
    let vm = TestVm::start().await;
    let _script = vm.script("node-events", &[("NODE_NAME", "node-7")]).await;
    let freeze = json!([{"event_type": "Freeze", "notice": "1s", "started_for": "2s"}]);
    vm.announce(freeze).await;
    vm.expect_calls(&calls(&["kubectl create -f -"; 3])).await;
    let lines = fs::read_to_string(vm.path("objects")).unwrap();
    let objects: Vec<Value> = lines
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let shown: Vec<_> = objects
        .iter()
        .map(|object| {
            (
                object["reason"].as_str().unwrap(),
                object["type"].as_str().unwrap(),
            )
        })
        .collect();
    assert_eq!(
        shown,
        [
            ("AzureScheduledEventAnnounced", "Warning"),
            ("AzureScheduledEventStarted", "Warning"),
            ("AzureScheduledEventEnded", "Normal"),
        ]
    );
    assert_eq!(objects[0]["involvedObject"]["name"], "node-7");
    assert_eq!(objects[2]["message"], "Freeze of web_0 completed");
    // A document of YAML for each.
    assert_valid(&lines.replace('\n', "\n---\n"));
}

/// A chat that refuses the first message, and keeps the bodies that it gets.
async fn chat() -> Listening<Vec<String>> {
    let respond = |bodies: &mut Vec<String>, request: Request| {
        bodies.push(request.body);
        match bodies.len() {
            1 => Reply::error("503 Service Unavailable", "busy"),
            _ => Reply::ok(""),
        }
    };
    Listening::start(ANY_PORT, Vec::new(), respond).await
}

#[tokio::test]
async fn chat_gets_one_message_for_each_event() {
    let vm = TestVm::start().await;
    let chat = chat().await;
    let url = format!("http://{}/hook", chat.address);
    let config = vm.path("chat.conf");
    fs::write(&config, format!("url = \"{url}\"\n")).unwrap();
    let variables = [("CURL_CONFIG", config.to_str().unwrap())];
    let texts = async |count: usize| {
        wait_until("messages", async || {
            let bodies = chat.state().clone();
            (bodies.len() >= count).then(|| {
                let text =
                    |body: &String| serde_json::from_str::<Value>(body).unwrap()["text"].clone();
                bodies.iter().map(text).collect::<Vec<_>>()
            })
        })
        .await
    };
    let script = vm.script("chat", &variables).await;
    vm.announce(json!([restart("Reboot")])).await;
    // The first one is refused and sent again.
    let sent = texts(2).await;
    assert!(
        sent[0].as_str().unwrap().starts_with("Reboot of web_0 "),
        "{sent:?}"
    );
    assert_eq!(sent[0], sent[1]);
    // `watch` keeps what it has printed only after it has printed it.
    wait_until("the file of --since", async || {
        let printed = fs::read_to_string(vm.path("state/printed")).ok()?;
        let printed: Value = serde_json::from_str(&printed).ok()?;
        (printed["number"].as_u64() > Some(0)).then_some(())
    })
    .await;
    drop(script);
    let _script = vm.script("chat", &variables).await;
    vm.announce(json!([{"event_type": "Preempt", "notice": "15m"}]))
        .await;
    let sent = texts(3).await;
    assert_eq!(sent.len(), 3, "{sent:?}");
    assert!(sent[2].as_str().unwrap().contains("web_0"), "{sent:?}");
    assert_ne!(sent[2], sent[1]);
}

#[test]
fn scripts_are_short_and_pass_shellcheck() {
    for (name, lines) in [
        ("prepare", 30),
        ("slurm-node", 20),
        ("node-events", 15),
        ("node-conditions", 15),
        ("chat", 15),
    ] {
        let script = block("docs/scripts.md", &format!("# {name}: "));
        assert!(script.lines().count() <= lines, "{name}");
        let mut shellcheck = Command::new(system(Tool::Debian, "/usr/bin/shellcheck"));
        run(shellcheck.arg("-"), &script);
    }
}

#[test]
fn unit_is_valid() {
    let folder = tempfile::tempdir().unwrap();
    let script = folder.path().join("before-reboot");
    write_program(&script, "#!/bin/sh\n");
    let unit = block("docs/scripts.md", "azure-event@.service");
    let unit = unit.replace("/usr/local/sbin/%i", script.to_str().unwrap());
    let file = folder.path().join("azure-event@before-reboot.service");
    fs::write(&file, unit).unwrap();
    let mut verify = Command::new(system(Tool::Debian, "/usr/bin/systemd-analyze"));
    verify.args(["verify", "--man=no", "--recursive-errors=no"]);
    run(verify.arg(&file), "");
}

/// Exit code, output and errors of packaging/azure/classic-endpoint.sh with the leases in this folder.
fn classic_endpoint(leases: &Path) -> (Option<i32>, String, String) {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let script = root.join("packaging/azure/classic-endpoint.sh");
    let mut script = fs::read_to_string(script).unwrap();
    for path in [
        "/run/systemd/netif/leases",
        "/var/lib/dhcp",
        "/var/lib/dhclient",
    ] {
        assert!(script.contains(path), "{script}");
        script = script.replace(path, leases.to_str().unwrap());
    }
    let done = Command::new("sh").args(["-euc", &script]).output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (done.status.code(), text(&done.stdout), text(&done.stderr))
}

#[test]
fn classic_endpoint_is_read_from_a_lease() {
    let found = (Some(0), "http://168.63.129.16\n", "");
    let error = "classic-endpoint.sh: no lease has DHCP option 245\n";
    let dhclient = "lease {\n  option unknown-245 a8:3f:81:1;\n}\nlease {\n  option routers 10.0.0.1;\n  \
                    option unknown-245 a8:3f:81:10;\n}\n";
    for (name, lease, (code, stdout, stderr)) in [
        ("2", "ADDRESS=10.0.0.4\nOPTION_245=a83f8110\n", found),
        ("dhclient.eth0.leases", dhclient, found),
        ("2", "ADDRESS=10.0.0.4\n", (Some(1), "", error)),
    ] {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join(name), lease).unwrap();
        let expected = (code, stdout.to_owned(), stderr.to_owned());
        assert_eq!(classic_endpoint(folder.path()), expected);
    }
}
