//! The layers of `src/lib.rs`, as ranks: an import may point down or stay in its room; edges do not know each other.

use std::collections::BTreeSet;

use super::{Source, imports, production, root};

/// Every room, with a rank of its layer. A room that has no line of its own belongs to its parent.
const ROOMS: [(&str, u8); 40] = [
    ("time", 0),
    ("text", 0),
    ("event", 1),
    ("document", CORE),
    ("lifecycle", CORE + 1),
    ("snapshot", CORE + 2),
    ("metrics", PURE),
    ("azure_json", PURE),
    ("list", PURE),
    ("approval", PURE),
    ("imds::cadence", PURE),
    ("web::status", PURE),
    ("web::api", PURE),
    ("web::probe", PURE),
    ("otlp::trace", PURE),
    ("otlp::resource", PURE),
    ("otlp::settings", PURE),
    ("otlp::counts", PURE),
    ("alertmanager::alert", PURE),
    ("outbound::retry", PURE),
    ("outbound::url", PURE),
    ("outbound", GROUND),
    ("server", GROUND),
    ("listen", GROUND),
    ("system", GROUND),
    ("imds", EDGE),
    ("heartbeat", EDGE),
    ("state", EDGE),
    ("otlp", EDGE),
    ("alertmanager", EDGE),
    ("web", EDGE),
    ("simulator", EDGE),
    ("cli", WHOLE),
    ("logs", WHOLE + 1),
    ("config", WHOLE + 1),
    ("app", WHOLE + 2),
    ("command", WHOLE + 3),
    ("main", WHOLE + 4),
    ("lib", WHOLE + 5),
    ("web::fixtures", EDGE),
];
const CORE: u8 = 2;
const PURE: u8 = 5;
/// Sockets and the system, under the edges.
const GROUND: u8 = 6;
const EDGE: u8 = 7;
const WHOLE: u8 = 8;

/// What code without I/O has no business with.
const WORLD: [&str; 9] = [
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

/// Plain data of the same crates.
const DATA: [&str; 2] = ["reqwest::Url", "reqwest::header"];

fn room(segments: &[String]) -> Option<(&'static str, u8)> {
    let path = segments.join("::");
    ROOMS
        .into_iter()
        .filter(|(room, _)| path == *room || path.starts_with(&format!("{room}::")))
        .max_by_key(|(room, _)| room.len())
}

fn top(room: &str) -> &str {
    room.split("::").next().unwrap()
}

fn each_import(mut judge: impl FnMut(&Source, (&'static str, u8), &imports::Imports)) {
    for source in production() {
        let module = imports::module(&source.path);
        let from =
            room(&module).unwrap_or_else(|| panic!("{} is in no layer: give it one", source.path));
        judge(&source, from, &imports::of(&module, &source.text));
    }
}

#[test]
fn an_import_points_down() {
    let mut wrong = Vec::new();
    let mut judged = 0;
    each_import(|source, (from, rank), found| {
        for path in &found.own {
            // A name in the root of the crate is none of a room.
            let Some((to, to_rank)) = room(path) else {
                continue;
            };
            judged += 1;
            // What a room's own root has, such as a shared type, its parts may use.
            let is_own_root = top(from) == to || from == to;
            let is_between_edges = rank == EDGE && to_rank == EDGE && top(from) != top(to);
            let is_upward = to_rank > rank || (to_rank == rank && rank < PURE && from != to);
            if !is_own_root && (is_upward || is_between_edges) {
                wrong.push(format!(
                    "{}: {from} must not know {}",
                    source.path,
                    path.join("::")
                ));
            }
        }
    });
    assert!(judged > 200, "only {judged} imports were found");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn what_is_pure_knows_no_world() {
    let mut wrong = Vec::new();
    each_import(|source, (from, rank), found| {
        let is_core = top(from) == "lifecycle";
        for path in &found.foreign {
            let of = |name: &str| path == name || path.starts_with(&format!("{name}::"));
            let is_data = DATA.iter().any(|name| of(name));
            let is_world = rank <= PURE && !is_data && WORLD.iter().any(|name| of(name));
            if is_world || is_core && (of("serde") || of("serde_json")) {
                wrong.push(format!("{}: {path}", source.path));
            }
        }
    });
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn every_room_is_on_the_map_and_in_a_layer() {
    let map = std::fs::read_to_string(root().join("src/lib.rs")).unwrap();
    let rooms: BTreeSet<&str> = map
        .lines()
        .filter_map(|line| line.strip_prefix("pub mod ")?.strip_suffix(';'))
        .collect();
    assert!(
        rooms.len() > 15,
        "the rooms are not where they are looked for"
    );
    for name in rooms {
        assert!(
            map.contains(&format!("[`{name}`]")),
            "{name} is not on the map of src/lib.rs"
        );
        assert!(
            ROOMS.iter().any(|(room, _)| *room == name),
            "{name} is in no layer"
        );
    }
    let layers = map
        .split("# Layers")
        .nth(1)
        .unwrap()
        .split("```")
        .nth(1)
        .unwrap();
    for (room, _) in ROOMS.into_iter().filter(|(_, rank)| *rank <= EDGE) {
        let is_there = root()
            .join("src")
            .join(format!("{}.rs", top(room)))
            .exists()
            || root().join("src").join(top(room)).exists();
        let last = room.rsplit("::").next().unwrap();
        let is_named = layers.contains(last) || UNNAMED.contains(&room);
        assert!(
            !is_there || is_named,
            "{room} is not in the layers of src/lib.rs"
        );
    }
}

/// Parts that the map leaves to the room that they are in.
const UNNAMED: [&str; 2] = ["web::fixtures", "otlp::counts"];
