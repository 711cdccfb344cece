//! The installer: the service, its upgrade and removal, the firewall, `PATH` and the version resource.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use tempfile::TempDir;

use super::{
    Ended, exe,
    service::{ENVIRONMENT, NAME, SERVICE, UP, Windows},
};

/// The arguments of `netsh`, which does nothing under Wine, and says so.
const ADD_RULE: &str = r#"L"advfirewall" L"firewall" L"add" L"rule""#;
const DELETE_RULE: &str =
    r#"L"advfirewall" L"firewall" L"delete" L"rule" L"name=Azure Scheduled Events exporter""#;

/// The installer of a version.
fn build(folder: &Path, exe: &Path, name: &str, version: &str) -> PathBuf {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("packaging/windows/build-msi");
    let file = folder.join(name);
    let mut command = Command::new(&script);
    let built = command.arg(exe).arg(&file).arg(version).output().unwrap();
    let log = String::from_utf8_lossy(&built.stderr);
    let script = script.display();
    assert!(built.status.success(), "{script} failed:\n{log}");
    file
}

fn table(file: &Path, name: &str) -> String {
    let mut command = Command::new("msiinfo");
    let exported = command.arg("export").arg(file).arg(name).output().unwrap();
    String::from_utf8(exported.stdout).unwrap()
}

impl Windows {
    fn msiexec(&self, arguments: &[&str]) -> Ended {
        self.wine.run("msiexec", &[arguments, &["/qn"]].concat())
    }

    fn program(&self) -> PathBuf {
        self.wine.path("Program Files").join(NAME)
    }

    fn args(&self) -> String {
        format!("ARGS={}", self.flags().join(" "))
    }

    fn assert_running(&self) {
        self.sc(&["query", NAME]).assert(0, "4  RUNNING");
    }

    fn has_program_on_path(&self) -> bool {
        let path = self.reg(&["query", ENVIRONMENT, "/v", "PATH"]).output;
        path.contains(&format!(";C:\\Program Files\\{NAME}\\"))
    }

    /// The version of the installed program, as Windows shows it.
    fn shown_version(&self) -> String {
        let script = format!(
            r#"WScript.Echo(new ActiveXObject("Scripting.FileSystemObject").GetFileVersion("C:\\Program Files\\{NAME}\\{NAME}.exe"))"#
        );
        fs::write(self.wine.path("version.js"), script).unwrap();
        let shown = self.wine.run("cscript", &["/nologo", r"C:\version.js"]);
        shown.output.trim().to_owned()
    }
}

#[tokio::test]
async fn windows_installer_installs_upgrades_and_removes_the_service() {
    let windows = Windows::start().await;
    let exe = exe();
    build(&windows.wine.path(""), &exe, "first.msi", "0.1.0");
    build(&windows.wine.path(""), &exe, "second.msi", "0.2.0");

    let refused = windows.msiexec(&["ARGS=--bogus", "/i", r"C:\first.msi"]);
    assert_ne!(refused.code, Some(0), "{}", refused.output);
    let error = "'--bogus' found";
    assert!(refused.output.contains(error), "{}", refused.output);
    windows.sc(&["query", NAME]).assert(1, "");
    assert!(!windows.program().exists());

    let installed = windows.msiexec(&[&windows.args(), "/i", r"C:\first.msi"]);
    installed.assert(0, "is installed");
    windows.assert_running();
    windows.page("/metrics", UP).await;
    let flags = windows.flags().join(" ");
    let path = format!("\"C:\\Program Files\\{NAME}\\{NAME}.exe\" {flags}\r\n");
    windows.reg(&["query", SERVICE]).assert(0, &path);
    for file in ["LICENSE", "THIRD-PARTY-LICENSES"] {
        assert!(windows.program().join(file).is_file(), "{file}");
    }

    let add = [
        "add",
        SERVICE,
        "/v",
        "Environment",
        "/d",
        "OTEL_SDK_DISABLED=true",
    ];
    windows.reg(&add).assert(0, "");
    let keeps_its_settings = || {
        let settings = windows.reg(&["query", SERVICE]);
        settings.assert(0, &path);
        settings.assert(0, "OTEL_SDK_DISABLED=true");
    };
    // What Windows does for an upgrade: Wine does not tell the old version that it is one.
    let replaced = windows.msiexec(&["UPGRADINGPRODUCTCODE=1", "/x", r"C:\first.msi"]);
    replaced.assert(0, "");
    keeps_its_settings();
    let refused = windows.msiexec(&["ARGS=--bogus", "/i", r"C:\second.msi"]);
    assert_ne!(refused.code, Some(0), "{}", refused.output);
    keeps_its_settings();

    let upgraded = windows.msiexec(&["/i", r"C:\second.msi"]);
    upgraded.assert(0, "");
    for output in [replaced.output, upgraded.output] {
        assert!(!output.contains("netsh"), "the rule is changed: {output}");
    }
    assert!(windows.has_program_on_path());
    keeps_its_settings();
    windows.assert_running();
    windows.page("/metrics", UP).await;

    windows
        .msiexec(&["/x", r"C:\second.msi"])
        .assert(0, "is uninstalled");
    windows.sc(&["query", NAME]).assert(1, "");
    assert!(!windows.program().exists());
}

