"""PromQL about the events and the exporter of one VM, for the VM dashboard.

The rules in alerts/ remember an event while the VM is down. Where they have not evaluated an event, or are not loaded, the
last sample of 15 minutes of the VM's own series counts. Each result is aggregated before it is joined, because replicas
of Prometheus and a rollout of the exporter's pod duplicate series.
"""

from __future__ import annotations

from parts import SEVERITIES

CLUSTER = 'cluster=~"$cluster"'
VM = f'{CLUSTER}, job=~"$job", instance=~"$instance"'
EVENT = "cluster, event_id, event_type"
# An answer is up to date if the exporter read the metadata service in the minute before the scrape, and the scrape or the
# evaluation of a rule is not older than two intervals of a minute and some seconds.
ANSWER_SECONDS, SAMPLE_SECONDS = 60, 150
NOW, ANY_MOMENT, DUE = -2, -1, 0
UNKNOWN_LENGTH = -1
NO_ANSWER = -1
REPORTS = "reports"
# For an event without an alert, such as one that the rules have not evaluated yet.
NO_ALERT = "no alert"


def event(metric: str, more: str = "") -> str:
    """A metric of the exporter's. An event that names only other VMs has `scope="other"`."""
    return f'azure_scheduled_event_{metric}{{{VM}, scope!="other"{", " + more if more else ""}}}'


def exporter(metric: str, more: str = "") -> str:
    return f"azure_scheduled_events_{metric}{{{VM}{', ' + more if more else ''}}}"


def _label(expr: str, label: str, text: str) -> str:
    return f'label_replace({expr}, "{label}", "{text}", "", "")'


def _last(series: str) -> str:
    return f"last_over_time({series}[15m])"


def _status(status: str) -> str:
    return _last(event("status", f'event_status="{status}"'))


def open_events() -> str:
    """The events of this VM that have not ended, with the value 1."""
    recorded = f"max by ({EVENT}) (azure_scheduled_event:state{{{CLUSTER}}}) == 1 and on ({EVENT}) azure_scheduled_event:vm{{{VM}}}"
    reported = (
        f"(max by ({EVENT}) ({_status('Ended')}) == 0) + 1 unless on (cluster, event_id) {_status('Advisory')} == 1"
    )
    return f"({recorded} or {reported} unless on (cluster, event_id) azure_scheduled_event:state{{{CLUSTER}}})"


def _property(name: str, metric: str, best: str) -> str:
    recorded = f'azure_scheduled_event:property{{{CLUSTER}, property="{name}"}}'
    return f"({best} by ({EVENT}) ({recorded}) or on ({EVENT}) {best} by ({EVENT}) ({_last(event(metric))}))"


def started() -> str:
    return _property("started", "started_timestamp_seconds", "min")


def not_before() -> str:
    return _property("not_before", "not_before_timestamp_seconds", "min")


def duration() -> str:
    """Announced seconds, without a value for an unknown duration."""
    return _property("duration", "duration_seconds", "max")


def resources() -> str:
    """Number of VMs that the event names."""
    return _property("resources", "resources", "max")


def when(events: str) -> str:
    """Seconds until NotBefore: `DUE` after it, `ANY_MOMENT` without it, `NOW` if it has started. The label `when` says so."""
    left = f"{not_before()} - time()"
    return (
        f"(({_label(f'{NOW} * {started()} ^ 0', 'when', ', now')} or on ({EVENT}) ({left} > 0)"
        f" or on ({EVENT}) {_label(f'{DUE} * ({not_before()}) ^ 0', 'when', ', due')}"
        f" or on ({EVENT}) {_label(f'{ANY_MOMENT} * {events}', 'when', ', any moment')}) and on ({EVENT}) {events})"
    )


def severity() -> str:
    """The worst alert that fires for each event, with the value 1 and the label `severity`."""
    of_event = 'event_id!="", alertname!="AzureScheduledEventInProgress"'
    firing = " or ".join(
        f'{value} * max by (cluster, event_id, severity) (ALERTS{{{CLUSTER}, alertstate="firing", {of_event}, severity="{name}"}})'
        for name, value in SEVERITIES.items()
    )
    return f"topk by (cluster, event_id) (1, {firing}) ^ 0"


def with_severity(expr: str, events: str) -> str:
    """Adds the label `severity` to a value per event."""
    known = f"{severity()} or on (cluster, event_id) {_label(f'group by (cluster, event_id) ({events})', 'severity', NO_ALERT)}"
    return f"{expr} * on (cluster, event_id) group_left (severity) ({known})"


def summary() -> str:
    """The events of this VM in the order of their times, or the state in which none is known, in the label `text`."""
    events = open_events()
    words = f'label_join({with_severity(when(events), events)}, "words", "", "event_type", "when")'
    words = f'label_join({words}, "text", " · ", "words", "severity")'
    return f"sort({words}) or on () {state('none')}"


