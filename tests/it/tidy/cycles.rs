//! No import cycle between files: not between modules, and not inside one. A file may use what its own parent module
//! defines, and a name that a module re-exports counts as an import of the file that defines it.

use std::collections::{BTreeMap, BTreeSet};

use super::{imports, production};

type Graph = BTreeMap<String, BTreeSet<String>>;

/// The files that each file imports.
fn graph() -> Graph {
    let sources = production();
    let parsed: BTreeMap<String, imports::Imports> = sources
        .iter()
        .map(|source| {
            let module = imports::module(&source.path);
            (module.join("::"), imports::of(&module, &source.text))
        })
        .collect();
    let mut graph = Graph::new();
    for (module, found) in &parsed {
        let targets = found.own.iter().filter_map(|path| defining(path, &parsed));
        let targets = targets.filter(|target| {
            let is_ancestor = module.starts_with(&format!("{target}::"));
            target != module && !is_ancestor && target != "lib"
        });
        graph.insert(module.clone(), targets.collect());
    }
    graph
}

/// The file that defines what a path names, through re-exports.
fn defining(path: &[String], parsed: &BTreeMap<String, imports::Imports>) -> Option<String> {
    let mut path = path.to_vec();
    for _ in 0..8 {
        let file = (1..=path.len())
            .rev()
            .map(|length| path[..length].join("::"))
            .find(|module| parsed.contains_key(module))?;
        let rest = &path[file.split("::").count()..];
        let name = rest.first();
        let target = name.and_then(|name| parsed[&file].exported.get(name));
        match target {
            Some(target) => path = [target.as_slice(), &rest[1..]].concat(),
            None => return Some(file),
        }
    }
    None
}

/// The files of one cycle, in the order of their imports.
fn cycle(graph: &Graph) -> Option<Vec<String>> {
    fn visit(
        at: &str,
        graph: &Graph,
        way: &mut Vec<String>,
        done: &mut BTreeSet<String>,
    ) -> Option<Vec<String>> {
        if let Some(start) = way.iter().position(|seen| seen == at) {
            return Some(way[start..].to_vec());
        }
        if done.contains(at) {
            return None;
        }
        way.push(at.to_owned());
        let found = graph
            .get(at)
            .into_iter()
            .flatten()
            .find_map(|next| visit(next, graph, way, done));
        way.pop();
        done.insert(at.to_owned());
        found
    }
    let mut done = BTreeSet::new();
    graph
        .keys()
        .find_map(|start| visit(start, graph, &mut Vec::new(), &mut done))
}

/// Cycles, each found after the last edge of the one before was removed.
fn cycles(mut graph: Graph) -> Vec<String> {
    let mut cycles = Vec::new();
    while let Some(cycle) = cycle(&graph) {
        let last = graph.get_mut(cycle.last().unwrap()).unwrap();
        last.remove(&cycle[0]);
        cycles.push(cycle.join(" → "));
    }
    cycles
}

#[test]
fn files_do_not_import_each_other_in_a_cycle() {
    let graph = graph();
    let edges: usize = graph.values().map(BTreeSet::len).sum();
    assert!(edges > 200, "only {edges} imports were found");
    let cycles = cycles(graph);
    assert!(cycles.is_empty(), "{}", cycles.join("\n"));
}

#[test]
fn a_cycle_is_found() {
    let edge = |from: &str, to: &str| (from.to_owned(), BTreeSet::from([to.to_owned()]));
    let mut graph = Graph::from([edge("a", "b"), edge("b", "c"), edge("d", "a")]);
    assert_eq!(cycle(&graph), None);
    graph.extend([edge("c", "b")]);
    assert_eq!(cycle(&graph).unwrap(), ["b", "c"]);
}
