"""Building blocks of all dashboards: colours, panels, variables, links. They do not depend on the content of a panel."""
# fmt: off

import json
import urllib.parse
from typing import Any

from queries import CLUSTER, JOB, PRIORITY

Panel = dict[str, Any]
Place = tuple[int, int, int, int]  # x, y, width, height
Queries = list[str | tuple[str, str]]  # PromQL, or PromQL and the name of the series
Columns = dict[str, tuple[str, dict[str, Any]]]

DATASOURCE = {"type": "prometheus", "uid": "${datasource}"}
# The version whose form the files have: its schema, and its panel options.
GRAFANA, SCHEMA = "12.2.0", 42

# Names of Grafana's palette, which has other values in the light theme; its greys are not grey in both themes.
# They differ for deuteranopes and protanopes in both themes (CIEDE2000 of 20), and text on them has a contrast of 4.5.
#
# States, by the severity of the alert. They are backgrounds, on which Grafana writes in black or white, and not colours
# of text: no yellow is readable as text in the light theme. "transparent" has no background.
CRITICAL, WARNING, NOTICE, BLIND, CALM = "dark-red", "yellow", "dark-blue", "#707070", "transparent"
# Event types, in graphs only. A type has no severity, so a table does not colour it.
TYPE_COLOURS = {
    "Freeze": "light-blue", "Reboot": "light-yellow", "Redeploy": "dark-purple", "Preempt": "super-light-red",
    "Terminate": "dark-green",
}
# Grafana shows this text for an empty answer, and also for a query that failed.
NO_VALUE = "–"


def thresholds(*steps: tuple[float | None, str]) -> dict[str, Any]:
    return {"mode": "absolute", "steps": [{"color": colour, "value": value} for value, colour in steps]}


PLAIN = thresholds((None, CALM))


def value_map(options: dict[str, tuple[str, str]]) -> dict[str, Any]:
    """Maps raw values to a text and a colour."""
    results = {raw: {"text": text, "color": colour} for raw, (text, colour) in options.items()}
    return {"type": "value", "options": results}


def range_map(low: float, high: float, text: str, colour: str) -> dict[str, Any]:
    """Maps the raw values from `low` to `high` to a text and a colour."""
    return {"type": "range", "options": {"from": low, "to": high, "result": {"text": text, "color": colour}}}


def override(name: str, *, regex: bool = False, **properties: Any) -> dict[str, Any]:
    """Properties of a field. A double underscore in a property name is a dot, as in custom__width."""
    return {
        "matcher": {"id": "byRegexp" if regex else "byName", "options": name},
        "properties": [{"id": key.replace("__", "."), "value": value} for key, value in properties.items()],
    }


def fixed(colour: str) -> dict[str, str]:
    return {"fixedColor": colour, "mode": "fixed"}


def coloured(colours: dict[str, str], *, regex: bool = False) -> list[dict[str, Any]]:
    """Fixed colours of series."""
    return [override(name, regex=regex, color=fixed(colour)) for name, colour in colours.items()]


def panel(
    kind: str, title: str, description: str, at: Place, queries: Queries, *, empty: str = NO_VALUE, unit: str = "none",
    interval: str = "", defaults: dict[str, Any] | None = None, overrides: list[dict[str, Any]] | None = None,
    **more: Any,
) -> Panel:
    """`empty` is the text for missing data. Tables and single values have instant queries, graphs have range queries."""
    instant = kind in ("stat", "table")
    named = [(query, "__auto") if isinstance(query, str) else query for query in queries]
    targets = [
        {
            "datasource": DATASOURCE, "editorMode": "code", "expr": expr,
            "format": "table" if kind == "table" else "time_series", "instant": instant, "interval": interval,
            "legendFormat": legend, "range": not instant, "refId": ref,
        }
        for ref, (expr, legend) in zip("ABCDEF", named, strict=False)
    ]
    return {
        "type": kind, "pluginVersion": GRAFANA, "title": title, "description": description, "datasource": DATASOURCE,
        "gridPos": dict(zip("xywh", at, strict=True)), "targets": targets,
        "fieldConfig": {"defaults": {"noValue": empty, "unit": unit, **(defaults or {})}, "overrides": overrides or []},
        **more,
    }


def stat(
    *what: Any, text: str = "value", steps: dict[str, Any] = PLAIN, decimals: int = 0,
    mappings: tuple[dict[str, Any], ...] = (), **more: Any,
) -> Panel:
    """Single values, whose background has the colour. A panel of names shows no `empty`. `what` as in `panel`."""
    options = {
        "colorMode": "background_solid", "graphMode": "none", "justifyMode": "center", "orientation": "horizontal",
        "textMode": text, "text": {"titleSize": 12, "valueSize": 14 if text == "name" else 20}, "wideLayout": False,
    }
    defaults = {"decimals": decimals, "thresholds": steps, "mappings": mappings}
    return panel("stat", *what, options=options, defaults=defaults, **more)


