"""The table of pending events, on the fleet dashboard and the VM dashboard."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import queries as q
from parts import (
    CALM,
    CRITICAL,
    NOTICE,
    SHORT_FREEZE_SECONDS,
    URGENCY,
    WARNING,
    override,
    stat,
    table,
    target,
    thresholds,
    trace_links,
    value_map,
    vm_link,
)

STATUS = value_map({"Scheduled": ("Scheduled", CALM), "Started": ("Started", CALM)})
NOTHING = {"noValue": "–"}


def type_column(name: str = "Type", width: int = 85) -> dict[str, Any]:
    return override(name, custom__width=width)


def carried(name: str) -> dict[str, Any]:
    """A hidden field that a link needs. `hidden` is for Grafana up to 12.1, `hideFrom` for 12.2 and later."""
    return override(name, custom__hidden=True, custom__hideFrom={"legend": True, "tooltip": True, "viz": True})


def id_columns(width: int) -> list[dict[str, Any]]:
    """The first part of the event ID, with a link to the trace. The trace ID is the event ID without hyphens."""
    return [override("Event", links=trace_links(), custom__minWidth=width), carried("Trace"), carried("Id")]


def announced_length(title: str, at: tuple[int, int, int, int], event: Callable[..., str]) -> dict[str, Any]:
    """Announced duration of the next event. -1 is an unknown duration, which differs from no announced event."""
    upcoming = q.next_countdown(event)
    lasts = f"max(max by (event_id) ({event('duration_seconds')}) and on (event_id) {upcoming})"
    words = value_map({"0": ("no interruption", CALM), "-1": ("unknown", WARNING)})
    return stat(
        title,
        "The interruption that Azure announces for it. Unknown is not short.",
        at,
        f"{lasts} or -1 * group({event('not_before_countdown_seconds')} != 0)",
        unit="s",
        empty="–",
        defaults={"thresholds": thresholds((None, NOTICE), (SHORT_FREEZE_SECONDS, WARNING)), "mappings": [words]},
    )


def pending(
    title: str, description: str, at: tuple[int, int, int, int], event: Callable[..., str], *, empty: str, with_vm: bool
) -> dict[str, Any]:
    status = q.status(event)
    targets = [
        target(q.short_id(q.traced(q.named(status, event("resources")) if with_vm else status)), "A", table=True),
        target(q.starts_in(event), "B", table=True),
        target(f"1000 * ({q.while_pending(event, 'not_before_timestamp_seconds')})", "C", table=True),
        target(q.while_pending(event, "duration_seconds"), "D", table=True),
        target(q.while_pending(event, "resources"), "E", table=True),
    ]
    if not with_vm:  # the VM dashboard has enough width for Azure's description
        targets.append(
            target(
                f"max by ({q.PAIR}, description) ({event('info')} unless on ({q.PAIR}) {event('ended_timestamp_seconds')})",
                "F",
                table=True,
            )
        )
    columns = {
        **({"vm_name": "VM"} if with_vm else {}),
        "event_type": "Type",
        "event_status": "Status",
        "Value #B": "Starts in",
        "Value #C": "Not before",
        "Value #D": "Lasts",
        "event_source": "Source",
        "Value #E": "VMs",
        **({} if with_vm else {"description": "Azure says"}),
        "id": "Event",
        "trace_id": "Trace",
        "event_id": "Id",
        **({"instance": "Instance"} if with_vm else {}),
    }
    overrides = [
        type_column(),
        override("Status", mappings=[STATUS], custom__cellOptions={"type": "color-text"}, custom__width=85),
        override(
            "Starts in",
            unit="s",
            decimals=1,
            thresholds=URGENCY,
            mappings=[value_map({"0": ("now", CRITICAL)})],
            custom__cellOptions={"type": "color-text"},
            custom__width=100,
            **NOTHING,
        ),
        override("Not before", unit="time:MM-DD HH:mm", custom__width=100, **NOTHING),
        override(
            "Lasts",
            unit="s",
            noValue="unknown",
            mappings=[value_map({"0": ("0 s", "text")})],
            thresholds=thresholds((None, "text"), (SHORT_FREEZE_SECONDS, WARNING)),
            custom__cellOptions={"type": "color-text"},
            custom__width=80,
        ),
        override("Source", custom__width=80, **NOTHING),
        override("VMs", unit="none", custom__width=50, **NOTHING),
        *id_columns(95),
    ]
    if with_vm:
        overrides.append(override("VM", links=[vm_link()], custom__minWidth=240))
        overrides.append(carried("Instance"))
    else:
        overrides.append(
            override(
                "Azure says",
                custom__minWidth=265,
                custom__wrapText=True,
                custom__cellOptions={"type": "auto", "wrapText": True},
                **NOTHING,
            )
        )
    return table(
        title,
        description,
        at,
        targets,
        columns,
        sort="Starts in",
        drop=("job", "scope", "Value #A", *([] if with_vm else ["instance", "Value #F"])),
        overrides=overrides,
        empty=empty,
    )
