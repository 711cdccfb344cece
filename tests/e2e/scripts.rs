//! The script of docs/azure.md as it stands there.

use std::{
    fs,
    io::Write as _,
    path::Path,
    process::{Command, Stdio},
};

/// The code block of a page that contains `marker`.
fn block(page: &str, marker: &str) -> String {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let text = fs::read_to_string(root.join(page)).unwrap();
    let mut blocks = text.split("\n```").skip(1).step_by(2);
    let block = blocks.find(|block| block.contains(marker));
    let block = block.unwrap_or_else(|| panic!("{page} has no block with {marker:?}"));
    let (_language, code) = block.split_once('\n').unwrap();
    format!("{code}\n")
}

/// Runs a program with `input`; returns what it printed, and fails if it does.
fn run(command: &mut Command, input: &str) -> String {
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap_or_else(|error| panic!("{command:?} does not start: {error}"));
    child
        .stdin
        .take()
        .unwrap()
        .write_all(input.as_bytes())
        .unwrap();
    let output = child.wait_with_output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let (stdout, stderr) = (text(&output.stdout), text(&output.stderr));
    assert!(output.status.success(), "{command:?}: {stdout}{stderr}");
    stdout
}

#[test]
fn classic_endpoint_is_read_from_a_lease() {
    for (file, lease) in [
        ("2", "ADDRESS=10.0.0.4\nOPTION_245=a83f8110\n"),
        (
            "dhclient.eth0.leases",
            "lease {\n  option unknown-245 a8:3f:81:1;\n}\nlease {\n  option routers 10.0.0.1;\n  \
             option unknown-245 a8:3f:81:10;\n}\n",
        ),
    ] {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join(file), lease).unwrap();
        let mut script = block("docs/azure.md", "# Classic endpoint");
        for path in ["/run/systemd/netif/leases", "/var/lib/dhcp"] {
            assert!(script.contains(path), "{script}");
            script = script.replace(path, folder.path().to_str().unwrap());
        }
        let printed = run(Command::new("sh").args(["-euc", &script]), "");
        assert_eq!(printed, "http://168.63.129.16\n");
    }
}
