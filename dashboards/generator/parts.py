"""Building blocks of all dashboards: colours, panels, targets, variables, links.

They do not depend on the content of a panel. Every panel has the data source of the template variable, a description
and a text for missing data; a missing title, description or query raises ValueError.
"""

from __future__ import annotations

import json
import urllib.parse
from typing import Any

DATASOURCE = {"type": "prometheus", "uid": "${datasource}"}
# The version whose form the files have: its schema, and its panel options.
GRAFANA, SCHEMA = "12.2.0", 42
TAGS = ["azure", "azure-scheduled-events", "maintenance"]

# Colours are names of Grafana's palette, which has other values in the light theme.
# They differ for deuteranopes and protanopes in both themes (CIEDE2000 of 20), and text on them has a contrast of 4.5.
#
# States, by the severity of the alert. They are backgrounds of stats and table cells, on which Grafana writes in black
# or white. They are no colours of text: no yellow is readable as text in the light theme. Tables write it
# out as well. "transparent" has no background, "text" is light grey in the dark theme and dark grey in the light theme.
CRITICAL, WARNING, NOTICE, BLIND, CALM = "dark-red", "yellow", "dark-blue", "text", "transparent"
DIM = "transparent"
# Of a status on a time line. The text is always shown.
STATUS_COLOURS = {"Scheduled": NOTICE, "Started": WARNING, "Ended": BLIND, "Advisory": NOTICE}
# Event types, in graphs only. A type has no severity, so a table does not colour it.
TYPE_COLOURS = {
    "Freeze": "light-blue",
    "Reboot": "light-yellow",
    "Redeploy": "dark-purple",
    "Preempt": "super-light-red",
    "Terminate": "dark-green",
}
# For a graph with up to five series.
SERIES = tuple(TYPE_COLOURS.values())
# Lines and bars of other graphs: what is usual, what is bad, and a third series.
LINE, BAD_LINE, OTHER_LINE = "blue", "semi-dark-orange", "text"

# Grafana shows these texts for an empty answer, and also for a query that failed.
NO_VALUE, NO_ROWS, NO_DATA = "–", "no rows: see Coverage", "No data"

# A table cell with the colour of its value as background.
COLOURED_CELL = {"type": "color-background", "mode": "basic", "applyToRow": False}

# Minimum notice in Azure's documentation, and the tolerance of the alert.
PROMISED_SECONDS = {"Freeze": 900, "Reboot": 900, "Redeploy": 600, "Preempt": 30, "Terminate": 300}
ALLOWED_LESS = {"Preempt": 10}


def thresholds(*steps: tuple[float | None, str]) -> dict[str, Any]:
    return {"mode": "absolute", "steps": [{"color": colour, "value": value} for value, colour in steps]}


# Severities as numbers, so that a query can choose the colour: 3 critical, 2 warning, 1 info, 0 none, below 0 not known.
SEVERITY = thresholds((None, BLIND), (0, CALM), (1, NOTICE), (2, WARNING), (3, CRITICAL))


def value_map(options: dict[str, tuple[str, str]]) -> dict[str, Any]:
    """Maps raw values to a text and a colour."""
    return {
        "type": "value",
        "options": {
            raw: {"text": text, "color": colour, "index": i} for i, (raw, (text, colour)) in enumerate(options.items())
        },
    }


SEVERITY_MAP = value_map(
    {"3": ("critical", CRITICAL), "2": ("warning", WARNING), "1": ("info", NOTICE), "0": ("none", CALM)}
)


def target(
    expr: str, ref: str = "A", legend: str = "__auto", *, instant: bool = False, table: bool = False, interval: str = ""
) -> dict[str, Any]:
    """One query. Tables and single values use instant queries, graphs use range queries."""
    out = {
        "datasource": DATASOURCE,
        "editorMode": "code",
        "expr": " ".join(expr.split()),
        "instant": instant or table,
        "legendFormat": legend,
        "range": not (instant or table),
        "refId": ref,
    }
    if table:
        out["format"] = "table"
    if interval:
        out["interval"] = interval
    return out


