"""The records that the dashboards read, and what they select of them. Most series have the labels of a VM and of an event."""

EVENT = "cluster, event_id"
VM = "cluster, job, instance"
CLUSTER = 'cluster=~"$cluster"'
TARGET = f'{CLUSTER}, job=~"$job", instance=~"$instance"'
# The scale set of a VM that has never reported its metadata is "unknown".
VMS = f'{TARGET}, vm_scale_set=~"$scale_set|unknown"'
EVENTS = f'{VMS}, event_type=~"$event_type"'

# alerts/scheduled-events.rules.yml
OPEN = "event:azure_scheduled_event_open:last"
# dashboards/dashboards.rules.yml
DOWN = "instance_event:azure_scheduled_event_open:down"
START = "event:azure_scheduled_event_open:start"
ORDER = "instance_event:azure_scheduled_event_open:order"
COVERAGE = "instance:azure_scheduled_events_target:coverage"
PAST = "instance_event:azure_scheduled_event_first_seen_timestamp_seconds:min"
NOTICE = "instance_event:azure_scheduled_event_notice_seconds:first"
LOST = "instance_event:azure_scheduled_event_observed_interruption_seconds:max"
APPROVALS = "job:azure_scheduled_events_approvals:increase15m"
SIZE = "scale_set:azure_scheduled_events_vm_info:count"

# In ORDER, what has begun has more than this, and what is due within the hour has more than NEAR.
BEGUN, SEVERITY, NEAR = 100_000, 10_000, -3601


def exporter(metric: str, more: str = "") -> str:
    """A metric about the exporter or its VM."""
    return f"azure_scheduled_events_{metric}{{{TARGET}{', ' + more if more else ''}}}"


def cluster_for_links(expr: str) -> str:
    """Adds a label `in` for links, which need a value also if the series have no cluster."""
    return f'label_replace(label_replace({expr}, "in", "$1", "cluster", "(.+)"), "in", ".*", "cluster", "")'
