"""PromQL about open events and about the exporters that report, for the fleet dashboard.

The rules in alerts/ remember an event while the VM that reported it is down, so these queries read what the rules
record. The records have one series per event, property, or VM of an event, so the size of the fleet hardly matters.

Each result is aggregated by the labels of an event or of a VM, with `cluster`, before it is joined or counted. Labels of
replicas, and duplicates while a pod or a VM is replaced, therefore cause no error and no wrong count.
"""

from __future__ import annotations

EVENT = "cluster, event_id, event_type"
VM = "cluster, job, instance"
# Age of the newest evaluation of the rules: intervals of a minute, one late evaluation, and delays of a remote write.
EVALUATION_SECONDS = 200
HOUR, DAY = 3600, 86400

CLUSTER = 'cluster=~"$cluster"'
TYPE = 'event_type=~"$event_type"'
TARGET = f'{CLUSTER}, job=~"$job", instance=~"$instance"'
PLACED = f'{TARGET}, vm_scale_set=~"$scale_set", location=~"$location"'
# No series has the label `any`, so `any=~` matches every series if all values are selected, and none for a selection.
ANY_VM = 'any=~"$job", any=~"$instance", any=~"$scale_set", any=~"$location"'

NOW, ANY_MOMENT, DUE = -2, -1, 0
# As in parts.SEVERITY. `BLIND` is for what is not known, `NONE` for what is known to be nothing.
BLIND, NONE, INFO, WARNING, CRITICAL = -1, 0, 1, 2, 3


def known_open(matchers: str = f"{CLUSTER}, {TYPE}") -> str:
    """Every open event, of any VM."""
    return f"(max by ({EVENT}) (azure_scheduled_event:state{{{matchers}}}) == 1)"


def vms() -> str:
    """The selected VMs that events name."""
    return f"azure_scheduled_event:vm{{{PLACED}, {TYPE}}}"


def named_vms() -> str:
    """The selected VMs that events name, with their names.

    A name that a rule has recorded takes precedence: it is kept for the whole event. Then comes the name that the
    exporter reports now, before the next evaluation of the rule. Else the name is the instance.
    """
    nameless = f"group by ({VM}, event_id, event_type) ({vms()} == 0)"
    names = f"group by ({VM}, vm_name, vm_scale_set, location) (azure_scheduled_events_vm_info{{{TARGET}}} and on ({VM}) ({vms()} == 0))"
    return (
        f"({vms()} == 1 or on ({VM}, event_id) {nameless} * on ({VM}) group_left (vm_name, vm_scale_set, location) "
        f"topk by ({VM}) (1, {names}) or on ({VM}, event_id) {vms()})"
    )


def selected() -> str:
    """Open events of the selected VMs. If all VMs are selected, also those that name no VM with an exporter."""
    return f"({known_open()} and on ({EVENT}) {vms()} or {known_open(f'{CLUSTER}, {TYPE}, {ANY_VM}')})"


def _property(name: str, best: str) -> str:
    return f'{best} by ({EVENT}) (azure_scheduled_event:property{{{CLUSTER}, {TYPE}, property="{name}"}})'


def started() -> str:
    return _property("started", "min")


def not_before() -> str:
    return _property("not_before", "min")


def duration() -> str:
    """Announced seconds; no value for an unknown duration."""
    return _property("duration", "max")


def resources() -> str:
    """Number of VMs that an event names, with or without an exporter."""
    return _property("resources", "max")


def severity() -> str:
    """Of the worst alert that fires for an event."""
    firing = 'ALERTS{{{cluster}, alertstate="firing", event_id!="", severity="{name}"}}'
    levels = {"critical": CRITICAL, "warning": WARNING, "info": INFO}
    each = " or ".join(f"{value} * {firing.format(cluster=CLUSTER, name=name)}" for name, value in levels.items())
    return f"max by (cluster, event_id) ({each})"


def ranked(events: str, without_alert: int = INFO) -> str:
    """The severity of each event, with `events` of value 1."""
    rank = f"({severity()} or on (cluster, event_id) {without_alert} * group by (cluster, event_id) ({known_open()}))"
    return f"(({events}) * on (cluster, event_id) group_left () {rank})"


def waiting() -> str:
    """Selected events that have not started."""
    return f"({selected()} unless on ({EVENT}) {started()})"


def running() -> str:
    return f"({selected()} and on ({EVENT}) {started()})"


def imminent() -> str:
    """The worst event that can start at any moment: NotBefore has passed, or Azure gave none."""
    return f"topk(1, {ranked(f'{waiting()} unless on ({EVENT}) ({not_before()} > time())')})"


