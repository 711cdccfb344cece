"""The fleet dashboard: what happens now, what is next, and whether the exporters report."""
# fmt: off

from typing import Any

import parts as p
import queries as q

STARTS_IN = {
    "unit": "dtdurations", "decimals": 0, "mappings": [p.value_map({"0": ("due", p.CALM)})], "custom__width": 110,
}
SEVERITIES = (("info", p.NOTICE), ("warning", p.WARNING), ("critical", p.CRITICAL))
# What has begun or can start within the hour has the colour of its severity.
STEPS = p.thresholds(
    (None, p.CALM),
    *((base + n + 0.05, colour) for base in (q.NEAR, q.BEGUN + 0.5) for n, (_, colour) in enumerate(SEVERITIES)),
)
STATE = {
    "mappings": [
        p.range_map(-1, 1, "later", p.CALM),
        *(p.range_map(q.NEAR + n + 0.05, q.NEAR + n + 1.04, text, c) for n, (text, c) in enumerate(SEVERITIES)),
        *(p.range_map(q.BEGUN + n + 1, q.BEGUN + n + 1, f"{text}, begun", c) for n, (text, c) in enumerate(SEVERITIES)),
    ],
    **p.COLOURED, "custom__width": 125,
}
COVERAGE = {
    "-1": ("in its event", p.CALM), "0": ("not scraped", p.BLIND), "1": ("no metadata", p.BLIND),
    "2": ("report", p.CALM), "3": ("warming up", p.BLIND), "4": ("warming up", p.BLIND), "5": ("not a target", p.BLIND),
}
COUNT = p.thresholds((None, p.CALM), (1, p.NOTICE))
NONE, NOT_STARTED = "none reported", "no VM reports a start"
# What is said about the exporters, by the value of `queries.state`.
SAYS = {
    "0": "not all exporters report: see Coverage", "2": "the selection has no target", "3": "no exporter in this job or cluster",
    "4": "no exporter is scraped",
}
SAID = [p.override(value, displayName=text, color=p.fixed(p.BLIND)) for value, text in SAYS.items()]


def or_none(events: str, text: str = NONE) -> str:
    return f'{events} or on () label_replace(vector(0),"summary","{text}","","")'


def starts_in(selection: str) -> str:
    """Of what has not started: seconds until NotBefore, 0 if it has passed."""
    at = f"last_over_time(azure_scheduled_event_not_before_timestamp_seconds{q.LATELY})"
    return f"clamp_min(min by ({q.EVENT}) ({at}) - time(), 0) and on ({q.EVENT}) ({q.pending(selection)}) < {q.BEGUN}"


def events() -> list[p.Panel]:
    own = f"max by ({q.EVENT}) ({q.PRIORITY}{{{q.EVENTS}}})"
    lately = f"max by ({q.EVENT}) (last_over_time({q.PRIORITY}{{{q.EVENTS}}}{q.LATELY}))"
    silent = f"{lately} > {q.NEAR} unless on ({q.EVENT}) (azure_scheduled_event_open or {q.SEEN_TO_END})"
    begun = f"{own} > {q.BEGUN} and on ({q.EVENT}) {q.IS_OPEN}"
    left = f"clamp_min(min by ({q.EVENT}) (azure_scheduled_event_not_before_timestamp_seconds) - time(), 0)"
    following = f"topk(1, {own} > 0 < {q.BEGUN})"
    return [
        p.stat(
            "Now",
            "The worst events that have started and are not over, two of each kind; Pending now has all. The colour is that of the alert. "
            '"VM does not report": it was due within the hour when its VM reported last, at most 15 minutes ago. "VM down": a VM that must restart has not answered since then, for up to four hours. '
            f'"{SAYS["0"]}": an event of such a VM can be missing.', (0, 0, 8, 6),
            [
                (q.cluster_for_text(q.with_words(f"topk(2,{silent})")), "{{summary}}, VM does not report{{in}}"),
                (q.cluster_for_text(q.down(q.OF_ANY_TYPE)), "{{summary}}, VM down{{in}}"),
                (q.cluster_for_text(or_none(q.with_words(f"topk(2,{begun})"), NOT_STARTED)), "{{summary}}{{in}}"),
                (f'count_values("known", ({q.state()}) != 1)', "{{known}}"),
            ],
            text="name", steps=STEPS, overrides=SAID,
        ),
        p.stat(
            "Next",
            "The worst event that can start within the hour, or else the next one. The colour is that of its alert, if it can start within the hour.",
            (8, 0, 5, 6),
            [
                (q.cluster_for_text(q.with_words(following)), "{{summary}}{{in}}"),
                (f'count_values("known", {q.reports()} or vector(0)) unless on () ({own} > 0 < {q.BEGUN})', "{{known}}"),
            ],
            text="name", steps=STEPS,
            overrides=[
                p.override("0", displayName="none known: not all exporters report", color=p.fixed(p.BLIND)),
                p.override("1", displayName="none", color=p.fixed(p.CALM)),
            ],
        ),
        p.stat(
            "Starts in",
            'Of the event under Next: until NotBefore, before which Azure does not start it unless somebody approves it. "due": it can start at any moment.',
            (13, 0, 3, 6), [f"{left} and on ({q.EVENT}) {following}"],
            unit="dtdurations", mappings=tuple(STARTS_IN["mappings"]),
        ),
    ]


