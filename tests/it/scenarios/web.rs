//! The JSON and the status page of a timeline.

use std::{collections::BTreeMap, fmt::Write as _};

use serde_json::Value;

pub(super) fn members(json: &Value) -> BTreeMap<String, String> {
    let mut members = BTreeMap::new();
    flatten("", json, &mut members);
    // It changes with every commit.
    members.retain(|name, _| !name.starts_with(".exporter"));
    members
}

/// The values with their paths.
fn flatten(path: &str, json: &Value, members: &mut BTreeMap<String, String>) {
    match json {
        Value::Object(object) if !object.is_empty() => {
            for (name, value) in object {
                flatten(&format!("{path}.{name}"), value, members);
            }
        }
        Value::Array(values) if !values.is_empty() => {
            for (position, value) in values.iter().enumerate() {
                flatten(&format!("{path}[{position}]"), value, members);
            }
        }
        value => {
            members.insert(path.to_owned(), value.to_string());
        }
    }
}

/// The text, with a line for each section or paragraph.
pub(super) fn describe_page(page: &str, report: &mut String) {
    let (head, body) = page.split_once("<body>").unwrap();
    let (_, title) = head.split_once("<title>").unwrap();
    let mut text = title.split('<').next().unwrap().to_owned();
    for part in body.split('<').skip(1) {
        let (tag, shown) = part.split_once('>').unwrap();
        let name = tag.split([' ', '/']).next().unwrap();
        let begins_line = [
            "section", "article", "p", "dt", "li", "summary", "h1", "h2", "div", "footer",
        ];
        text.push(if begins_line.contains(&name) {
            '\n'
        } else {
            ' '
        });
        if tag.contains("data-overdue") {
            text += "overdue: ";
        }
        text += shown;
    }
    for line in text.lines() {
        let words: Vec<_> = line.split_whitespace().collect();
        let line = words.join(" ");
        // The version changes with every commit.
        if !line.is_empty() && !line.starts_with("azure-scheduled-events-exporter ") {
            writeln!(report, "  {line}").unwrap();
        }
    }
}