def upcoming() -> str:
    """The event with the earliest NotBefore in the future, the worst one of several."""
    order = f"({not_before()} > time()) - on ({EVENT}) {ranked(waiting())} / 10"
    return f"bottomk(1, {order})"


def when(events: str) -> str:
    """Seconds until NotBefore; `DUE` after it, `ANY_MOMENT` without it, `NOW` for started events."""
    return (
        f"({NOW} * ({started()} ^ 0) or on ({EVENT}) clamp_min({not_before()} - time(), {DUE}) or on ({EVENT}) {ANY_MOMENT} * ({known_open()} ^ 0)) "
        f"and on ({EVENT}) {events}"
    )


def first_vm() -> str:
    """One VM of each event."""
    return f'(topk by ({EVENT}) (1, {named_vms()}) or on ({EVENT}) label_replace({known_open()}, "vm_name", "a VM", "", ""))'


def text(events: str, suffix: str = "") -> str:
    """The value of each event, with a label `text` such as "Redeploy of db_2 and 3 more VMs"."""
    count = f"({resources()} or on ({EVENT}) {known_open()})"
    more = f'count_values by ({EVENT}) ("more", clamp_min({count} - 1, 0))'
    joined = f'label_join(({events}) * on ({EVENT}) group_left (more) {more} * on ({EVENT}) group_left (vm_name) {first_vm()} ^ 0, "text", "|", "event_type", "vm_name", "more")'
    for found, becomes in (
        (r"(.*)\\|(.*)\\|0", f"$1 of $2{suffix}"),
        (r"(.*)\\|(.*)\\|1", f"$1 of $2 and 1 more VM{suffix}"),
        (r"(.*)\\|(.*)\\|(.*)", f"$1 of $2 and $3 more VMs{suffix}"),
    ):
        joined = f'label_replace({joined}, "text", "{becomes}", "text", "{found}")'
    return joined


def _say(value: str, words: str) -> str:
    return f'label_replace({value}, "text", "{words}", "", "")'


def known() -> str:
    """Exporters that were a target in the last 15 minutes."""
    return f"group by ({VM}) (azure_scheduled_events:known_vm{{{PLACED}}})"


def blind() -> str:
    """Exporters whose VM may have an event that nobody sees."""
    return f"group by ({VM}) (azure_scheduled_events:blind{{{PLACED}}})"


def _out_of(value: str, count: str, total: str, words: str) -> str:
    """`value` with a label `text` of both counts."""
    counts = f'count_values("known", {total}) * on () group_right (known) count_values("count", {count})'
    joined = f'label_join({counts}, "text", " ", "count", "known")'
    return f'label_replace({joined}, "text", "{words}", "text", "(.*) (.*)") * on () group_left () {value}'


def no_rules() -> str:
    """A value if the rules have not been evaluated for some minutes. Without any exporter, only an alert tells."""
    evaluated = f"min(max by (cluster) (azure_scheduled_events:evaluation_timestamp_seconds{{{CLUSTER}}}))"
    absent = f'ALERTS{{alertname="AzureScheduledEventsExporterAbsent"}} unless on () {evaluated}'
    return f"(vector({BLIND}) unless on () {evaluated} > time() - {EVALUATION_SECONDS} unless on () ({absent}))"


def all_clear() -> str:
    """0 if the rules are evaluated, an exporter is known, and all known exporters answer; else no value."""
    return f"(0 * count({known()}) unless on () {blind()} unless on () {no_rules()})"


def state() -> str:
    """What to show in place of events if there are none: no rules, blind, none, no exporter."""
    some_blind = _out_of(f"vector({BLIND})", f"count({blind()})", f"count({known()})", "$1 of $2 blind")
    return (
        f"({_say(no_rules(), 'no rules')} or on () {some_blind} "
        f"or on () {_say(f'0 * count({known()})', 'none')} or on () {_say(f'vector({BLIND})', 'no exporter')})"
    )


def coverage() -> str:
    """`BLIND` if an exporter does not report, with a text such as "22 of 24 report"."""
    worst = f"({BLIND} * group({blind()}) or {NONE} * group({known()}))"
    reporting = f"(count({known()}) - (count({blind()}) or vector(0)))"
    report = _out_of(worst, reporting, f"count({known()})", "$1 of $2 report")
    return f"{_say(no_rules(), 'no rules')} or on () {report} or on () {_say(f'vector({BLIND})', 'no exporter')}"


def running_text() -> str:
    """The three worst started events, and the number of the others."""
    shown = 3
    events = ranked(running())
    others = f"count({running()}) - {shown} > 0"
    rest = f'label_replace(count_values("text", {others}), "text", "and $1 more, now", "text", "(.*)")'
    return f"{text(f'topk({shown}, {events})', ', now')} or on (text) {rest}"


