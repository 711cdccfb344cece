//! OpenMetrics and text 0.0.4 of the same snapshot.

use serde_json::json;

use super::{
    snapshot::{engine, event, poll},
    test_server::TestServer,
};

#[test]
fn text_is_open_metrics_without_units_exemplars_and_the_end() {
    let mut engine = engine();
    let mut started = event("A", "Host \"server\" # {is} \\ undergoing maintenance.");
    started["EventStatus"] = json!("Started");
    poll(&mut engine, 1, &[started, event("B", "")]);
    let server = TestServer::start(poll(&mut engine, 2, &[event("B", "")]));
    let get = |accept| server.get("/metrics", &[accept]).text().to_owned();
    let open_metrics = get("Accept: application/openmetrics-text;version=1.0.0");
    for element in [
        "# {trace_id=\"",
        "_bucket{",
        "# UNIT ",
        "_ended_total{",
        r#"\"server\" # {is} \\"#,
    ] {
        assert!(open_metrics.contains(element), "{element}\n{open_metrics}");
    }
    // The formats order the samples of a histogram differently.
    let sorted = |text: &str| {
        let mut lines: Vec<_> = text.lines().map(str::to_owned).collect();
        lines.sort();
        lines
    };
    let expected = without_extensions(&open_metrics);
    assert_eq!(sorted(&get("Accept: text/plain")), sorted(&expected));
}

/// In text 0.0.4, the metadata of a counter has the name of its samples, and whole bounds of buckets have no fraction.
fn without_extensions(open_metrics: &str) -> String {
    let mut lines = Vec::new();
    let mut help = "";
    for line in open_metrics.lines() {
        if line == "# EOF" || line.starts_with("# UNIT ") {
            continue;
        }
        if line.starts_with("# HELP ") {
            help = line;
        } else if let Some(name) = line
            .strip_prefix("# TYPE ")
            .and_then(|rest| rest.strip_suffix(" counter"))
        {
            let named = format!("# HELP {name}_total ");
            lines.push(help.replacen(&format!("# HELP {name} "), &named, 1));
            lines.push(format!("# TYPE {name}_total counter"));
        } else if line.starts_with("# TYPE ") {
            lines.extend([help.to_owned(), line.to_owned()]);
        } else {
            let (sample, _) = line.split_once(" # {trace_id=").unwrap_or((line, ""));
            let bound = if sample.contains("_bucket{") {
                ".0\"}"
            } else {
                "\0"
            };
            lines.push(sample.replace(bound, "\"}"));
        }
    }
    lines.join("\n") + "\n"
}