def override(name: str, **properties: Any) -> dict[str, Any]:
    """Properties of a field. A double underscore in a property name is a dot, as in custom__width."""
    return {
        "matcher": {"id": "byName", "options": name},
        "properties": [{"id": key.replace("__", "."), "value": value} for key, value in properties.items()],
    }


def matching(pattern: str, **properties: Any) -> dict[str, Any]:
    """Properties of all fields whose name matches `pattern`."""
    return {**override("", **properties), "matcher": {"id": "byRegexp", "options": pattern}}


def fixed(colour: str) -> dict[str, str]:
    return {"fixedColor": colour, "mode": "fixed"}


def by_name(colours: dict[str, str]) -> list[dict[str, Any]]:
    return [override(name, color=fixed(colour)) for name, colour in colours.items()]


def by_type() -> list[dict[str, Any]]:
    return by_name(TYPE_COLOURS)


def panel(
    kind: str,
    title: str,
    description: str,
    at: tuple[int, int, int, int],
    targets: list[dict[str, Any]],
    *,
    empty: str = "",
    unit: str = "short",
    defaults: dict[str, Any] | None = None,
    custom: dict[str, Any] | None = None,
    overrides: list[dict[str, Any]] | None = None,
    options: dict[str, Any] | None = None,
    transformations: list[dict[str, Any]] | None = None,
    **more: Any,
) -> dict[str, Any]:
    """A panel at (x, y, width, height). `empty` is the text for missing data."""
    if not (title and description and targets):
        raise ValueError(f"panel {title!r} has no title, description or query")
    empty = empty or {"stat": NO_VALUE, "table": NO_ROWS}.get(kind, NO_DATA)
    x, y, w, h = at
    field = {"noValue": empty, "unit": unit, "custom": custom or {}, **(defaults or {})}
    return {
        "type": kind,
        "pluginVersion": GRAFANA,
        "title": title,
        "description": description,
        "datasource": DATASOURCE,
        "gridPos": {"x": x, "y": y, "w": w, "h": h},
        "targets": targets,
        "fieldConfig": {"defaults": field, "overrides": overrides or []},
        "options": options or {},
        "transformations": transformations or [],
        **more,
    }


def stat(
    title: str,
    description: str,
    at: tuple[int, int, int, int],
    expr: str,
    *,
    legend: str = "__auto",
    text: str = "value",
    title_size: int | None = None,
    instant: bool = True,
    **more: Any,
) -> dict[str, Any]:
    """A single value. Its colour is the background. A fixed colour "text" means none."""
    options = {
        "colorMode": "background_solid",
        "graphMode": "none",
        "justifyMode": "center",
        "orientation": "auto",
        "textMode": text,
        **({"text": {"titleSize": title_size}} if title_size else {}),
        "wideLayout": False,
        "reduceOptions": {"calcs": ["lastNotNull"], "fields": "", "values": False},
    }
    more.setdefault("empty", NO_VALUE)
    defaults = more["defaults"] = dict(more.get("defaults", {}))
    if defaults.get("color") == fixed("text"):
        defaults["color"] = fixed(CALM)
    # Missing data must not have the colour of the lowest threshold, which can be red.
    defaults["mappings"] = [
        *defaults.get("mappings", []),
        {
            "type": "special",
            "options": {"match": "null+nan", "result": {"color": DIM, "index": 9, "text": more["empty"]}},
        },
    ]
    return panel(
        "stat", title, description, at, [target(expr, legend=legend, instant=instant)], options=options, **more
    )


