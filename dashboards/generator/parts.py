"""Building blocks of all dashboards: colours, panels, variables, links. They do not depend on the content of a panel."""

from __future__ import annotations

import json
import urllib.parse
from typing import Any

from records import COVERAGE, PAST

Panel = dict[str, Any]
Place = tuple[int, int, int, int]  # x, y, width, height
Queries = list[str | tuple[str, str]]  # PromQL, or PromQL and the name of the series
Columns = dict[str, tuple[str, dict[str, Any]]]

DATASOURCE = {"type": "prometheus", "uid": "${datasource}"}
# The version whose form the files have: its schema, and its panel options.
GRAFANA, SCHEMA = "12.2.0", 42

# Colours are names of Grafana's palette, which has other values in the light theme.
# They differ for deuteranopes and protanopes in both themes (CIEDE2000 of 20), and text on them has a contrast of 4.5.
#
# States, by the severity of the alert. They are backgrounds of stats and table cells, on which Grafana writes in black
# or white. They are no colours of text: no yellow is readable as text in the light theme. Tables write it
# out as well. "transparent" has no background. The palette has no grey that is grey in both themes.
CRITICAL, WARNING, NOTICE, BLIND, CALM = "dark-red", "yellow", "dark-blue", "#707070", "transparent"
# Event types, in graphs only. A type has no severity, so a table does not colour it.
TYPE_COLOURS = {
    "Freeze": "light-blue",
    "Reboot": "light-yellow",
    "Redeploy": "dark-purple",
    "Preempt": "super-light-red",
    "Terminate": "dark-green",
}
# Lines of other graphs: what is usual, and what is bad.
LINE, BAD_LINE = "blue", "semi-dark-orange"

# Grafana shows this text for an empty answer, and also for a query that failed.
NO_VALUE = "–"


def thresholds(*steps: tuple[float | None, str]) -> dict[str, Any]:
    return {"mode": "absolute", "steps": [{"color": colour, "value": value} for value, colour in steps]}


PLAIN = thresholds((None, CALM))


def value_map(options: dict[str, tuple[str, str]]) -> dict[str, Any]:
    """Maps raw values to a text and a colour."""
    pairs = enumerate(options.items())
    return {
        "type": "value",
        "options": {raw: {"text": text, "color": colour, "index": i} for i, (raw, (text, colour)) in pairs},
    }


def missing(text: str = NO_VALUE) -> dict[str, Any]:
    """Missing data must not have the colour of the lowest threshold."""
    result = {"color": CALM, "index": 9, "text": text}
    return {"type": "special", "options": {"match": "null+nan", "result": result}}


def override(name: str, *, regex: bool = False, **properties: Any) -> dict[str, Any]:
    """Properties of a field. A double underscore in a property name is a dot, as in custom__width."""
    return {
        "matcher": {"id": "byRegexp" if regex else "byName", "options": name},
        "properties": [{"id": key.replace("__", "."), "value": value} for key, value in properties.items()],
    }


def coloured(colours: dict[str, str], *, regex: bool = False) -> list[dict[str, Any]]:
    """Fixed colours of series."""
    return [
        override(name, regex=regex, color={"fixedColor": colour, "mode": "fixed"}) for name, colour in colours.items()
    ]


def panel(
    kind: str,
    title: str,
    description: str,
    at: Place,
    queries: Queries,
    *,
    empty: str = NO_VALUE,
    unit: str = "none",
    interval: str = "",
    defaults: dict[str, Any] | None = None,
    custom: dict[str, Any] | None = None,
    overrides: list[dict[str, Any]] | None = None,
    **more: Any,
) -> Panel:
    """`empty` is the text for missing data. Tables and single values have instant queries, graphs have range queries."""
    instant = kind in ("stat", "table")
    targets = []
    for ref, query in zip("ABCDEF", queries, strict=False):
        expr, legend = (query, "__auto") if isinstance(query, str) else query
        one = {
            "datasource": DATASOURCE,
            "editorMode": "code",
            "expr": expr,
            "instant": instant,
            "legendFormat": legend,
            "range": not instant,
            "refId": ref,
        }
        targets.append(
            one | ({"format": "table"} if kind == "table" else {}) | ({"interval": interval} if interval else {})
        )
    return {
        "type": kind,
        "pluginVersion": GRAFANA,
        "title": title,
        "description": description,
        "datasource": DATASOURCE,
        "gridPos": dict(zip("xywh", at, strict=True)),
        "targets": targets,
        "fieldConfig": {
            "defaults": {"noValue": empty, "unit": unit, "custom": custom or {}, **(defaults or {})},
            "overrides": overrides or [],
        },
        **more,
    }  # fmt: skip


