"""The history dashboard: number of events, notice and interruptions.

All queries read per-event series, which exist until ten minutes after the event's end. An event that many VMs report is
counted once, a restart of an exporter loses no data, and the fleet's size has little effect on query time.
"""

from __future__ import annotations

from typing import Any

import queries as q
from event_table import type_column
from parts import (
    ALLOWED_LESS,
    CALM,
    DIM,
    NOTICE,
    OUTCOME_COLOURS,
    PROMISED_SECONDS,
    TYPE_COLOURS,
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
    matching,
    override,
    panel,
    query_variable,
    stat,
    table,
    target,
    thresholds,
)
from queries import fleet_event as event

BY = "event_id, event_type"
NOT_THERE = {"type": "special", "options": {"match": "null+nan", "result": {"color": DIM, "index": 9, "text": "–"}}}


def variables() -> list[dict[str, Any]]:
    return [
        cluster_variable(),
        job_variable(),
        query_variable("instance", "Instance", 'label_values(azure_scheduled_events_up{job=~"$job"}, instance)'),
        custom_variable("event_type", "Type", list(TYPE_COLOURS), "Only events of these types"),
    ]


def over(function: str, metric: str, more: str = "") -> str:
    return f"{function}_over_time({event(metric, more)}[$__range])"


def each(function: str, metric: str) -> str:
    """Minimum or maximum of a timestamp per event, over all VMs that report the event."""
    return f"{function} by ({BY}) ({over(function, metric)})"


def notice() -> str:
    """Notice per event: from the earliest first-seen time to NotBefore, or to the start for an event without it."""
    return f"clamp_min(({each('max', 'not_before_timestamp_seconds')} or {each('max', 'started_timestamp_seconds')}) - {each('min', 'first_seen_timestamp_seconds')}, 0)"


def impact() -> str:
    return f"{each('max', 'ended_timestamp_seconds')} - {each('max', 'started_timestamp_seconds')}"


def ended(by: str = "event_id", more: str = "") -> str:
    """Ended maintenance. An advisory ends too, but nothing came of it."""
    of_maintenance = f'event_type!="SpotRebalanceRecommendation"{", " + more if more else ""}'
    return f"group by ({by}) ({over('max', 'ended_timestamp_seconds', of_maintenance)})"


def kept(by: str = "") -> str:
    """The share of events with the documented minimum notice, less the tolerance of the alert."""
    allowed = {name: seconds - ALLOWED_LESS.get(name, 60) for name, seconds in PROMISED_SECONDS.items()}
    return f"avg {by} ({notice()} >= bool on (event_type) group_left () ({q.type_table(allowed)}))"


def headline() -> list[dict[str, Any]]:
    observed = over("max", "observed_interruption_seconds")
    none = {"color": fixed("text")}
    return [
        stat(
            "Events",
            "Events that named a VM of this selection in this time, each counted once however many VMs it named.",
            (0, 0, 4, 4),
            f"count(group by (event_id) ({over('last', 'info')})) or vector(0)",
            unit="none",
            empty="0",
            defaults=none,
        ),
        stat(
            "VMs hit",
            "VMs for which an event started.",
            (4, 0, 4, 4),
            f"count(group by (job, instance) ({over('last', 'started_timestamp_seconds')})) or vector(0)",
            unit="none",
            empty="0",
            defaults=none,
        ),
        stat(
            "Median notice",
            "Half of the events were announced at least this long before NotBefore.",
            (8, 0, 4, 4),
            f"quantile(0.5, {notice()})",
            unit="s",
            empty="no event",
            defaults={**none, "decimals": 1},
        ),
        stat(
            "Too short",
            "Share of the events with less notice than Azure's documentation promises, by more than a minute (10 s for Preempt): where the alert speaks too.",
            (12, 0, 4, 4),
            f"1 - {kept()}",
            unit="percentunit",
            empty="no event",
            defaults={"decimals": 1, "thresholds": thresholds((None, CALM), (0.0001, WARNING))},
        ),
        stat(
            "Cancelled",
            "Share of the ended events that Azure took back before they began.",
            (16, 0, 4, 4),
            f"""(count({ended(more='outcome="cancelled"')}) or vector(0)) / count({ended()})""",
            unit="percentunit",
            empty="no event ended",
            defaults={"decimals": 1, "color": fixed(NOTICE)},
        ),
        stat(
            "Time lost",
            "The sum of all interruptions that the VMs measured on themselves.",
            (20, 0, 4, 4),
            f"sum({observed}) or vector(0)",
            unit="s",
            empty="none measured",
            defaults={**none, "decimals": 1},
        ),
    ]