def bars(
    title: str,
    description: str,
    at: tuple[int, int, int, int],
    targets: list[dict[str, Any]],
    names: str = "left",
    rows: bool = False,
    **more: Any,
) -> dict[str, Any]:
    """Horizontal bars, one per series or table row. Grafana names a single bar only if `displayName` is set."""
    options = {
        "displayMode": "basic",
        "maxVizHeight": 46 if names == "top" else 34,
        "minVizHeight": 42 if names == "top" else 12,
        "minVizWidth": 8,
        "namePlacement": names,
        "orientation": "horizontal",
        "showUnfilled": True,
        "sizing": "auto",
        "text": {"titleSize": 12},
        "valueMode": "text",
        "reduceOptions": {"calcs": ["lastNotNull"], "fields": "", "values": rows},
    }
    defaults = more["defaults"] = {"min": 0, **more.get("defaults", {})}
    if "thresholds" not in defaults:
        defaults.setdefault("color", fixed(LINE))
    return panel("bargauge", title, description, at, targets, options=options, **more)


def graph(
    title: str,
    description: str,
    at: tuple[int, int, int, int],
    targets: list[dict[str, Any]],
    *,
    style: str = "line",
    stacked: bool = False,
    legend: str = "list",
    calcs: list[str] | None = None,
    custom: dict[str, Any] | None = None,
    **more: Any,
) -> dict[str, Any]:
    look = {
        "drawStyle": style,
        "fillOpacity": 70 if style == "bars" else 15,
        "lineWidth": 1,
        "showPoints": "never",
        "spanNulls": False,
        "lineInterpolation": "linear",
        "axisSoftMin": 0,
        "stacking": {"group": "A", "mode": "normal" if stacked else "none"},
        **(custom or {}),
    }
    options = {
        "legend": {"calcs": calcs or [], "displayMode": legend, "placement": "bottom", "showLegend": True},
        "tooltip": {"mode": "multi", "sort": "desc"},
    }
    return panel("timeseries", title, description, at, targets, custom=look, options=options, **more)


def table(
    title: str,
    description: str,
    at: tuple[int, int, int, int],
    targets: list[dict[str, Any]],
    columns: dict[str, str],
    *,
    sort: str,
    desc: bool = False,
    drop: tuple[str, ...] = (),
    overrides: list[dict[str, Any]] | None = None,
    **more: Any,
) -> dict[str, Any]:
    """A table that shows `columns` in this order. Keys are names in the query result, values are column titles."""
    hidden = ("Time", "__name__", *drop)
    transformations = [
        {"id": "merge", "options": {}},
        {
            "id": "organize",
            "options": {
                "excludeByName": dict.fromkeys(hidden, True),
                "includeByName": {},
                "indexByName": {name: i for i, name in enumerate(columns)},
                "renameByName": columns,
            },
        },
    ]
    options = {
        "cellHeight": "sm",
        "footer": {"show": False, "reducer": ["sum"], "countRows": False, "fields": ""},
        "showHeader": True,
        "sortBy": [{"displayName": sort, "desc": desc}],
    }
    return panel(
        "table",
        title,
        description,
        at,
        targets,
        custom={"align": "left", "cellOptions": {"type": "auto"}, "filterable": False, "inspect": False},
        overrides=overrides,
        options=options,
        transformations=transformations,
        **more,
    )


def carried(name: str) -> dict[str, Any]:
    """A hidden column that a link needs. `hidden` is for Grafana up to 12.1, `hideFrom` for 12.2 and later."""
    return override(name, custom__hidden=True, custom__hideFrom={"legend": True, "tooltip": True, "viz": True})


def row(title: str, y: int, panels: list[dict[str, Any]]) -> dict[str, Any]:
    """A collapsed row."""
    return {
        "type": "row",
        "title": title,
        "collapsed": True,
        "gridPos": {"x": 0, "y": y, "w": 24, "h": 1},
        "panels": panels,
    }


