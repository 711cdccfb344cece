"""PromQL of the dashboards Fleet and VM.

Which events are open, which alerts they have and in which words comes from the exporters and from alerts/*.rules.yml. A VM
that is down reports nothing, so its own series are read with `last_over_time`. Each result is aggregated by the labels of
an event or of a VM before it is joined, so replicas of Prometheus and a rollout of the exporter cause no error.
"""

from __future__ import annotations

from dataclasses import dataclass

EVENT = "cluster, event_id"
VM = "cluster, job, instance"
HOUR = 3600
CLUSTER = 'cluster=~"$cluster"'
OWN = 'scope!="other"'
TARGET = f'{CLUSTER}, job=~"$job", instance=~"$instance"'
# Values of `Scope.when`, and of a text about events that cannot be known.
DOWN, RUNNING, DUE, UNKNOWN = -2, -1, 0, -1e9
# Values of `Scope.coverage`.
NOT_SCRAPED, NO_METADATA, WARMING_UP, IN_EVENT, REPORTS = range(5)
# Weight of a severity in `Scope.order`, more than the seconds of an hour.
WEIGHT = 100_000
# The answer of the metadata service is old after this time.
STALE_SECONDS = 60
OPEN = "event:azure_scheduled_event_open:last"
ALERT = "event:azure_scheduled_event_alert:last"
DOWN_VMS = "instance_event:azure_scheduled_event_alert:down"
UP = "instance:azure_scheduled_events_target:up"


def label(expr: str, name: str, text: str) -> str:
    return f'label_replace({expr}, "{name}", "{text}", "", "")'


def last(metric: str, more: str = "", of: str = TARGET, over: str = "15m") -> str:
    """The last sample of a metric about events."""
    return f"last_over_time(azure_scheduled_event_{metric}{{{of}{', ' + more if more else ''}}}[{over}])"


def exporter(metric: str, more: str = "", of: str = TARGET) -> str:
    """A metric about the exporter or its VM."""
    return f"azure_scheduled_events_{metric}{{{of}{', ' + more if more else ''}}}"


def ids(expr: str) -> str:
    """Adds the trace ID, which is the event ID without hyphens, and the first part of the event ID."""
    parts = "-".join(["([0-9A-Fa-f]+)"] * 5)
    traced = f'label_replace({expr}, "trace_id", "$1$2$3$4$5", "event_id", "{parts}")'
    return f'label_replace({traced}, "id", "$1", "event_id", "([^-]+).*")'


def cluster_for_links(expr: str) -> str:
    """Adds a label `in` for links, which need a value also if the series have no cluster."""
    return f'label_replace(label_replace({expr}, "in", "$1", "cluster", "(.+)"), "in", ".*", "cluster", "")'


def names(of: str) -> str:
    """The name of each VM of `of`, else its instance."""
    unnamed = f'label_replace({of}, "vm_name", "$1", "instance", "(.*)")'
    named = f"last_over_time({exporter('vm_info')}[1h]) and on ({VM}) {of}"
    return f"topk by ({VM}) (1, {named} or on ({VM}) {unnamed}) ^ 0"


def message() -> str:
    """The newest words about each event. A VM that is down has none for up to four hours."""
    return f"topk by ({EVENT}) (1, {last('message', of=CLUSTER, over='4h')}) ^ 0"


def down() -> str:
    """Events whose VM does not answer or was evicted. No scrape may have seen their start."""
    evicted = last("alert", 'event_type=~"Preempt|Terminate"', CLUSTER)
    return f"group by ({EVENT}) ({DOWN_VMS} or {evicted} unless on ({VM}) {UP} == 1)"


def started() -> str:
    return f"group by ({EVENT}) ({last('started_timestamp_seconds', OWN, CLUSTER)})"


def begun() -> str:
    """Events that have started, or whose VM is down."""
    return f"({down()} or {started()})"


