//! The titles and descriptions.

use std::{sync::Arc, time::Duration};

use super::*;
use crate::core::approval::ApprovalStep;
use crate::{azure::Identity, core::lifecycle::Interruption};

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

fn to_do(tracked: &TrackedEvent, snapshot: &Snapshot, seconds: i64) -> Option<String> {
    let description = words(tracked, snapshot, seconds).description();
    let line = description
        .lines()
        .find_map(|line| line.strip_prefix("To do: "));
    line.map(str::to_owned)
}

#[test]
fn advice_to_redeploy_has_the_command_for_a_vm_without_a_scale_set() {
    let ahead = platform("Redeploy", Some(604_800));
    let to_do = |tracked: &TrackedEvent, identity| to_do(tracked, &with_identity(identity), 0);
    let text = "redeploy the VM yourself at a good time";
    let other = "or move the load of the VM and save what is in memory and on the temporary disk before that time";
    let command = format!("{text} (az vm redeploy -g rg-1 -n web_1 --subscription b7), {other}");
    assert_eq!(to_do(&ahead, identity()).unwrap(), command);
    let mut two = ahead.clone();
    two.shown.resources = Some(vec!["web_0".into(), "web_1".into()]);
    let command = format!("{text} (az vm redeploy -g rg-1 -n NAME --subscription b7), {other}");
    assert_eq!(to_do(&two, identity()).unwrap(), command);
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
        assert_eq!(to_do(&ahead, unfit).unwrap(), format!("{text}, {other}"));
    }
}

#[test]
fn advice_about_an_approved_event_is_neither_done_nor_too_late() {
    let advice = |mut tracked: TrackedEvent| {
        tracked.approval.push(ApprovalStep::Accepted, at(0));
        to_do(&tracked, &snapshot([]), 1).unwrap()
    };
    let user = advice(tracked("Reboot", "User", Some(900)));
    assert!(user.starts_with("wait"), "{user}");
    let ahead = advice(platform("Reboot", Some(7_200)));
    assert!(ahead.starts_with("move the load"), "{ahead}");
}

#[test]
fn advice_to_redeploy_is_in_the_words_about_every_event_with_an_hour_of_notice() {
    let is_advised = |tracked: TrackedEvent, seconds| {
        let to_do = to_do(&tracked, &snapshot([]), seconds).unwrap();
        to_do.starts_with("redeploy the VM")
    };
    for event_type in ["Freeze", "Reboot", "Redeploy"] {
        for notice in [3_600, 86_399, 86_400, 604_800] {
            let ahead = platform(event_type, Some(notice));
            assert!(is_advised(ahead.clone(), 0), "{event_type} {notice}");
            assert!(is_advised(ahead.clone(), notice - 60), "in the last hour");
            assert!(
                !is_advised(started(ahead, notice), notice),
                "it has started"
            );
        }
        assert!(!is_advised(platform(event_type, Some(3_599)), 0));
    }
    assert!(!is_advised(freeze(Some(0), Some(7_200)), 0));
    assert!(
        !is_advised(freeze(Some(9), Some(7_200)), 0),
        "a pause of some seconds"
    );
    assert!(!is_advised(tracked("Reboot", "User", Some(7_200)), 0));
}

fn summary(tracked: &TrackedEvent, seconds: i64) -> String {
    words(tracked, &snapshot([]), seconds).summary
}

fn over(tracked: TrackedEvent, outcome: Outcome, interruption: Option<f64>) -> TrackedEvent {
    let mut over = ended(tracked, 960);
    over.end = Some(End {
        at: at(960),
        outcome,
    });
    let interruption = interruption.map(|seconds| Interruption {
        until: at(950),
        length: Duration::from_secs_f64(seconds),
    });
    over.longest_interruption = interruption.map(|it| it.length);
    over.interruptions = interruption.into_iter().collect();
    over
}

fn advisory(event_type: &str) -> TrackedEvent {
    let mut advisory = platform(event_type, None);
    advisory.shown.status = Status::Advisory;
    advisory
}

fn reboot() -> TrackedEvent {
    platform("Reboot", Some(899))
}