def query_variable(
    name: str,
    label: str,
    query: str,
    *,
    multi: bool = True,
    all_value: str | None = ".*",
    description: str = "",
    sort: int = 1,
    regex: str = "",
) -> dict[str, Any]:
    out = {
        "type": "query",
        "name": name,
        "label": label,
        "description": description,
        "datasource": DATASOURCE,
        "definition": query,
        "query": {
            "qryType": 3 if query.startswith("query_result(") else 1,
            "query": query,
            "refId": "PrometheusVariableQueryEditor-VariableQuery",
        },
        "refresh": 2,
        "regex": regex,
        "sort": sort,
        "hide": 0,
        "multi": multi,
        "includeAll": multi,
        "options": [],
        "skipUrlSync": False,
        "current": {"selected": True, "text": ["All"], "value": ["$__all"]} if multi else {},
    }
    if multi and all_value:
        out["allValue"] = all_value
    return out


def custom_variable(name: str, label: str, values: list[str], description: str) -> dict[str, Any]:
    return {
        "type": "custom",
        "name": name,
        "label": label,
        "description": description,
        "query": ",".join(values),
        "multi": True,
        "includeAll": True,
        "allValue": ".*",
        "current": {"selected": True, "text": ["All"], "value": ["$__all"]},
        "hide": 0,
        "skipUrlSync": False,
        "options": [{"selected": True, "text": "All", "value": "$__all"}]
        + [{"selected": False, "text": v, "value": v} for v in values],
    }


def datasource_variable(name: str, label: str, kind: str, description: str = "", hide: int = 0) -> dict[str, Any]:
    return {
        "type": "datasource",
        "name": name,
        "label": label,
        "description": description,
        "query": kind,
        "regex": "",
        "hide": hide,
        "multi": False,
        "includeAll": False,
        "current": {},
        "options": [],
        "refresh": 1,
        "skipUrlSync": False,
    }


DATASOURCE_VARIABLE = datasource_variable("datasource", "Data source", "prometheus")
# Hidden, because Grafana marks a variable as an error if there is no data source of its kind. The URL can set them.
TRACE_VARIABLES = [
    datasource_variable("tempo", "Tempo", "tempo", "Where the link from an event to its trace in Tempo leads", hide=2),
    datasource_variable(
        "jaeger", "Jaeger", "jaeger", "Where the link from an event to its trace in Jaeger leads", hide=2
    ),
]

# The options are the labels of the targets and of the exporters' own metrics, so they include a VM that is down, and exist
# without the rules. A label that no series has gives no options: All, and the empty value, match then.
_EXPORTERS = '__name__=~"instance:azure_scheduled_events_target:up|azure_scheduled_events_up"'


def cluster_variable(*, multi: bool = True) -> dict[str, Any]:
    return query_variable("cluster", "Cluster", f"label_values({{{_EXPORTERS}}}, cluster)", multi=multi)


def job_variable() -> dict[str, Any]:
    return query_variable("job", "Job", f'label_values({{{_EXPORTERS}, cluster=~"$cluster"}}, job)')


def vm_label_variable(name: str, label: str, of: str) -> dict[str, Any]:
    """The values that a label of VMs has."""
    return query_variable(
        name, label, f'label_values(azure_scheduled_events_vm_info{{cluster=~"$cluster", job=~"$job"}}, {of})'
    )


def vm_variable(*, multi: bool, more: str = "") -> dict[str, Any]:
    """The VMs. The value is the instance, the text is the name of the VM, or the instance if the name is not known."""
    of = 'cluster=~"$cluster", job=~"$job"'
    # Each line adds VMs that the lines before it do not have: after the VM was down or deleted, without a name, without the
    # rules. Instant selectors, because over 10,000 VMs a range of 15 minutes takes ten times as long.
    placed = f"{of}, {more}" if more else of
    named = "instance_event:azure_scheduled_event_observed_interruption_seconds:max"
    series = [f"azure_scheduled_events_vm_info{{{placed}}}", f"last_over_time({named}{{{placed}}}[$__range])"]
    if not more:  # these have no labels of the VM
        series += [f"instance:azure_scheduled_events_target:up{{{of}}}", f"azure_scheduled_events_up{{{of}}}"]
    return query_variable(
        "instance",
        "VM",
        f"query_result(group by (instance, vm_name) ({' or on (cluster, instance) '.join(series)}))",
        multi=multi,
        regex='/instance="(?<value>[^"]+)"(?:,vm_name="(?<text>[^"]+)")?/',
    )


