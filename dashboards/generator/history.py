"""The history dashboard: number of events, notice and interruptions.

The queries read a sample a minute of each VM of a reported event, and count events and VMs: several VMs report an event.
"""

from typing import Any

import parts as p
import records as r

TYPED = f"{r.EVENT}, event_type"
NO_ROWS = "no rows: see Since"
# Minimum notice in Azure's documentation.
PROMISED = {"Freeze": 900, "Reboot": 900, "Redeploy": 600, "Preempt": 30, "Terminate": 300}
SECONDS = {"unit": "s", "decimals": 1, "custom__minWidth": 80}
NAME = {**p.WRAPPED, "custom__minWidth": 95}
COUNT = {"unit": "none", "decimals": 0, "custom__width": 65}


def recorded(record: str, more: str = "", over: str = "[$__range]") -> str:
    """The last value of a record of the selected VMs, for each VM and event."""
    return f"last_over_time({record}{{{r.EVENTS}{more}}}{over})"


def lost(more: str = "", over: str = "[$__range]") -> str:
    """The interruptions that the VMs measured, 0 if the event began without one."""
    return f"max_over_time({r.LOST}{{{r.EVENTS}{more}}}{over})"


def headline() -> list[p.Panel]:
    since = f"1000 * min(min_over_time(timestamp({r.APPROVALS}{{{r.CLUSTER}}})[$__range:15m])) or vector(-1)"
    return [
        total(
            0,
            "Events",
            "Events of the selected VMs that were reported in this time, each counted once however many VMs it named.",
            f"count(group by ({r.EVENT}) ({recorded(r.PAST)}))",
        ),
        total(5, "VMs hit", "VMs for which an event began.", f"count(group by ({r.VM}) ({lost()} >= 0))"),
        total(
            10,
            "Time lost",
            "The sum of the interruptions that the VMs measured on themselves, each VM and event once.",
            f"sum({lost()} > 0)",
            unit="s",
            decimals=1,
        ),
        total(
            15,
            "Not begun",
            "Events that have not begun: Azure took them back, or they are pending.",
            f"count(max by ({r.EVENT}) ({lost()}) < 0)",
        ),
        p.stat(
            "Since",
            "Since then in this time, the rules record what this dashboard shows.",
            (20, 0, 4, 3),
            [since],
            unit="time:YYYY-MM-DD",
            mappings=(p.value_map({"-1": ("no rules", p.WARNING)}),),
        ),
    ]


def total(x: int, title: str, description: str, expr: str, **more: Any) -> p.Panel:
    """0 if the rules were evaluated in this time and there is nothing to count."""
    zero = f"0 * group(last_over_time({r.APPROVALS}{{{r.CLUSTER}}}[$__range]))"
    return p.stat(title, description, (x, 0, 5, 3), [f"{expr} or {zero}"], **more)


def per_day(y: int) -> list[p.Panel]:
    # A point is at the start of its day and counts the next 24 hours, so today's point exists before the day ends. What
    # is recorded in the first minute after midnight can be of the day before, so the range is an hour longer.
    day = "[25h] offset -25h"
    today = ">= time() < time() + 86400"
    interruptions = lost(over="[2d] offset -2d")
    return [
        bars(
            (0, y, 12, 9),
            "Events per day",
            "Events by the day (UTC) on which they were first seen, each once.",
            f"count by (event_type) (min by ({TYPED}) ({recorded(r.PAST, over=day)}) {today})",
            unit="none",
        ),
        bars(
            (12, y, 12, 9),
            "Interruption per day",
            "The sum of what the VMs measured on themselves, by the day (UTC) on which the event was first seen.",
            f"sum by (event_type) ({interruptions} > 0 and on (event_id) last_over_time({r.PAST}{day}) {today})",
            unit="s",
        ),
    ]


def bars(at: p.Place, title: str, description: str, expr: str, unit: str) -> p.Panel:
    return p.graph(
        title,
        description,
        at,
        [(expr, "{{event_type}}")],
        unit=unit,
        decimals=int(unit == "s"),
        interval="1d",
        calcs=("sum",),
        custom={
            "drawStyle": "bars",
            "barAlignment": 1,
            "barWidthFactor": 0.8,
            "fillOpacity": 85,
            "lineWidth": 0,
            "stacking": {"group": "A", "mode": "normal"},
        },
        overrides=p.coloured(p.TYPE_COLOURS),
        empty=NO_ROWS,
    )


