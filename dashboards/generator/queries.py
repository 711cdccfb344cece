"""The PromQL that several panels share.

One event is reported by every VM that it names, each with its own `instance`; what is asked about events is
therefore aggregated by `event_id` first. Events that name other VMs only (`scope="other"`, seen with
`--events.scope=all`) are left out: whoever runs the exporter there reports them as its own.
"""

from __future__ import annotations

TARGET = 'job=~"$job", instance=~"$instance"'
# One VM is chosen by its name, or by the instance that an alert's link carries; the hidden variable `target` is the
# instance, or the instances in turn, that both mean.
VM_TARGET = f'{TARGET}, instance=~"$target"'
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
    return f'azure_scheduled_events_{metric}{{{of}{", " + more if more else ""}}}'


# alerts/scheduled-events.rules.yml records who is hit, one series per event and VM. To join with the info series of
# every VM instead would read the whole fleet for each of the queries that want a name.
VM_NAMES = f"azure_scheduled_event:vm{{{TARGET}}}"


def named(expr: str, names: str = VM_NAMES) -> str:
    """Adds the VM's name; where no rule has recorded it, its instance, so that no event is lost."""
    return (f'({expr}) * on ({PAIR}) group_left (vm_name) group by ({PAIR}, vm_name) ({names}) '
            f'or on ({PAIR}) label_replace({expr}, "vm_name", "$1", "instance", "(.*)")')


def traced(expr: str) -> str:
    """Adds the trace id, which is the event id without its hyphens."""
    parts = "-".join(["([0-9A-Fa-f]+)"] * 5)
    return f'label_replace({expr}, "trace_id", "$1$2$3$4$5", "event_id", "{parts}")'


def short_id(expr: str) -> str:
    """Adds the first part of the event id, enough to tell one from another where room is scarce."""
    return f'label_replace({expr}, "id", "$1", "event_id", "([^-]+).*")'


def scheduled(event) -> str:
    return f'({event("status", EVENT_STATUS.format("Scheduled"))} == 1)'


def pending(event) -> str:
    """Announced or running: whatever has a status other than Ended, also one that nobody knows yet."""
    return f'({event("status", """event_status!="Ended" """.strip())} == 1)'


EVENT_STATUS = 'event_status="{}"'


def status(event) -> str:
    """The events that are not over; what they are is the label `event_status`, whatever Azure may call it."""
    return f'max by ({OF_EVENT}, event_status) {pending(event)}'


def while_pending(event, metric: str) -> str:
    return f'max by ({PAIR}) ({event(metric)}) and on ({PAIR}) {pending(event)}'


def starts_in(event) -> str:
    """Seconds until NotBefore, as of the last scrape; 0 for what has started, absent for what is over."""
    return f'max by ({PAIR}) ({event("not_before_countdown_seconds")})'


def next_countdown(event) -> str:
    """The event that may start first and how long until then. What has started counts 0 and is not next any more."""
    return f'bottomk(1, min by (event_id, event_type) ({event("not_before_countdown_seconds")} != 0))'


def type_table(values: dict[str, float]) -> str:
    """A constant per event type, as a vector to join with."""
    return " or ".join(f'label_replace(vector({value}), "event_type", "{name}", "", "")' for name, value in values.items())


def or_say(expr: str, event, label: str, text: str) -> str:
    """A word in place of the name while nothing is announced, for panels that show a name and would be blank without one."""
    return f'{expr} or label_replace(vector(0), "{label}", "{text}", "", "") unless on () ({event("not_before_countdown_seconds")} != 0)'
