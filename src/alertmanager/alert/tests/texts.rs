//! The titles and descriptions.

use super::*;

#[test]
fn advice_to_redeploy_is_in_every_alert_with_an_hour_of_notice() {
    let is_advised = |tracked: TrackedEvent, seconds| {
        let alerts = alerts(&snapshot([tracked]), at(seconds));
        assert!(!alerts.is_empty());
        let has_advice: BTreeSet<_> = alerts
            .iter()
            .map(|alert| alert.annotations["description"].contains("To do: redeploy the VM"))
            .collect();
        assert_eq!(has_advice.len(), 1);
        has_advice.contains(&true)
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
    assert!(!is_advised(tracked("Reboot", "User", Some(7_200)), 0));
}

/// The summary of the only alert.
fn summary(tracked: &TrackedEvent, seconds: i64) -> String {
    let [alert] = alerts(&snapshot([tracked.clone()]), at(seconds))
        .try_into()
        .unwrap();
    alert.annotations["summary"].clone()
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
    over.interruptions = interruption.into_iter().collect();
    over
}

fn advisory(event_type: &str) -> TrackedEvent {
    let mut advisory = platform(event_type, None);
    advisory.event.status = Status::Advisory;
    advisory
}

fn reboot() -> TrackedEvent {
    platform("Reboot", Some(899))
}

#[test]
fn summary_names_what_which_vm_and_when_in_whole_units_that_are_never_rounded_up() {
    // Zero is 13:46:40.
    for (tracked, now, expected) in [
        (reboot(), 0, "Reboot of web_1 in 14m (14:01 UTC)"),
        (reboot(), 839, "Reboot of web_1 in 1m (14:01 UTC)"),
        (reboot(), 840, "Reboot of web_1 in 59s (14:01 UTC)"),
        (reboot(), 899, "Reboot of web_1 in 0s (14:01 UTC)"),
        (reboot(), 900, "Reboot of web_1 due since 14:01 UTC"),
        (
            platform("Reboot", Some(11_699)),
            0,
            "Reboot of web_1 in 3h 14m (17:01 UTC)",
        ),
        (
            platform("Reboot", Some(7_200)),
            0,
            "Reboot of web_1 in 2h 0m (15:46 UTC)",
        ),
        (
            platform("Redeploy", Some(273_600)),
            0,
            "Degraded hardware: Redeploy of web_1 in 3d 4h (1970-01-15 17:46 UTC)",
        ),
        (platform("Reboot", None), 0, "Reboot of web_1 at any moment"),
        (started(reboot(), 899), 901, "Reboot of web_1 in progress"),
    ] {
        assert_eq!(summary(&tracked, now), expected);
    }
}

#[test]
fn summary_says_what_kind_of_event_it_is() {
    let user = |not_before| tracked("Reboot", "User", not_before);
    for (tracked, now, expected) in [
        (
            freeze(Some(0), Some(900)),
            0,
            "Host maintenance of web_1 without interruption in 15m (14:01 UTC)",
        ),
        (
            started(platform("Reboot", None), 0),
            5,
            "Hardware failure: Reboot of web_1 in progress",
        ),
        (
            user(Some(899)),
            0,
            "User Reboot of web_1 waits, at the latest in 14m (14:01 UTC)",
        ),
        (
            user(Some(899)),
            900,
            "User Reboot of web_1 waits for an approval",
        ),
        (user(None), 0, "User Reboot of web_1 waits for an approval"),
        (
            started(user(Some(899)), 100),
            101,
            "User Reboot of web_1 in progress",
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
    ];
    for (tracked, expected) in cases {
        assert_eq!(summary(&tracked, 960), expected);
    }
}

#[test]
fn summary_is_the_same_whichever_vm_pushes_it_and_counts_the_other_vms() {
    let mut reboot = platform("Reboot", Some(840));
    for (resources, expected) in [
        (&["web_1", "web_0"][..], "web_0 and 1 more VM"),
        (&["_web_1", "web_2", "_web_0"], "web_0 and 2 more VMs"),
        (&["web_1"], "web_1"),
    ] {
        let names = resources.iter().map(|name| (*name).into());
        reboot.event.resources = Some(names.collect());
        let expected = format!("Reboot of {expected} in 14m (14:00 UTC)");
        assert_eq!(summary(&reboot, 0), expected);
    }
}

/// The description of the only alert.
fn description(snapshot: &Snapshot, seconds: i64) -> String {
    let [alert] = alerts(snapshot, at(seconds)).try_into().unwrap();
    alert.annotations["description"].clone()
}

#[test]
fn description_has_a_line_for_each_property_with_a_value() {
    let mut snapshot = snapshot([platform("Reboot", Some(899))]);
    assert_eq!(
        description(&snapshot, 0),
        "VM: web_1\n\
         What: Reboot: the VM restarts; what is in memory is lost\n\
         When: 14:01 UTC (in 14m)\n\
         Duration: unknown\n\
         To do: move the load of the VM and save what is in memory before that time\n\
         Source: Platform\n\
         Event: A1B2C3D4-0000-4000-8000-000000000001"
    );
    let mut freeze = started(freeze(Some(9), Some(899)), 899);
    freeze.event.source = None;
    freeze.event.description = Some("Host \"A\"\nis updated".into());
    snapshot.events = Arc::from([Arc::new(freeze)]);
    snapshot.identity = Some(Arc::new(Identity {
        scale_set: "web".to_owned(),
        location: "westeurope".to_owned(),
        ..Identity::default()
    }));
    assert_eq!(
        description(&snapshot, 901),
        "VM: web_1\n\
         Where: scale set web, westeurope\n\
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
    over.interruptions = vec![Interruption {
        until: at(950),
        length: Duration::from_secs(42),
    }];
    over.event.resources = None;
    let snapshot = snapshot([over]);
    assert_eq!(
        description(&snapshot, 990),
        "VM: web_1\n\
         What: Reboot: the VM restarts; what is in memory is lost\n\
         When: started at 14:01 UTC\n\
         Duration: unknown\n\
         Outcome: completed, interrupted for 42s\n\
         Source: Platform\n\
         Event: A1B2C3D4-0000-4000-8000-000000000001"
    );
}

#[test]
fn description_names_at_most_ten_vms_and_counts_all_once() {
    let mut reboot = platform("Reboot", Some(840));
    let line = |reboot: &TrackedEvent| {
        let text = description(&snapshot([reboot.clone()]), 0);
        text.lines().next().unwrap().to_owned()
    };
    reboot.event.resources = Some((0..10).map(|n| format!("web_{n}").into()).collect());
    assert_eq!(
        line(&reboot),
        "VMs: web_0, web_1, web_2, web_3, web_4, web_5, web_6, web_7, web_8, web_9 (10)"
    );
    reboot.event.resources = Some((0..14).map(|n| format!("web_{n}").into()).collect());
    assert_eq!(
        line(&reboot),
        "VMs: web_0, web_1, web_10, web_11, web_12, web_13, web_2, web_3, web_4, web_5 and 4 more (14)"
    );
}