def by_type(y: int) -> p.Panel:
    notice = f"max by ({TYPED}) ({recorded(r.NOTICE)})"
    promised = [f'label_replace(vector({value}), "event_type", "{name}", "", "")' for name, value in PROMISED.items()]
    longest = f"max by ({TYPED}) ({lost()}) > 0"
    return p.table(
        "Notice against Azure's promise, and interruption",
        "Notice: from the first sight to NotBefore as first announced. Promised is the minimum in Azure's documentation (Terminate: the least that can be set). "
        "9 in 10: what nine of ten events had at least. Interruption: of each event the longest that a VM measured on itself.",
        (0, y, 24, 7),
        [
            f"count by (event_type) ({notice})",
            " or ".join(promised),
            f"min by (event_type) ({notice})",
            f"quantile by (event_type) (0.1, {notice})",
            f"quantile by (event_type) (0.5, {longest})",
            f"max by (event_type) ({longest})",
        ],
        columns={
            "event_type": ("Type", {}),
            "Value #A": ("Events", COUNT),
            "Value #B": ("Promised notice", SECONDS),
            "Value #C": ("Shortest", SECONDS),
            "Value #D": ("9 in 10", SECONDS),
            "Value #E": ("Median interruption", SECONDS),
            "Value #F": ("Longest", SECONDS),
        },
        sort="Value #A",
        empty=NO_ROWS,
    )


def risk(y: int) -> list[p.Panel]:
    of = "cluster, vm_scale_set"
    in_set = ', vm_scale_set!=""'  # SIZE has no series without a scale set
    hit = f"count by ({r.EVENT}, vm_scale_set) (%s >= 0)"
    return [
        p.table(
            "Scale sets at risk",
            "Most at once: the largest share of the scale set that one event hit, by its largest size in this time. VM hits: a VM counts once for each event. Lost: the interruptions that its VMs measured.",
            (0, y, 12, 10),
            [
                f"max by ({of}) ({hit % lost()}) / on ({of}) max_over_time({r.SIZE}[$__range])",
                f"sum by ({of}) ({hit % lost(in_set)})",
                f"sum by ({of}) ({lost(in_set)} > 0)",
            ],
            columns={
                "vm_scale_set": ("Scale set", NAME),
                "cluster": ("In cluster", NAME),
                "Value #A": ("Most at once", {"unit": "percentunit", "decimals": 0, "custom__width": 115}),
                "Value #B": ("VM hits", COUNT),
                "Value #C": ("Lost", {**SECONDS, "custom__width": 85}),
            },
            sort="Value #A",
            empty=NO_ROWS,
        ),
        p.table(
            "VMs hit most",
            "The 15 VMs for which most events began.",
            (12, y, 12, 10),
            [r.cluster_for_links(f"topk(15, count by ({r.VM}, vm_name) ({lost()} >= 0))")],
            columns={
                "vm_name": ("VM", {"links": [p.vm_link()], **NAME}),
                "cluster": ("In cluster", NAME),
                "Value": ("Events", COUNT),
                "instance": ("Instance", p.HIDDEN),
                "in": ("Cluster", p.HIDDEN),
            },
            sort="Value",
            empty=NO_ROWS,
        ),
    ]


def approvals(y: int) -> p.Panel:
    series = f'{r.APPROVALS}{{cluster=~"$cluster", job=~"$job", event_type=~"$event_type", result!=""}}'
    return p.table(
        "Approvals",
        "Approvals that the exporters sent in this time, by what came of them; of all VMs, also with a selection.",
        (0, y, 24, 7),
        # The rule is evaluated in intervals that divide 15 minutes.
        [f"sum by (event_type, result) (sum_over_time({series}[$__range:15m])) > 0.5"],
        columns={"event_type": ("Type", {}), "result": ("Result", {}), "Value": ("Approvals", COUNT)},
        sort="Value",
        empty=NO_ROWS,
    )


def build() -> dict[str, Any]:
    return p.dashboard(
        "azse-history",
        "How much maintenance there was, how much notice Azure gave, and what it cost.",
        p.variables(),
        [*headline(), *per_day(3), by_type(12), *risk(19), p.row("Approvals", 29, [approvals(30)])],
    )