# Links. A dashboard inherits what is selected of clusters and jobs, and never a VM.
SELECTION = "${datasource:queryparam}&${cluster:queryparam}&${job:queryparam}"
UIDS = {"azse-fleet": "Fleet", "azse-vm": "VM", "azse-history": "History"}


def vm_link(title: str = "Everything about this VM") -> dict[str, Any]:
    """From a table row to its VM. The row has the columns Instance and Cluster, which can be hidden; Cluster can be empty."""
    return {
        "title": title,
        "targetBlank": False,
        "url": "/d/azse-vm?var-instance=${__data.fields.Instance}&var-cluster=${__data.fields.Cluster}"
        "&${datasource:queryparam}&${job:queryparam}&${__url_time_range}",
    }


def trace_links() -> list[dict[str, Any]]:
    """From a table row to the event's trace. The row has the columns Trace and Id, which can be hidden."""
    return [_trace_link("tempo", "Tempo", {"queryType": "traceql"}), _trace_link("jaeger", "Jaeger", {})]


def _trace_link(kind: str, name: str, more: dict[str, str]) -> dict[str, Any]:
    source = {"type": kind, "uid": "SOURCE"}
    query = {"refId": "A", "datasource": source, **more, "query": "TRACE"}
    pane = {"datasource": "SOURCE", "queries": [query], "range": {"from": "now-7d", "to": "now"}}
    panes = urllib.parse.quote(json.dumps({"t": pane}, separators=(",", ":")), safe=":,")
    return {
        "title": f"Trace of event ${{__data.fields.Id}} in {name}",
        "targetBlank": False,
        "url": "/explore?schemaVersion=1&panes="
        + panes.replace("SOURCE", f"${{{kind}}}").replace("TRACE", "${__data.fields.Trace}"),
    }


def _board_links(uid: str) -> list[dict[str, Any]]:
    return [
        {
            "asDropdown": False,
            "icon": "dashboard",
            "includeVars": False,
            "keepTime": True,
            "tags": [],
            "targetBlank": False,
            "title": name,
            "tooltip": "For the same time, cluster and job",
            "type": "link",
            "url": f"/d/{other}?{SELECTION}",
        }
        for other, name in UIDS.items()
        if other != uid
    ]


def dashboard(
    uid: str,
    title: str,
    description: str,
    variables: list[dict[str, Any]],
    panels: list[dict[str, Any]],
    *,
    since: str,
    refresh: str,
    annotations: list[dict[str, Any]] | None = None,
) -> dict[str, Any]:
    for number, each in enumerate((one for panel in panels for one in (panel, *panel.get("panels", ()))), start=1):
        each["id"] = number
    built_in = {
        "builtIn": 1,
        "datasource": {"type": "grafana", "uid": "-- Grafana --"},
        "enable": True,
        "hide": True,
        "iconColor": "rgba(0, 211, 255, 1)",
        "name": "Annotations & Alerts",
        "type": "dashboard",
    }
    return {
        "annotations": {"list": [built_in, *(annotations or [])]},
        "description": description,
        "editable": False,
        "fiscalYearStartMonth": 0,
        "graphTooltip": 1,
        "id": None,
        "links": _board_links(uid),
        "panels": panels,
        "refresh": refresh,
        "schemaVersion": SCHEMA,
        "tags": TAGS,
        "templating": {"list": [DATASOURCE_VARIABLE, *variables]},
        "time": {"from": since, "to": "now"},
        "timepicker": {},
        "timezone": "browser",
        "title": title,
        "uid": uid,
        "version": 1,
        "weekStart": "",
    }
