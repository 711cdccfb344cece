"""The fleet dashboard: what happens now, what is next, and whether the exporters report."""

from __future__ import annotations

from typing import Any

import event_table
import events
from parts import (
    CALM,
    COLOURED_CELL,
    CRITICAL,
    FLEET_AT_RISK,
    LINE,
    NOTICE,
    OTHER_TYPE,
    SEVERITY,
    TRACE_VARIABLES,
    TYPE_COLOURS,
    WARNING,
    bars,
    by_type,
    carried,
    cluster_variable,
    custom_variable,
    dashboard,
    fixed,
    graph,
    job_variable,
    override,
    stat,
    table,
    target,
    thresholds,
    value_map,
    vm_label_variable,
    vm_link,
    vm_variable,
)

PLAIN = {"color": fixed("text")}
SAYS = '"none": no event, and every known exporter has read the metadata service within a minute. "17 of 24 blind": 17 of 24 exporters have not, so an event of their VMs may be missing. "no rules": the rules are not loaded, or no longer evaluated.'


def variables() -> list[dict[str, Any]]:
    return [
        cluster_variable(),
        job_variable(),
        vm_label_variable("scale_set", "Scale set", "vm_scale_set"),
        vm_label_variable("location", "Location", "location"),
        vm_variable(multi=True, more='vm_scale_set=~"$scale_set", location=~"$location"'),
        custom_variable("event_type", "Type", list(TYPE_COLOURS), "Only events of these types"),
        *TRACE_VARIABLES,
    ]


def add(panel: dict[str, Any], expr: str, legend: str = "__auto", orientation: str = "horizontal") -> dict[str, Any]:
    """A second query of a panel, whose values are below those of the first, or for "vertical" beside them."""
    panel["targets"].append(target(expr, "B", legend=legend, instant=True))
    panel["options"]["orientation"] = orientation
    return panel


def both(of: str) -> tuple[str, str]:
    """`of` for the event that can start at any moment, and for the next one with a NotBefore in the future."""
    return f"{of} and on ({events.EVENT}) {events.imminent()}", f"{of} and on ({events.EVENT}) {events.upcoming()}"


def now_and_next() -> list[dict[str, Any]]:
    says = {"text": "name", "unit": "none", "legend": "{{text}}", "defaults": {"thresholds": SEVERITY}}
    now = stat(
        "Now",
        f"Events that have started and are not over, the three worst ones, also while their VMs are down. The colour is that of the alert. {SAYS}",
        (0, 0, 8, 5),
        f"{events.running_text()} or on () {events.state()}",
        **says,
    )
    now["options"]["orientation"] = "horizontal"
    upcoming = events.text(events.ranked(f"{events.upcoming()} ^ 0"))
    following = add(
        stat(
            "Next",
            f"The event that starts next, with the number of VMs that it names. Above it an event that can start at any moment, if there is one: NotBefore has passed, or Azure gave none. {SAYS}",
            (8, 0, 9, 5),
            events.text(events.imminent()),
            **says,
        ),
        f"{upcoming} or on () ({events.state()} unless on () {events.waiting()})",
        "{{text}}",
    )
    first, second = events.when(events.imminent()), events.when(events.upcoming())
    starts = add(
        stat(
            "Starts in",
            'Until NotBefore, before which Azure does not start it unless somebody approves it. "due": NotBefore has passed. "any moment": Azure gave no NotBefore.',
            (17, 0, 3, 5),
            first,
            unit="s",
            defaults={**PLAIN, "decimals": 0, "mappings": [event_table.WHEN]},
        ),
        second,
    )
    coverage = stat(
        "Coverage",
        "How many of the exporters that were a target in the last 15 minutes report: Prometheus scrapes them, they have read the metadata service in the minute before the scrape, and they are not warming up.",
        (20, 0, 4, 5),
        events.coverage(),
        **says,
    )
    return [now, following, starts, coverage]