def graph(
    *what: Any, decimals: int | None = None, calcs: tuple[str, ...] = (), custom: Any = None, **more: Any
) -> Panel:
    """`what` as in `panel`; `calcs` are the totals in the legend."""
    style = {"fillOpacity": 15, "showPoints": "never", "axisSoftMin": 0, **(custom or {})}
    options = {
        "legend": {"calcs": calcs, "displayMode": "list", "placement": "bottom", "showLegend": True},
        "tooltip": {"mode": "multi", "sort": "desc"},
    }
    defaults = {"decimals": decimals, "custom": style}
    return panel("timeseries", *what, options=options, defaults=defaults, **more)


# A column that a link needs. `hidden` is for Grafana up to 12.1, `hideFrom` for 12.2 and later.
HIDDEN = {"custom__hidden": True, "custom__hideFrom": {"legend": True, "tooltip": True, "viz": True}}
# A cell whose background has the colour of its value.
COLOURED = {"custom__cellOptions": {"type": "color-background", "mode": "basic", "applyToRow": False}}
# A column of event IDs, which shows the first part.
SHORT_ID = {
    "mappings": [{"type": "regex", "options": {"pattern": "([^-]+).*", "result": {"text": "$1", "index": 0}}}],
    "custom__width": 95,
}
# A column of long texts. `wrapText` of the cell is for Grafana up to 12.1.
WRAPPED = {"custom__minWidth": 250, "custom__wrapText": True, "custom__cellOptions": {"type": "auto", "wrapText": True}}


def table(*what: Any, columns: Columns, sort: str, desc: bool = True, empty: str = "no rows") -> Panel:
    """A table of `columns` in this order: title and properties by the name in the query result, which also sorts it."""
    organize = {
        "indexByName": {name: i for i, name in enumerate(columns)},
        "renameByName": {name: title for name, (title, _) in columns.items()},
    }
    return panel(
        "table", *what, empty=empty, defaults={"custom": {"align": "left"}},
        overrides=[override(title, **{"noValue": NO_VALUE, **properties}) for title, properties in columns.values()],
        transformations=[
            {"id": "merge", "options": {}},
            {"id": "sortBy", "options": {"fields": {}, "sort": [{"field": sort, "desc": desc}]}},
            {"id": "filterFieldsByName", "options": {"include": {"names": list(columns)}}},
            {"id": "organize", "options": organize},
        ],
    )


def row(title: str, y: int, panels: list[Panel]) -> Panel:
    """A collapsed row."""
    at = {"x": 0, "y": y, "w": 24, "h": 1}
    return {"type": "row", "title": title, "collapsed": True, "gridPos": at, "panels": panels}


# Variables
ALL = {"multi": True, "includeAll": True, "allValue": ".*", "current": {"text": ["All"], "value": ["$__all"]}}


def query_variable(name: str, label: str, query: str, *, multi: bool = True, regex: str = "") -> dict[str, Any]:
    return {
        "type": "query", "name": name, "label": label, "datasource": DATASOURCE, "query": query, "refresh": 2,
        "regex": regex, "sort": 1, **(ALL if multi else {"multi": False, "includeAll": False, "current": {}}),
    }


def datasource_variable(name: str, label: str, kind: str, *, hide: bool = False) -> dict[str, Any]:
    return {"type": "datasource", "name": name, "label": label, "query": kind, "hide": 2 if hide else 0, "current": {}}


# Hidden, because Grafana marks a variable as an error if there is no data source of its kind. The URL can set them.
TRACE_VARIABLES = [datasource_variable(kind, kind.title(), kind, hide=True) for kind in ("tempo", "jaeger")]


def variables(*, one_vm: bool = False) -> list[dict[str, Any]]:
    """What to select of the exporters, and of the VMs that had an event, such as an evicted one."""
    info = "azure_scheduled_events_vm_info"
    chosen = JOB
    of = f"{{{chosen}}}" if one_vm else f'{{{chosen}, vm_scale_set=~"$scale_set",owner=~"$owner"}}'
    known = f"last_over_time({info}{of}[15m]) or on (cluster, instance) last_over_time({PRIORITY}{of}[$__range])"
    cluster = query_variable("cluster", "Cluster", f"label_values({info}, cluster)", multi=not one_vm)
    # All are the jobs of exporters, because `up` has other jobs, too.
    job = query_variable("job", "Job", f"label_values({info}{{{CLUSTER}}}, job)") | {"allValue": None}
    # The value is the instance, the text is the name.
    vm = query_variable(
        "instance", "VM", f"query_result(group by (instance, vm_name) ({known}))", multi=not one_vm,
        regex='/instance="(?<value>[^"]+)"(?:,vm_name="(?<text>[^"]+)")?/',
    )
    if one_vm:
        return [cluster, job, vm]
    both = f'{{__name__=~"{info}|{PRIORITY}", {chosen}}}'
    scale_set = query_variable("scale_set", "Scale set", f"label_values({both}, vm_scale_set)")
    owner = query_variable("owner", "Owner", f"label_values({both}, owner)")
    event_type = query_variable("event_type", "Type", f"label_values({PRIORITY}{{{chosen}}}, event_type)")
    return [cluster, job, scale_set, owner, vm, event_type]


