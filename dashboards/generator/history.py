"""The history dashboard: number of events, notice and interruptions.

The queries read what dashboards.rules.yml records of each event and of each VM of an event, once a minute while it is
reported. Everything is aggregated before it is counted or joined: several VMs report an event.
"""

from __future__ import annotations

from typing import Any

from parts import (
    ALLOWED_LESS,
    BAD_LINE,
    CALM,
    COLOURED_CELL,
    LINE,
    NO_VALUE,
    OTHER_LINE,
    PROMISED_SECONDS,
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
    matching,
    override,
    query_variable,
    row,
    stat,
    table,
    target,
    thresholds,
    value_map,
    vm_link,
)

RANGE = "[$__range]"
EVENT = "cluster, event_id"
TYPED = "cluster, event_id, event_type"
VM = "cluster, job, instance"
EVENTS = 'cluster=~"$cluster", event_type=~"$event_type"'
TARGETS = 'cluster=~"$cluster", job=~"$job", instance=~"$instance"'
# The interruption of each VM and event, -1 if the event has not begun.
VMS = "instance_event:azure_scheduled_event_observed_interruption_seconds:max"
SINCE = 'min(last_over_time(cluster:azure_scheduled_event_history:since{cluster=~"$cluster"}[1h]))'
NO_ROWS, NO_DATA = "no rows: see Recorded since", "no data: see Recorded since"
PLAIN = {"thresholds": thresholds((None, CALM))}
SECONDS = {"unit": "s", "decimals": 1, "noValue": NO_VALUE, "custom__minWidth": 75}
COUNT = {"unit": "none", "decimals": 0, "noValue": NO_VALUE, "custom__width": 80}
NOT_THERE = {
    "type": "special",
    "options": {"match": "null+nan", "result": {"color": CALM, "index": 9, "text": NO_VALUE}},
}


def variables() -> list[dict[str, Any]]:
    """The VMs and scale sets are those with an event in this time."""
    of = f'{VMS}{{cluster=~"$cluster", job=~"$job"}}'
    return [
        cluster_variable(),
        job_variable(),
        query_variable("scale_set", "Scale set", f"label_values({of}, vm_scale_set)"),
        query_variable("instance", "Instance", f"label_values({of}, instance)"),
        custom_variable("event_type", "Type", list(TYPE_COLOURS), "Only events of these types"),
    ]


def vms(by: str, more: str = "", over: str = RANGE) -> str:
    """The selected VMs of events."""
    matchers = f'{TARGETS}, {EVENTS.partition(", ")[2]}, vm_scale_set=~"$scale_set"{more}'
    return f"max by ({by}) (max_over_time({VMS}{{{matchers}}}{over}))"


def recorded(record: str, by: str = TYPED, more: str = "", over: str = RANGE) -> str:
    """A value of each event of the selected VMs."""
    values = f"max by ({by}) (last_over_time(event:azure_scheduled_event_{record}{{{EVENTS}{more}}}{over}))"
    return f"({values} and on ({EVENT}) {vms(EVENT, over=over)})"


def seen(by: str = EVENT, over: str = RANGE) -> str:
    return recorded("first_seen_timestamp_seconds:min", by, over=over)


def notice() -> str:
    return recorded("notice_seconds:first")


def duration() -> str:
    return recorded("duration_seconds:max")


def ended(more: str = "") -> str:
    return recorded("ended_timestamp_seconds:max", EVENT, more)


def lost(by: str, aggregate: str, more: str = "", over: str = RANGE) -> str:
    """The interruptions that the VMs measured, each VM and event once."""
    return f"{aggregate} by ({by}) ({vms(f'{VM}, event_id, event_type, vm_scale_set', more, over)} > 0)"


def promised(values: dict[str, float]) -> str:
    """One constant per event type, as a vector for joins."""
    return " or ".join(
        f'label_replace(vector({value}), "event_type", "{name}", "", "")' for name, value in values.items()
    )


def kept(by: str = "") -> str:
    """The share of events with the documented minimum notice, less the tolerance of the docs."""
    allowed = {name: seconds - ALLOWED_LESS.get(name, 60) for name, seconds in PROMISED_SECONDS.items()}
    return f"avg {by} ({notice()} >= bool on (event_type) group_left () ({promised(allowed)}))"


def or_zero(expr: str) -> str:
    """0 instead of nothing if the rules were evaluated in this time, so that no data means that nothing is known."""
    return f"{expr} or 0 * {SINCE}"


