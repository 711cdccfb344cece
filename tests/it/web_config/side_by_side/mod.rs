//! The same files and requests with exporter-toolkit 0.20 and with the exporter. Each difference is in the table of
//! docs/internals/exporter-toolkit.md.

mod servers;

use tokio::task::JoinSet;

use self::servers::{
    Observed, ask, is_valid_for_promtool, observe, start_oracle, start_ours, without_own_headers,
};
use super::{
    TLS,
    cases::{Case, cases, files, headers, users},
    hash,
};
use crate::support::Pki;

/// The problem with a case, if there is one.
async fn compare(case: Case, documented: String) -> Option<String> {
    let pki = files();
    let foreign = Pki::new();
    foreign.write_certificate("foreign", &["foreign.example.com"]);
    for end in [".pem", "-key.pem"] {
        let text = std::fs::read_to_string(foreign.path(&format!("foreign{end}"))).unwrap();
        pki.write(&format!("foreign{end}"), &text);
    }
    pki.write("web.yml", &case.text(&pki));
    let path = pki.path("web.yml");
    let theirs = observe(&pki, start_oracle(&path).await).await;
    let ours = observe(&pki, start_ours(&path).await).await;
    let accepted = |observed: &Observed| matches!(observed, Observed::Served(_));
    let promtool = is_valid_for_promtool(&path);
    if promtool != accepted(&theirs) {
        return Some(format!(
            "{}\npromtool: {promtool}, toolkit: {theirs:?}",
            case.config
        ));
    }
    if accepted(&ours) == case.error.is_some() {
        return Some(format!("{}\nours: {ours:?}", case.config));
    }
    let is_same = match (&theirs, ours) {
        (Observed::Served(theirs), Observed::Served(ours)) => {
            without_own_headers(theirs, ours) == *theirs
        }
        (theirs, ours) => accepted(theirs) == accepted(&ours),
    };
    match case.difference {
        None if is_same => None,
        None => {
            let ours = observe(&pki, start_ours(&path).await).await;
            Some(format!(
                "{}\nours: {ours:#?}\ntoolkit: {theirs:#?}",
                case.config
            ))
        }
        Some(row) if is_same => Some(format!("{}\nno difference: {row}", case.config)),
        Some(row) => {
            let is_listed = documented
                .lines()
                .any(|line| line.starts_with("| ") && line.contains(row));
            (!is_listed)
                .then(|| format!("docs/internals/exporter-toolkit.md has no row with {row:?}"))
        }
    }
}

#[tokio::test]
async fn files_and_requests_have_the_results_of_exporter_toolkit_or_a_documented_difference() {
    let documented = include_str!("../../../../docs/internals/exporter-toolkit.md");
    let mut problems = Vec::new();
    let cases = cases();
    let count = cases.len();
    assert!(count >= 100, "{count} cases");
    let mut running = JoinSet::new();
    for case in cases {
        // A few at a time: each has two processes.
        if running.len() >= 4 {
            problems.extend(running.join_next().await.unwrap().unwrap());
        }
        running.spawn(compare(case, documented.to_owned()));
    }
    problems.extend(running.join_all().await.into_iter().flatten());
    assert!(
        problems.is_empty(),
        "{} of {count}:\n{}",
        problems.len(),
        problems.join("\n\n")
    );
}

/// The file is replaced while both run; then the first is back.
async fn after_change(first: &str, second: &str, number: usize) -> [Vec<String>; 2] {
    let pki = files();
    let mut observed = [Vec::new(), Vec::new()];
    for (program, lines) in observed.iter_mut().enumerate() {
        pki.write("web.yml", first);
        let path = pki.path("web.yml");
        let server = match program {
            0 => start_oracle(&path).await,
            _ => start_ours(&path).await,
        };
        let server = server.unwrap();
        for config in [first, second, first] {
            pki.write("web.yml", config);
            lines.push(ask(&pki, &server.address, number).await);
        }
    }
    observed
}

#[tokio::test]
async fn changes_have_the_results_of_exporter_toolkit_or_a_documented_difference() {
    let documented = include_str!("../../../../docs/internals/exporter-toolkit.md");
    let (bob, other) = (users(&hash(4, "a")), users(&hash(4, "b")));
    let deny = headers("X-Frame-Options: deny");
    let same_origin = headers("X-Frame-Options: sameorigin");
    let with_bob = format!("{TLS}{bob}");
    let removed = Some("`basic_auth_users` removed while running");
    let no_hash = Some("hash that is not 60 characters");
    let plain = "basic_auth_users: {bob: secret}";
    let server = "http_server_config: {headers: {Server: a}}";
    let gone = "tls_server_config: {cert_file: gone.pem, key_file: server-key.pem}";
    for (first, second, number, difference) in [
        ("", &*bob, 0, removed),
        (&bob, &other, 1, None),
        (&bob, "", 1, removed),
        (&bob, "a: 'b", 1, None),
        (&bob, plain, 1, no_hash),
        (&deny, &same_origin, 0, None),
        (&deny, server, 0, None),
        (TLS, "", 3, None),
        (TLS, "a: 'b", 3, None),
        (TLS, gone, 3, None),
        (TLS, &with_bob, 3, removed),
        (&with_bob, TLS, 6, removed),
        ("", TLS, 0, None),
    ] {
        let [theirs, ours] = after_change(first, second, number).await;
        let own = without_own_headers(&theirs, ours);
        let is_same = own == theirs;
        let is_expected = match difference {
            None => is_same,
            Some(row) => !is_same && documented.contains(row),
        };
        assert!(
            is_expected,
            "{first}\n{second}\nours: {own:#?}\ntoolkit: {theirs:#?}"
        );
    }
}
