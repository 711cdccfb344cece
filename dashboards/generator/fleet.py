"""The fleet dashboard: what happens now, what is next, and whether the exporters report."""

from typing import Any

import parts as p
import records as r

PENDING = f"{r.ORDER}{{{r.EVENTS}}}"
BEGUN = f"{PENDING} > {r.BEGUN}"
EXPORTERS = f"{r.COVERAGE}{{{r.VMS}}}"
WHEN = p.value_map(
    {"-3": ("VM gone", p.CALM), "-2": ("VM down", p.CALM), "-1": ("running", p.CALM), "0": ("due", p.CALM)}
)
STARTS_IN = {"unit": "dtdurations", "decimals": 0, "mappings": [WHEN], "custom__width": 110}
COLOURS = {"info": p.NOTICE, "warning": p.WARNING, "critical": p.CRITICAL}
SEVERITY_MAP = p.value_map({name: (name, colour) for name, colour in COLOURS.items()})
SEVERITY = {"mappings": [SEVERITY_MAP], **p.COLOURED, "custom__width": 90}
# The severities in the values of ORDER: due within the hour, then begun.
STEPS = p.thresholds(
    (None, p.CALM),
    *((n * r.SEVERITY - 3600, colour) for n, colour in enumerate(COLOURS.values(), 1)),
    *((r.BEGUN + n * r.SEVERITY, colour) for n, colour in enumerate((p.CALM, *COLOURS.values()))),
)
COUNT = p.thresholds((None, p.CALM), (1, p.NOTICE))
# What to show in place of events, by the value of `no_event`.
NO_EVENT = [
    p.override("0", displayName="none known: see Coverage", color=p.fixed(p.BLIND)),
    p.override("1", displayName="none", color=p.fixed(p.CALM)),
    p.override("2", displayName="none selected, or no rules", color=p.fixed(p.BLIND)),
]


def no_event(exporters: str, events: str) -> tuple[str, str]:
    """0 if an event can be missing, 1 if not, 2 if nothing is selected; nothing if there are events."""
    return f'count_values("known", min({exporters}) or vector(2)) unless on () {events}', "{{known}}"


def events() -> list[p.Panel]:
    following = f"topk(1, max by ({r.EVENT}, summary) ({PENDING} < {r.BEGUN}))"
    return [
        p.stat(
            "Now",
            "The two worst events that have started and are not over, or whose VM is down or gone. The colour is that of the alert. "
            '"none": no open event, and every exporter reports. "none known": an event of a VM whose exporter does not report can be missing.',
            (0, 0, 7, 6),
            [
                (f"sort_desc(topk(2, max by (cluster, summary, state) ({BEGUN})))", "{{summary}}{{state}} {{cluster}}"),
                (f'count_values("n", count(group by ({r.EVENT}) ({BEGUN})) - 2 > 0)', "and {{n}} more"),
                no_event(EXPORTERS, BEGUN),
            ],
            text="name",
            steps=STEPS,
            overrides=NO_EVENT,
        ),
        p.stat(
            "Next",
            "The worst event that can start within the hour, or else the next one. The colour is that of its alert, if it is due within the hour.",
            (7, 0, 6, 6),
            [(f'{following} or on () label_replace(vector(-1e9), "summary", "–", "", "")', "{{summary}} {{cluster}}")],
            text="name",
            steps=STEPS,
        ),
        p.stat(
            "Starts in",
            'Of the event under Next: until NotBefore, before which Azure does not start it unless somebody approves it. "due": it can start at any moment.',
            (13, 0, 3, 6),
            [f"{r.START} and on ({r.EVENT}) {following}"],
            unit="dtdurations",
            mappings=(WHEN,),
        ),
    ]