def headline() -> list[dict[str, Any]]:
    hit = vms(f"{VM}, event_id")
    cancelled = ended(', outcome="cancelled"')
    completed = ended(', outcome="completed"')
    figures = [
        ("Events", "Events of the selected VMs that were reported in this time, each counted once however many VMs it named.", or_zero(f"count({seen()})"), "none", PLAIN),
        ("VMs hit", "VMs for which an event began.", or_zero(f"count(group by ({VM}) ({hit} >= 0))"), "none", PLAIN),
        ("Time lost", "The sum of the interruptions that the VMs measured on themselves, each VM and event once.", or_zero(f"sum({hit} > 0)"), "s", {**PLAIN, "decimals": 1}),
        ("Cancelled", "Share of the ended events that Azure took back before they began.", f"(count({cancelled} unless {completed}) or vector(0)) / count({ended()})", "percentunit", {**PLAIN, "decimals": 1}),
        ("Median notice", "Half of the events were announced at least this long before NotBefore, as it was first announced: a later postponement does not count.", f"quantile(0.5, {notice()})", "s", {**PLAIN, "decimals": 1}),
        ("Too short", "Share of the events with less notice than Azure's documentation promises, by more than a minute (10 s for Preempt).", f"1 - {kept()}", "percentunit", {"decimals": 1, "thresholds": thresholds((None, CALM), (0.0001, WARNING))}),
        ("Recorded since", "Since then, the rules record what this dashboard shows.", f"1000 * {SINCE} or vector(-1)", "dateTimeAsIsoNoDateIfToday", {**PLAIN, "mappings": [value_map({"-1": ("no rules", WARNING)})]}),
    ]  # fmt: skip
    widths = [3, 3, 3, 3, 4, 4, 4]
    return [
        stat(title, says, (sum(widths[:i]), 0, widths[i], 3), expr, unit=unit, defaults=defaults)
        for i, (title, says, expr, unit, defaults) in enumerate(figures)
    ]


# A point is at the start of its day and counts the next 24 hours, so today's point exists before the day ends. What is
# recorded in the first minute after midnight can be of the day before, so the range is an hour longer.
DAY = "[25h] offset -25h"
COLUMNS_OF_DAYS = {
    "stacked": True,
    "style": "bars",
    "custom": {"drawStyle": "bars", "barAlignment": 1, "barWidthFactor": 0.8, "fillOpacity": 85, "lineWidth": 0},
    "interval": "1d",
    "calcs": ["sum"],
    "empty": NO_DATA,
}


def per_day(y: int) -> list[dict[str, Any]]:
    on_this_day = f"({seen(TYPED, DAY)} >= time() < time() + 86400)"
    interrupted = lost(TYPED, "sum", over="[2d] offset -2d")
    return [
        graph(
            "Events per day",
            "Events by the day (UTC) on which they were first seen, each once.",
            (0, y, 12, 9),
            [target(f"count by (event_type) {on_this_day}", legend="{{event_type}}", interval="1d")],
            overrides=by_type(),
            unit="none",
            defaults={"decimals": 0},
            **COLUMNS_OF_DAYS,
        ),
        graph(
            "Interruption per day",
            "The sum of what the VMs measured on themselves, by the day (UTC) on which the event was first seen.",
            (12, y, 12, 9),
            [
                target(
                    f"sum by (event_type) ({interrupted} and on ({EVENT}) {on_this_day})",
                    legend="{{event_type}}",
                    interval="1d",
                )
            ],
            unit="s",
            overrides=by_type(),
            **COLUMNS_OF_DAYS,
        ),
    ]


def marked(title: str, *steps: tuple[float | None, str], **more: Any) -> dict[str, Any]:
    return override(
        title,
        noValue=NO_VALUE,
        mappings=[NOT_THERE],
        thresholds=thresholds(*steps),
        custom__cellOptions=COLOURED_CELL,
        custom__minWidth=70,
        **more,
    )


def by_type_tables(y: int) -> list[dict[str, Any]]:
    given = table(
        "Notice, against Azure's promise",
        "From the first sight to NotBefore as first announced. Promised is the minimum in Azure's documentation (Terminate: the least that can be set). Kept: the share that had it, "
        "but for a minute (10 s for Preempt). 9 in 10: what nine of ten events had at least.",
        (0, y, 12, 7),
        [
            target(f"count by (event_type) ({notice()})", "A", table=True),
            target(promised(PROMISED_SECONDS), "B", table=True),
            target(f"min by (event_type) ({notice()})", "C", table=True),
            target(f"quantile by (event_type) (0.1, {notice()})", "D", table=True),
            target(kept("by (event_type)"), "E", table=True),
        ],
        {
            "event_type": "Type",
            "Value #A": "Events",
            "Value #B": "Promised",
            "Value #C": "Shortest",
            "Value #D": "9 in 10",
            "Value #E": "Kept",
        },
        sort="Events",
        desc=True,
        empty=NO_ROWS,
        overrides=[
            override("Type", custom__width=95),
            override("Events", unit="none", noValue=NO_VALUE, custom__minWidth=75),
            *[override(name, **SECONDS) for name in ("Promised", "Shortest", "9 in 10")],
            marked("Kept", (None, WARNING), (0.95, CALM), unit="percentunit", decimals=0),
        ],
    )
    longest = lost(TYPED, "max")
    worse = f"count by (event_type) ({longest} > {duration()} + 2) or 0 * count by (event_type) ({duration()})"
    observed = table(
        "Interruption, announced against observed",
        "Announced: the median of what Azure says. Observed: the median of the longest interruption of each event that a VM measured on itself. Longest and sum: of all that the VMs measured. "
        "Too long: events whose interruption passed the announced one by more than two seconds.",
        (12, y, 12, 7),
        [
            target(f"quantile by (event_type) (0.5, {duration()})", "A", table=True),
            target(f"quantile by (event_type) (0.5, {longest})", "B", table=True),
            target(f"max by (event_type) ({longest})", "C", table=True),
            target(lost("event_type", "sum"), "D", table=True),
            target(worse, "E", table=True),
        ],
        {
            "event_type": "Type",
            "Value #A": "Announced",
            "Value #B": "Observed",
            "Value #C": "Longest",
            "Value #D": "Sum",
            "Value #E": "Too long",
        },
        sort="Sum",
        desc=True,
        empty=NO_ROWS,
        overrides=[
            override("Type", custom__width=95),
            override("Announced", **{**SECONDS, "custom__minWidth": 98}),
            *[override(name, **SECONDS) for name in ("Observed", "Longest", "Sum")],
            marked("Too long", (None, CALM), (1, WARNING), unit="none"),
        ],
    )
    return [given, observed]