def _fresh(series: str) -> str:
    return f"(timestamp({series}) > time() - {SAMPLE_SECONDS})"


def _known() -> str:
    """The exporters of this VM, also those that do not answer."""
    targets = f"azure_scheduled_events:target{{{VM}}}"
    return f"group by (cluster, instance) ({_last(targets)} or {_last(exporter('up'))})"


def _answering() -> str:
    success = exporter("last_success_timestamp_seconds")
    return f"group by (cluster, instance) ({_fresh(success)} - {success} < {ANSWER_SECONDS})"


def _warming_up() -> str:
    return f"group by (cluster, instance) ({exporter('warming_up')} == 1)"


def state(answers: str) -> str:
    """0 with the text `answers` if the exporter answers and the rules evaluate its events, else the reason with the value -1."""
    missing = f"({_known()} unless on (cluster, instance) {_answering()})"
    not_evaluated = (
        f"(group({_fresh(exporter('up'))}) unless on () group({_fresh(f'azure_scheduled_events:target{{{VM}}}')}))"
    )
    reasons = (
        (f"-group({_warming_up()})", "blind · warming up"),
        (f"-group({not_evaluated})", "no rules"),
        (f"0 * (group({_known()}) unless on () {missing})", answers),
        (f"-group({_fresh(exporter('up'))})", "blind · metadata not read"),
        (f"-group({_known()})", "blind · exporter down"),
        ("vector(-1)", "blind · no exporter"),
    )
    return " or on () ".join(_label(value, "text", words) for value, words in reasons)


def coverage() -> str:
    """The age of the newest good answer in the time range, with the label `text` of the state."""
    age = f"time() - max(last_over_time({exporter('last_success_timestamp_seconds')}[$__range]))"
    return f"0 * ({state(REPORTS)}) + on () group_left () ({age} or on () vector({NO_ANSWER}))"


def next_in() -> str:
    """Seconds until the next NotBefore in the future."""
    waiting = f"({open_events()} unless on ({EVENT}) {started()})"
    return f"bottomk(1, {not_before()} - time() > 0 and on ({EVENT}) {waiting})"


def lengths() -> str:
    """The announced duration of each event, `UNKNOWN_LENGTH` if Azure gives none."""
    return f"({duration()} or on ({EVENT}) {UNKNOWN_LENGTH} * {open_events()}) and on ({EVENT}) {open_events()}"


def of_open(expr: str) -> str:
    return f"{expr} and on ({EVENT}) {open_events()}"


def source() -> str:
    """The number of VMs of each event, with its source."""
    by = f"{EVENT}, event_source"
    recorded = f'azure_scheduled_event:property{{{CLUSTER}, property="resources"}}'
    return of_open(f"(max by ({by}) ({recorded}) or on ({EVENT}) max by ({by}) ({_last(event('resources'))}))")


def description() -> str:
    by = f"{EVENT}, description"
    recorded = f'azure_scheduled_event:property{{{CLUSTER}, property="description"}}'
    return of_open(f"(max by ({by}) ({recorded}) or on ({EVENT}) max by ({by}) ({_last(event('info'))}))")


def life() -> str:
    """1 scheduled, 2 started, 3 ended, 4 an advisory, over time; also while the VM does not report."""
    # The reports of this VM, because a range query over the states of all events takes too long. 1: it saw the end.
    maintenance = 'scope="self", event_type!="SpotRebalanceRecommendation"'
    known = f"group by ({EVENT}) (azure_scheduled_event:report{{{VM}, {maintenance}}} != 1)"
    codes = {"Scheduled": 1, "Started": 2, "Ended": 3, "Advisory": 4}
    shown = " or ".join(
        f"""{code} * ({event("status", f'event_status="{status}"')} == 1)""" for status, code in codes.items()
    )
    begun = f'azure_scheduled_event:property{{{CLUSTER}, property="started"}}'
    return (
        f"max by ({EVENT}) ({shown}) or on ({EVENT}) 2 * ({known} and on ({EVENT}) {begun}) or on ({EVENT}) ({known})"
    )


def ended() -> str:
    """The time of the end of each event in the time range, with its outcome; also of a VM that did not report the end."""
    by = f"{EVENT}, event_source"
    reported = f"max by ({by}, outcome) (max_over_time({event('ended_timestamp_seconds')}[$__range]))"
    remembered = f"-1 * min by ({by}) (last_over_time(azure_scheduled_event:state{{{CLUSTER}}}[$__range]) < 0)"
    of_vm = f"and on ({EVENT}) last_over_time(azure_scheduled_event:vm{{{VM}}}[$__range])"
    return f"({reported} or on (cluster, event_id) {_label(f'({remembered} {of_vm})', 'outcome', 'unknown')})"
