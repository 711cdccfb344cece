//! Sets the revision and the compiler version for `--version` and the build info metric, and the version resource of
//! the program for Windows.

#![expect(
    clippy::disallowed_methods,
    reason = "cargo configures build scripts through the environment"
)]

use std::{io, process::Command};

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
    if std::env::var("CARGO_CFG_TARGET_OS").as_deref() == Ok("windows") {
        // Of what it does not say, the version: that of the package.
        winresource::WindowsResource::new()
            .set("FileDescription", "Azure Scheduled Events exporter")
            .set("ProductName", "Azure Scheduled Events exporter")
            .compile_for(env!("CARGO_PKG_NAME"))?;
    }
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
