"""The history dashboard: number of events, notice and interruptions.

The queries read the series of each VM and event, and count events and VMs: several VMs report an event.
"""
# fmt: off

from typing import Any

import parts as p
import queries as q

TYPED = f"{q.EVENT},event_type"
NO_ROWS = "no rows"
# Minimum notice in Azure's documentation.
PROMISED = {"Freeze": 900, "Reboot": 900, "Redeploy": 600, "Preempt": 30, "Terminate": 300}
SECONDS = {"unit": "s", "decimals": 1, "custom__minWidth": 80}
NAME = {**p.WRAPPED, "custom__minWidth": 95}
COUNT = {"unit": "none", "decimals": 0, "custom__width": 65}
# What is joined with the events of the selected VMs.
OWN = f'{{{q.CLUSTER},instance=~"$instance",scope!="other"}}'


def over_range(operator: str, metric: str, over: str = "[$__range]") -> str:
    """The series of the selected VMs, for each VM and event."""
    return f"{operator}_over_time(azure_scheduled_event_{metric}{{{q.EVENTS}}}{over})"


INFO = "azure_scheduled_events_vm_info"
# Events that began or were due within the hour. A VM that is down in its event does not report that it has started.
CANCELLED = f'last_over_time(azure_scheduled_event_ended_timestamp_seconds{{{q.CLUSTER},outcome="cancelled"}}[$__range])'
BEGAN = f"{over_range('max', 'priority')} > {q.NEAR} unless on ({q.EVENT}) {CANCELLED}"


def last_info(otherwise: str) -> str:
    """A series for each VM. A resized VM has one for each size: its last hour shows the last one."""
    return f"topk by ({q.VM}) (1,max_over_time(timestamp({INFO})[$__range:1h]) or {otherwise})"


def lost(over: str = "[$__range]") -> str:
    """The interruptions that the VMs measured on themselves."""
    series = f"azure_scheduled_event_observed_interruption_seconds{OWN}{over}"
    return f"max by ({q.VM},event_id,event_type) (max_over_time({series})) and on ({q.VM}, event_id) {over_range('last', 'priority', over)}"


def headline() -> list[p.Panel]:
    up = q.exporter("up")
    # Of a hundred moments. Reading each sample of all exporters takes too long.
    first = f"min_over_time((vector(time()) and on () {up})[$__range:$__interval])"
    return [
        total(
            0, "Events",
            "Events of the selected VMs that were reported in this time, each counted once however many VMs it named.",
            f"count(group by ({q.EVENT}) ({over_range('last', 'priority')}))",
        ),
        total(5, "VMs hit", "VMs of events that began or were due within the hour, except events that Azure took back.", f"count(group by ({q.VM}) ({BEGAN}))"),
        total(
            10, "Time lost",
            "The sum of the interruptions that the VMs measured on themselves, each VM and event once.",
            f"sum({lost()})", unit="s", decimals=1,
        ),
        total(
            15, "Cancelled", "Events that Azure took back before they began.",
            f"count(group by ({q.EVENT}) ({CANCELLED} and on ({q.EVENT}) {over_range('last', 'priority')}))",
        ),
        p.stat(
            "Data since",
            "Since when Prometheus has data of the selected VMs, to about a hundredth of the selected time. This dashboard knows nothing of what was before.",
            (20, 0, 4, 3), [f"0 * group({up} offset $__range) or 1000 * ({first} or vector(time()) and on () {up})"],
            empty="no series", unit="time:YYYY-MM-DD HH:mm", mappings=(p.value_map({"0": ("before this time", p.CALM)}),),
            steps=p.thresholds((None, p.BLIND)), maxDataPoints=100,
        ),
    ]


def total(x: int, title: str, description: str, expr: str, **more: Any) -> p.Panel:
    """0 if there is nothing to count, but exporters are scraped."""
    zero = f"0 * group(azure_scheduled_events_up{{{q.JOB}}})"
    return p.stat(title, description, (x, 0, 5, 3), [f"{expr} or {zero}"], empty="no series", **more)


