//! The page of the simulator: what is going on, and a button for each scenario. Pure: a world in, HTML out.
//!
//! It loads nothing but its own style sheet, runs no script, and renews itself; every value is escaped.

use std::fmt::Write as _;

use super::{
    catalog::catalog,
    counts::Counts,
    world::{Pending, World},
};
use crate::time::{Moment, in_words};

/// The style sheet of the page.
pub(super) const STYLE: &str = include_str!("page.css");

/// The whole page.
pub fn page(world: &World, counts: &Counts, now: Moment) -> String {
    let mut html = String::with_capacity(8 * 1024);
    html.push_str(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta http-equiv=\"refresh\" content=\"5\">\n<title>Simulated Azure</title>\n\
         <link rel=\"stylesheet\" href=\"/simulator/page.css\">\n</head>\n<body>\n<main>\n<h1>Simulated Azure</h1>\n",
    );
    let parts = [
        head(world),
        faults(world, now),
        events(world, now),
        playing(world),
        buttons(),
        requests(counts),
    ];
    html.extend(parts);
    html.push_str(
        "<footer>Also for programs: <a href=\"/simulator/state\">/simulator/state</a>, \
         <a href=\"/simulator/scenarios\">/simulator/scenarios</a>. The service itself: \
         <code>/metadata/scheduledevents?api-version=2020-07-01</code> with the header <code>Metadata: true</code>.\
         </footer>\n</main>\n</body>\n</html>\n",
    );
    html
}

fn head(world: &World) -> String {
    format!(
        "<p>A stand-in for the metadata service of the VM <strong>{}</strong>. Speed: {}×. DocumentIncarnation: {}.</p>\n",
        escaped(world.vm().name()),
        world.speed(),
        world.incarnation(),
    )
}

fn faults(world: &World, now: Moment) -> String {
    match world.fault(now) {
        Some((fault, _)) => format!(
            "<p class=\"fault\" role=\"status\">Fault: <strong>{}</strong></p>\n",
            fault.as_str()
        ),
        None => String::new(),
    }
}

fn events(world: &World, now: Moment) -> String {
    let mut html = String::from("<h2>Events</h2>\n");
    if world.pending().is_empty() {
        html.push_str("<p>No event is pending.</p>\n");
        return html;
    }
    html.push_str(
        "<div class=\"wide\"><table>\n<thead><tr><th scope=\"col\">Type</th><th scope=\"col\">Status</th>\
         <th scope=\"col\">Next</th><th scope=\"col\">Names</th><th scope=\"col\">What Azure says</th></tr></thead>\n<tbody>\n",
    );
    world
        .pending()
        .iter()
        .for_each(|event| row(&mut html, event, now));
    html.push_str("</tbody>\n</table></div>\n");
    html
}

fn row(html: &mut String, event: &Pending, now: Moment) {
    let planned = &event.planned;
    let left = in_words(event.changes_at.saturating_sub(now.monotonic));
    let (status, next) = match event.not_before {
        None => ("Started", format!("over in {left}")),
        Some(not_before) if planned.canceled_after.is_some() => (
            "Scheduled",
            format!("canceled in {left}, not before {}", not_before.rfc1123()),
        ),
        Some(not_before) => (
            "Scheduled",
            format!("starts in {left}, not before {}", not_before.rfc1123()),
        ),
    };
    // Writing to a string cannot fail.
    let _written = writeln!(
        html,
        "<tr><td><strong>{}</strong><br>{}</td><td class=\"{}\">{status}</td><td>{next}</td><td>{}</td>\
         <td>{}<br>{}<br><code>{}</code><br>scenario {}</td></tr>",
        escaped(&planned.event_type),
        escaped(&planned.event_source),
        status.to_ascii_lowercase(),
        escaped(&event.resources.join(", ")),
        escaped(&planned.description),
        match planned.duration_seconds {
            -1 => "for an unknown time".to_owned(),
            seconds => format!("for {seconds} s"),
        },
        escaped(event.id.as_str()),
        escaped(&event.scenario),
    );
}

fn playing(world: &World) -> String {
    let mut html = String::from("<h2>Scenarios with something to come</h2>\n");
    if world.playing().is_empty() {
        html.push_str("<p>None: all that was started has been announced.</p>\n");
        return html;
    }
    html.push_str("<ul>\n");
    for playing in world.playing() {
        let scenario = playing.scenario();
        let round = match scenario.repeat_every {
            Some(_) => format!(", round {}", playing.cycle() + 1),
            None => String::new(),
        };
        let _written = writeln!(
            html,
            "<li><strong>{}</strong>{round}: {}</li>",
            escaped(&scenario.name),
            escaped(&scenario.description)
        );
    }
    html.push_str("</ul>\n");
    html
}

fn buttons() -> String {
    let mut html = String::from(
        "<h2>Start one</h2>\n<form method=\"post\" action=\"/simulator/start\">\n<ul class=\"buttons\">\n",
    );
    for (name, description) in catalog() {
        let _written = writeln!(
            html,
            "<li><button name=\"scenario\" value=\"{name}\">{name}</button> {}</li>",
            escaped(&description)
        );
    }
    html.push_str(
        "</ul>\n</form>\n<form method=\"post\" action=\"/simulator/clear\"><button class=\"clear\">End everything</button></form>\n",
    );
    html
}

fn requests(counts: &Counts) -> String {
    let mut html = String::from("<h2>Requests</h2>\n<dl>\n");
    for (what, count) in counts.all() {
        let _written = writeln!(html, "<div><dt>{what}</dt><dd>{count}</dd></div>");
    }
    html.push_str("</dl>\n");
    html
}

/// Text in the place of HTML's text or of a quoted attribute.
fn escaped(text: &str) -> String {
    let mut html = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => html.push_str("&amp;"),
            '<' => html.push_str("&lt;"),
            '>' => html.push_str("&gt;"),
            '"' => html.push_str("&quot;"),
            '\'' => html.push_str("&#39;"),
            c => html.push(c),
        }
    }
    html
}
