"""The fleet dashboard: what happens now, what is next, and whether the exporters report."""

from __future__ import annotations

from typing import Any

import queries as q
from parts import (
    BLIND,
    CALM,
    COLOURED_CELL,
    CRITICAL,
    NOTICE,
    SEVERITY,
    SEVERITY_MAP,
    TRACE_VARIABLES,
    TYPE_COLOURS,
    WARNING,
    carried,
    cluster_variable,
    custom_variable,
    dashboard,
    fixed,
    job_variable,
    override,
    stat,
    table,
    target,
    thresholds,
    trace_links,
    value_map,
    vm_label_variable,
    vm_link,
    vm_variable,
)

FLEET = q.Scope('event_type=~"$event_type"', 'vm_scale_set!~"$scale_set"')
NOTHING = {"noValue": "–"}
WHEN = value_map({str(q.DOWN): ("VM down", CALM), str(q.RUNNING): ("running", CALM), str(q.DUE): ("due", CALM)})
# The values of `Scope.order`.
ORDER = thresholds(
    (None, CALM), *((n * q.WEIGHT - q.HOUR, c) for n, c in enumerate((NOTICE, WARNING, CRITICAL), 1))
)  # fmt: skip
COVERAGE = {
    q.REPORTS: ("report", CALM),
    q.IN_EVENT: ("down in an event", NOTICE),
    q.NOT_SCRAPED: ("not scraped", BLIND),
    q.NO_METADATA: ("without metadata", BLIND),
    q.WARMING_UP: ("warming up", BLIND),
}
COUNT = thresholds((None, CALM), (1, NOTICE))


def variables() -> list[dict[str, Any]]:
    return [
        cluster_variable(),
        job_variable(),
        vm_label_variable("scale_set", "Scale set", "vm_scale_set"),
        vm_variable(multi=True, more='vm_scale_set=~"$scale_set"'),
        custom_variable("event_type", "Type", list(TYPE_COLOURS), "Only events of these types"),
        *TRACE_VARIABLES,
    ]


def first_row() -> list[dict[str, Any]]:
    says = {"text": "name", "unit": "none", "legend": "{{summary}}{{state}} {{cluster}}"}
    running = f"{FLEET.rank()} and on ({q.EVENT}) {q.begun()}"
    now = stat(
        "Now",
        "The three worst events that have started and are not over, or whose VM is down. The colour is that of the alert. "
        '"none": no open event, and every exporter reports. "none known": an event of a VM whose exporter does not report can be missing.',
        (0, 0, 7, 6),
        f"sort_desc({FLEET.texts(f'topk(3, {running})')}) or on () {FLEET.no_event()}",
        defaults={"thresholds": SEVERITY},
        **says,
    )
    more = f'count_values("n", count({running}) - 3 > 0)'
    now["targets"].append(
        target(f'label_replace({more}, "summary", "and $1 more", "n", "(.*)")', "B", "{{summary}}", instant=True)
    )
    now["options"]["orientation"] = "horizontal"
    following = stat(
        "Next",
        "The worst event that can start within the hour, or else the next one. The colour is that of its alert, if it is due within the hour.",
        (7, 0, 7, 6),
        f"{FLEET.next()} * on ({q.EVENT}) group_left (summary) {q.message()}",
        defaults={"thresholds": ORDER},
        **says,
    )
    starts = stat(
        "Starts in",
        'Of the event under Next: until NotBefore, before which Azure does not start it unless somebody approves it. "due": it can start at any moment.',
        (14, 0, 3, 6),
        f"{q.seconds_left()} and on ({q.EVENT}) {FLEET.next()}",
        unit="dtdurations",
        defaults={"decimals": 0, "mappings": [WHEN], "thresholds": thresholds((None, CALM))},
    )
    near = f"{FLEET.open()} and ({q.begun()} or {q.seconds_left()} <= {q.HOUR})"
    lasts = q.last("duration_seconds", q.OWN)
    hour = stat(
        "VMs hit within 1 h",
        "VMs with an event that has started or can start within the hour, without events that interrupt nothing.",
        (17, 0, 3, 3),
        f"count(group by ({q.VM}) ({FLEET.pairs()} and on ({q.EVENT}) ({near}) unless on ({q.EVENT}) {lasts} == 0)) or on () 0 * group({q.UP}{{{q.TARGET}}})",
        unit="none",
        defaults={"thresholds": COUNT},
    )
    advice = FLEET.vms(f"group by ({q.VM}) ({q.exporter('advisories', q.OWN)} > 0)")
    advisories = stat(
        "VMs with advice",
        "VMs with advice by Azure that is not maintenance, such as a higher risk of eviction. It has no deadline, and no other panel here contains it.",
        (17, 3, 3, 3),
        f"count({advice}) or on () 0 * group({q.UP}{{{q.TARGET}}})",
        unit="none",
        defaults={"thresholds": COUNT},
    )
    coverage = stat(
        "Coverage",
        "How many exporters report: Prometheus scrapes them, they have read the metadata service in the minute before the scrape, and they are not warming up. The others, by reason.",
        (20, 0, 4, 6),
        f'count_values("why", {FLEET.coverage()})',
        legend="{{why}}",
        text="value_and_name",
        unit="none",
        overrides=[
            override(str(code), displayName=text, color=fixed(colour)) for code, (text, colour) in COVERAGE.items()
        ],
        title_size=14,
    )
    coverage["options"]["orientation"] = "horizontal"
    return [now, following, starts, hour, advisories, coverage]


