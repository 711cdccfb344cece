"""The history dashboard: number of events, notice and interruptions.

The queries read what dashboards.rules.yml records when an event is announced, starts and ends. The events' own series
have a sample per scrape and VM, so a month of them takes seconds with thousands of events. They are read only if the
variable `series` is on, for events from before these rules were loaded.

Everything is de-duplicated before it is counted or joined: several VMs report an event, and there can be two replicas of
Prometheus.
"""

from __future__ import annotations

from typing import Any

import queries as q
from event_table import type_column
from parts import (
    ALLOWED_LESS,
    BAD_LINE,
    CALM,
    COLOURED_CELL,
    LINE,
    NO_VALUE,
    OTHER_LINE,
    OUTCOME_COLOURS,
    PROMISED_SECONDS,
    TYPE_COLOURS,
    WARNING,
    bars,
    by_name,
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
    panel,
    query_variable,
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
CLUSTER = 'cluster=~"$cluster"'
EVENTS = f'{CLUSTER}, event_type=~"$event_type"'
TARGETS = f'{CLUSTER}, job=~"$job", instance=~"$instance"'
VMS = f'{TARGETS}, vm_scale_set=~"$scale_set", location=~"$location"'
# No series has the label `any`. `.*` (All) matches its absence, everything else does not. So one of these matchers
# matches every series and the other none, without reading the index.
SELECTION = "$job$instance$scale_set$location"
EVERYTHING = f'any=~"{SELECTION}"'
SELECTED = f'any!~"{SELECTION}"'
SERIES = f'any!~"$series", any=~"$scale_set$location", {TARGETS}, event_type=~"$event_type", event_type!="SpotRebalanceRecommendation", scope!="other"'
NO_ROWS, NO_DATA = "no rows: see Recorded since", "no data: see Recorded since"
NOT_ENDED = "not ended"


def variables() -> list[dict[str, Any]]:
    """The VMs, scale sets and locations are those with an event in this time."""
    of = f'azure_scheduled_event:history_vm{{{CLUSTER}, job=~"$job"}}'
    return [
        cluster_variable(),
        job_variable(),
        query_variable("scale_set", "Scale set", f"label_values({of}, vm_scale_set)"),
        query_variable("location", "Location", f"label_values({of}, location)"),
        query_variable("instance", "Instance", f"label_values({of}, instance)"),
        custom_variable("event_type", "Type", list(TYPE_COLOURS), "Only events of these types"),
        series_variable(),
    ]


def series_variable() -> dict[str, Any]:
    return {
        "type": "custom",
        "name": "series",
        "label": "Events before the rules",
        "description": "Also reads the series of single events. Slow for a long time with thousands of events.",
        "query": r"no : .*,yes : yes",
        "multi": False,
        "includeAll": False,
        "current": {"selected": True, "text": "no", "value": ".*"},
        "hide": 0,
        "skipUrlSync": False,
        "options": [
            {"selected": True, "text": "no", "value": ".*"},
            {"selected": False, "text": "yes", "value": "yes"},
        ],
    }


def vms(of: str, more: str = "", over: str = RANGE) -> str:
    """The VMs of events, one or more series each. The value is the interruption, 0 without one."""
    return f"max_over_time(azure_scheduled_event:history_vm{{{of}, {EVENTS}{', ' + more if more else ''}}}{over})"


def recorded(what: str, over: str = RANGE, function: str = "last") -> str:
    """What the rules recorded of the events: of all, or of those of the selected VMs."""

    def series(of: str) -> str:
        return f"{function}_over_time(azure_scheduled_event:history{{{of}, {what}, {EVENTS}}}{over})"

    return f"{series(EVERYTHING)} or {series(SELECTED)} and on ({EVENT}) {vms(f'{SELECTED}, {VMS}', over=over)}"


def prop(names: str) -> str:
    return f'property=~"{names}"' if "|" in names else f'property="{names}"'


def series(function: str, metric: str, by: str = TYPED, over: str = RANGE, more: str = "") -> str:
    """A value per event from its own series, if the variable `series` is on."""
    aggregate = "min" if function == "min" else "max"
    of = f"{SERIES}, {more}" if more else SERIES
    return f"{aggregate} by ({by}) ({function}_over_time(azure_scheduled_event_{metric}{{{of}}}{over}))"


def started(by: str = TYPED, over: str = RANGE) -> str:
    before = series("min", "started_timestamp_seconds", by, over)
    return f"max by ({by}) ({recorded(prop('started'), over)} or on ({EVENT}) {before})"


def announced(by: str = TYPED, over: str = RANGE) -> str:
    """When it was first seen."""
    before = series("min", "first_seen_timestamp_seconds", by, over)
    return f"min by ({by}) ({recorded(prop('announced'), over, 'min')} or on ({EVENT}) {before})"


def notice(over: str = RANGE) -> str:
    """Notice per event as first announced: from the first sight to NotBefore, or to the start for an event without it."""

    # If a series changed once, this is its first value: of the least and the greatest, the one that is not the last.
    def not_before(function: str) -> str:
        return f"{function}_over_time(azure_scheduled_event_not_before_timestamp_seconds{{{SERIES}}}{over})"

    first = f"min by ({TYPED}) ({not_before('min')} + {not_before('max')} - {not_before('last')})"
    start = series("min", "started_timestamp_seconds", over=over)
    before = f"clamp_min(({first} or {start}) - {series('min', 'first_seen_timestamp_seconds', over=over)}, 0)"
    return f"max by ({TYPED}) ({recorded(prop('notice'), over)} or on ({EVENT}) {before})"


def duration() -> str:
    """The announced length."""
    return f"max by ({TYPED}) ({recorded(prop('duration'))} or on ({EVENT}) {series('max', 'duration_seconds')})"


def ended(by: str, more: str = "") -> str:
    """When it ended."""
    records = recorded(f"{prop('ended')}, {more}" if more else prop("ended"))
    before = series("max", "ended_timestamp_seconds", by, more=more)
    return f"max by ({by}) ({records} or on ({EVENT}) {before})"


def by_outcome() -> str:
    """Ended events with one outcome each."""
    by = f"{EVENT}, outcome"
    outcomes = (recorded(f'{prop("ended")}, outcome="{name}"') for name in ("completed", "cancelled", "unknown"))
    records = f" or on ({EVENT}) ".join(f"({of})" for of in outcomes)
    return f"group by ({by}) ({records} or on ({EVENT}) {series('max', 'ended_timestamp_seconds', by)})"


def seen(records: str) -> str:
    """Events with one of these records, once each."""
    before = series("max", "first_seen_timestamp_seconds", EVENT)
    return f"group by ({EVENT}) ({recorded(prop(records))} or on ({EVENT}) {before})"


def without_end() -> str:
    return f"{seen('announced')} unless on ({EVENT}) {ended(EVENT)}"


def hit(by: str, records: str = "") -> str:
    """The VMs of events that started."""
    before = series("max", "started_timestamp_seconds", f"{VM}, event_id")
    before = "" if records else f" or on ({VM}, event_id) {before}"
    return f"group by ({by}) ({records or vms(VMS)} >= 0{before})"


def measured(name: str, aggregate: str, by: str = TYPED, over: str = RANGE) -> str:
    """The lost time per event or its longest interruption, of all VMs or of those selected, each VM and event once."""
    of_vm = f"{VM}, event_id, event_type, vm_scale_set"
    single = f"max by ({of_vm}) ({vms(f'{SELECTED}, {VMS}', over=over)}) > 0"
    every = f"max_over_time(azure_scheduled_event:history{{{EVERYTHING}, {prop(name)}, {EVENTS}}}{over})"
    records = f"{aggregate} by ({by}) (max by ({TYPED}, vm_scale_set) ({every}) or {single})"
    before = series("max", "observed_interruption_seconds", f"{VM}, event_id, event_type", over)
    return f"({records} or on ({EVENT}) {aggregate} by ({TYPED}) ({before}))"


def lost(by: str = TYPED, over: str = RANGE) -> str:
    return measured("lost", "sum", by, over)


def kept(by: str = "", over: str = RANGE) -> str:
    """The share of events with the documented minimum notice, less the tolerance of the alert."""
    allowed = {name: seconds - ALLOWED_LESS.get(name, 60) for name, seconds in PROMISED_SECONDS.items()}
    return f"avg {by} ({notice(over)} >= bool on (event_type) group_left () ({q.type_table(allowed)}))"


SINCE = f"min(last_over_time(azure_scheduled_events:history_since{{{CLUSTER}}}[1h]))"


def or_zero(expr: str) -> str:
    """0 instead of nothing if the rules were evaluated in this time, so that no data means that nothing is known."""
    return f"{expr} or 0 * {SINCE}"


def vm_hours() -> str:
    """Of all VMs since the rules are evaluated, else of single ones or of scale sets."""
    fleet = f'azure_scheduled_events:history_vms{{any=~"$scale_set$location", {TARGETS}}}'
    single = f'azure_scheduled_events:target{{any!~"$instance", {TARGETS}}}'
    scale_sets = f'azure_scheduled_events:scale_set_vms{{any!~"$scale_set", any=~"$instance", {CLUSTER}, vm_scale_set=~"$scale_set"}}'
    hours = f"(time() - clamp_min({SINCE}, time() - $__range_s)) / 3600"
    few = (f"group by ({VM}) ({single})", f"max by (cluster, vm_scale_set) ({scale_sets})")
    sums = " or ".join(f"sum(sum_over_time(({of})[$__range:5m])) / 12" for of in few)
    # A young Prometheus has no sample yet at a full five minutes.
    average = f"avg_over_time({fleet}[$__range:5m]) or {fleet}"
    return f"sum(max by (cluster, job) ({average})) * {hours} or {sums}"


def headline() -> list[dict[str, Any]]:
    none = {"color": fixed("text")}
    seconds = f"sum({lost()})"
    all_ended, cancelled = f"count({ended(EVENT)})", ended(EVENT, 'outcome="cancelled"')
    return [
        stat(
            "Events",
            "Events of this selection that were announced or ended in this time, each counted once however many VMs it named.",
            (0, 0, 6, 3),
            or_zero(f"count({seen('announced|ended')})"),
            unit="none",
            defaults=none,
        ),
        stat(
            "VMs hit",
            "VMs for which an event started.",
            (6, 0, 6, 3),
            or_zero(f"count({hit(VM)})"),
            unit="none",
            defaults=none,
        ),
        stat(
            "Median notice",
            "Half of the events were announced at least this long before NotBefore, as it was first announced: a later postponement does not count.",
            (12, 0, 6, 3),
            f"quantile(0.5, {notice()})",
            unit="s",
            defaults={**none, "decimals": 1},
        ),
        stat(
            "Too short",
            "Share of the events with less notice than Azure's documentation promises, by more than a minute (10 s for Preempt).",
            (18, 0, 6, 3),
            f"1 - {kept()}",
            unit="percentunit",
            defaults={"decimals": 1, "thresholds": thresholds((None, CALM), (0.0001, WARNING))},
        ),
        stat(
            "Cancelled",
            "Share of the ended events that Azure took back before they began.",
            (0, 3, 6, 3),
            f"(count({cancelled}) or vector(0)) / {all_ended}",
            unit="percentunit",
            defaults={**none, "decimals": 1},
        ),
        stat(
            "Time lost",
            "The sum of the interruptions that the VMs measured on themselves, each VM and event once.",
            (6, 3, 6, 3),
            or_zero(seconds),
            unit="s",
            defaults={**none, "decimals": 1},
        ),
        stat(
            "Lost per 1,000 VM-h",
            "Time lost per 1,000 VM-hours: per 1,000 VMs with an exporter in an hour. A selection by location alone has no such time.",
            (12, 3, 6, 3),
            f"1000 * ({or_zero(seconds)}) / ({vm_hours()})",
            unit="s",
            defaults={**none, "decimals": 1},
        ),
        stat(
            "Recorded since",
            "Since then, the rules record what this dashboard shows. Set Events before the rules to yes to see older events.",
            (18, 3, 6, 3),
            f"1000 * {SINCE} or vector(-1)",
            unit="dateTimeAsIsoNoDateIfToday",
            defaults={**none, "mappings": [value_map({"-1": ("no rules", WARNING)})]},
        ),
    ]


def columns_of_days(legend: str = "sum") -> dict[str, Any]:
    """A point is at the start of its day and counts the next 24 hours, so today's point exists before the day ends."""
    bar = {"drawStyle": "bars", "barAlignment": 1, "barWidthFactor": 0.8, "fillOpacity": 85, "lineWidth": 0}
    return {"stacked": True, "style": "bars", "custom": bar, "interval": "1d", "calcs": [legend], "empty": NO_DATA}


# What is recorded in the first minute after midnight can be of the day before. The ranges are an hour longer, and the
# times are compared.
DAY = "[25h] offset -25h"


def on_this_day(times: str) -> str:
    return f"({times} >= time() < time() + 86400)"


def per_day(y: int) -> list[dict[str, Any]]:
    def count(by: str) -> str:
        return f"count by ({by}) {on_this_day(announced(f'{EVENT}, {by}', DAY))}"

    source = {"Platform": LINE, "User": OTHER_LINE}
    return [
        graph(
            "Events per day, by type",
            "Events by the day (UTC) on which they were first seen, each once.",
            (0, y, 12, 9),
            [target(count("event_type"), legend="{{event_type}}", interval="1d")],
            overrides=by_type(),
            unit="none",
            defaults={"decimals": 0},
            **columns_of_days(),
        ),
        graph(
            "Events per day, by source",
            "Platform: Azure's own maintenance. User: somebody, or an autoscaler, ordered it.",
            (12, y, 12, 9),
            [target(count("event_source"), legend="{{event_source}}", interval="1d")],
            overrides=by_name(source),
            unit="none",
            defaults={"decimals": 0},
            **columns_of_days(),
        ),
    ]


NOT_THERE = {
    "type": "special",
    "options": {"match": "null+nan", "result": {"color": CALM, "index": 9, "text": NO_VALUE}},
}
SECONDS = {"unit": "s", "decimals": 1, "noValue": NO_VALUE, "custom__minWidth": 75}


def notice_panels(y: int) -> list[dict[str, Any]]:
    promised = q.type_table(PROMISED_SECONDS)
    by_kind = table(
        "Notice, against Azure's promise",
        "Of the events that were announced in this time, from the first sight to NotBefore as first announced. Promised is the minimum in Azure's documentation (Terminate: the least that can be set). Kept: the share that had it, "
        "but for a minute (10 s for Preempt). 9 in 10: what nine of ten events had at least.",
        (0, y, 16, 7),
        [
            target(f"count by (event_type) ({notice()})", "A", table=True),
            target(f"{promised}", "B", table=True),
            target(f"min by (event_type) ({notice()})", "C", table=True),
            target(f"quantile by (event_type) (0.1, {notice()})", "D", table=True),
            target(f"quantile by (event_type) (0.5, {notice()})", "E", table=True),
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
        empty=NO_ROWS,
        overrides=[
            type_column(),
            override("Events", unit="none", noValue=NO_VALUE, custom__minWidth=75),
            *[override(name, **SECONDS) for name in ("Promised", "Shortest", "9 in 10", "Median")],
            override(
                "Kept",
                unit="percentunit",
                decimals=0,
                noValue=NO_VALUE,
                mappings=[NOT_THERE],
                thresholds=thresholds((None, WARNING), (0.95, CALM)),
                custom__cellOptions=COLOURED_CELL,
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
        empty=NO_DATA,
        defaults={"color": fixed(LINE), "min": 0},
        rows=True,
        transformations=[
            {"id": "sortBy", "options": {"fields": {}, "sort": [{"desc": False, "field": "window"}]}},
            organized(("window",)),
        ],
    )
    return [by_kind, histogram]


def organized(hidden: tuple[str, ...] = (), columns: dict[str, str] | None = None) -> dict[str, Any]:
    return {
        "id": "organize",
        "options": {
            "excludeByName": dict.fromkeys(("Time", *hidden), True),
            "includeByName": {},
            "indexByName": {name: i for i, name in enumerate(columns or {})},
            "renameByName": columns or {},
        },
    }


def promise(y: int) -> list[dict[str, Any]]:
    week = "[7d] offset -1d"
    return [
        graph(
            "Events with the promised notice",
            "Share of the events of seven days, until the end of the day of each point, that had the notice that Azure's documentation promises, but for a minute (10 s for Preempt).",
            (0, y, 16, 8),
            [target(kept("by (event_type)", week), legend="{{event_type}}", interval="1d")],
            unit="percentunit",
            overrides=by_type(),
            defaults={"min": 0, "max": 1, "decimals": 0},
            custom={"lineWidth": 2, "fillOpacity": 0, "showPoints": "always", "pointSize": 5},
            interval="1d",
            calcs=["min", "lastNotNull"],
            empty=NO_DATA,
        ),
        outcome((16, y, 8, 8)),
    ]


def outcome(at: tuple[int, int, int, int]) -> dict[str, Any]:
    return panel(
        "piechart",
        "What became of them",
        "Completed: it ran. Cancelled: Azure took it back before NotBefore. Unknown: nobody was left to say, or no exporter saw the end. Not ended: it is open at the end of this time.",
        at,
        [
            target(f"count by (outcome) ({ended(f'{EVENT}, outcome')})", legend="{{outcome}}", instant=True),
            target(f"count({without_end()})", "B", legend=NOT_ENDED, instant=True),
        ],
        unit="none",
        empty=NO_DATA,
        overrides=by_name(OUTCOME_COLOURS),
        options={
            "displayLabels": [],
            "legend": {"displayMode": "table", "placement": "right", "showLegend": True, "values": ["value"]},
            "pieType": "donut",
            "reduceOptions": {"calcs": ["lastNotNull"], "fields": "", "values": False},
            "tooltip": {"mode": "single", "sort": "none"},
        },
    )


def cost(y: int) -> list[dict[str, Any]]:
    running = f"{ended(TYPED)} - {started()}"
    longest = measured("longest", "max")
    worse = f"count by (event_type) ({longest} > {duration()} + 2)"
    by_kind = table(
        "Interruption, announced against observed",
        "Announced: the median of what Azure says. Observed: the median of the longest interruption of each event that a VM measured on itself. Longest and sum: of all that the VMs measured. Running: the median from start to end. "
        "Too long: events whose interruption passed the announced one by more than two seconds.",
        (0, y, 16, 7),
        [
            target(f"quantile by (event_type) (0.5, {duration()})", "A", table=True),
            target(f"quantile by (event_type) (0.5, {longest})", "B", table=True),
            target(f"max by (event_type) {longest}", "C", table=True),
            target(f"sum by (event_type) {lost()}", "D", table=True),
            target(f"quantile by (event_type) (0.5, {running})", "E", table=True),
            target(f"{worse} or 0 * count by (event_type) ({duration()})", "F", table=True),
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
        empty=NO_ROWS,
        overrides=[
            type_column(),
            override("Announced", **{**SECONDS, "custom__minWidth": 98}),
            *[override(name, **SECONDS) for name in ("Observed", "Longest", "Sum", "Running")],
            override(
                "Too long",
                unit="none",
                noValue=NO_VALUE,
                mappings=[NOT_THERE],
                thresholds=thresholds((None, CALM), (1, WARNING)),
                custom__cellOptions=COLOURED_CELL,
                custom__minWidth=70,
            ),
        ],
    )
    return [by_kind, approvals((16, y, 8, 7))]


def approvals(at: tuple[int, int, int, int]) -> dict[str, Any]:
    by = "event_type, result"
    # The rules record the approvals of 15 minutes, in intervals that divide these.
    sums = f'sum_over_time(azure_scheduled_events:approvals{{any=~"$scale_set$location", {TARGETS}, event_type=~"$event_type"}}[$__range:15m])'
    single = q.exporter("approvals_total", 'any!~"$instance", event_type=~"$event_type"', TARGETS)
    return bars(
        "Approvals",
        "Approvals that the exporters sent in this time, by what came of them. With a selection of VMs, estimated from their counters.",
        at,
        [
            target(
                f"sum by ({by}) (max by (cluster, job, {by}) ({sums}) or max by ({VM}, {by}) (increase({single}[$__range]))) > 0.5",
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


def lost_per_day(y: int) -> list[dict[str, Any]]:
    begun = on_this_day(started(over=DAY))
    sums = f"sum by (event_type) ({lost(over='[2d] offset -2d')} and on ({EVENT}) {begun})"
    return [
        graph(
            "Interruption per day",
            "The sum of what the VMs measured on themselves, by the day (UTC) on which the event started.",
            (0, y, 24, 8),
            [target(sums, legend="{{event_type}}", interval="1d")],
            unit="s",
            overrides=by_type(),
            **columns_of_days(),
        )
    ]


IN_SET = 'vm_scale_set!=""'


def risk(y: int) -> list[dict[str, Any]]:
    scale_set = "cluster, vm_scale_set"
    vm = "cluster, job, instance, vm_name, vm_scale_set"

    def of_sets(name: str, value: str, aggregate: str) -> str:
        """A value per event and scale set, of all VMs or of those selected."""
        by = f"{EVENT}, vm_scale_set"
        every = f"max_over_time(azure_scheduled_event:history{{{EVERYTHING}, {prop(name)}, {EVENTS}, {IN_SET}}}{RANGE})"
        single = f"max by ({VM}, {by}) ({vms(f'{SELECTED}, {VMS}', IN_SET)}) {value}"
        return f"(max by ({by}) ({every}) or {aggregate} by ({by}) ({single}))"

    at_once = of_sets("vms", ">= 0", "count")
    size = f"max by ({scale_set}) (last_over_time(azure_scheduled_events:scale_set_vms{{{CLUSTER}}}[1h]))"
    # The name can arrive after the first event of a VM.
    name, no_name = (
        f"count by ({vm}) ({hit(f'{vm}, event_id', vms(VMS, of))})" for of in ('vm_name!=""', 'vm_name=""')
    )
    hits = f'{name} or on ({VM}) label_replace({no_name}, "vm_name", "$1", "instance", "(.*)")'
    count = {"unit": "none", "decimals": 0, "noValue": NO_VALUE, "custom__width": 80}
    return [
        table(
            "Scale sets at risk",
            "Most at once: the largest share of the scale set that one event hit, by its present size. VMs hit: a VM counts once for each event. Lost: the interruptions that its VMs measured.",
            (0, y, 12, 10),
            [
                target(f"max by ({scale_set}) {at_once} / on ({scale_set}) {size}", "A", table=True),
                target(f"count by ({scale_set}) {at_once}", "B", table=True),
                target(f"sum by ({scale_set}) {at_once}", "C", table=True),
                target(f"sum by ({scale_set}) {of_sets('lost', '> 0', 'sum')}", "D", table=True),
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
                *[override(name, **count) for name in ("Events", "VMs hit")],
                override("Lost", **{**SECONDS, "custom__width": 90}),
            ],
        ),
        table(
            "VMs hit most",
            "The 15 VMs for which most events started.",
            (12, y, 12, 10),
            [
                target(f"topk(15, {hits})", table=True),
            ],
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
                override("Events", **count),
                carried("Instance"),
            ],
        ),
    ]


WEEKDAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")


def hours(y: int) -> list[dict[str, Any]]:
    times = started(EVENT)
    # Weekday and hour as one number, 1000 for Monday at 0. Zeros for each hour and each weekday give the table all its
    # columns and rows.
    slots = f'count_values("slot", 1000 + 100 * ((day_of_week({times}) + 6) % 7) + hour({times}))'
    all_slots = [1000 + hour for hour in range(24)] + [1000 + 100 * day for day in range(1, 7)]
    zeros = " or ".join(f'label_replace(vector(0), "slot", "{slot}", "", "")' for slot in all_slots)
    cells = f'label_replace(label_replace({slots} or {zeros}, "weekday", "$1", "slot", "1(.).."), "hour", "$1", "slot", "1.(..)")'
    corner = "weekday\\hour"
    names = [f"{hour:02d}" for hour in range(24)]
    grid = panel(
        "table",
        "When events started",
        "Number of events that started, by weekday and hour in UTC.",
        (0, y, 24, 10),
        [target(f"sum by (weekday, hour) ({cells})", table=True)],
        unit="none",
        empty=NO_ROWS,
        custom={"align": "center", "cellOptions": COLOURED_CELL, "filterable": False, "inspect": False, "minWidth": 30},
        defaults={"color": {"mode": "continuous-blues"}, "decimals": 0, "min": 0},
        overrides=[
            override(
                "Day",
                mappings=[value_map({str(i): (name, "transparent") for i, name in enumerate(WEEKDAYS)})],
                custom__width=40,
                custom__cellOptions={"type": "auto"},
            )
        ],
        options={
            "cellHeight": "sm",
            "footer": {"show": False, "reducer": ["sum"], "countRows": False, "fields": ""},
            "showHeader": True,
            "sortBy": [],
        },
        transformations=[
            {"id": "sortBy", "options": {"fields": {}, "sort": [{"desc": False, "field": "weekday"}]}},
            {
                "id": "groupingToMatrix",
                "options": {"columnField": "hour", "rowField": "weekday", "valueField": "Value", "emptyValue": "zero"},
            },
            organized(columns={corner: "Day"} | {name: name for name in names}),
        ],
    )
    return [grid]


def build() -> dict[str, Any]:
    panels = [
        *headline(),
        *per_day(6),
        *notice_panels(15),
        *promise(22),
        *cost(30),
        *lost_per_day(37),
        *risk(45),
        *hours(55),
    ]
    return dashboard(
        "azse-history",
        "Azure Scheduled Events / History",
        "How much maintenance there was, how much notice Azure gave, and what it cost.",
        variables(),
        panels,
        since="now-30d",
        refresh="5m",
    )