def risk(y: int) -> list[dict[str, Any]]:
    scale_set = "cluster, vm_scale_set"
    in_set = ', vm_scale_set!=""'
    at_once = f"count by ({EVENT}, vm_scale_set) ({vms(f'{VM}, event_id, vm_scale_set', in_set)} >= 0)"
    size = f"max by ({scale_set}) (last_over_time(scale_set:azure_scheduled_events_vm_info:count[1h]))"
    hits = f"count by ({VM}) ({vms(f'{VM}, event_id')} >= 0)"
    # The name can arrive after the first event of a VM.
    name = f"topk by ({VM}) (1, {vms(f'{VM}, vm_name, vm_scale_set')} ^ 0) ^ 0"
    sets = table(
        "Scale sets at risk",
        "Most at once: the largest share of the scale set that one event hit, by its present size. VMs hit: a VM counts once for each event. Lost: the interruptions that its VMs measured.",
        (0, y, 12, 10),
        [
            target(f"max by ({scale_set}) ({at_once}) / on ({scale_set}) {size}", "A", table=True),
            target(f"count by ({scale_set}) ({at_once})", "B", table=True),
            target(f"sum by ({scale_set}) ({at_once})", "C", table=True),
            target(lost(scale_set, "sum", in_set), "D", table=True),
        ],
        {
            "vm_scale_set": "Scale set",
            "cluster": "Cluster",
            "Value #A": "Most at once",
            "Value #B": "Events",
            "Value #C": "VMs hit",
            "Value #D": "Lost",
        },
        sort="Most at once",
        desc=True,
        empty=NO_ROWS,
        overrides=[
            matching("/.*/", noValue=NO_VALUE),
            override("Most at once", unit="percentunit", decimals=0, noValue=NO_VALUE, custom__width=130),
            *[override(name, **COUNT) for name in ("Events", "VMs hit")],
            override("Lost", **{**SECONDS, "custom__width": 90}),
        ],
    )
    most = table(
        "VMs hit most",
        "The 15 VMs for which most events began.",
        (12, y, 12, 10),
        [target(f"topk(15, {hits}) * on ({VM}) group_left (vm_name, vm_scale_set) {name}", table=True)],
        {
            "vm_name": "VM",
            "vm_scale_set": "Scale set",
            "cluster": "Cluster",
            "Value": "Events",
            "instance": "Instance",
        },
        sort="Events",
        desc=True,
        drop=("job",),
        empty=NO_ROWS,
        overrides=[
            matching("/.*/", noValue=NO_VALUE),
            override("VM", links=[vm_link()]),
            override("Events", **COUNT),
            carried("Instance"),
        ],
    )
    return [sets, most]


def approvals(y: int) -> dict[str, Any]:
    record = (
        'job:azure_scheduled_events_approvals:increase15m{cluster=~"$cluster", job=~"$job", event_type=~"$event_type"}'
    )
    return bars(
        "Approvals",
        "Approvals that the exporters sent in this time, by what came of them; of all VMs, also with a selection.",
        (0, y, 24, 7),
        [
            target(
                # The rule is evaluated in intervals that divide 15 minutes.
                f"sum by (event_type, result) (sum_over_time({record}[$__range:15m])) > 0.5",
                legend="{{event_type}}: {{result}}",
                instant=True,
            )
        ],
        unit="none",
        empty=NO_DATA,
        names="top",
        defaults={
            "color": fixed(LINE),
            "decimals": 0,
            "displayName": "${__field.labels.event_type}: ${__field.labels.result}",
        },
        overrides=[matching("/: failed$/", color=fixed(BAD_LINE)), matching("/: dry_run$/", color=fixed(OTHER_LINE))],
    )


def build() -> dict[str, Any]:
    return dashboard(
        "azse-history",
        "Azure Scheduled Events / History",
        "How much maintenance there was, how much notice Azure gave, and what it cost.",
        variables(),
        [
            *headline(),
            *per_day(3),
            *by_type_tables(12),
            *risk(19),
            row("Approvals", 29, [approvals(30)]),
        ],
        since="now-30d",
        refresh="5m",
    )