def counts() -> list[p.Panel]:
    harmless = f"azure_scheduled_event_duration_seconds{{{r.CLUSTER}}} == 0"
    firing = f'ALERTS{{alertname=~"AzureScheduledEvents(ExporterDown|DataStale)", alertstate="firing", {r.CLUSTER}}}'
    advice = r.exporter("advisories", 'scope!="other"')
    zero = f"or 0 * group({r.COVERAGE}{{{r.CLUSTER}}})"
    return [
        p.stat(
            "VMs hit in 1 h",
            "VMs with an event that has started or can start within the hour, without events that interrupt nothing.",
            (16, 0, 4, 3),
            [f"count(group by ({r.VM}) ({PENDING} >= {r.NEAR} unless on (event_id) {harmless})) {zero}"],
            steps=COUNT,
        ),
        p.stat(
            "With advice",
            "VMs with advice by Azure that is not maintenance, such as a higher risk of eviction. It has no deadline, and no other panel here contains it.",
            (16, 3, 4, 3),
            [f"count({EXPORTERS} and on ({r.VM}) {advice} > 0) {zero}"],
            steps=COUNT,
        ),
        p.stat(
            "Coverage",
            "How many exporters report: Prometheus scrapes them, they can read the metadata service, and they are not warming up. "
            "The others, by reason. With an alert: the number of those about which an alert fires.",
            (20, 0, 4, 6),
            [
                (f"count by (coverage) ({EXPORTERS})", "{{coverage}}"),
                (f"count({EXPORTERS} and on ({r.VM}) {firing})", "with an alert"),
            ],
            text="value_and_name",
            overrides=p.coloured({"/^(no|not|warming) /": p.BLIND, "/alert/": p.WARNING}, regex=True),
        ),
    ]


def pending(y: int) -> p.Panel:
    return p.table(
        "Pending now",
        "One row per open event, also if its VM is down: first what has begun, then what is due within the hour by severity, then the others by time.",
        (0, y, 24, 9),
        [
            p.with_id(f"max by ({r.EVENT}, severity, summary) ({PENDING})"),
            f"{r.START} and on ({r.EVENT}) {PENDING}",
        ],
        columns={
            "Value #B": ("Starts in", STARTS_IN),
            "severity": ("Severity", SEVERITY),
            "summary": ("What", p.WRAPPED),
            "cluster": ("In cluster", {"custom__width": 175}),
            "id": ("Event", {"custom__width": 95}),
        },
        sort="Value #A",
    )


def vms(y: int) -> p.Panel:
    pairs = f"max by ({r.VM}, vm_name, event_id, summary, severity) ({PENDING})"
    return p.table(
        "VMs of these events",
        "Every VM with an exporter that an open event names, in the order of the events. VM opens its dashboard. At most 200 are shown.",
        (0, y, 24, 8),
        [
            r.cluster_for_links(f"topk(200, {pairs})"),
            f"1000 * max by ({r.VM}, event_id) ({r.DOWN}{{{r.TARGET}}}) and on ({r.VM}, event_id) {PENDING}",
        ],
        columns={
            "vm_name": ("VM", {"links": [p.vm_link()], "custom__width": 255}),
            "severity": ("Severity", SEVERITY),
            "summary": ("Event", p.WRAPPED),
            "Value #B": ("Down since", {"unit": "time:MM-DD HH:mm", "custom__width": 110}),
            "cluster": ("In cluster", {"custom__width": 175}),
            "instance": ("Instance", p.HIDDEN),
            "in": ("Cluster", p.HIDDEN),
        },
        sort="Value #A",
    )


def blind(y: int) -> p.Panel:
    return p.table(
        "Exporters that do not report, and why",
        "As long as one is listed here, events of its VM may be missing above. Warming up: Scheduled Events was enabled for the VM less than five minutes ago. At most 100 are shown.",
        (0, y, 24, 7),
        [r.cluster_for_links(f"topk(100, {EXPORTERS} == 0)")],
        columns={
            "vm_name": ("VM", {"links": [p.vm_link()], "custom__width": 255}),
            "coverage": ("Trouble", {"custom__width": 120}),
            "vm_scale_set": ("Scale set", {}),
            "cluster": ("In cluster", {"custom__width": 175}),
            "instance": ("Instance", {"custom__width": 165}),
            "in": ("Cluster", p.HIDDEN),
        },
        sort="vm_name",
        desc=False,
    )


def build() -> dict[str, Any]:
    return p.dashboard(
        "azse-fleet",
        "What Azure does to which VM now, what is next, and whether all exporters report.",
        p.variables(),
        [*events(), *counts(), pending(6), vms(15), blind(23)],
    )
