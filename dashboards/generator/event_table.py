"""The tables of events of the fleet dashboard."""

from __future__ import annotations

from typing import Any

import events
import queries as q
from parts import (
    CALM,
    COLOURED_CELL,
    SEVERITY_MAP,
    TYPE_COLOURS,
    carried,
    override,
    table,
    target,
    trace_links,
    value_map,
    vm_link,
)

NOTHING = {"noValue": "–"}


def type_column(name: str = "Type", width: int = 85) -> dict[str, Any]:
    return override(name, custom__width=width)


def id_columns(width: int) -> list[dict[str, Any]]:
    """The first part of the event ID, with a link to the trace. The trace ID is the event ID without hyphens."""
    return [override("Event", links=trace_links(), custom__minWidth=width), carried("Trace"), carried("Id")]


# Codes of `events.when`.
WHEN = value_map(
    {
        str(events.NOW): ("now", CALM),
        str(events.ANY_MOMENT): ("any moment", CALM),
        str(events.DUE): ("due", CALM),
    }
)
# A link needs these, so the columns exist but are not shown.
HIDDEN = ("First", "Instance", "Cluster")


def severity_column(width: int = 105) -> dict[str, Any]:
    return override(
        "Severity", mappings=[SEVERITY_MAP], custom__cellOptions=COLOURED_CELL, custom__width=width, **NOTHING
    )


def length_column() -> dict[str, Any]:
    return override("Lasts", unit="s", noValue="unknown", mappings=[value_map({"0": ("0 s", CALM)})], custom__width=85)


def ordered(rows: dict[str, Any], by: str) -> dict[str, Any]:
    """Sorts the rows by a column that is not shown. The table's own sorting needs one that is."""
    order = {"id": "sortBy", "options": {"fields": {}, "sort": [{"field": by, "desc": False}]}}
    rows["transformations"].insert(1, order)
    rows["options"]["sortBy"] = []
    rows["fieldConfig"]["defaults"]["custom"]["filterable"] = True
    return rows


def of_fleet(title: str, description: str, at: tuple[int, int, int, int]) -> dict[str, Any]:
    """One row per open event, also of an event whose VMs are down."""
    of = events.selected()
    targets = [
        target(q.short_id(q.traced(events.rows())), "A", table=True),
        target(events.when(of), "B", table=True),
        target(f"1000 * {events.not_before()} and on ({events.EVENT}) {of}", "C", table=True),
        target(f"{events.duration()} and on ({events.EVENT}) {of}", "D", table=True),
        target(f"{events.resources()} and on ({events.EVENT}) {of}", "E", table=True),
        target(events.order(), "F", table=True),
    ]
    columns = {
        "Value #B": "Starts in",
        "event_type": "Type",
        "names": "First VMs",
        "Value #E": "VMs",
        "Value #A": "Severity",
        "Value #C": "Not before",
        "Value #D": "Lasts",
        "vm_scale_set": "Scale set",
        "location": "Location",
        "cluster": "In cluster",
        "event_source": "Source",
        "id": "Event",
        "trace_id": "Trace",
        "event_id": "Id",
        "vm_name": "First",
        "instance": "Instance",
        "in": "Cluster",
    }
    rows = table(
        title,
        description,
        at,
        targets,
        columns,
        sort="Starts in",
        drop=("Value #F", "others"),
        overrides=[
            override("Starts in", unit="s", decimals=0, mappings=[WHEN], custom__width=105, **NOTHING),
            type_column(),
            override("First VMs", links=[vm_link("Everything about ${__data.fields.First}")], custom__minWidth=215),
            override("VMs", unit="none", custom__width=65, **NOTHING),
            severity_column(),
            override("Not before", unit="time:MM-DD HH:mm", custom__width=120, **NOTHING),
            length_column(),
            override("Scale set", custom__minWidth=140, **NOTHING),
            override("Location", custom__width=120, **NOTHING),
            override("In cluster", custom__width=120, **NOTHING),
            override("Source", custom__width=88, **NOTHING),
            override("Event", links=trace_links(), custom__width=105),
            *(carried(name) for name in ("Trace", "Id")),
            *(carried(name) for name in HIDDEN),
        ],
    )
    return ordered(rows, "Value #F")


def later(title: str, description: str, at: tuple[int, int, int, int]) -> dict[str, Any]:
    """Events with more than an hour left."""
    of = events.after_the_hour()
    rows = table(
        title,
        description,
        at,
        [
            target(events.text(events.ranked(of, events.NONE)), "A", table=True),
            target(f"1000 * {events.not_before()} and on ({events.EVENT}) {of}", "B", table=True),
            target(f"{events.duration()} and on ({events.EVENT}) {of}", "C", table=True),
            target(events.order_by_severity(of), "D", table=True),
        ],
        {"Value #B": "Not before", "text": "Event", "Value #C": "Lasts", "Value #A": "Severity"},
        sort="Not before",
        drop=("cluster", "event_id", "event_type", "more", "vm_name", "Value #D"),
        overrides=[
            override("Not before", unit="time:ddd DD MMM HH:mm", custom__width=140, **NOTHING),
            override("Event", custom__minWidth=220),
            length_column(),
            severity_column(),
        ],
    )
    return ordered(rows, "Value #D")


def week(title: str, description: str, at: tuple[int, int, int, int]) -> dict[str, Any]:
    """Events per day and type, one row per day."""
    rows = table(
        title,
        description,
        at,
        [target(events.per_day(7), "A", table=True)],
        {"Day": "Day", **{name: name for name in TYPE_COLOURS}},
        sort="Day",
        drop=("day\\event_type",),
        overrides=[
            override("Day", unit="time:ddd DD MMM", custom__minWidth=95),
            *(override(name, unit="none", custom__minWidth=78, **NOTHING) for name in TYPE_COLOURS),
        ],
    )
    matrix = {"columnField": "event_type", "rowField": "day", "valueField": "Value", "emptyValue": "null"}
    rows["transformations"] = [{"id": "groupingToMatrix", "options": matrix}, rows["transformations"][1]]
    return rows
