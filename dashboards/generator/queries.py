"""The PromQL that several panels share.

One event is reported by every VM that it names, each with its own `instance`; what is asked about events is
therefore aggregated by `event_id` first. Events that name other VMs only (`scope="other"`, seen with
`--events.scope=all`) are left out: whoever runs the exporter there reports them as its own.
"""

from __future__ import annotations

TARGET = 'job=~"$job", instance=~"$instance"'
# One VM is chosen by its name, or by the instance that an alert's link carries; the hidden variable `target` is the
# instance, or the instances in turn, that both mean. Beside it, a matcher with `$instance` would say nothing more, and
# make Prometheus 2 merge the index of all instances for each selector.
VM_TARGET = 'job=~"$job", instance=~"$target"'
PAIR = "job, instance, event_id"
OF_EVENT = "job, instance, event_id, event_type, event_source"


def fleet_event(metric: str, more: str = "") -> str:
    """A metric of single events, by the variables of the fleet's dashboards."""
    return f'azure_scheduled_event_{metric}{{{TARGET}, event_type=~"$event_type", scope!="other"{", " + more if more else ""}}}'


def vm_event(metric: str, more: str = "") -> str:
    """The same on the dashboard of one VM, which has no variable for the type."""
    return f'azure_scheduled_event_{metric}{{{VM_TARGET}, scope!="other"{", " + more if more else ""}}}'


def exporter(metric: str, more: str = "", of: str = TARGET) -> str:
    """A metric that the exporter keeps about itself."""
    return f"azure_scheduled_events_{metric}{{{of}{', ' + more if more else ''}}}"


# alerts/scheduled-events.rules.yml records who is hit, one series per event and VM. To join with the info series of
# every VM instead would read the whole fleet for each of the queries that want a name.
VM_NAMES = f"azure_scheduled_event:vm{{{TARGET}}}"


def named(expr: str, seen: str, names: str = VM_NAMES) -> str:
    """Adds the VM's name; where no rule has recorded it yet, its instance, so that no event is lost. `seen` is any metric of the events."""
    known = f'group by ({PAIR}, vm_name) ({names} or on ({PAIR}) label_replace({seen}, "vm_name", "$1", "instance", "(.*)"))'
    return f"({expr}) * on ({PAIR}) group_left (vm_name) {known}"


def traced(expr: str) -> str:
    """Adds the trace id, which is the event id without its hyphens."""
    parts = "-".join(["([0-9A-Fa-f]+)"] * 5)
    return f'label_replace({expr}, "trace_id", "$1$2$3$4$5", "event_id", "{parts}")'


def short_id(expr: str) -> str:
    """Adds the first part of the event id, enough to tell one from another where room is scarce."""
    return f'label_replace({expr}, "id", "$1", "event_id", "([^-]+).*")'


def pending(event) -> str:
    """Announced or running: whatever has not ended, one series per event and VM. Only what has ended has an end."""
    return f"({event('resources')} unless on ({PAIR}) {event('ended_timestamp_seconds')})"


EVENT_STATUS = 'event_status="{}"'


def status(event) -> str:
    """The events that are not over; what they are is the label `event_status`, whatever Azure may call it."""
    return f"""{event("status", 'event_status!="Ended"')} == 1"""


def while_pending(event, metric: str) -> str:
    return f"max by ({PAIR}) ({event(metric)} unless on ({PAIR}) {event('ended_timestamp_seconds')})"


def starts_in(event) -> str:
    """Seconds until NotBefore, as of the last scrape; 0 for what has started, absent for what is over."""
    return f"max by ({PAIR}) ({event('not_before_countdown_seconds')})"


def next_countdown(event) -> str:
    """The event that may start first and how long until then. What has started counts 0 and is not next any more."""
    return f"bottomk(1, min by (event_id, event_type) ({event('not_before_countdown_seconds')} != 0))"


def type_table(values: dict[str, float], label: str = "event_type") -> str:
    """A constant per event type, as a vector to join with."""
    return " or ".join(f'label_replace(vector({value}), "{label}", "{name}", "", "")' for name, value in values.items())


UNKNOWN = "not known"


def or_say(expr: str, label: str, text: str, reporters: str) -> str:
    """A word in place of the name while nothing is announced, for panels that show a name and would be blank without one.

    Where nobody reports, that is not known: nothing but an answer gives the all-clear.
    """

    def say(of, word):
        return f'label_replace({of}, "{label}", "{word}", "", "")'

    return f"({expr}) or on () {say(f'0 * {reporters}', text)} or on () {say('vector(0)', UNKNOWN)}"


# Counts of the whole fleet are recorded (the last group of alerts/exporter-health.rules.yml), with the job but without
# the instance: they serve where all instances are selected, and match nothing where some are. For those the series
# themselves are counted, which the same query asks for: `any` is a label that no series has, so that a matcher that
# says it is not what is selected lets everything pass, but nothing, and at once, where All (`.*`) is selected.
SELECTED = 'any!~"$instance"'
SELECTED_OR_TYPE = 'any!~"$instance$event_type"'


def recorded(name: str, more: str = "", first: str = "") -> str:
    return f"{name}{{{first + ', ' if first else ''}{TARGET}{', ' + more if more else ''}}}"


def selected_pending(when: str) -> str:
    """Events that are announced or running, but nothing where all instances (or all of them and all types) are selected."""

    def event(metric):
        return recorded(f"azure_scheduled_event_{metric}", 'event_type=~"$event_type", scope!="other"', first=when)

    return pending(event)


TARGETS = f"(sum({recorded('azure_scheduled_events:targets')}) or count({recorded('azure_scheduled_events:target', first=SELECTED)}))"