def seconds_left() -> str:
    """Until NotBefore; 0 after it, and without it."""
    not_before = last("not_before_timestamp_seconds", OWN, CLUSTER)
    return f"(clamp_min(min by ({EVENT}) ({not_before}) - time(), 0) or 0 * {OPEN})"


@dataclass(frozen=True)
class Scope:
    """What a dashboard selects besides its targets."""

    events: str = ""  # matchers of an event
    other_vms: str = ""  # matchers of the VMs that are not selected. A VM without metadata is selected

    def vms(self, expr: str) -> str:
        """Without the VMs that are not selected."""
        others = f"last_over_time({exporter('vm_info', self.other_vms)}[1h])"
        return f"(({expr}) unless on ({VM}) {others})" if self.other_vms else f"({expr})"

    def pairs(self) -> str:
        """Selected VMs and their events, of the jobs that the rules select. Advice is no event."""
        more = f", {self.events}" if self.events else ""
        alerts = last("alert", f'alert!="AzureScheduledEventAdvisory"{more}')
        reported = f"group by ({VM}, event_id) ({alerts} or {DOWN_VMS}{{{TARGET}{more}}})"
        return self.vms(f"{reported} and on (cluster, job) {UP}")

    def open(self) -> str:
        return f"({OPEN} == 1 and on ({EVENT}) {self.pairs()})"

    def rank(self) -> str:
        """Open events with the severity of their worst alert: 3 critical, 2 warning, 1 info, 0 none."""
        worst = f'3 * {ALERT}{{severity="critical"}} or 2 * {ALERT}{{severity="warning"}} or {ALERT} or 0 * {OPEN}'
        return f"(max by ({EVENT}) ({worst}) and on ({EVENT}) {self.open()})"

    def texts(self, ranked: str) -> str:
        """Events with their words in the label `summary`, and with the label `state` if their VM is down."""
        state = f"({label(down(), 'state', ', VM down')} or on ({EVENT}) {OPEN} ^ 0)"
        return f"{ranked} * on ({EVENT}) group_left (state) {state} * on ({EVENT}) group_left (summary) {message()}"

    def order(self) -> str:
        """What is due within the hour by severity and time, then the others by time."""
        return f"({self.rank()} * ({seconds_left()} <= bool {HOUR}) * {WEIGHT} - {seconds_left()})"

    def next(self) -> str:
        """The event to prepare for: the worst one of the next hour, else the next one."""
        return f"topk(1, {self.order()} unless {begun()})"

    def when(self) -> str:
        """Seconds until NotBefore, or `DOWN`, `RUNNING`, `DUE`."""
        return f"({DOWN} * {down()} or {RUNNING} * {started()} or {seconds_left()}) and on ({EVENT}) {self.open()}"

    def blind(self) -> str:
        """The exporters that miss events, with one of the values `NOT_SCRAPED` to `WARMING_UP`."""
        targets, success = f"{UP}{{{TARGET}}}", exporter("last_success_timestamp_seconds")
        return self.vms(
            f"{targets} + 1 and on ({VM}) {exporter('warming_up')} == 1"
            f" or {targets} unless on ({VM}) timestamp({success}) - {success} <= {STALE_SECONDS}"
            f" unless on ({VM}) ({targets} == 0 and on ({VM}) {self.pairs()})"
        )

    def coverage(self) -> str:
        """All exporters. The others are `IN_EVENT`, whose VM is down in its event and misses none, or `REPORTS`."""
        others = self.vms(f"{UP}{{{TARGET}}} + {IN_EVENT}")
        return f"({self.blind()} or {others})"

    def no_event(self) -> str:
        """What to show in place of events if there are none."""
        return " or on () ".join(
            label(value, "summary", text)
            for value, text in (
                (f"({UNKNOWN:.0f} * absent({UP}))", "no exporter or no rules"),
                (f"({UNKNOWN:.0f} * group({self.blind()}))", "none known: see Coverage"),
                (f"(0 * group({UP}{{{TARGET}}}))", "none"),
                (f"vector({UNKNOWN:.0f})", "no exporter selected"),
            )
        )
