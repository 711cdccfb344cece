"""The fleet dashboard: pending events, affected VMs and times."""

from __future__ import annotations

from typing import Any

import event_table
import queries as q
from parts import (
    CALM,
    CRITICAL,
    DIM,
    FLEET_AT_RISK,
    NOTICE,
    TRACE_VARIABLES,
    TYPE_COLOURS,
    URGENCY,
    WARNING,
    bars,
    by_name,
    by_type,
    cluster_variable,
    custom_variable,
    dashboard,
    fixed,
    graph,
    job_variable,
    override,
    panel,
    query_variable,
    stat,
    table,
    target,
    thresholds,
    value_map,
)
from queries import fleet_event as event

# Shown by fleet counts without data. The counts come from recording rules; 0 would hide that the rules are not loaded.
NO_RULES = "no rules"


def variables() -> list[dict[str, Any]]:
    return [
        cluster_variable(),
        job_variable(),
        query_variable("instance", "Instance", 'label_values(azure_scheduled_events_up{job=~"$job"}, instance)'),
        custom_variable("event_type", "Type", list(TYPE_COLOURS), "Only events of these types"),
        *TRACE_VARIABLES,
    ]


def next_event() -> list[dict[str, Any]]:
    upcoming = q.next_countdown(event)
    pairs = f"bottomk(3, {event('not_before_countdown_seconds')} and on (event_id) {upcoming})"
    kinds = [override(name, color=fixed(colour)) for name, colour in TYPE_COLOURS.items()]
    return [
        stat(
            "Next to be hit",
            'The VMs that the next announced event names, at most three of them. An event that has started is not next any more: see the table. With "yet", an exporter is warming up: its events may take minutes to appear.',
            (0, 0, 6, 4),
            q.or_say(q.named(pairs, event("resources")), "vm_name", "none", q.TARGETS, q.WARMING_UP),
            legend="{{vm_name}}",
            text="name",
            unit="none",
            empty="none",
            defaults={"color": fixed("text")},
            overrides=by_name({"none": CALM, q.yet("none"): NOTICE, q.UNKNOWN: DIM}),
        ),
        stat(
            "By what",
            "Freeze: paused, memory kept. Reboot: restarted. Redeploy: moved to another host, temporary disk lost. Preempt: Spot VM evicted. Terminate: deleted.",
            (6, 0, 4, 4),
            q.or_say(upcoming, "event_type", "nothing", q.TARGETS, q.WARMING_UP),
            legend="{{event_type}}",
            text="name",
            unit="none",
            colour="background",
            empty="nothing",
            overrides=[*kinds, *by_name({"nothing": CALM, q.yet("nothing"): NOTICE, q.UNKNOWN: DIM})],
        ),
        stat(
            "Starts in",
            "Until NotBefore, before which Azure does not start it unless somebody approves it. Red within the hour, orange within the day, as the alerts have it.",
            (10, 0, 4, 4),
            upcoming,
            unit="s",
            empty="–",
            defaults={"thresholds": URGENCY, "decimals": 0},
            colour="background",
        ),
        stat(
            "Not before",
            "The same as a time of day, in the time zone of this dashboard.",
            (14, 0, 4, 4),
            f"1000 * max(max by (event_id) ({event('not_before_timestamp_seconds')}) and on (event_id) {upcoming})",
            unit="dateTimeAsIsoNoDateIfToday",
            empty="–",
            defaults={"color": fixed("text")},
        ),
        event_table.announced_length("Lasts", (18, 0, 3, 4), event),
        stat(
            "Started",
            "VMs with an event that has started and is not over.",
            (21, 0, 3, 4),
            f"count(max by (job, instance) ({event('status', q.EVENT_STATUS.format('Started'))} == 1)) or 0 * {q.TARGETS}",
            unit="none",
            empty=NO_RULES,
            defaults={"thresholds": thresholds((None, CALM), (1, CRITICAL))},
        ),
    ]


