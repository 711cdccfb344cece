//! The layers of `src/lib.rs`, as ranks: an import may point down or stay in its module; I/O modules do not import
//! each other.

use std::collections::BTreeSet;

use super::{Source, imports, production, root};

/// Every module with the rank of its layer. A module without a line of its own belongs to its parent.
const MODULES: &[(&str, u8)] = &[
    ("time", 0),
    ("text", 0),
    ("label", 0),
    ("log_id", 0),
    ("event", 1),
    ("api_version", CORE),
    ("document", CORE),
    ("lifecycle", CORE + 1),
    ("snapshot", CORE + 2),
    ("assessment", CORE + 3),
    ("metrics", PURE),
    ("azure_json", PURE),
    ("json", PURE),
    ("engine", PURE),
    ("pause", PURE),
    ("approval", PURE),
    ("imds::backoff", PURE),
    ("imds::timeouts", PURE),
    ("web::status", PURE),
    ("web::api", PURE),
    ("web::probe", PURE),
    ("otlp::attribute", PURE),
    ("otlp::batch", PURE),
    ("otlp::log_record", PURE),
    ("otlp::signal", PURE),
    ("otlp::trace", PURE),
    ("otlp::resource", PURE),
    ("otlp::settings", PURE),
    ("alertmanager::alert", PURE),
    ("command::watch::transitions", PURE),
    ("outbound::retry", PURE),
    ("outbound::url", PURE),
    ("web_config::settings", PURE),
    ("web_config::tls_settings", PURE),
    ("web_config::yaml", PURE),
    ("web_config::password", PURE),
    ("web_config::rate_limit", PURE),
    ("outbound", IO_BASE),
    ("file", IO_BASE),
    ("server", IO_BASE),
    ("listen", IO_BASE),
    ("system", IO_BASE),
    ("worker", IO_BASE),
    ("imds", IO),
    ("state", IO),
    ("otlp", IO),
    ("alertmanager", IO),
    ("web", IO),
    ("web_config", IO),
    ("simulator", IO),
    ("cli", PROGRAM),
    ("logs", PROGRAM + 1),
    ("config", PROGRAM + 1),
    ("app", PROGRAM + 2),
    ("command", PROGRAM + 3),
    ("main", PROGRAM + 4),
    ("lib", PROGRAM + 5),
];
const CORE: u8 = 2;
const PURE: u8 = 5;
/// Below the I/O modules: sockets, threads, the system.
const IO_BASE: u8 = 6;
const IO: u8 = 7;
const PROGRAM: u8 = 8;

/// Crates and modules that do I/O.
const IO_CRATES: [&str; 9] = [
    "tokio",
    "reqwest",
    "hyper",
    "hyper_util",
    "socket2",
    "std::fs",
    "std::net",
    "std::process",
    "std::env",
];

/// Plain data of these crates.
const DATA: [&str; 3] = ["hyper::header", "reqwest::Url", "reqwest::header"];

fn layer(segments: &[String]) -> Option<(&'static str, u8)> {
    let path = segments.join("::");
    MODULES
        .iter()
        .copied()
        .filter(|(module, _)| path == *module || path.starts_with(&format!("{module}::")))
        .max_by_key(|(module, _)| module.len())
}

fn top(module: &str) -> &str {
    module.split("::").next().unwrap()
}

fn each_import(mut check: impl FnMut(&Source, (&'static str, u8), &imports::Imports)) {
    for source in production() {
        let module = imports::module(&source.path);
        let from = layer(&module).unwrap_or_else(|| panic!("{} is in no layer", source.path));
        check(&source, from, &imports::of(&module, &source.text));
    }
}

#[test]
fn an_import_points_down() {
    let mut wrong = Vec::new();
    let mut checked = 0;
    each_import(|source, (from, rank), found| {
        for path in &found.own {
            // A name in the root of the crate belongs to no module.
            let Some((to, to_rank)) = layer(path) else {
                continue;
            };
            checked += 1;
            // The files of a module may use what its root defines.
            let is_own_root = top(from) == to || from == to;
            let is_between_io = rank == IO && to_rank == IO && top(from) != top(to);
            let is_upward = to_rank > rank || (to_rank == rank && rank < PURE && from != to);
            if !is_own_root && (is_upward || is_between_io) {
                wrong.push(format!(
                    "{}: {from} must not import {}",
                    source.path,
                    path.join("::")
                ));
            }
        }
    });
    assert!(checked > 200, "only {checked} imports were found");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// What `web` may import: it renders a snapshot, and has no side effects.
const WEB_IMPORTS: [&str; 11] = [
    "assessment",
    "document",
    "event",
    "lifecycle",
    "metrics",
    "server",
    "snapshot",
    "azure_json",
    "text",
    "time",
    "web",
];

#[test]
fn web_imports_only_what_it_renders() {
    let mut wrong = Vec::new();
    let mut checked = 0;
    each_import(|source, (from, _), found| {
        let tops = found.own.iter().filter_map(|path| path.first());
        let others = tops.filter(|name| !WEB_IMPORTS.contains(&name.as_str()));
        if top(from) == "web" {
            checked += found.own.len();
            wrong.extend(others.map(|name| format!("{}: {name}", source.path)));
        }
    });
    assert!(checked > 20, "only {checked} imports were found");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn pure_code_imports_no_io() {
    let mut wrong = Vec::new();
    each_import(|source, (_, rank), found| {
        for path in &found.foreign {
            let of = |name: &str| path == name || path.starts_with(&format!("{name}::"));
            let is_data = DATA.iter().any(|name| of(name));
            let is_io = rank <= PURE && !is_data && IO_CRATES.iter().any(|name| of(name));
            if is_io {
                wrong.push(format!("{}: {path}", source.path));
            }
        }
    });
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn every_module_is_documented_and_in_a_layer() {
    let overview = std::fs::read_to_string(root().join("src/lib.rs")).unwrap();
    let modules: BTreeSet<&str> = overview
        .lines()
        .filter_map(|line| {
            line.trim_start_matches("pub ")
                .strip_prefix("mod ")?
                .strip_suffix(';')
        })
        .collect();
    assert!(modules.len() > 15, "modules are missing");
    for name in modules {
        assert!(
            overview.contains(&format!("`{name}`")),
            "{name} is not in the table of src/lib.rs"
        );
        assert!(
            MODULES.iter().any(|(module, _)| *module == name),
            "{name} is in no layer"
        );
    }
    let layers = overview
        .split("# Layers")
        .nth(1)
        .unwrap()
        .split("```")
        .nth(1)
        .unwrap();
    for (module, _) in MODULES.iter().copied().filter(|(_, rank)| *rank <= IO) {
        let is_there = root()
            .join("src")
            .join(format!("{}.rs", top(module)))
            .exists()
            || root().join("src").join(top(module)).exists();
        let last = module.rsplit("::").next().unwrap();
        let is_named = layers.contains(last);
        assert!(
            !is_there || is_named,
            "{module} is not in the layers of src/lib.rs"
        );
    }
}