def figures(y: int) -> list[dict[str, Any]]:
    first, second = both(f"1000 * {events.not_before()}")
    not_before = add(
        stat(
            "Not before",
            "NotBefore of the events under Next, in the time zone of this dashboard.",
            (0, y, 5, 3),
            first,
            unit="dateTimeAsIsoNoDateIfToday",
            defaults=PLAIN,
        ),
        second,
        orientation="vertical",
    )
    length = f"({events.duration()} or on ({events.EVENT}) -1 * {events.known_open()})"
    first, second = both(length)
    words = value_map({"0": ("no interruption", CALM), "-1": ("unknown", CALM)})
    lasts = add(
        stat(
            "Lasts",
            "The interruption that Azure announces for the events under Next. Unknown is not short.",
            (5, y, 4, 3),
            first,
            unit="s",
            defaults={**PLAIN, "mappings": [words]},
        ),
        second,
        orientation="vertical",
    )
    clear = events.all_clear()
    hour = stat(
        "VMs hit within 1 h",
        "VMs with an event that has started or can start within the hour, without events that interrupt nothing. 0 is shown only if all exporters report.",
        (9, y, 5, 3),
        f"{events.count_vms(events.within_the_hour())} or on () {clear}",
        unit="none",
        defaults={"thresholds": thresholds((None, CALM), (1, NOTICE))},
    )
    affected = stat(
        "VMs affected",
        "VMs with a pending event, started or announced, and their share of all VMs. A tenth of the fleet within an hour is an alert. 0 is shown only if all exporters report.",
        (14, y, 6, 3),
        f"{events.count_vms(events.selected())} or on () {clear}",
        legend="VMs",
        text="value_and_name",
        unit="none",
        defaults={"thresholds": thresholds((None, CALM), (1, NOTICE))},
        overrides=[
            override(
                "of all",
                unit="percentunit",
                decimals=1,
                thresholds=thresholds((None, CALM), (FLEET_AT_RISK, WARNING)),
            )
        ],
    )
    share = f"{events.count_vms(events.selected())} / on () count({events.known()})"
    affected["targets"].append(target(share, "B", legend="of all", instant=True))
    advice = stat(
        "Advisories",
        "Advice by Azure that is not maintenance, such as a Spot VM with a higher risk of eviction. It has no deadline, and no other panel here contains it.",
        (20, y, 4, 3),
        f"{events.advisories()} or on () {clear}",
        unit="none",
        defaults={"thresholds": thresholds((None, CALM), (1, NOTICE))},
    )
    return [not_before, lasts, hour, affected, advice]


def coming(y: int) -> list[dict[str, Any]]:
    return [
        event_table.later(
            "After the next hour",
            "Announced events with more than an hour left, in the order of their NotBefore. Events whose alert is of severity info, such as pauses of seconds, come last.",
            (0, y, 13, 9),
        ),
        event_table.week(
            "The coming 7 days",
            "Announced events by day of NotBefore and by type. Days begin at midnight UTC. An event without NotBefore, or whose NotBefore has passed, counts for the first day.",
            (13, y, 11, 9),
        ),
    ]


def shares(y: int) -> list[dict[str, Any]]:
    by_location = f"topk(5, {events.count_vms(events.selected(), 'location')})"
    return [
        graph(
            "VMs with a pending event",
            "How many VMs had an announced or started event, by type. A VM with two events counts under both.",
            (0, y, 10, 8),
            [target(events.count_vms(events.selected(), "event_type"), legend="{{event_type}}")],
            stacked=True,
            unit="none",
            maxDataPoints=240,
            overrides=by_type(),
            defaults={"decimals": 0, "min": 0},
            custom={"fillOpacity": 45, "lineInterpolation": "stepAfter"},
        ),
        bars(
            "VMs by type",
            "VMs with a pending event, by what will happen to them. A VM with two events counts under both.",
            (10, y, 5, 8),
            [target(events.count_vms(events.selected(), "event_type"), legend="{{event_type}}", instant=True)],
            unit="none",
            overrides=by_type(),
            defaults={"displayName": "${__field.labels.event_type}", "color": fixed(OTHER_TYPE)},
        ),
        bars(
            "VMs by location",
            "VMs with a pending event, by Azure region: the five that have most of them.",
            (15, y, 9, 8),
            [
                target(
                    f'label_replace({by_location}, "location", "unknown", "location", "")',
                    legend="{{location}}",
                    instant=True,
                )
            ],
            unit="none",
            names="top",
            defaults={"color": fixed(LINE), "displayName": "${__field.labels.location}"},
        ),
    ]


def blind(y: int) -> dict[str, Any]:
    trouble = value_map(
        {
            "1": ("cannot be scraped", CRITICAL),
            "2": ("cannot read metadata", WARNING),
            "3": ("warming up", NOTICE),
            "4": ("last answer is more than a minute old", WARNING),
            "5": ("is not a target any more", NOTICE),
        }
    )
    return table(
        "Exporters that do not report, and why",
        "As long as one is listed here, events of its VM may be missing above. Warming up: Scheduled Events was enabled for the VM less than five minutes ago. At most 100 are shown.",
        (0, y, 24, 7),
        [target(events.why_blind(), table=True)],
        {"vm_name": "VM", "Value": "Trouble", "cluster": "In cluster", "instance": "Instance", "in": "Cluster"},
        sort="VM",
        drop=("job",),
        overrides=[
            override("VM", links=[vm_link("Everything about ${__data.fields.VM}")], custom__minWidth=200),
            override("Trouble", mappings=[trouble], custom__cellOptions=COLOURED_CELL, custom__minWidth=250),
            override("Instance", custom__minWidth=150),
            carried("Cluster"),
        ],
    )


def build() -> dict[str, Any]:
    rows = event_table.of_fleet(
        "Pending now",
        "One row per open event, the next one to act on first and started ones last. Severity is that of the alert. First VMs opens the dashboard of the first VM, Event the event's trace.",
        (0, 8, 24, 10),
    )
    panels = [*now_and_next(), *figures(5), rows, *coming(18), *shares(27), blind(35)]
    return dashboard(
        "azse-fleet",
        "Azure Scheduled Events / Fleet",
        "What Azure does to which VM now, what is next, and whether all exporters report.",
        variables(),
        panels,
        since="now-6h",
        refresh="15s",
    )