def within_the_hour() -> str:
    """Selected events that interrupt a VM now or within an hour."""
    later = f"({not_before()} > time() + {HOUR}) unless on ({EVENT}) {started()}"
    return f"({selected()} unless on ({EVENT}) ({later}) unless on ({EVENT}) {duration()} == 0)"


def after_the_hour() -> str:
    return f"({waiting()} and on ({EVENT}) {not_before()} > time() + {HOUR})"


def count_vms(events: str, by: str = "") -> str:
    """The number of VMs that the events name, each counted once."""
    grouped = f"group by ({VM}{', ' + by if by else ''}) ({vms()} and on ({EVENT}) {events})"
    return f"count{f' by ({by})' if by else ''} ({grouped})"


def advisories() -> str:
    advice = f'max by (cluster, event_id) (azure_scheduled_event:property{{{CLUSTER}, property="advisory"}}) == 1'
    return f"count({advice} and on (cluster, event_id) azure_scheduled_event:vm{{{PLACED}}})"


def _further_vms() -> str:
    """A label `others` with the names of a second and a third VM, for events that have one."""
    named = f"azure_scheduled_event:vm{{{PLACED}, {TYPE}}} == 1"
    one = f"topk by ({EVENT}) (1, {named})"
    two = f"topk by ({EVENT}) (1, {named} unless on ({VM}, event_id) {one})"
    three = f"topk by ({EVENT}) (1, {named} unless on ({VM}, event_id) {one} unless on ({VM}, event_id) {two})"
    second = f'label_replace({two}, "second", ", $1", "vm_name", "(.*)")'
    third = f'label_replace({three}, "third", ", $1", "vm_name", "(.*)")'
    return f'label_join({second} * on ({EVENT}) group_left (third) {third} or on ({EVENT}) {second}, "others", "", "second", "third")'


def within_cluster(expr: str) -> str:
    """Adds a label `in` for links to other dashboards, which need a value also if the series have no cluster."""
    return f'label_replace(label_replace({expr}, "in", "$1", "cluster", "(.+)"), "in", ".*", "cluster", "")'


def rows() -> str:
    """The severity of each selected event, 0 without an alert. The labels have the first VMs, the place and the source."""
    source = f"topk by ({EVENT}) (1, group by ({EVENT}, event_source) (azure_scheduled_event:state{{{CLUSTER}, {TYPE}}} == 1))"
    row = (
        f"{ranked(selected(), 0)} * on ({EVENT}) group_left (event_source) {source} "
        f"* on ({EVENT}) group_left (vm_name, vm_scale_set, location, instance) {first_vm()} ^ 0 "
        f"* on ({EVENT}) group_left (others) ({_further_vms()} or on ({EVENT}) {known_open()})"
    )
    return f'label_join({within_cluster(row)}, "names", "", "vm_name", "others")'


def order() -> str:
    """Sorts the table: what can start at any moment first, by severity, and what has started last, as nobody can prepare for it."""
    return (
        f"(1e10 * ({started()} ^ 0) or on ({EVENT}) ({not_before()} > time()) - time() or on ({EVENT}) -1 * {ranked(known_open(), NONE)}) "
        f"and on ({EVENT}) {selected()}"
    )


def order_by_severity(events: str) -> str:
    """Sorts by time, with events of low severity after the others, so that many short pauses do not hide a redeploy."""
    return f"({not_before()} + on ({EVENT}) 1e10 * ({ranked(events)} <= bool {INFO}))"


def per_day(days: int) -> str:
    """Events that have not started, by day (UTC, 0 is today) and type; the value for type "Day" is noon of the day in ms."""
    midnight = f"(time() - time() % {DAY})"
    moment = f"({not_before()} or on ({EVENT}) time() * {known_open()})"
    day = f"clamp_min(floor(({moment} - {midnight}) / {DAY}), 0) < {days}"
    dates = " or ".join(f'label_replace(vector({i + 0.5}), "day", "{i}", "", "")' for i in range(days))
    noon = f'label_replace(({midnight} + ({dates}) * {DAY}) * 1000, "event_type", "Day", "", "")'
    return f'count_values by (event_type) ("day", {day} and on ({EVENT}) {waiting()}) or on (day, event_type) {noon}'


def why_blind() -> str:
    """The reason why an exporter does not report, as recorded, with the name of its VM."""
    return within_cluster(
        f"topk(100, topk by ({VM}) (1, max by ({VM}, vm_name) (azure_scheduled_events:blind{{{PLACED}}})))"
    )