def stat(
    title: str,
    description: str,
    at: Place,
    queries: Queries,
    *,
    text: str = "value",
    empty: str = NO_VALUE,
    mappings: list[dict[str, Any]] | None = None,
    steps: dict[str, Any] = PLAIN,
    decimals: int = 0,
    **more: Any,
) -> Panel:
    """Single values, whose background has the colour. All have the same size, but for texts."""
    options = {
        "colorMode": "background_solid",
        "graphMode": "none",
        "justifyMode": "center",
        "orientation": "horizontal",
        "textMode": text,
        "text": {"titleSize": 12, "valueSize": 14 if text == "name" else 20},
        "wideLayout": False,
        "reduceOptions": {"calcs": ["lastNotNull"], "fields": "", "values": False},
    }
    defaults = {"decimals": decimals, "thresholds": steps, "mappings": [*(mappings or []), missing(empty)]}
    return panel("stat", title, description, at, queries, empty=empty, options=options, defaults=defaults, **more)


def graph(
    title: str, description: str, at: Place, queries: Queries, *, calcs: tuple[str, ...] = (), **more: Any
) -> Panel:
    more["custom"] = {"fillOpacity": 15, "showPoints": "never", "axisSoftMin": 0, **more.get("custom", {})}
    options = {
        "legend": {"calcs": list(calcs), "displayMode": "list", "placement": "bottom", "showLegend": True},
        "tooltip": {"mode": "multi", "sort": "desc"},
    }
    return panel("timeseries", title, description, at, queries, options=options, **more)


# A column that a link needs. `hidden` is for Grafana up to 12.1, `hideFrom` for 12.2 and later.
HIDDEN = {"custom__hidden": True, "custom__hideFrom": {"legend": True, "tooltip": True, "viz": True}}
# A cell whose background has the colour of its value.
COLOURED = {"custom__cellOptions": {"type": "color-background", "mode": "basic", "applyToRow": False}}


def table(
    title: str,
    description: str,
    at: Place,
    queries: Queries,
    columns: Columns,
    *,
    sort: str,
    desc: bool = True,
    drop: tuple[str, ...] = (),
    **more: Any,
) -> Panel:
    """A table of `columns` in this order: title and properties by the name in the query result, which also sorts it."""
    organize = {
        "excludeByName": dict.fromkeys(("Time", "__name__", *drop), True),
        "indexByName": {name: i for i, name in enumerate(columns)},
        "renameByName": {name: title for name, (title, _) in columns.items()},
    }
    transformations = [
        {"id": "merge", "options": {}},
        {"id": "sortBy", "options": {"fields": {}, "sort": [{"field": sort, "desc": desc}]}},
        {"id": "organize", "options": organize},
    ]
    more.setdefault("empty", "no rows")
    overrides = [override(title, **{"noValue": NO_VALUE, **properties}) for title, properties in columns.values()]
    return panel(
        "table",
        title,
        description,
        at,
        queries,
        custom={"align": "left", "cellOptions": {"type": "auto"}, "filterable": False, "inspect": False},
        overrides=overrides,
        options={"cellHeight": "sm", "showHeader": True, "sortBy": []},
        transformations=transformations,
        **more,
    )


def row(title: str, y: int, panels: list[Panel]) -> Panel:
    """A collapsed row."""
    at = {"x": 0, "y": y, "w": 24, "h": 1}
    return {"type": "row", "title": title, "collapsed": True, "gridPos": at, "panels": panels}


# Variables
ALL = {"multi": True, "includeAll": True, "allValue": ".*", "current": {"text": ["All"], "value": ["$__all"]}}


def query_variable(name: str, label: str, query: str, *, multi: bool = True, regex: str = "") -> dict[str, Any]:
    return {
        "type": "query",
        "name": name,
        "label": label,
        "datasource": DATASOURCE,
        "definition": query,
        "query": {
            "qryType": 3 if query.startswith("query_result(") else 1,
            "query": query,
            "refId": "PrometheusVariableQueryEditor-VariableQuery",
        },
        "refresh": 2,
        "regex": regex,
        "sort": 1,
        "options": [],
        **(ALL if multi else {"multi": False, "includeAll": False, "current": {}}),
    }


def type_variable() -> dict[str, Any]:
    return {
        "type": "custom",
        "name": "event_type",
        "label": "Type",
        "query": ",".join(TYPE_COLOURS),
        "options": [
            {"selected": False, "text": text, "value": value}
            for text, value in (("All", "$__all"), *((name, name) for name in TYPE_COLOURS))
        ],
        **ALL,
    }


def datasource_variable(name: str, label: str, kind: str, *, hide: bool = False) -> dict[str, Any]:
    return {
        "type": "datasource",
        "name": name,
        "label": label,
        "query": kind,
        "regex": "",
        "hide": 2 if hide else 0,
        "multi": False,
        "includeAll": False,
        "current": {},
        "options": [],
        "refresh": 1,
    }


# Hidden, because Grafana marks a variable as an error if there is no data source of its kind. The URL can set them.
TRACE_VARIABLES = [datasource_variable(kind, kind.title(), kind, hide=True) for kind in ("tempo", "jaeger")]