#[tokio::test]
async fn windows_installer_opens_the_firewall_and_adds_the_program_to_path() {
    let windows = Windows::start().await;
    let exe = exe();
    build(&windows.wine.path(""), &exe, "first.msi", "0.1.0");
    let args = windows.args();
    let installed = windows.msiexec(&[&args, "/i", r"C:\first.msi"]);
    let rule =
        r#"L"name=Azure Scheduled Events exporter" L"dir=in" L"action=allow" L"protocol=TCP""#;
    let program = format!(r#"L"program=C:\\Program Files\\{NAME}\\{NAME}.exe""#);
    installed.assert(0, &format!("{ADD_RULE} {rule} {program}"));
    assert!(windows.has_program_on_path());
    assert_eq!(windows.shown_version(), "0.1.0.0");

    let removed = windows.msiexec(&["/x", r"C:\first.msi"]);
    removed.assert(0, DELETE_RULE);
    assert!(!windows.has_program_on_path());
    let state = windows.wine.path("ProgramData").join(NAME);
    assert!(state.is_dir(), "the state stays");

    let closed = windows.msiexec(&[&args, "FIREWALL=0", "/i", r"C:\first.msi"]);
    closed.assert(0, "is installed");
    assert!(!closed.output.contains(ADD_RULE), "{}", closed.output);
    windows.msiexec(&["/x", r"C:\first.msi"]).assert(0, "");

    // A program that knows none of these arguments.
    fs::copy(&exe, windows.wine.path("windows/system32/netsh.exe")).unwrap();
    let overrides = r"HKCU\Software\Wine\DllOverrides";
    windows
        .reg(&["add", overrides, "/v", "netsh.exe", "/d", "native"])
        .assert(0, "");
    windows
        .msiexec(&[&args, "/i", r"C:\first.msi"])
        .assert(0, "unrecognized subcommand 'advfirewall'");
    windows.assert_running();
}

#[test]
fn windows_installer_is_reproducible_and_has_what_wixl_lacks() {
    let (folder, exe) = (TempDir::new().unwrap(), exe());
    let first = build(folder.path(), &exe, "first.msi", "0.1.0");
    let again = build(folder.path(), &exe, "again.msi", "0.1.0");
    assert!(
        fs::read(&first).unwrap() == fs::read(again).unwrap(),
        "builds differ"
    );
    // Actions of a rollback, which wixl would run at once.
    let actions = table(&first, "CustomAction");
    for action in ["RollBackService\t3410\t", "RollBackFirewall\t3442\t"] {
        assert!(actions.contains(action), "{action} in {actions}");
    }
    // A file with a version is not replaced by one without.
    let files = table(&first, "File");
    assert!(files.contains("\t0.1.0.0\t0\t"), "{files}");
    let hashes = table(&first, "MsiFileHash");
    assert!(!hashes.contains("Exporter"), "{hashes}");
}
