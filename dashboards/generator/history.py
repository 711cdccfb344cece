"""The history dashboard: number of events, notice and interruptions.

The queries read what dashboards.rules.yml records of each VM of an event, once a minute while the event is reported.
Everything is aggregated before it is counted: several VMs report an event.
"""

from __future__ import annotations

from typing import Any

import parts as p
import records as r

TYPED = f"{r.EVENT}, event_type"
SELECTED = f'{r.VMS}, event_type=~"$event_type"'
NO_ROWS = "no rows: see Since"
# Minimum notice in Azure's documentation.
PROMISED = {"Freeze": 900, "Reboot": 900, "Redeploy": 600, "Preempt": 30, "Terminate": 300}
# These rules were evaluated in this time.
KNOWN = f"group(last_over_time({r.APPROVALS}{{{r.CLUSTER}}}[$__range]))"
SECONDS = {"unit": "s", "decimals": 1, "custom__minWidth": 80}
COUNT = {"unit": "none", "decimals": 0, "custom__width": 65}


def variables() -> list[dict[str, Any]]:
    """The VMs and scale sets are those with an event in this time."""
    of = f'{r.PAST}{{cluster=~"$cluster", job=~"$job"}}'
    return [
        p.cluster_variable(),
        p.job_variable(),
        p.query_variable("scale_set", "Scale set", f"label_values({of}, vm_scale_set)"),
        p.query_variable("instance", "Instance", f"label_values({of}, instance)"),
        p.type_variable(),
    ]


def recorded(record: str, more: str = "", over: str = "[$__range]") -> str:
    """The last value of a record of the selected VMs, for each VM and event."""
    return f"last_over_time({record}{{{SELECTED}{more}}}{over})"


def lost(more: str = "", over: str = "[$__range]") -> str:
    """The interruptions that the VMs measured, 0 if the event began without one."""
    return f"max_over_time({r.LOST}{{{SELECTED}{more}}}{over})"


def headline() -> list[p.Panel]:
    notice = f"max by ({r.EVENT}) ({recorded(r.NOTICE)})"
    figures = [
        ("Events", "Events of the selected VMs that were reported in this time, each counted once however many VMs it named.", f"count(group by ({r.EVENT}) ({recorded(r.PAST)})) or 0 * {KNOWN}", "none", {}),
        ("VMs hit", "VMs for which an event began.", f"count(group by ({r.VM}) ({lost()} >= 0)) or 0 * {KNOWN}", "none", {}),
        ("Time lost", "The sum of the interruptions that the VMs measured on themselves, each VM and event once.", f"sum({lost()} > 0) or 0 * {KNOWN}", "s", {"decimals": 1}),
        ("Not begun", "Events that have not begun: Azure took them back, or they are pending.", f"count(max by ({r.EVENT}) ({lost()}) < 0) or 0 * {KNOWN}", "none", {}),
        ("Median notice", "Half of the events were announced at least this long before NotBefore, as it was first announced: a later postponement does not count.", f"quantile(0.5, {notice})", "s", {"decimals": 1}),
        ("Since", "Since then in this time, the rules record what this dashboard shows.", f"1000 * min(min_over_time(timestamp({r.APPROVALS}{{{r.CLUSTER}}})[$__range:15m])) or vector(-1)", "time:YYYY-MM-DD", {"mappings": [p.value_map({"-1": ("no rules", p.WARNING)})]}),
    ]  # fmt: skip
    widths = [4, 4, 4, 4, 4, 4]
    return [
        p.stat(title, says, (sum(widths[:i]), 0, widths[i], 3), [expr], unit=unit, **more)
        for i, (title, says, expr, unit, more) in enumerate(figures)
    ]


# A point is at the start of its day and counts the next 24 hours, so today's point exists before the day ends. What is
# recorded in the first minute after midnight can be of the day before, so the range is an hour longer.
DAY = "[25h] offset -25h"


def per_day(y: int) -> list[p.Panel]:
    today = ">= time() < time() + 86400"
    begun = f"last_over_time({r.PAST}{DAY}) {today}"
    figures = [
        ("Events per day", "Events by the day (UTC) on which they were first seen, each once.", f"count by (event_type) (min by ({TYPED}) ({recorded(r.PAST, over=DAY)}) {today})", "none"),
        ("Interruption per day", "The sum of what the VMs measured on themselves, by the day (UTC) on which the event was first seen.", f"sum by (event_type) ({lost(over='[2d] offset -2d')} > 0 and on (event_id) {begun})", "s"),
    ]  # fmt: skip
    look = {"drawStyle": "bars", "barAlignment": 1, "barWidthFactor": 0.8, "fillOpacity": 85, "lineWidth": 0}
    return [
        p.graph(
            title,
            says,
            (12 * i, y, 12, 9),
            [(expr, "{{event_type}}")],
            interval="1d",
            calcs=("sum",),
            custom={**look, "stacking": {"group": "A", "mode": "normal"}},
            unit=unit,
            overrides=p.coloured(p.TYPE_COLOURS),
            defaults={"decimals": 0},
            empty=NO_ROWS,
        )
        for i, (title, says, expr, unit) in enumerate(figures)
    ]


