"""The VM dashboard: pending events, past events and exporter health of one VM."""

from __future__ import annotations

from typing import Any

import annotations
import event_table
import queries as q
from parts import (
    CALM,
    CRITICAL,
    DIM,
    NOTICE,
    OUTCOME_COLOURS,
    STALE_SECONDS,
    TRACE_VARIABLES,
    TYPE_COLOURS,
    URGENCY,
    WARNING,
    by_name,
    cluster_variable,
    dashboard,
    fixed,
    graph,
    job_variable,
    override,
    panel,
    query_variable,
    row,
    stat,
    table,
    target,
    thresholds,
    value_map,
)
from queries import vm_event as event


def own(metric: str, more: str = "") -> str:
    return q.exporter(metric, more, of=q.VM_TARGET)


def variables() -> list[dict[str, Any]]:
    vm_info = 'azure_scheduled_events_vm_info{job=~"$job", instance=~"$instance"'
    hidden = query_variable("target", "Target", f'label_values({vm_info}, vm_name=~"$vm"}}, instance)', all_value=None)
    return [
        cluster_variable(),
        job_variable(),
        query_variable("instance", "Instance", 'label_values(azure_scheduled_events_up{job=~"$job"}, instance)'),
        query_variable("vm", "VM", f"label_values({vm_info}}}, vm_name)", multi=False),
        {**hidden, "hide": 2},
        *TRACE_VARIABLES,
    ]


def now() -> list[dict[str, Any]]:
    upcoming = q.next_countdown(event)
    kinds = [override(name, color=fixed(colour)) for name, colour in TYPE_COLOURS.items()]
    answers = value_map({"1": ("answers", CALM), "0": ("fails", CRITICAL)})
    age = f"time() - max({own('last_success_timestamp_seconds')})"
    return [
        stat(
            "Next for this VM",
            'What will happen to it next. Freeze: paused, memory kept. Reboot: restarted. Redeploy: moved, temporary disk lost. Preempt: evicted. Terminate: deleted. "nothing yet": Scheduled Events was just enabled, and events may take five minutes to appear.',
            (0, 0, 5, 4),
            q.or_say(upcoming, "event_type", "nothing", f"group({own('up')})", f"group({own('warming_up')} == 1)"),
            legend="{{event_type}}",
            text="name",
            unit="none",
            colour="background",
            empty="nothing",
            overrides=[*kinds, *by_name({"nothing": CALM, q.yet("nothing"): NOTICE, q.UNKNOWN: DIM})],
        ),
        stat(
            "Starts in",
            "Until NotBefore. Red within the hour, orange within the day, as the alerts have it.",
            (5, 0, 4, 4),
            upcoming,
            unit="s",
            empty="–",
            colour="background",
            defaults={"thresholds": URGENCY, "decimals": 0},
        ),
        event_table.announced_length("Lasts", (9, 0, 4, 4), event),
        stat(
            "Advisories",
            "Advice by Azure that is not maintenance, such as a higher risk of eviction of a Spot VM. It has no deadline.",
            (13, 0, 3, 4),
            f"""sum({own("advisories", 'scope!="other"')})""",
            unit="none",
            empty="not known",
            defaults={"mappings": [value_map({"0": ("none", CALM)})], "thresholds": thresholds((None, NOTICE))},
        ),
        stat(
            "Metadata",
            "Whether the last poll of this VM's scheduled events from the instance metadata service succeeded.",
            (16, 0, 3, 4),
            f"min({own('up')})",
            unit="none",
            empty="not scraped",
            defaults={"mappings": [answers], "color": {"mode": "thresholds"}},
        ),
        stat(
            "Last good read",
            "How old the newest good document is. The alert speaks at 15 minutes, Azure's usual notice.",
            (19, 0, 3, 4),
            age,
            unit="s",
            empty="not known",
            defaults={"decimals": 0, "thresholds": thresholds((None, CALM), (60, WARNING), (STALE_SECONDS, CRITICAL))},
        ),
        stat(
            "Exporter",
            "The version that runs on this VM.",
            (22, 0, 2, 4),
            own("exporter_build_info"),
            legend="{{version}}",
            text="name",
            unit="none",
            empty="not scraped",
            defaults={"color": fixed("text")},
        ),
    ]


