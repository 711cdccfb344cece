//! What events mean. `tests/scenarios/alerts.txt` has their alerts, `tests/scenarios/words.txt` their texts.

use std::sync::Arc;

use super::{
    fixtures::{at, ended, freeze, moment, platform, snapshot, started},
    words::Words,
    *,
};
use crate::{
    azure::{FailureReason, Identity, RequestError},
    core::snapshot::Snapshot,
};

fn is_open(tracked: &TrackedEvent, snapshot: &Snapshot, now: Moment) -> Option<bool> {
    judge(tracked, now).is_open(&snapshot.poll)
}

fn interrupts_vm(tracked: &TrackedEvent) -> bool {
    judge(tracked, moment(0)).interrupts_vm()
}

#[test]
fn priority_is_by_start_then_severity_then_time() {
    let cases = [
        (ended(started(platform("Preempt", None), 5), 9), 0.0),
        (platform("Reboot", Some(7 * 86_400)), 1.0 / 168.0),
        (platform("Reboot", Some(7200)), 0.5),
        (freeze(Some(5), Some(-60)), 11.0),
        (platform("Terminate", Some(600)), 11.85),
        (platform("Reboot", Some(3600)), 11.1),
        (platform("Reboot", Some(1800)), 12.55),
        (platform("Preempt", Some(0)), 13.0),
        (started(freeze(Some(5), Some(0)), 0), 21.0),
        (started(platform("Reboot", Some(0)), 0), 23.0),
    ];
    for (tracked, expected) in cases {
        let priority = judge(&tracked, moment(0)).priority();
        assert!((priority - expected).abs() < 1e-9, "{priority}, {expected}");
    }
}

/// After a successful poll.
fn known(events: impl IntoIterator<Item = TrackedEvent>) -> Snapshot {
    let mut snapshot = snapshot(events);
    snapshot.poll.succeed(snapshot.as_of);
    snapshot
}

#[test]
fn event_is_open_while_the_last_poll_lists_it() {
    let reboot = platform("Reboot", Some(900));
    let mut snapshot = known([]);
    let now = snapshot.as_of;
    assert_eq!(is_open(&reboot, &snapshot, now), Some(true));
    let mut missing = reboot.clone();
    missing.last_listed_at = Some(moment(0));
    assert_eq!(is_open(&missing, &snapshot, now), None);
    let over = ended(reboot.clone(), 60);
    assert_eq!(is_open(&over, &snapshot, now), Some(false));
    let mut left = reboot.clone();
    left.scope = EventScope::Other;
    left.left_at = Some(at(60));
    assert_eq!(is_open(&left, &snapshot, now), Some(false));
    let timeout = RequestError::new(FailureReason::Timeout, "no answer");
    snapshot.poll.fail(timeout, now);
    assert_eq!(is_open(&reboot, &snapshot, now), None, "not known");
    assert_eq!(is_open(&over, &snapshot, now), Some(false));
}

#[test]
fn freezes_of_0_s_and_advisories_do_not_interrupt_the_vm() {
    assert!(interrupts_vm(&freeze(Some(1), None)));
    assert!(interrupts_vm(&platform("Quarantine", None)));
    let mut reboot = platform("Reboot", None);
    reboot.shown.duration_seconds = Some(0);
    assert!(
        interrupts_vm(&reboot),
        "a restart stops the VM whatever its duration is"
    );
    assert!(!interrupts_vm(&freeze(Some(0), None)));
    assert!(!interrupts_vm(&platform(
        "SpotRebalanceRecommendation",
        None
    )));
    reboot.scope = EventScope::Other;
    assert!(!interrupts_vm(&reboot));
}

fn identity() -> Identity {
    Identity {
        name: "web_1".to_owned(),
        location: "westeurope".to_owned(),
        resource_group: "rg-1".to_owned(),
        subscription_id: "b7".to_owned(),
        ..Identity::default()
    }
}

fn with_identity(identity: Identity) -> Snapshot {
    let mut snapshot = snapshot([]);
    snapshot.identity = Some(Arc::new(identity));
    snapshot
}

#[test]
fn advice_to_redeploy_has_the_command_for_a_vm_without_a_scale_set() {
    let ahead = platform("Redeploy", Some(604_800));
    let to_do = |tracked: &TrackedEvent, identity| {
        let text = words(tracked, &with_identity(identity)).description();
        let line = text.lines().find_map(|line| line.strip_prefix("To do: "));
        line.unwrap().to_owned()
    };
    let text = "redeploy the VM yourself as soon as possible";
    let other = "or move the load of the VM and save what is in memory and on the temporary disk before that time";
    let command = format!("{text} (az vm redeploy -g rg-1 -n web_1 --subscription b7), {other}");
    assert_eq!(to_do(&ahead, identity()), command);
    let mut two = ahead.clone();
    two.shown.resources = Some(vec!["web_0".into(), "web_1".into()]);
    let command = format!("{text} (az vm redeploy -g rg-1 -n NAME --subscription b7), {other}");
    assert_eq!(to_do(&two, identity()), command);
    for unfit in [
        Identity {
            scale_set: "web".to_owned(),
            ..identity()
        },
        Identity {
            resource_group: "a; b".to_owned(),
            ..identity()
        },
        Identity::default(),
    ] {
        assert_eq!(to_do(&ahead, unfit), format!("{text}, {other}"));
    }
    // Announced for today, it is no sign of degraded hardware.
    for event_type in ["Freeze", "Redeploy"] {
        let today = to_do(&platform(event_type, Some(7_200)), identity());
        assert!(today.starts_with("redeploy the VM yourself at a good time (az vm "));
    }
}

fn words(tracked: &TrackedEvent, snapshot: &Snapshot) -> Words {
    judge(tracked, moment(0)).words(snapshot)
}

#[test]
fn texts_have_at_most_1000_bytes_and_keep_the_id_while_they_can() {
    let mut long = platform("Redeploy", Some(604_800));
    let names = (0..20).map(|n| format!("{n}{}", "é".repeat(62)).into());
    long.shown.resources = Some(names.collect());
    long.shown.description = Some("ü".repeat(256).into());
    let identity = Identity {
        scale_set: "s".repeat(64),
        ..identity()
    };
    let fits = words(&long, &with_identity(identity));
    assert!(
        fits.description().len() <= 1_000,
        "{}",
        fits.description().len()
    );
    assert!(
        fits.description()
            .ends_with("Event: A1B2C3D4-0000-4000-8000-000000000001")
    );
    long.shown.resources = Some(vec!["\u{1f600}".repeat(300).into()]);
    let cut = words(&long, &snapshot([]));
    assert!(cut.summary.len() <= 1_000 && cut.description().len() <= 1_000);
}