def per_day(y: int) -> list[dict[str, Any]]:
    """A point is at the start of its day and counts the next 24 hours, so today's point exists before the day ends."""
    day = "[1d] offset -1d"

    def first(by):
        return f"min by ({by}) (min_over_time({event('first_seen_timestamp_seconds')}{day}))"

    def count(by):
        return f"count by ({by}) ({first(f'event_id, {by}')} >= time())"

    columns = {"drawStyle": "bars", "barAlignment": 1, "barWidthFactor": 0.8, "fillOpacity": 85, "lineWidth": 0}
    more = {
        "stacked": True,
        "style": "bars",
        "unit": "none",
        "empty": "No event in this time",
        "custom": columns,
        "interval": "1d",
        "calcs": ["sum"],
    }
    source = {"Platform": NOTICE, "User": "#C7A035"}
    return [
        graph(
            "Events per day, by type",
            "Events by the day on which they were first seen, each once.",
            (0, y, 12, 9),
            [target(count("event_type"), legend="{{event_type}}", interval="1d")],
            overrides=by_type(),
            defaults={"decimals": 0},
            **more,
        ),
        graph(
            "Events per day, by source",
            "Platform: Azure's own maintenance. User: somebody, or an autoscaler, ordered it.",
            (12, y, 12, 9),
            [target(count("event_source"), legend="{{event_source}}", interval="1d")],
            overrides=by_name(source),
            defaults={"decimals": 0},
            **more,
        ),
    ]


def notice_panels(y: int) -> list[dict[str, Any]]:
    def per(f):
        return f"{f} ({notice()})"

    promised = q.type_table(PROMISED_SECONDS)
    seconds = {"unit": "s", "decimals": 1, "noValue": "–", "custom__minWidth": 75}
    by_kind = table(
        "Notice, against Azure's promise",
        "From the first sight to NotBefore. Promised is the minimum in Azure's documentation (Terminate: the least that can be set). Kept: the share that had it, "
        "but for a minute (10 s for Preempt). 9 in 10: what nine of ten events had at least.",
        (0, y, 16, 7),
        [
            target(f"count by (event_type) ({each('min', 'first_seen_timestamp_seconds')})", "A", table=True),
            target(promised, "B", table=True),
            target(per("min by (event_type)"), "C", table=True),
            target(per("quantile by (event_type) (0.1,").replace("(0.1, (", "(0.1, "), "D", table=True),
            target(per("quantile by (event_type) (0.5,").replace("(0.5, (", "(0.5, "), "E", table=True),
            target(kept("by (event_type)"), "F", table=True),
        ],
        {
            "event_type": "Type",
            "Value #A": "Events",
            "Value #B": "Promised",
            "Value #C": "Shortest",
            "Value #D": "9 in 10",
            "Value #E": "Median",
            "Value #F": "Kept",
        },
        sort="Events",
        desc=True,
        empty="No event in this time",
        overrides=[
            type_column(),
            override("Events", unit="none", noValue="0", custom__minWidth=75),
            *[override(name, **seconds) for name in ("Promised", "Shortest", "9 in 10", "Median")],
            override(
                "Kept",
                unit="percentunit",
                decimals=0,
                noValue="–",
                mappings=[NOT_THERE],
                thresholds=thresholds((None, WARNING), (0.95, CALM)),
                custom__cellOptions={"type": "color-text"},
                custom__minWidth=70,
            ),
        ],
    )
    # Five-minute windows, shifted by one minute, the tolerance for a documented notice of 5, 10 or 15 minutes. They
    # sort by the first digit.
    names = ["< 4 min", "4 to 9 min", "9 to 14 min", "14 to 19 min", "19 to 24 min", "24 to 29 min", "≥ 29 min"]
    windows = f'count_values("window", clamp_max(floor(({notice()} + 60) / 300), {len(names) - 1}))'
    for number, name in enumerate(names):
        windows = f'label_replace({windows}, "notice", "{name}", "window", "{number}")'
    histogram = bars(
        "How much notice",
        "Events by the notice that they gave.",
        (16, y, 8, 7),
        [target(windows, table=True)],
        unit="none",
        empty="No event in this time",
        defaults={"color": fixed(NOTICE), "min": 0},
        rows=True,
        transformations=[
            {"id": "sortBy", "options": {"fields": {}, "sort": [{"desc": False, "field": "window"}]}},
            {
                "id": "organize",
                "options": {
                    "excludeByName": {"Time": True, "window": True},
                    "includeByName": {},
                    "indexByName": {},
                    "renameByName": {},
                },
            },
        ],
    )
    return [by_kind, histogram]