# Links. A dashboard inherits what is selected of clusters and jobs, and never a VM.
SELECTION = "${datasource:queryparam}&${cluster:queryparam}&${job:queryparam}"


def vm_link() -> dict[str, Any]:
    """From a table row with the columns Instance and Cluster, which can be hidden, to its VM."""
    url = "/d/azse-vm?var-instance=${__data.fields.Instance}&var-cluster=${__data.fields.Cluster}&${datasource:queryparam}&${job:queryparam}&${__url_time_range}"
    return {"title": "Everything about this VM", "url": url}


def with_trace(events: str) -> str:
    """Adds the trace ID of each event, and the data sources of traces, if there are any."""
    out = f'label_replace({events}, "hex", "$1$2$3$4$5", "event_id", "(.+)-(.+)-(.+)-(.+)-(.+)")'
    return f'label_replace(label_replace({out}, "tempo", "$tempo", "", ""), "jaeger", "$jaeger", "", "")'


def id_columns() -> Columns:
    """The event, and a link for each data source of traces. A column without values is not there."""
    return {
        "event_id": ("Event", SHORT_ID), "tempo": ("Tempo", _trace_cell("tempo", {"queryType": "traceql"})),
        "jaeger": ("Jaeger", _trace_cell("jaeger", {})), "hex": ("Trace", HIDDEN),
    }


def _trace_cell(kind: str, more: dict[str, str]) -> dict[str, Any]:
    query = {"refId": "A", "datasource": {"type": kind, "uid": "SOURCE"}, **more, "query": "TRACE"}
    pane = {"datasource": "SOURCE", "queries": [query], "range": {"from": "now-7d", "to": "now"}}
    panes = urllib.parse.quote(json.dumps({"t": pane}, separators=(",", ":")), safe=":,")
    panes = panes.replace("SOURCE", f"${{{kind}}}").replace("TRACE", "${__data.fields.Trace}")
    link = {"title": "Trace of event ${__data.fields.Event}", "url": f"/explore?schemaVersion=1&panes={panes}"}
    mapping = {"type": "regex", "options": {"pattern": ".+", "result": {"text": "trace", "index": 0}}}
    return {"links": [link], "mappings": [mapping], "custom__width": 65}


PANELS = {"stat": "Stat", "state-timeline": "State timeline", "table": "Table", "timeseries": "Time series"}
# Title, time range and refresh interval.
BOARDS = {"azse-fleet": ("Fleet", "now-6h", "15s"), "azse-vm": ("VM", "now-6h", "15s"), "azse-history": ("History", "now-7d", "5m")}


def board_links(uid: str) -> list[dict[str, Any]]:
    """History has another time range than the others, so the links from and to it do not keep the time."""
    return [
        {
            "icon": "dashboard", "includeVars": False, "keepTime": "azse-history" not in (uid, other), "title": title,
            "type": "link", "url": f"/d/{other}?{SELECTION}",
        }
        for other, (title, _, _) in BOARDS.items()
        if other != uid
    ]


def dashboard(
    uid: str, description: str, variables: list[Panel], panels: list[Panel], annotations: tuple[Panel, ...] = ()
) -> dict[str, Any]:
    title, since, refresh = BOARDS[uid]
    nested = [one for panel in panels for one in (panel, *panel.get("panels", ()))]
    for number, each in enumerate(nested, start=1):
        each["id"] = number
    used = [("panel", kind, PANELS[kind], GRAFANA) for kind in sorted({each["type"] for each in nested} - {"row"})]
    used += [("grafana", "grafana", "Grafana", GRAFANA), ("datasource", "prometheus", "Prometheus", "1.0.0")]
    return {
        "__requires": [dict(zip(("type", "id", "name", "version"), each, strict=True)) for each in used],
        "annotations": {"list": annotations}, "description": description, "editable": False, "graphTooltip": 1,
        "links": board_links(uid), "panels": panels, "refresh": refresh, "schemaVersion": SCHEMA,
        "tags": ["azure", "azure-scheduled-events", "maintenance"],
        "templating": {"list": [datasource_variable("datasource", "Data source", "prometheus"), *variables]},
        "time": {"from": since, "to": "now"}, "timezone": "utc", "title": f"Azure Scheduled Events / {title}", "uid": uid,
    }