def timeline(y: int) -> dict[str, Any]:
    by = "event_id, event_type"
    expr = (
        f"max by ({by}) ({event('status', q.EVENT_STATUS.format('Scheduled'))} == 1 or 2 * ({event('status', q.EVENT_STATUS.format('Started'))} == 1) "
        f"or 3 * ({event('status', q.EVENT_STATUS.format('Ended'))} == 1) or 4 * {q.advisories(event)})"
    )
    states = value_map(
        {"1": ("Scheduled", "#C7A035"), "2": ("Started", CRITICAL), "3": ("Ended", CALM), "4": ("Advisory", NOTICE)}
    )
    return panel(
        "state-timeline",
        "The life of each event",
        "From the first sight to the end: Scheduled or Advisory, Started, and ten minutes in which an ended event is still shown. A gap is a time in which "
        "the exporter was not scraped.",
        (0, y, 24, 6),
        [target(q.short_id(expr), legend="{{event_type}} {{id}}")],
        empty="No event in this time",
        defaults={"mappings": [states], "color": {"mode": "thresholds"}, "thresholds": thresholds((None, "#8E9BAE"))},
        custom={"fillOpacity": 85, "lineWidth": 0},
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
    by = q.PAIR

    def last(metric):
        return f"max by ({by}) (max_over_time({event(metric)}[$__range]))"

    over = f"and on ({by}) max_over_time({event('ended_timestamp_seconds')}[$__range])"
    ended = f"1000 * max by ({q.OF_EVENT}, outcome) (max_over_time({event('ended_timestamp_seconds')}[$__range]))"
    notice = f"clamp_min(({last('not_before_timestamp_seconds')} or {last('started_timestamp_seconds')}) - min by ({by}) (min_over_time({event('first_seen_timestamp_seconds')}[$__range])), 0) {over}"
    outcomes = value_map({name: (name, colour) for name, colour in OUTCOME_COLOURS.items()})
    excess = f"{last('observed_interruption_seconds')} - {last('duration_seconds')}"
    rows = table(
        "Past events",
        "What ended in this time: the notice that was given, and the announced against the observed interruption. Over is what was lost beyond the announcement.",
        (0, y, 24, 7),
        [
            target(q.short_id(q.traced(ended)), "A", table=True),
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
        drop=("job", "instance"),
        empty="No event ended in this time",
        overrides=[
            override("Ended", unit="time:MM-DD HH:mm:ss", custom__width=125),
            event_table.type_column(width=90),
            override("Outcome", mappings=[outcomes], custom__cellOptions={"type": "color-text"}, custom__width=95),
            override("Source", custom__width=80, noValue="–"),
            override("Notice", unit="s", decimals=0, custom__width=80, noValue="–"),
            override("Announced", unit="s", decimals=0, noValue="unknown", custom__width=95),
            override("Observed", unit="s", decimals=1, noValue="none", custom__width=85),
            override(
                "Over",
                unit="s",
                decimals=1,
                noValue="–",
                thresholds=thresholds((None, CALM), (2, WARNING)),
                custom__cellOptions={"type": "color-text"},
                custom__width=80,
            ),
            *event_table.id_columns(95),
        ],
    )
    dashes = override("announced", color=fixed(NOTICE), custom__lineStyle={"fill": "dash", "dash": [8, 6]})
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
        empty="No event announced a length, and no interruption was measured in this time",
        overrides=[dashes, override("observed", color=fixed(WARNING))],
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
                q.short_id(f"min by (event_id, event_type) ({event('not_before_countdown_seconds')}) / 60 > 0"),
                legend="{{event_type}} {{id}}",
            )
        ],
        unit="m",
        empty="No event was announced in this time",
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
            empty="The exporter was not scraped in this time",
            overrides=[override("requests", color=fixed(NOTICE))],
        ),
        graph(
            "Latency of the metadata service",
            "How long its answers took: half of them, and all but one in a hundred.",
            (8, y, 8, 7),
            [target(quantile(0.5), "A", legend="median"), target(quantile(0.99), "B", legend="99 %")],
            unit="s",
            empty="The exporter was not scraped in this time",
            overrides=by_name({"median": CALM, "99 %": WARNING}),
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
            empty="The exporter was not scraped in this time",
            defaults={"decimals": 0},
            custom={"axisSoftMax": 1},
        ),
    ]


def footprint(y: int) -> list[dict[str, Any]]:
    def process(name):
        return f"process_{name}{{{q.VM_TARGET}}}"

    return [
        graph(
            "Exporter: CPU",
            "Share of one core.",
            (0, y, 8, 6),
            [target(f"sum(rate({process('cpu_seconds_total')}[$__rate_interval]))", legend="CPU")],
            unit="percentunit",
            empty="The exporter was not scraped in this time",
            overrides=[override("CPU", color=fixed(NOTICE))],
            defaults={"decimals": 2},
            custom={"axisSoftMax": 0.01},
        ),
        graph(
            "Exporter: memory",
            "Resident memory.",
            (8, y, 8, 6),
            [target(f"sum({process('resident_memory_bytes')})", legend="resident")],
            unit="bytes",
            empty="The exporter was not scraped in this time",
            overrides=[override("resident", color=fixed(NOTICE))],
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
            empty="The exporter was not scraped in this time",
            defaults={"decimals": 0},
            custom={"axisSoftMax": 1},
        ),
    ]


def build() -> dict[str, Any]:
    rows = event_table.pending(
        "Pending",
        "Every event that is announced for this VM or under way.",
        (0, 4, 24, 5),
        event,
        empty="Nothing is pending for this VM",
        with_vm=False,
    )
    panels = [
        *now(),
        rows,
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
        annotations=[{**each, "hide": True} for each in annotations.build(q.VM_TARGET)],
    )
