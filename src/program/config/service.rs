//! What a Windows service adds to the settings of the exporter.

use std::path::Path;
#[cfg(windows)]
use std::{env, path::PathBuf};

use super::super::{CommandError, flag_error};
use crate::program::cli::RunFlags;

/// Refuses relative paths: a service starts in the system directory, and not where it was installed from.
pub(crate) fn check_service_paths(flags: &RunFlags) -> Result<(), CommandError> {
    let alertmanager = &flags.alertmanager;
    let state_directory = flags.state_directory.as_deref().map(Path::new);
    let paths = [
        ("web.config.file", flags.web.config_file.as_deref()),
        (
            "alertmanager.basic-auth-file",
            alertmanager.basic_auth_file.as_deref(),
        ),
        (
            "alertmanager.bearer-token-file",
            alertmanager.bearer_token_file.as_deref(),
        ),
        ("alertmanager.ca-file", alertmanager.ca_file.as_deref()),
        ("alertmanager.cert-file", alertmanager.cert_file.as_deref()),
        ("alertmanager.key-file", alertmanager.key_file.as_deref()),
        ("state.directory", state_directory),
    ];
    for (flag, path) in paths {
        if let Some(path) = path.filter(|path| !path.is_absolute()) {
            let problem = format!(
                "\"{}\" is relative, and a service starts in the system directory: use an absolute path",
                path.display()
            );
            return Err(flag_error(flag, problem));
        }
    }
    Ok(())
}

/// `%ProgramData%\azure-scheduled-events-exporter`, where the service keeps its state without `--state.directory`.
#[cfg(windows)]
#[expect(clippy::disallowed_methods, reason = "config reads the environment")]
pub(crate) fn service_state_directory() -> Option<PathBuf> {
    let folder = env::var_os("ProgramData")?;
    Some(PathBuf::from(folder).join("azure-scheduled-events-exporter"))
}

/// A program of Windows by its whole path, so that no other one in `%PATH%` takes its place.
#[cfg(windows)]
#[expect(clippy::disallowed_methods, reason = "config reads the environment")]
pub(crate) fn system_program(name: &str) -> PathBuf {
    let root = env::var_os("SystemRoot").unwrap_or_else(|| r"C:\Windows".into());
    PathBuf::from(root).join("System32").join(name)
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;
    use crate::program::cli::Cli;

    const ROOT: &str = if cfg!(windows) { r"C:\" } else { "/" };

    fn check(flag: &str, value: &str) -> Result<(), String> {
        // The two are given together.
        let mut files = vec!["alertmanager.cert-file", "alertmanager.key-file"];
        files.retain(|file| *file != flag);
        let arguments = files.iter().map(|file| format!("--{file}={ROOT}etc"));
        let given = ["exporter", "--alertmanager.url=https://h"].map(str::to_owned);
        let arguments = given.into_iter().chain(arguments);
        let cli = Cli::try_parse_from(arguments.chain([format!("--{flag}={value}")])).unwrap();
        check_service_paths(&cli.run).map_err(|error| error.to_string())
    }

    #[test]
    fn a_service_needs_absolute_paths() {
        for flag in [
            "web.config.file",
            "state.directory",
            "alertmanager.basic-auth-file",
            "alertmanager.bearer-token-file",
            "alertmanager.ca-file",
            "alertmanager.cert-file",
            "alertmanager.key-file",
        ] {
            assert_eq!(check(flag, &format!("{ROOT}etc")), Ok(()));
            let error = check(flag, "etc/file").unwrap_err();
            assert!(
                error.starts_with(&format!("--{flag}: \"etc/file\" is relative")),
                "{error}"
            );
        }
        assert_eq!(check("log.level", "info"), Ok(()));
    }
}