def cost(y: int) -> list[dict[str, Any]]:
    observed = f"max by (job, instance, {BY}) ({over('max', 'observed_interruption_seconds')})"
    announced = each("max", "duration_seconds")
    worse = f"count by (event_type) (max by ({BY}) ({observed}) > {announced} + 2)"
    seconds = {"unit": "s", "decimals": 1, "noValue": "–", "custom__minWidth": 75}
    by_kind = table(
        "Interruption, announced against observed",
        "Announced: the median of what Azure says. Observed, longest, sum: what the VMs measured on themselves, the first a median. Running: the median from start to end. "
        "Too long: events whose interruption passed the announced one by more than two seconds.",
        (0, y, 16, 7),
        [
            target(f"quantile by (event_type) (0.5, {announced})", "A", table=True),
            target(f"quantile by (event_type) (0.5, {observed})", "B", table=True),
            target(f"max by (event_type) ({observed})", "C", table=True),
            target(f"sum by (event_type) ({observed})", "D", table=True),
            target(f"quantile by (event_type) (0.5, {impact()})", "E", table=True),
            target(f"{worse} or 0 * count by (event_type) ({announced})", "F", table=True),
        ],
        {
            "event_type": "Type",
            "Value #A": "Announced",
            "Value #B": "Observed",
            "Value #C": "Longest",
            "Value #D": "Sum",
            "Value #E": "Running",
            "Value #F": "Too long",
        },
        sort="Sum",
        desc=True,
        empty="No event in this time",
        overrides=[
            type_column(),
            override("Announced", **{**seconds, "noValue": "unknown", "custom__minWidth": 98}),
            *[override(name, **seconds) for name in ("Observed", "Longest", "Sum", "Running")],
            override(
                "Too long",
                unit="none",
                noValue="–",
                thresholds=thresholds((None, "text"), (1, WARNING)),
                custom__cellOptions={"type": "color-text"},
                custom__minWidth=70,
            ),
        ],
    )
    outcome = panel(
        "piechart",
        "What became of them",
        "Completed: it ran. Cancelled: Azure took it back before NotBefore. Unknown: nobody was left to say. Without Spot rebalance recommendations.",
        (16, y, 8, 7),
        [
            target(
                f"count by (outcome) ({ended('event_id, outcome')})",
                legend="{{outcome}}",
                instant=True,
            )
        ],
        unit="none",
        empty="No event ended in this time",
        overrides=by_name(OUTCOME_COLOURS),
        options={
            "displayLabels": [],
            "legend": {"displayMode": "table", "placement": "right", "showLegend": True, "values": ["value"]},
            "pieType": "donut",
            "reduceOptions": {"calcs": ["lastNotNull"], "fields": "", "values": False},
            "tooltip": {"mode": "single", "sort": "none"},
        },
    )
    return [by_kind, outcome]


def lost(y: int) -> list[dict[str, Any]]:
    day = "[1d] offset -1d"
    fresh = f"min_over_time({event('started_timestamp_seconds')}{day}) >= time()"
    sums = f"sum by (event_type) (max by (job, instance, {BY}) (max_over_time({event('observed_interruption_seconds')}{day})) and on ({q.PAIR}) {fresh})"
    columns = {"drawStyle": "bars", "barAlignment": 1, "barWidthFactor": 0.8, "fillOpacity": 85, "lineWidth": 0}
    approvals = bars(
        "Approvals",
        "Approvals that these exporters gave since they last started, by what came of them.",
        (16, y, 8, 8),
        [
            target(
                f'sum by (event_type, result) ({q.exporter("approvals_total", """event_type=~"$event_type" """.strip())} > 0)',
                legend="{{event_type}}: {{result}}",
                instant=True,
            )
        ],
        unit="none",
        empty="No approvals: these exporters only read",
        names="top",
        defaults={"color": fixed(CALM), "displayName": "${__field.labels.event_type}: ${__field.labels.result}"},
        overrides=[matching("/: failed$/", color=fixed(WARNING)), matching("/: dry_run$/", color=fixed(NOTICE))],
    )
    per_day = graph(
        "Interruption per day",
        "The sum of what the VMs measured on themselves, by the day on which the event started.",
        (0, y, 16, 8),
        [target(sums, legend="{{event_type}}", interval="1d")],
        style="bars",
        stacked=True,
        unit="s",
        empty="No interruption was measured in this time",
        overrides=by_type(),
        custom=columns,
        interval="1d",
        calcs=["sum"],
    )
    return [per_day, approvals]


def build() -> dict[str, Any]:
    panels = [*headline(), *per_day(4), *notice_panels(13), *cost(20), *lost(27)]
    return dashboard(
        "azse-history",
        "Azure Scheduled Events / History",
        "How much maintenance there was, how much notice Azure gave, and what it cost.",
        variables(),
        panels,
        since="now-30d",
        refresh="5m",
    )
