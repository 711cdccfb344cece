"""The VM dashboard: open events, past events and exporter health of one VM."""

from __future__ import annotations

from typing import Any

import annotations
import queries as q
from fleet import COVERAGE, WHEN
from parts import (
    BAD_LINE,
    BLIND,
    CALM,
    COLOURED_CELL,
    LINE,
    NO_VALUE,
    NOTICE,
    OTHER_LINE,
    SERIES,
    SEVERITY,
    SEVERITY_MAP,
    STATUS_COLOURS,
    TRACE_VARIABLES,
    WARNING,
    by_name,
    carried,
    cluster_variable,
    dashboard,
    fixed,
    graph,
    job_variable,
    matching,
    override,
    panel,
    row,
    stat,
    table,
    target,
    thresholds,
    trace_links,
    value_map,
    vm_variable,
)
from queries import exporter as own

THIS_VM = q.Scope()
STATUS = 'event_status="%s"'


def event(metric: str, more: str = "") -> str:
    """A metric of the exporter's. An event that names only other VMs has `scope="other"`."""
    return f"azure_scheduled_event_{metric}{{{q.TARGET}, {q.OWN}{', ' + more if more else ''}}}"


def variables() -> list[dict[str, Any]]:
    return [cluster_variable(multi=False), job_variable(), vm_variable(multi=False), *TRACE_VARIABLES]


def now() -> list[dict[str, Any]]:
    """The open events of this VM, or none, or nobody can know."""
    newest = f"max(last_over_time({own('last_success_timestamp_seconds')}[$__range]))"
    coverage = value_map({str(code): text for code, text in {**COVERAGE, q.REPORTS: ("reports", CALM)}.items()})
    return [
        stat(
            "Now and next",
            "The open events of this VM, the worst one first, also while the VM is down. The colour is that of the alert. Freeze: paused, memory kept. Reboot: restarted. Redeploy: moved, temporary disk lost. Preempt: evicted. Terminate: deleted. "
            '"none": the exporter reports, and no event is open. "none known": it does not report, so an event can be missing here.',
            (0, 0, 12, 4),
            f"sort_desc({THIS_VM.texts(THIS_VM.rank())}) or on () {THIS_VM.no_event()}",
            legend="{{summary}}{{state}}",
            text="name",
            unit="none",
            defaults={"thresholds": SEVERITY},
        ),
        stat(
            "Coverage",
            "Whether the exporter of this VM reports: Prometheus scrapes it, it has read the metadata service in the minute before the scrape, and it is not warming up. Else an event can be missing on this dashboard.",
            (12, 0, 5, 4),
            f"min({THIS_VM.coverage()})",
            unit="none",
            empty="no exporter",
            defaults={"mappings": [coverage], "thresholds": thresholds((None, CALM))},
        ),
        stat(
            "Last answer",
            "The age of the newest answer of the metadata service in the selected time.",
            (17, 0, 4, 4),
            f"floor(time() - {newest})",
            unit="dtdurations",
            defaults={"decimals": 0, "thresholds": thresholds((None, CALM))},
        ),
        stat(
            "Advisories",
            "Advice by Azure that is not maintenance, such as a higher risk of eviction of a Spot VM. It has no deadline.",
            (21, 0, 3, 4),
            f"sum(max by (cluster, instance, scope) ({own('advisories', q.OWN)})) or on () 0 * group({q.UP}{{{q.TARGET}}})",
            unit="none",
            defaults={"thresholds": thresholds((None, CALM), (1, NOTICE))},
        ),
    ]