def by_type_tables(y: int) -> list[p.Panel]:
    notice = f"max by ({TYPED}) ({recorded(r.NOTICE)})"
    promised = " or ".join(
        f'label_replace(vector({value}), "event_type", "{name}", "", "")' for name, value in PROMISED.items()
    )
    longest = f"max by ({TYPED}) ({lost()}) > 0"
    return [
        p.table(
            "Notice, against Azure's promise",
            "From the first sight to NotBefore as first announced. Promised is the minimum in Azure's documentation (Terminate: the least that can be set). 9 in 10: "
            "what nine of ten events had at least.",
            (0, y, 12, 7),
            [
                f"count by (event_type) ({notice})",
                promised,
                f"min by (event_type) ({notice})",
                f"quantile by (event_type) (0.1, {notice})",
            ],
            {
                "event_type": ("Type", {"custom__width": 88}),
                "Value #A": ("Events", COUNT),
                "Value #B": ("Promised", SECONDS),
                "Value #C": ("Shortest", SECONDS),
                "Value #D": ("9 in 10", SECONDS),
            },
            sort="Value #A",
            empty=NO_ROWS,
        ),
        p.table(
            "Interruption, as observed",
            "What the VMs measured on themselves. Median and longest: of the longest interruption of each event.",
            (12, y, 12, 7),
            [
                f"quantile by (event_type) (0.5, {longest})",
                f"max by (event_type) ({longest})",
                f"sum by (event_type) ({lost()} > 0)",
            ],
            {
                "event_type": ("Type", {"custom__width": 88}),
                "Value #A": ("Median", SECONDS),
                "Value #B": ("Longest", SECONDS),
                "Value #C": ("Sum", SECONDS),
            },
            sort="Value #C",
            empty=NO_ROWS,
        ),
    ]


def risk(y: int) -> list[p.Panel]:
    of = "cluster, vm_scale_set"
    in_set = ', vm_scale_set!=""'
    hit = f"count by ({r.EVENT}, vm_scale_set) ({lost(in_set)} >= 0)"
    return [
        p.table(
            "Scale sets at risk",
            "Most at once: the largest share of the scale set that one event hit, by its present size. VMs hit: a VM counts once for each event. Lost: the interruptions that its VMs measured.",
            (0, y, 12, 10),
            [
                f"max by ({of}) ({hit}) / on ({of}) {r.SIZE}",
                f"count by ({of}) ({hit})",
                f"sum by ({of}) ({hit})",
                f"sum by ({of}) ({lost(in_set)} > 0)",
            ],
            {
                "vm_scale_set": ("Scale set", {"custom__minWidth": 95}),
                "cluster": ("Cluster", {"custom__minWidth": 80}),
                "Value #A": ("Most at once", {"unit": "percentunit", "decimals": 0, "custom__width": 115}),
                "Value #B": ("Events", COUNT),
                "Value #C": ("VMs hit", COUNT),
                "Value #D": ("Lost", {**SECONDS, "custom__width": 85}),
            },
            sort="Value #A",
            empty=NO_ROWS,
        ),
        p.table(
            "VMs hit most",
            "The 15 VMs for which most events began.",
            (12, y, 12, 10),
            [f"topk(15, count by ({r.VM}, vm_name, vm_scale_set) ({lost()} >= 0))"],
            {
                "vm_name": ("VM", {"links": [p.vm_link()], "custom__minWidth": 235}),
                "vm_scale_set": ("Scale set", {"custom__width": 120}),
                "cluster": ("Cluster", {"custom__minWidth": 80}),
                "Value": ("Events", COUNT),
                "instance": ("Instance", p.HIDDEN),
            },
            sort="Value",
            drop=("job",),
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
        {"event_type": ("Type", {}), "result": ("Result", {}), "Value": ("Approvals", COUNT)},
        sort="Value",
        empty=NO_ROWS,
    )


def build() -> dict[str, Any]:
    return p.dashboard(
        "azse-history",
        "How much maintenance there was, how much notice Azure gave, and what it cost.",
        variables(),
        [
            *headline(),
            *per_day(3),
            *by_type_tables(12),
            *risk(19),
            p.row("Approvals", 29, [approvals(30)]),
        ],
        since="now-30d",
        refresh="5m",
    )
