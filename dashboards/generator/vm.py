"""The VM dashboard: open events, past events and exporter health of one VM."""

from typing import Any

import parts as p
import records as r
from annotations import build as maintenance
from fleet import NO_EVENT, SEVERITY, STARTS_IN, STEPS, no_event

PENDING = f"{r.ORDER}{{{r.TARGET}}}"
THIS = f"{r.COVERAGE}{{{r.TARGET}}}"


def now() -> list[p.Panel]:
    """The open events of this VM, or none, or nobody can know."""
    newest = f"max(last_over_time({r.exporter('last_success_timestamp_seconds')}[$__range]))"
    none = f'label_replace(0 * absent({THIS}), "coverage", "no exporter", "", "")'
    advice = r.exporter("advisories", 'scope!="other"')
    return [
        p.stat(
            "Now and next",
            "The open events of this VM, the worst one first, also while the VM is down. The colour is that of the alert, if the event is due within the hour. Freeze: paused, memory kept. Reboot: restarted. Redeploy: moved, temporary disk lost. Preempt: evicted. Terminate: deleted. "
            '"none": the exporter reports, and no event is open. "none known": it does not report, so an event can be missing here.',
            (0, 0, 11, 4),
            [
                (f"sort_desc(max by (summary, state) ({PENDING}))", "{{summary}}{{state}}"),
                no_event(THIS, PENDING),
            ],
            text="name",
            steps=STEPS,
            overrides=NO_EVENT,
        ),
        p.stat(
            "Coverage",
            "Whether the exporter of this VM reports: Prometheus scrapes it, it can read the metadata service, and it is not warming up. Else an event can be missing on this dashboard.",
            (11, 0, 5, 4),
            [(f"min by (coverage) ({THIS}) or {none}", "{{coverage}}")],
            text="name",
            empty="no exporter",
            steps=p.thresholds((None, p.BLIND), (1, p.CALM)),
            overrides=[p.override("report", displayName="reports")],
        ),
        p.stat(
            "Last answer",
            "The age of the newest answer of the metadata service in the selected time.",
            (16, 0, 4, 4),
            [f"floor(time() - {newest})"],
            unit="dtdurations",
        ),
        p.stat(
            "Advice",
            "Advice by Azure that is not maintenance, such as a higher risk of eviction of a Spot VM. It has no deadline.",
            (20, 0, 4, 4),
            [f"sum(max by (cluster, instance, scope) ({advice})) or on () 0 * group({THIS})"],
            steps=p.thresholds((None, p.CALM), (1, p.NOTICE)),
        ),
    ]


def pending(y: int) -> p.Panel:
    return p.table(
        "Pending",
        "Every open event of this VM with what the exporter says about it, also while the VM is down.",
        (0, y, 24, 8),
        [
            p.with_trace(p.with_id(f"max by ({r.EVENT}, severity, description) ({PENDING})")),
            f"{r.START} and on ({r.EVENT}) {PENDING}",
        ],
        columns={
            "Value #B": ("Starts in", STARTS_IN),
            "severity": ("Severity", SEVERITY),
            "description": ("What to know", p.WRAPPED),
            **p.id_columns(),
        },
        sort="Value #A",
    )


def timeline(y: int) -> p.Panel:
    """Also while a reboot keeps the VM down."""
    begun = f"max by (event_id, event_type) ({PENDING} > bool {r.BEGUN})"
    return p.panel(
        "state-timeline",
        "The life of each event",
        "From the first sight to the end: announced, and begun. An event has also begun while the VM does not answer because of it.",
        (0, y, 24, 7),
        [(p.with_id(begun), "{{event_type}} {{id}}")],
        interval="1m",
        empty="no rows",
        defaults={
            "mappings": [p.value_map({"0": ("announced", p.NOTICE), "1": ("begun", p.WARNING)})],
            "thresholds": p.thresholds((None, p.BLIND)),
            "custom": {"fillOpacity": 100},
        },
    )


def past(y: int) -> p.Panel:
    over = f"unless on ({r.EVENT}) {r.OPEN} == 1"
    seconds = {"unit": "s", "decimals": 1, "custom__width": 93}
    time = {"unit": "time:MM-DD HH:mm:ss", "custom__width": 130}

    def last(metric: str, more: str = "") -> str:
        series = f'azure_scheduled_event_{metric}{{{r.TARGET}, scope!="other"}}'
        return f"max by ({r.EVENT}{more}) (max_over_time({series}[$__range])) {over}"

    events = f"last_over_time({r.PAST}{{{r.TARGET}}}[$__range])"
    return p.table(
        "Past events",
        "The events of this time that are not open: the notice that was given, and the announced against the observed interruption. "
        "An event without an end was not seen to end, because the VM was gone.",
        (0, y, 24, 7),
        [
            p.with_id(f"1000 * min by ({r.EVENT}, event_type) ({events}) {over}"),
            f"max by ({r.EVENT}) (last_over_time({r.NOTICE}{{{r.TARGET}}}[$__range])) {over}",
            f"1000 * {last('ended_timestamp_seconds', ', outcome')}",
            last("duration_seconds"),
            last("observed_interruption_seconds"),
            p.with_trace(f"min by (event_id) ({events}) unless on (event_id) {r.OPEN} == 1"),
        ],
        columns={
            "Value #A": ("First seen", time),
            "event_type": ("Type", {"custom__width": 85}),
            "Value #B": ("Notice", {**seconds, "decimals": 0}),
            "Value #C": ("Ended", time),
            "outcome": ("Outcome", {"custom__minWidth": 90}),
            "Value #D": ("Announced", {**seconds, "noValue": "unknown"}),
            "Value #E": ("Observed", seconds),
            **p.id_columns(),
        },
        sort="Value #A",
    )


def service(y: int) -> list[p.Panel]:
    """Several replicas of Prometheus scrape the same counters, so they are not added."""
    failures = {
        "anomalies in documents": "document_anomalies_total",
        "state not written": "state_write_failures_total",
        "spans not exported": "span_export_failures_total",
        "alerts not pushed": "alert_push_failures_total",
    }
    requests, failed = r.exporter("imds_requests_total"), r.exporter("imds_request_failures_total")
    return [
        p.graph(
            "Requests to the metadata service",
            "Polls per second, and the ones that failed by reason. Azure allows five requests a second per VM, for all its readers together.",
            (0, y, 12, 7),
            [
                (f"max(rate({requests}[$__rate_interval]))", "requests"),
                (f"max by (reason) (rate({failed}[$__rate_interval])) > 0", "failed: {{reason}}"),
            ],
            unit="reqps",
            overrides=p.coloured({"/^failed/": "semi-dark-orange"}, regex=True),
        ),
        p.graph(
            "Trouble",
            "What should stay at zero: anomalies in documents, and what could not be written, exported or pushed.",
            (12, y, 12, 7),
            [
                (f"sum(max by (kind, reason) (increase({r.exporter(name)}[$__rate_interval])))", legend)
                for legend, name in failures.items()
            ],
            decimals=0,
            custom={"axisSoftMax": 1},
        ),
    ]


def build() -> dict[str, Any]:
    return p.dashboard(
        "azse-vm",
        "One VM: what it waits for, what it has been through, and whether its exporter is well.",
        [*p.variables(one_vm=True), *p.TRACE_VARIABLES],
        [*now(), pending(4), timeline(12), past(19), p.row("Metadata service and exporter", 26, service(27))],
        annotations=tuple({**each, "hide": True} for each in maintenance(r.TARGET)),
    )
