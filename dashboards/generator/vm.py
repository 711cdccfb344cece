"""The VM dashboard: open events, past events and exporter health of one VM."""
# fmt: off

from typing import Any

import parts as p
import queries as q
from annotations import build as maintenance
from fleet import COVERAGE, SAID, STARTS_IN, STATE, STEPS, or_none, starts_in

PENDING = q.pending(q.TARGET)


def now() -> list[p.Panel]:
    """The open events of this VM, or none, or nobody can know."""
    newest = f"max(last_over_time({q.exporter('last_success_timestamp_seconds')}[$__range]))"
    advice = q.exporter("advisories", 'scope!="other"')
    return [
        p.stat(
            "Now and next",
            "The open events of this VM, the worst one first, also while the VM is down. The colour is that of the alert, if the event can start within the hour. Freeze: paused, memory kept. Reboot: restarted. Redeploy: moved, temporary disk lost. Preempt: evicted. Terminate: deleted. "
            '"VM down": in its Reboot or Redeploy, it has not answered for more than 15 minutes, up to four hours. If the exporter does not report, an event can be missing here.',
            (0, 0, 11, 4),
            [
                (q.down(q.TARGET), "{{summary}}, VM down"),
                (or_none(f"sort_desc({q.with_words(f'max by ({q.EVENT}) ({PENDING})')})"), "{{summary}}"),
                (f'count_values("known", ({q.state()}) != 1)', "{{known}}"),
            ],
            text="name", steps=STEPS, overrides=[p.override("0", displayName="its exporter does not report", color=p.fixed(p.BLIND)), *SAID[1:]],
        ),
        p.stat(
            "Coverage",
            "Whether the exporter of this VM reports: Prometheus scrapes it, it can read the metadata service, and it is not warming up. Else an event can be missing on this dashboard.",
            (11, 0, 5, 4), [(f'count_values("coverage", {q.coverage()} or on () vector(5))', "{{coverage}}")], text="name",
            overrides=[
                p.override(value, displayName=text.replace("report", "reports"), color=p.fixed(colour))
                for value, (text, colour) in COVERAGE.items()
            ],
        ),
        p.stat(
            "Last answer", "The age of the newest answer of the metadata service in the selected time.", (16, 0, 4, 4),
            [f"floor(time() - {newest})"], unit="dtdurations",
        ),
        p.stat(
            "Advice",
            "Advice by Azure that is not maintenance, such as a higher risk of eviction of a Spot VM. It has no deadline.",
            (20, 0, 4, 4), [f"sum(max by (cluster, instance, scope) ({advice})) or on () 0 * group(up{{{q.TARGET}}})"],
            steps=p.thresholds((None, p.CALM), (1, p.NOTICE)),
        ),
    ]


def pending(y: int) -> p.Panel:
    return p.table(
        "Pending",
        "Every open event of this VM with what the exporter says about it, also while the VM does not answer.",
        (0, y, 24, 8), [q.with_words(f"max by ({q.EVENT}) ({PENDING})", "description"), starts_in(q.TARGET)],
        columns={
            "Value #B": ("Starts in", STARTS_IN), "Value #A": ("State", STATE),
            "description": ("What to know", p.WRAPPED), "event_id": ("Event", p.SHORT_ID),
        },
        sort="Value #A",
    )


def timeline(y: int) -> p.Panel:
    lately = f"max by (event_id, event_type) (last_over_time({q.PRIORITY}{{{q.TARGET}}}{q.LATELY}))"
    begun = f'label_replace({lately} > 0 > bool {q.BEGUN}, "id", "$1", "event_id", "([^-]+).*")'
    return p.panel(
        "state-timeline", "The life of each event",
        "From the first sight to the end: announced, and begun. If the VM stops to answer, the last state is shown for 15 minutes.",
        (0, y, 24, 7), [(begun, "{{event_type}} {{id}}")], interval="15s",
        empty="no rows",
        defaults={
            "mappings": [p.value_map({"0": ("announced", p.NOTICE), "1": ("begun", p.WARNING)})],
            "thresholds": p.thresholds((None, p.BLIND)), "custom": {"fillOpacity": 100},
        },
    )


def past(y: int) -> p.Panel:
    over = f"unless on ({q.EVENT}) last_over_time({q.PRIORITY}{q.LATELY}) > 0"
    seconds = {"unit": "s", "decimals": 1, "custom__width": 93}
    time = {"unit": "time:MM-DD HH:mm:ss", "custom__width": 130}

    def last(metric: str, more: str = "") -> str:
        series = f'azure_scheduled_event_{metric}{{{q.TARGET},scope!="other"}}'
        return f"max by ({q.EVENT}{more}) (max_over_time({series}[$__range])) {over}"

    events = f'1000 * min by ({q.EVENT}, event_type) (min_over_time({q.FIRST_SEEN}{{{q.TARGET},scope!="other"}}[$__range])) {over}'
    return p.table(
        "Past events",
        "The events of this time that are not open: the notice that was given, if in this time, and the announced against the observed interruption. "
        "An event without an end was not seen to end, because the VM was gone.", (0, y, 24, 7),
        [
            p.with_trace(events), f"{last('not_before_countdown_seconds')} {q.ANNOUNCED_IN_TIME}",
            f"1000 * {last('ended_timestamp_seconds', ', outcome')}", last("duration_seconds"),
            last("observed_interruption_seconds"),
        ],
        columns={
            "Value #A": ("First seen", time), "event_type": ("Type", {"custom__width": 85}),
            "Value #B": ("Notice", seconds), "Value #C": ("Ended", time),
            "outcome": ("Outcome", {"custom__minWidth": 90}),
            "Value #D": ("Announced", {**seconds, "noValue": "unknown"}), "Value #E": ("Observed", seconds),
            **p.id_columns(),
        },
        sort="Value #A",
    )


def service(y: int) -> list[p.Panel]:
    """Several replicas of Prometheus scrape the same counters, so they are not added."""
    failures = {
        "anomalies in documents": "document_anomalies_total", "state not written": "state_write_failures_total",
        "spans not exported": "span_export_failures_total", "alerts not pushed": "alert_push_failures_total",
    }
    requests, failed = q.exporter("imds_requests_total"), q.exporter("imds_request_failures_total")
    return [
        p.graph(
            "Requests to the metadata service",
            "Polls per second, and the ones that failed by reason. Azure allows five requests a second per VM, for all its readers together.",
            (0, y, 12, 7),
            [
                (f"max(rate({requests}[$__rate_interval]))", "requests"),
                (f"max by (reason) (rate({failed}[$__rate_interval])) > 0", "failed: {{reason}}"),
            ],
            unit="reqps", overrides=p.coloured({"/^failed/": "semi-dark-orange"}, regex=True),
        ),
        p.graph(
            "Trouble",
            "What should stay at zero: anomalies in documents, and what could not be written, exported or pushed.",
            (12, y, 12, 7),
            [
                (f"sum(max by (kind, reason) (increase({q.exporter(name)}[$__rate_interval])))", legend)
                for legend, name in failures.items()
            ],
            decimals=0, custom={"axisSoftMax": 1},
        ),
    ]


def build() -> dict[str, Any]:
    return p.dashboard(
        "azse-vm", "One VM: what it waits for, what it has been through, and whether its exporter is well.",
        [*p.variables(one_vm=True), *p.TRACE_VARIABLES],
        [*now(), pending(4), timeline(12), past(19), p.row("Metadata service and exporter", 26, service(27))],
        annotations=tuple({**each, "hide": True} for each in maintenance(q.TARGET)),
    )