def counts() -> list[p.Panel]:
    harmless = "azure_scheduled_event_duration_seconds == 0"
    advice = q.exporter("advisories", 'scope!="other"')
    zero = f"or 0 * group(up{{{q.TARGET}}})"
    return [
        p.stat(
            "VMs hit in 1 h",
            "VMs with an event that has started or can start within the hour, without events that interrupt nothing. A VM that is down counts for 15 minutes.",
            (16, 0, 4, 3),
            [f"count(group by ({q.VM}) ({q.pending(q.EVENTS, q.NEAR)} unless on (event_id) {harmless})) {zero}"],
            steps=COUNT,
        ),
        p.stat(
            "With advice",
            "VMs with advice by Azure that is not maintenance, such as a higher risk of eviction. It has no deadline, and no other panel here contains it.",
            (16, 3, 4, 3), [f"count(group by ({q.VM}) ({advice} > 0)) {zero}"], steps=COUNT,
        ),
        p.stat(
            "Coverage",
            "How many exporters report: Prometheus scrapes them, they can read the metadata service, and they are not warming up. "
            "The others, by reason. A selection of scale sets, owners and types does not apply.", (20, 0, 4, 6),
            [(f'count_values("coverage", {q.coverage()})', "{{coverage}}")], text="value_and_name", empty="no exporter",
            overrides=[
                p.override(value, displayName=text, color=p.fixed(colour)) for value, (text, colour) in COVERAGE.items()
            ],
        ),
    ]


def pending(y: int) -> p.Panel:
    return p.table(
        "Pending now",
        "One row per open event, also if its VM does not answer: first what has begun, then what can start within the hour by severity, then the others by time.",
        (0, y, 24, 9), [q.with_words(f"max by ({q.EVENT}) ({q.pending(q.EVENTS)})"), starts_in(q.EVENTS)],
        columns={
            "Value #B": ("Starts in", STARTS_IN), "Value #A": ("State", STATE), "summary": ("What", p.WRAPPED),
            "cluster": ("In cluster", {"custom__width": 175}), "event_id": ("Event", p.SHORT_ID),
        },
        sort="Value #A",
    )


def vms(y: int) -> p.Panel:
    pairs = f"max by ({q.VM},vm_name,event_id,event_type) ({q.pending(q.EVENTS)})"
    return p.table(
        "VMs of these events",
        "Every VM with an exporter that an open event names, in the order of the events. VM opens its dashboard. At most 200 of each type are shown.",
        (0, y, 24, 8), [q.cluster_for_links(f"topk by (event_type) (200, {pairs})")],
        columns={
            "vm_name": ("VM", {"links": [p.vm_link()], "custom__minWidth": 255}), "Value": ("State", STATE),
            "event_type": ("Type", {"custom__width": 95}), "event_id": ("Event", p.SHORT_ID),
            "cluster": ("In cluster", {"custom__width": 175}), "instance": ("Instance", {"custom__width": 165}), "in": ("Cluster", p.HIDDEN),
        },
        sort="Value",
    )


def neighbours(y: int) -> p.Panel:
    host = "azure_scheduled_events_physical_host_info"
    vms = f"{host} * on ({q.VM}) group_left (vm_name) group by ({q.VM},vm_name) (azure_scheduled_events_vm_info{{{q.JOB}}})"
    hit = f"last_over_time({host}{q.LATELY}) and on ({q.VM}) last_over_time({q.PRIORITY}{q.SELECTED}{q.LATELY}) > 0"
    return p.table(
        "VMs on the hosts of these events",
        "The VMs that share their physical host with a VM of an open event, and that VM. Only VMs that know their host are here. It is not known whether a live migration renews the name. A selection of scale sets, owners and types does not apply.",
        (0, y, 24, 7), [f"group by ({q.VM},vm_name,physical_host) ({vms} and on (cluster,physical_host) ({hit}))"],
        columns={
            "vm_name": ("VM", {"custom__minWidth": 255}), "Value": ("Value", p.HIDDEN),
            "physical_host": ("Physical host", {"custom__minWidth": 175}),
            "cluster": ("In cluster", {"custom__width": 175}), "instance": ("Instance", {"custom__width": 165}),
        },
        sort="physical_host", desc=False,
    )


def blind(y: int) -> p.Panel:
    names = f"last_over_time(azure_scheduled_events_vm_info{{{q.TARGET}}}{q.LATELY}) or on ({q.VM}) up{{{q.TARGET}}} ^ 0"
    code = f"max by ({q.VM}) ({q.answers()} + 1 + 2 * {q.WARMING_UP} or up)"
    trouble = f"({names}) * on ({q.VM}) group_left () {code} != 2"
    return p.table(
        "Exporters that do not report, and why",
        "As long as one is listed here, events of its VM may be missing above. Warming up: Scheduled Events was enabled for the VM less than five minutes ago. The name of the VM is known for 15 minutes.",
        (0, y, 24, 7), [q.cluster_for_links(f"max by ({q.VM},vm_name) ({trouble})")],
        columns={
            "vm_name": ("VM", {"links": [p.vm_link()], "custom__minWidth": 255}),
            "Value": ("Trouble", {"mappings": [p.value_map(COVERAGE)], "custom__width": 120}),
            "cluster": ("In cluster", {"custom__width": 175}),
            "instance": ("Instance", {"custom__width": 165, "links": [p.vm_link()]}), "in": ("Cluster", p.HIDDEN),
        },
        sort="vm_name", desc=False,
    )


def build() -> dict[str, Any]:
    return p.dashboard(
        "azse-fleet", "What Azure does to which VM now, what is next, and whether all exporters report.", p.variables(),
        [*events(), *counts(), pending(6), vms(15), blind(23), neighbours(30)],
    )