#[test]
fn summary_names_what_which_vm_and_when_and_does_not_change_with_time() {
    // Zero is 13:46:40.
    for (tracked, now, expected) in [
        (reboot(), 0, "Reboot of web_1 at 14:01 UTC"),
        (reboot(), 950, "Reboot of web_1 at 14:01 UTC"),
        (
            platform("Reboot", Some(7_200)),
            0,
            "Reboot of web_1 at 15:46 UTC",
        ),
        (
            platform("Preempt", Some(30)),
            0,
            "Preempt of web_1 at 13:47:10 UTC",
        ),
        (
            platform("Redeploy", Some(273_600)),
            0,
            "Degraded hardware: Redeploy of web_1 at 1970-01-15 17:46 UTC",
        ),
        // The next day.
        (
            platform("Reboot", Some(39_600)),
            0,
            "Reboot of web_1 at 1970-01-13 00:46 UTC",
        ),
        (platform("Reboot", None), 0, "Reboot of web_1 at any moment"),
        (
            started(reboot(), 899),
            901,
            "Reboot of web_1 in progress since 14:01 UTC",
        ),
        (
            started(reboot(), 899),
            2_699,
            "Stuck: Reboot of web_1 in progress since 14:01 UTC",
        ),
    ] {
        assert_eq!(summary(&tracked, now), expected);
    }
}

#[test]
fn summary_says_that_an_approval_can_start_the_event_earlier() {
    let mut approved = reboot();
    approved.approval.push(ApprovalStep::Intended, at(60));
    assert_eq!(
        summary(&approved, 61),
        "Reboot of web_1 at 14:01 UTC or earlier"
    );
    approved.approval.push(ApprovalStep::Sent, at(90));
    assert_eq!(
        summary(&approved, 91),
        "Reboot of web_1 at 14:01 UTC or earlier"
    );
    approved.approval.push(ApprovalStep::Accepted, at(91));
    assert_eq!(
        summary(&approved, 92),
        "Reboot of web_1 is approved, at any moment"
    );
    assert_eq!(words(&approved, &snapshot([]), 92).since, at(91));
}

#[test]
fn summary_says_what_kind_of_event_it_is() {
    let user = |not_before| tracked("Reboot", "User", not_before);
    for (tracked, now, expected) in [
        (
            freeze(Some(0), Some(900)),
            0,
            "Host maintenance of web_1 without interruption at 14:01 UTC",
        ),
        (
            started(platform("Reboot", None), 0),
            5,
            "Hardware failure: Reboot of web_1 in progress since 13:46 UTC",
        ),
        (
            user(Some(899)),
            0,
            "User Reboot of web_1 waits for an approval, until 14:01 UTC at the latest",
        ),
        (
            user(None),
            0,
            "User Reboot of web_1 waits for an approval, or starts at any moment",
        ),
        (
            started(user(Some(899)), 100),
            101,
            "User Reboot of web_1 in progress since 13:48 UTC",
        ),
        (
            advisory("SpotRebalanceRecommendation"),
            0,
            "Spot eviction advisory for web_1",
        ),
        (advisory("Preempt"), 0, "Preempt advisory for web_1"),
    ] {
        assert_eq!(summary(&tracked, now), expected);
    }
}

#[test]
fn summary_of_an_ended_event_says_what_became_of_it() {
    let completed = |length| over(started(reboot(), 899), Outcome::Completed, length);
    let mut left = reboot();
    left.scope = EventScope::Other;
    left.left_at = Some(at(60));
    let cases = [
        (
            completed(Some(42.9)),
            "Reboot of web_1 completed, interrupted for 42s",
        ),
        (
            completed(Some(90.0)),
            "Reboot of web_1 completed, interrupted for 1m 30s",
        ),
        (completed(None), "Reboot of web_1 completed"),
        (
            over(reboot(), Outcome::Cancelled, Some(2.0)),
            "Reboot of web_1 cancelled",
        ),
        (
            over(reboot(), Outcome::Unknown, None),
            "Reboot of web_1 ended, outcome unknown",
        ),
        (
            over(advisory("Preempt"), Outcome::Unknown, None),
            "Preempt advisory for web_1 ended",
        ),
        (left, "Reboot of web_1 changed: it does not name web_1"),
    ];
    for (tracked, expected) in cases {
        assert_eq!(summary(&tracked, 960), expected);
        assert_eq!(to_do(&tracked, &snapshot([]), 960), None, "{expected}");
    }
}

#[test]
fn summary_is_the_same_on_every_vm_and_counts_the_other_vms() {
    let mut reboot = platform("Reboot", Some(840));
    for (resources, expected) in [
        (&["web_1", "web_0"][..], "web_0 and 1 more VM"),
        (&["_web_1", "web_2", "_web_0"], "web_0 and 2 more VMs"),
        (&["web_1"], "web_1"),
    ] {
        let names = resources.iter().map(|name| (*name).into());
        reboot.shown.resources = Some(names.collect());
        let expected = format!("Reboot of {expected} at 14:00 UTC");
        assert_eq!(summary(&reboot, 0), expected);
    }
}