def per_day(y: int) -> list[p.Panel]:
    # A point is at the start of its day and counts the next 24 hours, so today's point exists before the day ends.
    day = "[1d] offset -1d"
    today = f"min_over_time({q.FIRST_SEEN}{OWN}{day}) >= time() < time() + 86400"
    return [
        bars(
            (0, y, 12, 9), "Events per day", "Events by the day (UTC) on which they were first seen, each once.",
            f"count by (event_type) (group by ({TYPED}) ({today} and on ({q.VM}, event_id) {over_range('last', 'priority', day)}))",
            unit="none",
        ),
        bars(
            (12, y, 12, 9), "Interruption per day",
            "The sum of what the VMs measured on themselves, by the day (UTC) on which they measured it.",
            f"sum by (event_type) ({lost(day)})", unit="s",
        ),
    ]


def bars(at: p.Place, title: str, description: str, expr: str, unit: str) -> p.Panel:
    return p.graph(
        title, description, at, [(expr, "{{event_type}}")], unit=unit, decimals=int(unit == "s"), interval="1d", calcs=("sum",),
        custom={
            "drawStyle": "bars", "barAlignment": 1, "barWidthFactor": 0.8, "fillOpacity": 85, "lineWidth": 0,
            "stacking": {"group": "A", "mode": "normal"},
        },
        overrides=p.coloured(p.TYPE_COLOURS), empty=NO_ROWS,
    )


def by_type(y: int) -> p.Panel:
    chosen = f"and on ({q.EVENT}) {over_range('last', 'priority')}"
    notice = f"max by ({TYPED}) (max_over_time(azure_scheduled_event_not_before_countdown_seconds{{{q.CLUSTER}}}[$__range])) {chosen} {q.ANNOUNCED_IN_TIME}"
    promised = [f'label_replace(vector({value}), "event_type", "{name}", "", "")' for name, value in PROMISED.items()]
    longest = f"max by ({TYPED}) ({lost()})"
    return p.table(
        "Notice against Azure's promise, and interruption",
        "Notice: the most that was left until NotBefore at a scrape; a postponement adds to it, and an event that was announced before this time does not count. Promised is the minimum in Azure's documentation (Terminate: the least that can be set). "
        "9 in 10: what nine of ten events had at least; with fewer events, a value between the shortest two. Interruption: of each event the longest that a VM measured on itself.",
        (0, y, 24, 7),
        [
            f"count by (event_type) (group by ({TYPED}) ({over_range('last', 'priority')}))", " or ".join(promised),
            f"min by (event_type) ({notice})", f"quantile by (event_type) (0.1, {notice})",
            f"max by (event_type) ({longest})",
        ],
        columns={
            "event_type": ("Type", {}), "Value #A": ("Events", COUNT), "Value #B": ("Promised notice", SECONDS),
            "Value #C": ("Shortest", SECONDS), "Value #D": ("9 in 10", SECONDS),
            "Value #E": ("Longest interruption", SECONDS),
        },
        sort="Value #A", empty=NO_ROWS,
    )


def risk(y: int) -> list[p.Panel]:
    of = "cluster, vm_scale_set"
    size = f'count by ({of}) (group by ({q.VM}, vm_scale_set) (last_over_time(azure_scheduled_events_vm_info{{{q.CLUSTER},vm_scale_set!=""}}[1h])))'
    hit = f"group by ({q.VM}, event_id, vm_scale_set) (" + BEGAN.replace("{cluster", '{vm_scale_set!="",cluster', 1) + ")"
    return [
        p.table(
            "Scale sets at risk",
            "Most at once: the number of VMs of the scale set that one event hit. Of: the VMs of the scale set now. VM hits: a VM counts once for each event.",
            (0, y, 12, 10),
            [f"max by ({of}) (count by ({q.EVENT}, vm_scale_set) ({hit}))", f"sum by ({of}) ({hit})", size],
            columns={
                "vm_scale_set": ("Scale set", NAME), "cluster": ("In cluster", NAME),
                "Value #A": ("Most at once", {**COUNT, "custom__width": 115}), "Value #C": ("Of", COUNT),
                "Value #B": ("VM hits", {**COUNT, "custom__width": 85}),
            },
            sort="Value #A", empty=NO_ROWS,
        ),
        p.table(
            "VMs hit most", "The 15 VMs with most events, counted as under VMs hit.", (12, y, 12, 10),
            [q.cluster_for_links(f"topk(15, count by (cluster,instance,vm_name) (group by ({q.EVENT},instance,vm_name) ({BEGAN})))")],
            columns={
                "vm_name": ("VM", {"links": [p.vm_link()], **NAME}), "cluster": ("In cluster", NAME),
                "Value": ("Events", COUNT), "instance": ("Instance", p.HIDDEN), "in": ("Cluster", p.HIDDEN),
            },
            sort="Value", empty=NO_ROWS,
        ),
    ]


