"""The VM dashboard: open events, past events and exporter health of one VM."""

from __future__ import annotations

from typing import Any

import annotations
import queries as q
import vm_events as v
from parts import (
    BAD_LINE,
    BLIND,
    CALM,
    COLOURED_CELL,
    LINE,
    NO_VALUE,
    NOTICE,
    OTHER_LINE,
    OTHER_TYPE,
    SERIES,
    SEVERITY_COLOURS,
    SEVERITY_NAMES,
    STATUS_COLOURS,
    TRACE_VARIABLES,
    TYPE_COLOURS,
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
from vm_events import event
from vm_events import exporter as own

UNKNOWN_LENGTH = value_map({"0": ("no interruption", CALM), str(v.UNKNOWN_LENGTH): ("unknown", CALM)})
WAITS = value_map({str(v.NOW): ("now", CALM), str(v.ANY_MOMENT): ("any moment", CALM), str(v.DUE): ("due", CALM)})

UNKNOWN_AGE = {
    "type": "value",
    "options": {str(v.NO_ANSWER): {"text": NO_VALUE, "index": 0}},
}
IS_BLIND = matching("/^(blind|no rules)/", color=fixed(BLIND))


def variables() -> list[dict[str, Any]]:
    return [cluster_variable(), job_variable(), vm_variable(multi=False), *TRACE_VARIABLES]


def now() -> list[dict[str, Any]]:
    """The state of this VM: an event is happening now, or is next, or none, or nobody can know."""
    return [
        stat(
            "Now and next",
            "The open events of this VM, the started ones first, with the severity of the alert. Freeze: paused, memory kept. Reboot: restarted. Redeploy: moved, temporary disk lost. Preempt: evicted. Terminate: deleted. "
            '"none": the exporter answered within the last minute, and no event is open. "blind": an event can be missing here. "no rules": the rules are not loaded, or do not select this exporter.',
            (0, 0, 7, 4),
            v.summary(),
            legend="{{text}}",
            text="name",
            unit="none",
            defaults={"color": fixed(CALM)},
            overrides=[
                *[matching(f"/ · {name}$/", color=fixed(colour)) for name, colour in SEVERITY_COLOURS.items()],
                IS_BLIND,
            ],
        ),
        stat(
            "Starts in",
            "Until the next NotBefore in the future. An event without it, a due one and a started one are on the left.",
            (7, 0, 4, 4),
            v.next_in(),
            legend="{{event_type}}",
            text="value_and_name",
            unit="s",
            defaults={"color": fixed(CALM), "decimals": 0},
        ),
        stat(
            "Lasts",
            "The interruption that Azure announces for each open event. Unknown is not short.",
            (11, 0, 4, 4),
            v.lengths(),
            legend="{{event_type}}",
            text="value_and_name",
            unit="s",
            defaults={"color": fixed(CALM), "mappings": [UNKNOWN_LENGTH]},
        ),
        stat(
            "Coverage",
            "Whether the exporter of this VM answers, and the age of its newest good answer. While it does not, an event can be missing on this dashboard.",
            (15, 0, 5, 4),
            v.coverage(),
            legend="{{text}}",
            text="value_and_name",
            unit="s",
            defaults={"color": fixed(CALM), "decimals": 0, "mappings": [UNKNOWN_AGE]},
            overrides=[IS_BLIND],
            title_size=16,
        ),
        stat(
            "Advisories",
            "Advice by Azure that is not maintenance, such as a higher risk of eviction of a Spot VM. It has no deadline.",
            (20, 0, 4, 4),
            f"""sum(max by (cluster, instance, scope) ({own("advisories", 'scope!="other"')}))""",
            unit="none",
            defaults={"thresholds": thresholds((None, CALM), (1, NOTICE))},
        ),
    ]


def pending(y: int) -> dict[str, Any]:
    events = v.with_severity(v.open_events(), v.open_events())
    return table(
        "Pending",
        "Every open event of this VM, also while the VM is down. Event opens the trace.",
        (0, y, 24, 5),
        [
            target(q.short_id(q.traced(events)), "A", table=True),
            target(f"max by ({v.EVENT}) ({v.when(v.open_events())})", "B", table=True),
            target(f"1000 * {v.of_open(v.not_before())}", "C", table=True),
            target(v.of_open(v.duration()), "D", table=True),
            target(v.source(), "E", table=True),
            target(v.description(), "F", table=True),
        ],
        {
            "event_type": "Type",
            "severity": "Alert",
            "Value #B": "Starts",
            "Value #C": "Not before",
            "Value #D": "Lasts",
            "event_source": "Source",
            "Value #E": "VMs",
            "description": "Azure says",
            "id": "Event",
            "trace_id": "Trace",
            "event_id": "Id",
        },
        sort="Starts",
        drop=("cluster", "Value #A", "Value #F"),
        overrides=[
            override("Type", custom__width=90),
            override("Alert", mappings=[SEVERITY_NAMES], custom__cellOptions=COLOURED_CELL, custom__width=80),
            override("Starts", unit="s", decimals=0, mappings=[WAITS], custom__width=100, noValue=NO_VALUE),
            override("Not before", unit="time:MM-DD HH:mm", custom__width=100, noValue=NO_VALUE),
            override("Lasts", unit="s", noValue="unknown", custom__width=80),
            override("Source", custom__width=80, noValue=NO_VALUE),
            override("VMs", unit="none", custom__width=50, noValue=NO_VALUE),
            override(
                "Azure says",
                custom__minWidth=265,
                custom__wrapText=True,
                custom__cellOptions={"type": "auto", "wrapText": True},
                noValue=NO_VALUE,
            ),
            *_id_columns(95),
        ],
    )


def _id_columns(width: int) -> list[dict[str, Any]]:
    return [override("Event", links=trace_links(), custom__minWidth=width), carried("Trace"), carried("Id")]


def timeline(y: int) -> dict[str, Any]:
    codes = {"Scheduled": "1", "Started": "2", "Ended": "3", "Advisory": "4"}
    states = value_map({code: (status, STATUS_COLOURS[status]) for status, code in codes.items()})
    return panel(
        "state-timeline",
        "The life of each event",
        "From the first sight to the end: Scheduled or Advisory, Started, and ten minutes in which an ended event is still shown. While the exporter is not scraped, "
        "an open event is continued from what the rules remember.",
        (0, y, 24, 6),
        [target(q.short_id(v.life()), legend="{{event_type}} {{id}}", interval="1m")],
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


def past(y: int) -> list[dict[str, Any]]:
    by = "cluster, event_id"

    def last(metric):
        return f"max by ({by}) (max_over_time({event(metric)}[$__range]))"

    over = f"and on ({by}) {v.ended()}"
    notice = f"clamp_min(({last('not_before_timestamp_seconds')} or {last('started_timestamp_seconds')}) - min by ({by}) (min_over_time({event('first_seen_timestamp_seconds')}[$__range])), 0) {over}"
    excess = f"{last('observed_interruption_seconds')} - {last('duration_seconds')}"
    rows = table(
        "Past events",
        "What ended in this time: the notice that was given, and the announced against the observed interruption. Over is what was lost beyond the announcement; more than 2 s is marked. "
        "The outcome is unknown if the VM was no longer there to report it.",
        (0, y, 24, 7),
        [
            target(q.short_id(q.traced(f"1000 * {v.ended()}")), "A", table=True),
            target(notice, "B", table=True),
            target(f"{last('duration_seconds')} {over}", "C", table=True),
            target(f"{last('observed_interruption_seconds')} {over}", "D", table=True),
            target(f"({excess}) {over}", "E", table=True),
        ],
        {
            "Value #A": "Ended",
            "event_type": "Type",
            "outcome": "Outcome",
            "event_source": "Source",
            "Value #B": "Notice",
            "Value #C": "Announced",
            "Value #D": "Observed",
            "Value #E": "Over",
            "id": "Event",
            "trace_id": "Trace",
            "event_id": "Id",
        },
        sort="Ended",
        desc=True,
        drop=("cluster",),
        overrides=[
            override("Ended", unit="time:MM-DD HH:mm:ss", custom__width=125),
            override("Type", custom__width=90),
            override("Outcome", custom__width=95),
            override("Source", custom__width=80, noValue=NO_VALUE),
            override("Notice", unit="s", decimals=0, custom__width=80, noValue=NO_VALUE),
            override("Announced", unit="s", decimals=0, noValue="unknown", custom__width=95),
            override("Observed", unit="s", decimals=1, noValue=NO_VALUE, custom__width=85),
            override(
                "Over",
                unit="s",
                decimals=1,
                noValue=NO_VALUE,
                thresholds=thresholds((None, CALM), (2, WARNING)),
                custom__cellOptions=COLOURED_CELL,
                custom__width=80,
            ),
            *_id_columns(95),
        ],
    )
    dashes = override("announced", color=fixed(LINE), custom__lineStyle={"fill": "dash", "dash": [8, 6]})
    against = graph(
        "Announced against observed interruption",
        "The longest announced interruption of the events that were pending, and the longest that this VM measured under one. "
        "Logarithmic: pauses of seconds and restarts of minutes share it.",
        (12, y + 7, 12, 7),
        [
            target(f"max({event('duration_seconds')})", "A", legend="announced"),
            target(f"max({event('observed_interruption_seconds')})", "B", legend="observed"),
        ],
        unit="s",
        overrides=[dashes, override("observed", color=fixed(BAD_LINE))],
        custom={
            "lineWidth": 2,
            "fillOpacity": 8,
            "scaleDistribution": {"type": "log", "log": 10},
            "axisSoftMin": 1,
            "lineInterpolation": "stepAfter",
        },
    )
    countdown = graph(
        "Countdown",
        "How the time until NotBefore ran down. A step upwards is an event that Azure moved; an end above zero is one that began early or was taken back.",
        (0, y + 7, 12, 7),
        [
            target(
                q.short_id(
                    f"min by (cluster, event_id, event_type) ({event('not_before_countdown_seconds')}) / 60 > 0"
                ),
                legend="{{event_type}} {{id}}",
            )
        ],
        unit="m",
        defaults={"color": fixed(OTHER_TYPE)},
        overrides=[matching(f"/^{name} /", color=fixed(colour)) for name, colour in TYPE_COLOURS.items()],
        custom={"lineWidth": 2, "fillOpacity": 8},
    )
    return [rows, countdown, against]


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
        graph(
            "Trouble",
            "What should stay at zero: anomalies in documents, state that could not be written, spans that failed or were dropped, alert pushes that failed. Counted over the graph's own resolution.",
            (16, y, 8, 7),
            [
                target(f"sum(increase({own('document_anomalies_total')}[$__rate_interval]))", "A", legend="anomalies"),
                target(
                    f"sum(increase({own('state_write_failures_total')}[$__rate_interval]))",
                    "B",
                    legend="state writes failed",
                ),
                target(
                    f"sum(increase({own('span_export_failures_total')}[$__rate_interval]))",
                    "C",
                    legend="span exports failed",
                ),
                target(f"sum(increase({own('spans_dropped_total')}[$__rate_interval]))", "D", legend="spans dropped"),
                target(
                    f"sum(increase({own('alert_push_failures_total')}[$__rate_interval]))",
                    "E",
                    legend="alert pushes failed",
                ),
            ],
            unit="none",
            overrides=by_name(
                dict(
                    zip(
                        (
                            "anomalies",
                            "state writes failed",
                            "span exports failed",
                            "spans dropped",
                            "alert pushes failed",
                        ),
                        SERIES,
                        strict=True,
                    )
                )
            ),
            defaults={"decimals": 0},
            custom={"axisSoftMax": 1},
        ),
    ]


def footprint(y: int) -> list[dict[str, Any]]:
    def process(name):
        return f"process_{name}{{{v.VM}}}"

    return [
        graph(
            "Exporter: CPU",
            "Share of one core.",
            (0, y, 8, 6),
            [target(f"sum(rate({process('cpu_seconds_total')}[$__rate_interval]))", legend="CPU")],
            unit="percentunit",
            overrides=[override("CPU", color=fixed(LINE))],
            defaults={"decimals": 2},
            custom={"axisSoftMax": 0.01},
        ),
        graph(
            "Exporter: memory",
            "Resident memory.",
            (8, y, 8, 6),
            [target(f"sum({process('resident_memory_bytes')})", legend="resident")],
            unit="bytes",
            overrides=[override("resident", color=fixed(LINE))],
        ),
        graph(
            "Traces and pushes",
            "Spans that a collector took and pushes to Alertmanager, counted over the graph's own resolution, and spans that wait.",
            (16, y, 8, 6),
            [
                target(f"sum(increase({own('spans_exported_total')}[$__rate_interval]))", "A", legend="spans exported"),
                target(f"sum({own('spans_spooled')})", "B", legend="spans waiting"),
                target(f"sum(increase({own('alert_pushes_total')}[$__rate_interval]))", "C", legend="alert pushes"),
            ],
            unit="none",
            overrides=by_name({"spans exported": LINE, "spans waiting": BAD_LINE, "alert pushes": OTHER_LINE}),
            defaults={"decimals": 0},
            custom={"axisSoftMax": 1},
        ),
    ]


def build() -> dict[str, Any]:
    panels = [
        *now(),
        pending(4),
        timeline(9),
        *past(15),
        row("Metadata service and exporter", 29),
        *service(30),
        *footprint(37),
    ]
    return dashboard(
        "azse-vm",
        "Azure Scheduled Events / VM",
        "One VM: what it waits for, what it has been through, and whether its exporter is well.",
        variables(),
        panels,
        since="now-6h",
        refresh="15s",
        annotations=[{**each, "hide": True} for each in annotations.build(v.VM)],
    )