def pending(y: int) -> dict[str, Any]:
    of = f"and on ({q.EVENT}) {THIS_VM.open()}"
    words = f"{THIS_VM.rank()} * on ({q.EVENT}) group_left (summary, description) {q.message()}"
    return table(
        "Pending",
        "Every open event of this VM with what the exporter says about it, also while the VM is down. Event opens the trace.",
        (0, y, 24, 9),
        [
            target(q.ids(words), "A", table=True),
            target(THIS_VM.when(), "B", table=True),
            target(f"max by ({q.EVENT}) ({q.last('duration_seconds', q.OWN)}) {of}", "C", table=True),
        ],
        {
            "Value #B": "Starts in",
            "Value #A": "Severity",
            "description": "What to know",
            "Value #C": "Lasts",
            "id": "Event",
            "trace_id": "Trace",
            "event_id": "Id",
        },
        sort="Starts in",
        drop=("cluster", "summary"),
        overrides=[
            override("Starts in", unit="dtdurations", decimals=0, mappings=[WHEN], custom__width=110, noValue=NO_VALUE),
            override("Severity", mappings=[SEVERITY_MAP], custom__cellOptions=COLOURED_CELL, custom__width=90),
            override(
                "What to know",
                custom__minWidth=400,
                custom__wrapText=True,
                custom__cellOptions={"type": "auto", "wrapText": True},
            ),
            override("Lasts", unit="s", noValue="unknown", custom__width=90),
            *_id_columns(105),
        ],
    )


def _id_columns(width: int) -> list[dict[str, Any]]:
    return [override("Event", links=trace_links(), custom__width=width), carried("Trace"), carried("Id")]


def life() -> str:
    """1 scheduled, 2 started, 3 ended, 4 an advisory, over time; also while a reboot keeps the VM down."""
    by = "cluster, event_id, event_type"
    codes = {"Scheduled": 1, "Started": 2, "Ended": 3, "Advisory": 4}
    status = " or ".join(f"{code} * ({event('status', STATUS % name)} == 1)" for name, code in codes.items())
    return f"max by ({by}) ({status}) or 2 * group by ({by}) ({q.DOWN_VMS}{{{q.TARGET}}})"


def timeline(y: int) -> dict[str, Any]:
    codes = {"Scheduled": "1", "Started": "2", "Ended": "3", "Advisory": "4"}
    states = value_map({code: (status, STATUS_COLOURS[status]) for status, code in codes.items()})
    return panel(
        "state-timeline",
        "The life of each event",
        "From the first sight to the end: Scheduled or Advisory, Started, and ten minutes in which an ended event is still shown. While the exporter is not scraped, "
        "an open event is continued from what the rules remember.",
        (0, y, 24, 6),
        [target(q.ids(life()), legend="{{event_type}} {{id}}", interval="1m")],
        defaults={"mappings": [states], "color": {"mode": "thresholds"}, "thresholds": thresholds((None, BLIND))},
        custom={"fillOpacity": 100, "lineWidth": 0},
        options={
            "alignValue": "left",
            "legend": {"displayMode": "list", "placement": "bottom", "showLegend": True},
            "mergeValues": True,
            "rowHeight": 0.75,
            "showValue": "auto",
            "tooltip": {"mode": "single", "sort": "none"},
        },
    )


def past(y: int) -> dict[str, Any]:
    def first(metric: str) -> str:
        return f"min by ({q.EVENT}) (min_over_time({event(metric)}[$__range]))"

    def last(metric: str, by: str = q.EVENT) -> str:
        return f"max by ({by}) (max_over_time({event(metric)}[$__range]))"

    no_advice = 'event_type!="SpotRebalanceRecommendation"'
    seen = f"min by ({q.EVENT}, event_type, event_source) (min_over_time({event('first_seen_timestamp_seconds', no_advice)}[$__range]))"
    over = f"and on ({q.EVENT}) ({seen} unless on ({q.EVENT}) {q.OPEN} == 1)"
    notice = f"clamp_min(({last('not_before_timestamp_seconds')} or {last('started_timestamp_seconds')}) - {first('first_seen_timestamp_seconds')}, 0)"
    excess = f"{last('observed_interruption_seconds')} - {last('duration_seconds')}"
    return table(
        "Past events",
        "The events of this time that are not open: the notice that was given, and the announced against the observed interruption. Over is what was lost beyond the announcement; more than 2 s is marked. "
        "An event without an end was not seen to end, because the VM was gone.",
        (0, y, 24, 7),
        [
            target(q.ids(f"1000 * ({seen} {over})"), "A", table=True),
            target(f"1000 * ({last('ended_timestamp_seconds', q.EVENT + ', outcome')} {over})", "B", table=True),
            target(f"{notice} {over}", "C", table=True),
            target(f"{last('duration_seconds')} {over}", "D", table=True),
            target(f"{last('observed_interruption_seconds')} {over}", "E", table=True),
            target(f"{excess} {over}", "F", table=True),
        ],
        {
            "Value #A": "First seen",
            "event_type": "Type",
            "event_source": "Source",
            "Value #C": "Notice",
            "Value #B": "Ended",
            "outcome": "Outcome",
            "Value #D": "Announced",
            "Value #E": "Observed",
            "Value #F": "Over",
            "id": "Event",
            "trace_id": "Trace",
            "event_id": "Id",
        },
        sort="First seen",
        desc=True,
        drop=("cluster",),
        overrides=[
            *(
                override(name, unit="time:MM-DD HH:mm:ss", custom__width=135, noValue=NO_VALUE)
                for name in ("First seen", "Ended")
            ),
            override("Type", custom__width=95),
            override("Outcome", custom__width=100, noValue=NO_VALUE),
            override("Source", custom__width=85, noValue=NO_VALUE),
            override("Notice", unit="s", decimals=0, custom__width=85, noValue=NO_VALUE),
            override("Announced", unit="s", decimals=0, noValue="unknown", custom__width=100),
            override("Observed", unit="s", decimals=1, noValue=NO_VALUE, custom__width=90),
            override(
                "Over",
                unit="s",
                decimals=1,
                noValue=NO_VALUE,
                thresholds=thresholds((None, CALM), (2, WARNING)),
                custom__cellOptions=COLOURED_CELL,
                custom__width=85,
            ),
            *_id_columns(105),
        ],
    )