def pending(y: int) -> dict[str, Any]:
    """One row per open event, also of an event whose VMs are down."""
    of = f"and on ({q.EVENT}) {FLEET.open()}"
    rows = table(
        "Pending now",
        "One row per open event: first what has begun, then what is due within the hour by severity, then the others by time. Event opens the trace.",
        (0, y, 24, 9),
        [
            target(q.ids(FLEET.texts(FLEET.rank())), "A", table=True),
            target(FLEET.when(), "B", table=True),
            target(f"max by ({q.EVENT}) ({q.last('resources', q.OWN, q.CLUSTER)}) {of}", "C", table=True),
            target(f"max by ({q.EVENT}) ({q.last('duration_seconds', q.OWN, q.CLUSTER)}) {of}", "D", table=True),
            target(
                f"{10 * q.WEIGHT} * {q.begun()} + on ({q.EVENT}) {FLEET.rank()} or {FLEET.order()}", "E", table=True
            ),
        ],
        {
            "Value #B": "Starts in",
            "Value #A": "Severity",
            "summary": "What",
            "Value #C": "VMs",
            "Value #D": "Lasts",
            "cluster": "In cluster",
            "id": "Event",
            "trace_id": "Trace",
            "event_id": "Id",
        },
        sort="Starts in",
        drop=("Value #E", "state"),
        overrides=[
            override("Starts in", unit="dtdurations", decimals=0, mappings=[WHEN], custom__width=110, **NOTHING),
            override(
                "Severity", mappings=[SEVERITY_MAP], custom__cellOptions=COLOURED_CELL, custom__width=90, **NOTHING
            ),
            override("What", custom__minWidth=400),
            override("VMs", unit="none", custom__width=60, **NOTHING),
            override("Lasts", unit="s", noValue="unknown", custom__width=90),
            override("In cluster", custom__width=130, **NOTHING),
            override("Event", links=trace_links(), custom__width=110),
            carried("Trace"),
            carried("Id"),
        ],
    )
    # The table's own sorting needs a column that is shown.
    rows["transformations"].insert(
        1, {"id": "sortBy", "options": {"fields": {}, "sort": [{"field": "Value #E", "desc": True}]}}
    )
    rows["options"]["sortBy"] = []
    return rows


def vms(y: int) -> dict[str, Any]:
    pairs = FLEET.pairs()
    answers = f"({pairs} * on ({q.VM}) group_left () {q.UP} or {q.DUE - 1} * {pairs})"
    words = f"{FLEET.open()} * on ({q.EVENT}) group_left (summary) {q.message()}"
    return table(
        "VMs of these events",
        "Every VM with an exporter that an open event names. VM opens its dashboard. At most 200 are shown.",
        (0, y, 24, 8),
        [
            target(
                q.cluster_for_links(
                    f"topk(200, {answers} * on ({q.EVENT}) group_left (summary) ({words}) "
                    f"* on ({q.VM}) group_left (vm_name) {q.names(pairs)})"
                ),
                table=True,
            )
        ],
        {
            "vm_name": "VM",
            "Value": "Answers",
            "summary": "Event",
            "cluster": "In cluster",
            "instance": "Instance",
            "in": "Cluster",
        },
        sort="VM",
        drop=("job", "event_id"),
        overrides=[
            override("VM", links=[vm_link("Everything about ${__data.fields.VM}")], custom__minWidth=200),
            override(
                "Answers",
                mappings=[value_map({"1": ("yes", CALM), "0": ("no", WARNING), "-1": ("no target any more", WARNING)})],
                custom__cellOptions=COLOURED_CELL,
                custom__width=150,
            ),
            override("Event", custom__minWidth=400),
            override("In cluster", custom__width=130, **NOTHING),
            override("Instance", custom__width=170),
            carried("Cluster"),
        ],
    )


def blind(y: int) -> dict[str, Any]:
    trouble = {str(code): text for code, text in COVERAGE.items() if code < q.IN_EVENT}
    named = f"last_over_time({q.exporter('vm_info')}[1h]) * on ({q.VM}) group_left () {FLEET.blind()}"
    return table(
        "Exporters that do not report, and why",
        "As long as one is listed here, events of its VM may be missing above. Warming up: Scheduled Events was enabled for the VM less than five minutes ago. At most 100 are shown.",
        (0, y, 24, 7),
        [
            target(
                q.cluster_for_links(f"topk(100, max by ({q.VM}, vm_name) ({named} or on ({q.VM}) {FLEET.blind()}))"),
                table=True,
            )
        ],
        {"vm_name": "VM", "Value": "Trouble", "cluster": "In cluster", "instance": "Instance", "in": "Cluster"},
        sort="VM",
        drop=("job",),
        overrides=[
            override("VM", links=[vm_link()], custom__minWidth=200, **NOTHING),
            override("Trouble", mappings=[value_map(trouble)], custom__cellOptions=COLOURED_CELL, custom__minWidth=200),
            override("In cluster", **NOTHING),
            override("Instance", links=[vm_link()], custom__minWidth=150),
            carried("Cluster"),
        ],
    )


def build() -> dict[str, Any]:
    return dashboard(
        "azse-fleet",
        "Azure Scheduled Events / Fleet",
        "What Azure does to which VM now, what is next, and whether all exporters report.",
        variables(),
        [*first_row(), pending(6), vms(15), blind(23)],
        since="now-6h",
        refresh="15s",
    )