def cluster_variable(*, multi: bool = True) -> dict[str, Any]:
    return query_variable("cluster", "Cluster", f"label_values({COVERAGE}, cluster)", multi=multi)


def job_variable() -> dict[str, Any]:
    return query_variable("job", "Job", f'label_values({COVERAGE}{{cluster=~"$cluster"}}, job)')


def vm_variable(*, multi: bool, more: str = "") -> dict[str, Any]:
    """The targets and the VMs that had an event, such as an evicted one. The value is the instance, the text is the name."""
    of = f'{{cluster=~"$cluster", job=~"$job"{more}}}'
    series = f"{COVERAGE}{of} or on (cluster, instance) last_over_time({PAST}{of}[$__range])"
    return query_variable(
        "instance",
        "VM",
        f"query_result(group by (instance, vm_name) ({series}))",
        multi=multi,
        regex='/instance="(?<value>[^"]+)"(?:,vm_name="(?<text>[^"]+)")?/',
    )


# Links. A dashboard inherits what is selected of clusters and jobs, and never a VM.
SELECTION = "${datasource:queryparam}&${cluster:queryparam}&${job:queryparam}"
UIDS = {"azse-fleet": "Fleet", "azse-vm": "VM", "azse-history": "History"}


def vm_link() -> dict[str, Any]:
    """From a table row to its VM. The row has the columns Instance and Cluster, which can be hidden."""
    url = "/d/azse-vm?var-instance=${__data.fields.Instance}&var-cluster=${__data.fields.Cluster}&${datasource:queryparam}&${job:queryparam}&${__url_time_range}"
    return {"title": "Everything about this VM", "targetBlank": False, "url": url}


def with_id(expr: str) -> str:
    """Adds the first part of the event ID."""
    return f'label_replace({expr}, "id", "$1", "event_id", "([^-]+).*")'


def traces(events: str) -> str:
    """The trace ID of each event, and the data sources of traces, if there are any."""
    out = f'label_replace({events}, "hex", "$1$2$3$4$5", "event_id", "(.+)-(.+)-(.+)-(.+)-(.+)")'
    return f'label_replace(label_replace({out}, "tempo", "$tempo", "", ""), "jaeger", "$jaeger", "", "")'


def id_columns() -> Columns:
    """The event, and a link for each data source of traces. A column without values is not there."""
    return {
        "id": ("Event", {"custom__width": 95}),
        "tempo": ("Tempo", _trace_cell("tempo", {"queryType": "traceql"})),
        "jaeger": ("Jaeger", _trace_cell("jaeger", {})),
        "hex": ("Trace", HIDDEN),
    }


def _trace_cell(kind: str, more: dict[str, str]) -> dict[str, Any]:
    query = {"refId": "A", "datasource": {"type": kind, "uid": "SOURCE"}, **more, "query": "TRACE"}
    pane = {"datasource": "SOURCE", "queries": [query], "range": {"from": "now-7d", "to": "now"}}
    panes = urllib.parse.quote(json.dumps({"t": pane}, separators=(",", ":")), safe=":,")
    panes = panes.replace("SOURCE", f"${{{kind}}}").replace("TRACE", "${__data.fields.Trace}")
    url = f"/explore?schemaVersion=1&panes={panes}"
    return {
        "links": [{"title": "Trace of event ${__data.fields.Event}", "targetBlank": False, "url": url}],
        "mappings": [{"type": "regex", "options": {"pattern": ".+", "result": {"text": "trace", "index": 0}}}],
        "custom__width": 80,
    }


def _board_link(of: str, to: str) -> dict[str, Any]:
    """History has another time range than the others, so the links from and to it do not keep the time."""
    return {
        "asDropdown": False,
        "icon": "dashboard",
        "includeVars": False,
        "keepTime": "azse-history" not in (of, to),
        "tags": [],
        "targetBlank": False,
        "title": UIDS[to],
        "tooltip": "For the same cluster and job",
        "type": "link",
        "url": f"/d/{to}?{SELECTION}",
    }


def dashboard(
    uid: str,
    description: str,
    variables: list[dict[str, Any]],
    panels: list[Panel],
    *,
    since: str,
    refresh: str,
    annotations: list[dict[str, Any]] | None = None,
) -> dict[str, Any]:
    for number, each in enumerate((one for panel in panels for one in (panel, *panel.get("panels", ()))), start=1):
        each["id"] = number
    return {
        "annotations": {"list": annotations or []},
        "description": description,
        "editable": False,
        "graphTooltip": 1,
        "id": None,
        "links": [_board_link(uid, other) for other in UIDS if other != uid],
        "panels": panels,
        "refresh": refresh,
        "schemaVersion": SCHEMA,
        "tags": ["azure", "azure-scheduled-events", "maintenance"],
        "templating": {"list": [datasource_variable("datasource", "Data source", "prometheus"), *variables]},
        "time": {"from": since, "to": "now"},
        "timezone": "browser",
        "title": f"Azure Scheduled Events / {UIDS[uid]}",
        "uid": uid,
        "version": 1,
    }