def coming_week(at: tuple[int, int, int, int]) -> dict[str, Any]:
    """Pending events on a time axis. The panel's own range is the next seven days; queries read the start of the range.

    Grafana aligns the range's start to a full step, up to one step in the past, so queries read a window of one step
    after it.
    """
    ahead = "[10m] @ start() offset -10m"
    not_before = f"last_over_time({event('not_before_timestamp_seconds')}{ahead})"
    alive = f"(last_over_time({event('status', q.EVENT_STATUS.format('Scheduled'))}{ahead}) == 1)"
    soonest = f"bottomk(12, {not_before} and on ({q.PAIR}) {alive})"
    names = f"last_over_time({q.VM_NAMES}{ahead})"
    # Grafana sorts rows by label. The label `at` sorts before the others, so rows are in order of time.
    row = "instance, event_type, event_id"
    ordered = q.named(f'count_values by (job, {row}) ("at", {soonest})', not_before, names)
    codes = {name: code for code, name in enumerate(TYPE_COLOURS, start=1)}
    waits = f"100 * ((max by ({row}) ({soonest}) - time() > -21600) > bool 0)"
    kind = f"""label_replace({waits}, "kind", "$1", "event_type", "({"|".join(codes)})") + on (kind) group_left () (vector(0) or {q.type_table(codes, "kind")})"""
    expr = f"({ordered}) * on ({row}) group_left () ({kind})"
    mappings = [
        value_map(
            {"0": ("other type", DIM), **{str(code): (name, TYPE_COLOURS[name]) for name, code in codes.items()}}
        ),
        {
            "type": "range",
            "options": {"from": 100, "to": 199, "result": {"color": "#31475E", "index": 9, "text": "announced"}},
        },
    ]
    return panel(
        "state-timeline",
        "The coming 7 days",
        "The twelve announced events that may start first, in that order. Dark: announced, not before the end of the bar. Coloured: from NotBefore on what may happen, drawn for six hours "
        "so that a pause of seconds is seen.",
        at,
        [target(expr, legend="{{vm_name}}", interval="10m")],
        empty="Nothing is announced for the coming 7 days",
        defaults={"mappings": mappings, "color": {"mode": "thresholds"}, "thresholds": thresholds((None, DIM))},
        custom={"fillOpacity": 90, "lineWidth": 0},
        options={
            "alignValue": "left",
            "legend": {"displayMode": "list", "placement": "bottom", "showLegend": True},
            "mergeValues": True,
            "rowHeight": 0.8,
            "showValue": "never",
            "tooltip": {"mode": "single", "sort": "none"},
        },
        maxDataPoints=1100,
        timeFrom="+7d",
        hideTimeOverride=False,
    )


def by_event_type() -> str:
    of_selected = f"count by (event_type) (group by (job, instance, event_type) ({q.selected_pending(q.SELECTED)}))"
    return f"""sum by (event_type) ({q.recorded("azure_scheduled_event:pending_vms_by_type", 'event_type=~"$event_type"')}) or {of_selected}"""


def shares(y: int) -> list[dict[str, Any]]:
    of_type = 'event_type=~"$event_type"'
    hit = q.selected_pending(q.SELECTED_OR_TYPE)
    count = f"(sum({q.recorded('azure_scheduled_event:pending_vms', of_type)}) or count(group by (job, instance) ({hit})) or 0 * {q.TARGETS})"
    place = q.recorded("azure_scheduled_events_vm_info", first=q.SELECTED_OR_TYPE)
    by_location = (
        f"sum by (location) ({q.recorded('azure_scheduled_event:pending_vms_by_location', of_type)}) "
        f"or count by (location) (group by (job, instance, location) ({place} and on (job, instance) {hit}))"
    )
    empty = "No VM has a pending event"
    affected = stat(
        "VMs affected",
        "VMs with a pending event, announced or started, and their share of the VMs with an exporter. The alert for the fleet speaks at a tenth.",
        (14, y + 5, 5, 4),
        count,
        legend="VMs",
        text="value_and_name",
        unit="none",
        empty=NO_RULES,
        defaults={"thresholds": thresholds((None, CALM), (1, NOTICE))},
        overrides=[
            override(
                "of the fleet",
                unit="percentunit",
                decimals=1,
                thresholds=thresholds((None, CALM), (FLEET_AT_RISK, WARNING)),
            )
        ],
    )
    affected["targets"].append(target(f"{count} / {q.TARGETS}", "B", legend="of the fleet", instant=True))
    return [
        bars(
            "VMs by type",
            "VMs with a pending event, by what will happen to them. A VM with two events counts under both.",
            (14, y, 5, 5),
            [target(by_event_type(), legend="{{event_type}}", instant=True)],
            unit="none",
            empty=empty,
            overrides=by_type(),
            defaults={"displayName": "${__field.labels.event_type}"},
        ),
        bars(
            "VMs by location",
            "VMs with a pending event, by Azure region: the five that have most of them.",
            (19, y, 5, 9),
            [
                target(
                    f'label_replace(topk(5, {by_location}), "location", "unknown", "location", "")',
                    legend="{{location}}",
                    instant=True,
                )
            ],
            unit="none",
            empty=empty,
            names="top",
            defaults={"color": fixed(NOTICE), "displayName": "${__field.labels.location}"},
        ),
        affected,
    ]