def approvals(y: int) -> p.Panel:
    sent = f'azure_scheduled_events_approvals_total{{{q.JOB},event_type=~"$event_type"}}'
    return p.table(
        "Approvals",
        "Approvals that the exporters sent in this time, by what came of them; of all VMs in these clusters and jobs.",
        (0, y, 24, 7),
        [f"sum by (event_type, result) (max by ({q.VM},event_type,result) (increase({sent}[$__range]))) > 0.5"],
        columns={"event_type": ("Type", {}), "result": ("Result", {}), "Value": ("Approvals", {**COUNT, "custom__width": 95})}, sort="Value",
        empty=NO_ROWS,
    )


def outcomes(y: int) -> p.Panel:
    ended = f'azure_scheduled_events_ended_total{{{q.TARGET},event_type=~"$event_type"}}'
    return p.table(
        "Ends by outcome, as counted by each VM",
        "From the counters of the exporters: each VM counts the end of each event once. Without the VMs that are gone before the end.",
        (0, y, 24, 7),
        [f"sum by (event_type, outcome) (max by ({q.VM}, event_type, outcome) (increase({ended}[$__range]))) > 0.5"],
        columns={"event_type": ("Type", {}), "outcome": ("Outcome", {}), "Value": ("Ends", COUNT)}, sort="Value",
        empty=NO_ROWS,
    )


def unannounced(y: int) -> p.Panel:
    seconds = f"increase(azure_scheduled_events_unannounced_interruption_seconds_sum{{{q.TARGET}}}[$__range])"
    return p.table(
        "Interruptions that no event announced",
        "The sum of pauses of a second or more that a VM measured on itself while no event of it was pending. Each is too short by up to one poll interval.",
        (0, y, 12, 8), [q.cluster_for_links(f"max by (cluster, instance, vm_name) ({seconds} * on ({q.VM}) group_left (vm_name) {last_info(f'on ({q.VM}) last_over_time(azure_scheduled_events_up[$__range])')}^0) > 0")],
        columns={
            "vm_name": ("VM", {"links": [p.vm_link()], **NAME}), "instance": ("Instance", {"links": [p.vm_link()], **NAME}), "cluster": ("In cluster", NAME),
            "Value": ("Interruption", SECONDS), "in": ("Cluster", p.HIDDEN),
        }, sort="Value", empty=NO_ROWS,
    )


def evictions(y: int) -> p.Panel:
    evicted = f'last_over_time({q.PRIORITY}{{{q.OF_ANY_TYPE},event_type="Preempt"}}[$__range])'
    return p.table(
        "Evictions by size and region", "Announced evictions of the selected Spot VMs, by the last size and region of each VM.",
        (12, y, 12, 8), [f"count by (vm_size, location) (group by ({q.VM}, event_id) ({evicted}) * on ({q.VM}) group_left (vm_size, location) {last_info(f'last_over_time({INFO}{{{q.CLUSTER}}}[$__range])')})"],
        columns={"vm_size": ("Size", {}), "location": ("Region", {}), "Value": ("Evictions", {**COUNT, "custom__width": 95})}, sort="Value", empty=NO_ROWS,
    )


def build() -> dict[str, Any]:
    return p.dashboard(
        "azse-history", "How much maintenance there was, how much notice Azure gave, and what it cost.",
        p.variables(),
        [
            *headline(), *per_day(3), by_type(12), *risk(19),
            unannounced(29), evictions(29),
            p.row("Approvals and outcomes", 37, [approvals(38), outcomes(45)]),
        ],
    )