def service(y: int) -> list[dict[str, Any]]:
    latency = own("imds_request_duration_seconds_bucket")

    def quantile(p):
        return f"histogram_quantile({p}, sum by (le) (rate({latency}[$__rate_interval])))"

    return [
        graph(
            "Requests to the metadata service",
            "Polls per second, and the ones that failed by reason. Azure allows five requests a second per VM, for all its readers together.",
            (0, y, 8, 7),
            [
                target(f"sum(rate({own('imds_requests_total')}[$__rate_interval]))", "A", legend="requests"),
                target(
                    f"sum by (reason) (rate({own('imds_request_failures_total')}[$__rate_interval])) > 0",
                    "B",
                    legend="failed: {{reason}}",
                ),
            ],
            unit="reqps",
            overrides=[override("requests", color=fixed(LINE)), matching("/^failed/", color=fixed(BAD_LINE))],
        ),
        graph(
            "Latency of the metadata service",
            "How long its answers took: half of them, and all but one in a hundred.",
            (8, y, 8, 7),
            [target(quantile(0.5), "A", legend="median"), target(quantile(0.99), "B", legend="99 %")],
            unit="s",
            overrides=by_name({"median": LINE, "99 %": BAD_LINE}),
        ),
        outputs(16, y),
    ]


def outputs(x: int, y: int) -> dict[str, Any]:
    counters = {
        "anomalies": "document_anomalies_total",
        "state writes failed": "state_write_failures_total",
        "span exports failed": "span_export_failures_total",
        "spans dropped": "spans_dropped_total",
        "alert pushes failed": "alert_push_failures_total",
    }
    refs = "ABCDE"
    targets = [
        target(f"sum(increase({own(name)}[$__rate_interval]))", ref, legend=legend)
        for ref, (legend, name) in zip(refs, counters.items(), strict=True)
    ]
    return graph(
        "Trouble",
        "What should stay at zero: anomalies in documents, state that could not be written, spans that failed or were dropped, alert pushes that failed, and spans that wait for a collector.",
        (x, y, 8, 7),
        [*targets, target(f"sum({own('spans_spooled')})", "F", legend="spans waiting")],
        unit="none",
        overrides=by_name({**dict(zip(counters, SERIES, strict=True)), "spans waiting": OTHER_LINE}),
        defaults={"decimals": 0},
        custom={"axisSoftMax": 1},
    )


def build() -> dict[str, Any]:
    return dashboard(
        "azse-vm",
        "Azure Scheduled Events / VM",
        "One VM: what it waits for, what it has been through, and whether its exporter is well.",
        variables(),
        [*now(), pending(4), timeline(13), past(19), row("Metadata service and exporter", 26, service(27))],
        since="now-6h",
        refresh="15s",
        annotations=[{**each, "hide": True} for each in annotations.build(q.TARGET)],
    )
