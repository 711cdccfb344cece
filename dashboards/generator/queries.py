"""Parts of the queries. They read only the series of the exporters, and `up`."""

EVENT = "cluster,event_id"
VM = "cluster,job,instance"
CLUSTER = 'cluster=~"$cluster"'
JOB = f'{CLUSTER},job=~"$job"'
TARGET = f'{JOB},instance=~"$instance"'
SELECTED = f"{{{TARGET}}}"
OF_ANY_TYPE = f'{TARGET},vm_scale_set=~"$scale_set",owner=~"$owner"'
EVENTS = f'{OF_ANY_TYPE},event_type=~"$event_type"'
FIRST_SEEN = "azure_scheduled_event_first_seen_timestamp_seconds"
ANNOUNCED_IN_TIME = f"unless on({EVENT}) last_over_time({FIRST_SEEN}[$__range])<time()-$__range_s"

# The order of each open event of each VM: more than BEGUN if it has started, more than NEAR if it can start within the
# hour, 0 after the end. The rest above these is the severity: 3 is critical.
PRIORITY = "azure_scheduled_event_priority"
BEGUN, NEAR = 20, 10
# A VM that stops has no series, so its last sample of 15 minutes counts.
LATELY = "[15m]"
IS_OPEN = "azure_scheduled_event_open==1"
SEEN_TO_END = f"last_over_time(azure_scheduled_event_open{LATELY})==0"

# For so long, a VM that is down in its Reboot or Redeploy is in its event.
DOWN_FOR = "[4h]"

WARMING_UP = "azure_scheduled_events_warming_up"


def answers(selection: str = "") -> str:
    """1 for each exporter that the metadata service answered in two minutes, else 0."""
    return f"max_over_time(azure_scheduled_events_up{selection}[2m])"


def exporter(metric: str, more: str = "") -> str:
    """A metric about the exporter or its VM."""
    return f"azure_scheduled_events_{metric}{{{TARGET}{',' + more if more else ''}}}"


def pending(selection: str, than: int = 0) -> str:
    """The open events of the VMs with their priority, except those of which another VM saw the end."""
    lately = f"last_over_time({PRIORITY}{{{selection}}}{LATELY}) > {than}"
    return f"{lately} unless on ({EVENT}) ({SEEN_TO_END} unless on ({EVENT}) {IS_OPEN})"


def with_words(events: str, word: str = "summary", within: str = LATELY) -> str:
    """Adds the newest words about each event."""
    newest = f"topk by({EVENT})(1,last_over_time(azure_scheduled_event_message{within}))"
    return f"({events}) *on({EVENT})group_left({word}) {newest}^0"


def down(selection: str) -> str:
    """The events of which no VM has told for 15 minutes, and a VM that has to restart does not answer."""
    last = f'last_over_time({PRIORITY}{{{selection},event_type=~"Reboot|Redeploy"}}{DOWN_FOR}) > {NEAR}'
    silent = f"{last} and on ({VM}) up == 0 unless on ({EVENT}) last_over_time({PRIORITY}{LATELY})"
    return with_words(f"max by ({EVENT}) ({silent})", within=DOWN_FOR)


def reports() -> str:
    """1 if every selected exporter reports, 0 if one does not, nothing if none is selected."""
    return f"min({answers(SELECTED)} > bool {WARMING_UP} or on ({VM}) 0 * up{{{TARGET}}})"


def state() -> str:
    """As `reports`; 2 if no VM is selected, 3 if there are exporters, but not in this job or cluster, 4 without exporters."""
    return f"{reports()} or 2 * group(up{{{JOB}}}) or 3 * group(azure_scheduled_events_up) or vector(4)"


def coverage() -> str:
    """For each exporter 2 if it reports, else -1 to 4: see `fleet.COVERAGE`."""
    in_event = f"-1 * group by ({VM}) (last_over_time({PRIORITY}{{{TARGET}}}{LATELY}) > {NEAR})"
    return f"max by ({VM}) ({answers(SELECTED)} + 1 + 2 * {WARMING_UP}) or {in_event} or max by ({VM}) (up{{{TARGET}}})"


def cluster_for_text(expr: str) -> str:
    """Adds a label `in` for texts."""
    return f'label_replace({expr},"in"," ($1)","cluster","(.+)")'


def cluster_for_links(expr: str) -> str:
    """Adds a label `in` for links, which need a value also if the series have no cluster."""
    return f'label_replace(label_replace({expr},"in",".*","",""),"in","$1","cluster","(.+)")'