def trust(y: int) -> list[dict[str, Any]]:
    """Health of the exporters that the panels above depend on."""
    failing = q.recorded("azure_scheduled_events:failing")
    up = f"sum({q.recorded('azure_scheduled_events:targets_up')}) or sum({q.recorded('azure_scheduled_events:target', first=q.SELECTED)})"
    trouble = value_map({"1": ("cannot be scraped", CRITICAL), "2": ("cannot read metadata", WARNING)})
    return [
        graph(
            "VMs with a pending event",
            "How many VMs had an announced or started event, by type.",
            (0, y, 9, 8),
            [target(by_event_type(), legend="{{event_type}}")],
            stacked=True,
            unit="none",
            empty="No event was pending in this time",
            maxDataPoints=240,
            overrides=by_type(),
            defaults={"decimals": 0, "min": 0},
            custom={"fillOpacity": 45, "lineInterpolation": "stepAfter"},
        ),
        stat(
            "Up",
            "Exporters that Prometheus can scrape.",
            (9, y, 3, 4),
            up,
            unit="none",
            empty=NO_RULES,
            defaults={"color": fixed("text")},
        ),
        stat(
            "Failing",
            "Exporters that cannot be scraped or cannot read the metadata service: events of their VMs may be missing here.",
            (9, y + 4, 3, 4),
            f"count({failing}) or 0 * {q.TARGETS}",
            unit="none",
            empty=NO_RULES,
            colour="background",
            defaults={"thresholds": thresholds((None, CALM), (1, WARNING))},
        ),
        stat(
            "Warming up",
            "Exporters whose first read was less than five minutes ago, or the first after a day without one: Azure needs up to five minutes to deliver the events of their VMs.",
            (12, y, 3, 4),
            f"{q.WARMING_UP} or 0 * {q.TARGETS}",
            unit="none",
            empty=NO_RULES,
            defaults={"thresholds": thresholds((None, CALM), (1, NOTICE))},
        ),
        stat(
            "Advisories",
            "Advice by Azure that is not maintenance, such as a Spot VM with a higher risk of eviction. It has no deadline and is not in the counts and the table above.",
            (12, y + 4, 3, 4),
            f"count(group by (event_id) {q.advisories(event)}) or 0 * {q.TARGETS}",
            unit="none",
            empty=NO_RULES,
            defaults={"thresholds": thresholds((None, CALM), (1, NOTICE))},
        ),
        table(
            "Exporters that fail, and why",
            "Which ones, and why. As long as one is listed here, events of its VM may be missing above.",
            (15, y, 9, 8),
            [target(f"max by (job, instance) ({failing})", table=True)],
            {"instance": "Instance", "Value": "Trouble"},
            sort="Instance",
            drop=("job",),
            empty="No exporter is known to fail",
            overrides=[
                override(
                    "Trouble", mappings=[trouble], custom__cellOptions={"type": "color-text"}, custom__minWidth=150
                ),
                override(
                    "Instance",
                    links=[
                        {
                            "title": "This VM",
                            "url": "/d/azse-vm?var-instance=${__data.fields.Instance}&${datasource:queryparam}&${job:queryparam}&${__url_time_range}",
                        }
                    ],
                    custom__minWidth=150,
                ),
            ],
        ),
    ]


def build() -> dict[str, Any]:
    rows = event_table.pending(
        "Pending now",
        "Every event that is announced or under way, one row per VM that it names. VM opens the VM's dashboard, Event the event's trace.",
        (0, 4, 24, 9),
        event,
        empty="Nothing is pending: no VM that reports here has an announced or running event",
        with_vm=True,
    )
    panels = [*next_event(), rows, coming_week((0, 13, 14, 9)), *shares(13), *trust(22)]
    return dashboard(
        "azse-fleet",
        "Azure Scheduled Events / Fleet",
        "What Azure is about to do to which VM, and when.",
        variables(),
        panels,
        since="now-6h",
        refresh="15s",
    )
