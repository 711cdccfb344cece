//! Sets the revision and the compiler version for `--version` and the build info metric, and the layout of the release
//! binary.

#![expect(
    clippy::disallowed_methods,
    reason = "cargo configures build scripts through the environment"
)]

use std::{fs, io, path::Path, process::Command};

fn main() -> io::Result<()> {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed=.git/HEAD");
    println!("cargo::rerun-if-changed=.git/logs/HEAD");
    println!("cargo::rerun-if-env-changed=BUILD_REVISION");
    let revision = std::env::var("BUILD_REVISION")
        .ok()
        .or_else(|| first_line("git", &["rev-parse", "--short=12", "HEAD"]));
    println!(
        "cargo::rustc-env=BUILD_REVISION={}",
        revision.as_deref().unwrap_or("unknown")
    );
    let rustc = std::env::var("RUSTC")
        .ok()
        .and_then(|rustc| first_line(&rustc, &["--version"]));
    let version = rustc
        .as_deref()
        .and_then(|line| line.split(' ').nth(1))
        .unwrap_or("unknown");
    println!("cargo::rustc-env=BUILD_RUSTC={version}");
    lay_out_release_binary()
}

/// Words in the symbols of functions that an exporter runs rarely or never: the simulator, outputs that are off by
/// default, clients with TLS, backtraces, sorting of long lists, help. A number is the length of the name after it.
const RARE: [&str; 23] = [
    "simulator",
    "otlp",
    "opentelemetry",
    "prost",
    "reqwest",
    "client2hs",
    "client..hs",
    "client5tls1",
    "client..tls1",
    "legacy4pool",
    "legacy6client",
    "native_certs",
    "platform_verifier",
    "alertmanager4push",
    "command4demo",
    "command7approve",
    "command4list",
    "gimli",
    "addr2line",
    "rustc_demangle",
    "4sort6stable",
    "4sort8unstable",
    "clap_builder6output",
];

/// Words in the symbols of functions that may have one of the words above, and that all code runs: instances for
/// several types are one function.
const SHARED: [&str; 4] = ["_ZN5alloc", "drop_in_place", "raw_vec", "8settings"];

/// Changes the layout of the release binary on Linux, for ld and lld.
///
/// The unwind tables, an eighth of the file, are left out: a panic aborts, and without symbols a backtrace names no
/// function, so nothing reads them. The compiler has an option for this, but a profile of cargo cannot set it. Those of
/// the start files of gcc stay, because the code of a static program for arm64 has their address.
///
/// Rare functions are placed next to each other: Linux maps 16 pages around each one that is used, which makes nearly
/// all of the code resident if they are spread over it. A symbol that is not found changes nothing.
fn lay_out_release_binary() -> io::Result<()> {
    let variable = |name| std::env::var(name).unwrap_or_default();
    if variable("PROFILE") != "release" || variable("CARGO_CFG_TARGET_OS") != "linux" {
        return Ok(());
    }
    let sections = |words: &[&str]| -> String {
        let patterns = words.iter().map(|word| format!(" .text.*{word}*"));
        patterns.collect()
    };
    let script = format!(
        "SECTIONS
{{
  /DISCARD/ : {{
    *(EXCLUDE_FILE(*crtbegin*.o *crtend*.o) .eh_frame)
    *(.eh_frame_hdr .gcc_except_table .gcc_except_table.*)
  }}
  .text.shared : {{ *({}) }}
  .text.rare : {{ *({}) }}
}}
INSERT BEFORE .text;
",
        sections(&SHARED),
        sections(&RARE),
    );
    let path = Path::new(&variable("OUT_DIR")).join("layout.ld");
    fs::write(&path, script)?;
    println!("cargo::rustc-link-arg-bins=-Wl,--no-eh-frame-hdr");
    println!("cargo::rustc-link-arg-bins=-T{}", path.display());
    Ok(())
}

fn first_line(program: &str, arguments: &[&str]) -> Option<String> {
    let output = Command::new(program)
        .args(arguments)
        .output()
        .ok()
        .filter(|output| output.status.success())?;
    let text = String::from_utf8(output.stdout).ok()?;
    text.lines().next().map(str::to_owned)
}