#[test]
fn words_change_with_the_event_and_not_with_time() {
    let mut reboot = platform("Reboot", Some(900));
    let first = words(&reboot, &snapshot([]), 0);
    assert_eq!(first.since, at(0));
    assert_eq!(words(&reboot, &snapshot([]), 899), first);
    reboot.changed_at = at(300);
    reboot.shown.duration_seconds = Some(30);
    let changed = words(&reboot, &snapshot([]), 301);
    assert_eq!(changed.since, at(300));
    assert_ne!(changed.description(), first.description());
    let running = started(reboot, 300);
    let stuck = words(&running, &snapshot([]), 9_000);
    assert_eq!(stuck.since, at(300 + 1_800));
}

fn description(tracked: &TrackedEvent, snapshot: &Snapshot, seconds: i64) -> String {
    words(tracked, snapshot, seconds).description()
}

#[test]
fn description_has_a_line_for_each_property_with_a_value() {
    assert_eq!(
        description(&platform("Reboot", Some(899)), &snapshot([]), 0),
        "VM: web_1\n\
         What: Reboot: the VM restarts; what is in memory is lost\n\
         When: 14:01 UTC\n\
         Duration: not announced; usually 5 to 10 minutes\n\
         To do: move the load of the VM and save what is in memory before that time\n\
         Source: Platform\n\
         Event: A1B2C3D4-0000-4000-8000-000000000001"
    );
    let mut freeze = started(freeze(Some(9), Some(899)), 899);
    freeze.shown.source = None;
    freeze.shown.description = Some("Host \"A\"\nis updated".into());
    let scale_set = "web".to_owned();
    let snapshot = with_identity(Identity {
        scale_set,
        ..identity()
    });
    assert_eq!(
        description(&freeze, &snapshot, 901),
        "VM: web_1\n\
         Where: scale set web, westeurope, resource group rg-1, subscription b7\n\
         What: Freeze: the VM is paused; memory and disks are kept, connections may break\n\
         When: started at 14:01 UTC\n\
         Duration: 9s announced\n\
         To do: wait until the VM is back; the alert ends then\n\
         Source: not given, treated as Platform\n\
         Azure: \"Host \"A\" is updated\"\n\
         Event: A1B2C3D4-0000-4000-8000-000000000001"
    );
}

#[test]
fn description_of_an_ended_event_says_what_became_of_it() {
    let mut over = ended(started(platform("Reboot", Some(899)), 899), 960);
    over.longest_interruption = Some(Duration::from_secs(42));
    over.interruptions = vec![Interruption {
        until: at(950),
        length: Duration::from_secs(42),
    }];
    over.shown.resources = None;
    assert_eq!(
        description(&over, &snapshot([]), 990),
        "VM: web_1\n\
         What: Reboot: the VM restarts; what is in memory is lost\n\
         When: started at 14:01 UTC\n\
         Duration: not announced; usually 5 to 10 minutes\n\
         Outcome: completed, interrupted for 42s\n\
         Source: Platform\n\
         Event: A1B2C3D4-0000-4000-8000-000000000001"
    );
}

#[test]
fn description_names_at_most_ten_vms_and_counts_all_once() {
    let mut reboot = platform("Reboot", Some(840));
    let line = |reboot: &TrackedEvent| {
        let text = description(reboot, &snapshot([]), 0);
        text.lines().next().unwrap().to_owned()
    };
    reboot.shown.resources = Some((0..10).map(|n| format!("web_{n}").into()).collect());
    assert_eq!(
        line(&reboot),
        "VMs: web_0, web_1, web_2, web_3, web_4, web_5, web_6, web_7, web_8, web_9 (10)"
    );
    reboot.shown.resources = Some((0..14).map(|n| format!("web_{n}").into()).collect());
    assert_eq!(
        line(&reboot),
        "VMs: web_0, web_1, web_10, web_11, web_12, web_13, web_2, web_3, web_4, web_5 and 4 more (14)"
    );
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
    let fits = words(&long, &with_identity(identity), 0);
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
    let cut = words(&long, &snapshot([]), 0);
    assert!(cut.summary.len() <= 1_000 && cut.description().len() <= 1_000);
}
