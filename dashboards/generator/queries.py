"""PromQL that several panels share.

Every VM that an event names reports it, each with its own `instance`, so queries about events aggregate by `event_id`
first. Events that name only other VMs (`scope="other"`, exposed with `--events.scope=all`) are excluded: the exporters
on those VMs report them with `scope="self"`.
"""

from __future__ import annotations

TARGET = 'cluster=~"$cluster", job=~"$job", instance=~"$instance"'
# The VM dashboard selects a VM by its name, or by the instance in an alert's link. The hidden variable `target` has the
# instances for both. A matcher with `$instance` would add nothing, and Prometheus 2 would merge the index of all
# instances for each selector.
VM_TARGET = 'job=~"$job", instance=~"$target"'
PAIR = "job, instance, event_id"
OF_EVENT = "job, instance, event_id, event_type, event_source"


def fleet_event(metric: str, more: str = "") -> str:
    """A per-event metric, selected by the variables of the fleet dashboards."""
    return f'azure_scheduled_event_{metric}{{{TARGET}, event_type=~"$event_type", scope!="other"{", " + more if more else ""}}}'


def vm_event(metric: str, more: str = "") -> str:
    """A per-event metric on the VM dashboard, which has no variable for the event type."""
    return f'azure_scheduled_event_{metric}{{{VM_TARGET}, scope!="other"{", " + more if more else ""}}}'


def exporter(metric: str, more: str = "", of: str = TARGET) -> str:
    """A metric about the exporter or its VM."""
    return f"azure_scheduled_events_{metric}{{{of}{', ' + more if more else ''}}}"


# alerts/scheduled-events.rules.yml records the affected VMs, one series per event and VM. A join with vm_info would
# read the series of the whole fleet in each query that needs a VM name.
VM_NAMES = f"azure_scheduled_event:vm{{{TARGET}}}"


def named(expr: str, seen: str, names: str = VM_NAMES) -> str:
    """Adds the VM's name, or its instance if no rule has recorded the name yet. `seen` is any metric of the events."""
    known = f'group by ({PAIR}, vm_name) ({names} == 1 or on ({PAIR}) label_replace({seen}, "vm_name", "$1", "instance", "(.*)"))'
    return f"({expr}) * on ({PAIR}) group_left (vm_name) {known}"


def traced(expr: str) -> str:
    """Adds the trace ID, which is the event ID without hyphens."""
    parts = "-".join(["([0-9A-Fa-f]+)"] * 5)
    return f'label_replace({expr}, "trace_id", "$1$2$3$4$5", "event_id", "{parts}")'


def short_id(expr: str) -> str:
    """Adds the first part of the event ID, for narrow columns."""
    return f'label_replace({expr}, "id", "$1", "event_id", "([^-]+).*")'


EVENT_STATUS = 'event_status="{}"'


def advisories(event) -> str:
    """Advice such as a Spot rebalance recommendation, which is not maintenance, one series per event and VM."""
    return f"""({event("status", EVENT_STATUS.format("Advisory"))} == 1)"""


def _while_pending(event, metric: str) -> str:
    """A metric of the events that are scheduled or started. Only ended events have an end time."""
    return (
        f"{event(metric)} unless on ({PAIR}) {event('ended_timestamp_seconds')} unless on ({PAIR}) {advisories(event)}"
    )


def pending(event) -> str:
    """Scheduled or started events, one series per event and VM."""
    return f"({_while_pending(event, 'resources')})"


def status(event) -> str:
    """The scheduled or started events. The label `event_status` has their status, also one that is unknown."""
    return f"""{event("status", 'event_status!~"Ended|Advisory"')} == 1"""


def while_pending(event, metric: str) -> str:
    return f"max by ({PAIR}) ({_while_pending(event, metric)})"


def starts_in(event) -> str:
    """Seconds until NotBefore, as of the last scrape: 0 for started events, no value for ended events."""
    return f"max by ({PAIR}) ({event('not_before_countdown_seconds')})"


def next_countdown(event) -> str:
    """The event with the earliest NotBefore, and the seconds until then, without started events, which have 0."""
    return f"bottomk(1, min by (event_id, event_type) ({event('not_before_countdown_seconds')} != 0))"


def type_table(values: dict[str, float], label: str = "event_type") -> str:
    """One constant per event type, as a vector for joins."""
    return " or ".join(f'label_replace(vector({value}), "{label}", "{name}", "", "")' for name, value in values.items())


UNKNOWN = "not known"


def yet(text: str) -> str:
    """Shown in place of `text`, such as "none", while an exporter is warming up."""
    return f"{text} yet"


def or_say(expr: str, label: str, text: str, reporters: str, warming: str) -> str:
    """Shows `text` in place of a name while nothing is announced, for panels that would be blank without a name.

    Without any reporting exporter, it shows `not known`, because missing data does not mean that nothing is announced.
    In the minutes after Scheduled Events was enabled for an exporter, an empty document does not mean it either.
    """

    def say(of, word):
        return f'label_replace({of}, "{label}", "{word}", "", "")'

    return f"({expr}) or on () {say(warming, yet(text))} or on () {say(f'0 * {reporters}', text)} or on () {say('vector(0)', UNKNOWN)}"
