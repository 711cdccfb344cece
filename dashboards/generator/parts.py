"""Building blocks of all dashboards: colours, panels, targets, variables, links.

They do not depend on the content of a panel. Every panel has the data source of the template variable, a description
and a text for missing data; a missing title, description or query raises ValueError.
"""

from __future__ import annotations

from typing import Any

DATASOURCE = {"type": "prometheus", "uid": "${datasource}"}
# The version whose form the files have: its schema, and its panel options.
GRAFANA, SCHEMA = "12.2.0", 42
TAGS = ["azure", "azure-scheduled-events", "maintenance"]

# Colours are names of Grafana's palette, which has other values in the light theme. tests/dashboards.d/colours.py
# computes in both themes how they differ for deuteranopes and protanopes, and the contrast of text on them.
#
# States, by the severity of the alert. They are backgrounds of stats and table cells, on which Grafana writes in black
# or white. They are no colours of text: no yellow is readable as text in the light theme. The state is always written
# out as well. "transparent" has no background, "text" is light grey in the dark theme and dark grey in the light theme.
CRITICAL, WARNING, NOTICE, BLIND, CALM = "dark-red", "yellow", "dark-blue", "text", "transparent"
DIM = "transparent"
# Event types, in graphs only. A type has no severity, so a table does not colour it.
TYPE_COLOURS = {
    "Freeze": "light-blue",
    "Reboot": "light-yellow",
    "Redeploy": "dark-purple",
    "Preempt": "super-light-red",
    "Terminate": "dark-green",
}
OUTCOME_COLOURS = {"completed": "dark-green", "cancelled": "semi-dark-blue", "unknown": "text", "not ended": "yellow"}
# Lines and bars of other graphs: what is usual, what is bad, and a third series.
LINE, BAD_LINE, OTHER_LINE = "blue", "semi-dark-orange", "text"

# Grafana shows these texts for an empty answer, and also for a query that failed.
NO_VALUE, NO_ROWS, NO_DATA = "–", "no rows: see Coverage", "no data: see Coverage"

# A table cell with the colour of its value as background.
COLOURED_CELL = {"type": "color-background", "mode": "basic", "applyToRow": False}

# Thresholds of the alerts (alerts/scheduled-events.rules.yml, exporter-health.rules.yml).
HOUR, DAY = 3600, 86400
STALE_SECONDS = 900
FLEET_AT_RISK = 0.1
SHORT_FREEZE_SECONDS = 10
# Minimum notice in Azure's documentation, and the tolerance of the alert.
PROMISED_SECONDS = {"Freeze": 900, "Reboot": 900, "Redeploy": 600, "Preempt": 30, "Terminate": 300}
ALLOWED_LESS = {"Preempt": 10}


def thresholds(*steps: tuple[float | None, str]) -> dict[str, Any]:
    return {"mode": "absolute", "steps": [{"color": colour, "value": value} for value, colour in steps]}


URGENCY = thresholds((None, CRITICAL), (HOUR, WARNING), (DAY, NOTICE))
# Severities as numbers, so that a query can choose the colour: 3 critical, 2 warning, 1 info, 0 none, below 0 not known.
SEVERITIES = {"critical": 3, "warning": 2, "info": 1}
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
    instant: bool = True,
    colour: str = "",  # without effect, until no caller sets it
    **more: Any,
) -> dict[str, Any]:
    """A single value. Its colour is the background. A fixed colour "text" means none."""
    options = {
        "colorMode": "background_solid",
        "graphMode": "none",
        "justifyMode": "center",
        "orientation": "auto",
        "textMode": text,
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
    more.setdefault("defaults", {}).setdefault("min", 0)
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


def row(title: str, y: int) -> dict[str, Any]:
    return {
        "type": "row",
        "title": title,
        "collapsed": False,
        "gridPos": {"x": 0, "y": y, "w": 24, "h": 1},
        "panels": [],
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
) -> dict[str, Any]:
    out = {
        "type": "query",
        "name": name,
        "label": label,
        "description": description,
        "datasource": DATASOURCE,
        "definition": query,
        "query": {"qryType": 1, "query": query, "refId": "PrometheusVariableQueryEditor-VariableQuery"},
        "refresh": 2,
        "regex": "",
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


def text_variable(name: str, label: str, value: str, description: str) -> dict[str, Any]:
    return {
        "type": "textbox",
        "name": name,
        "label": label,
        "description": description,
        "query": value,
        "hide": 0,
        "skipUrlSync": False,
        "current": {"selected": True, "text": value, "value": value},
        "options": [{"selected": True, "text": value, "value": value}],
    }


DATASOURCE_VARIABLE = {
    "type": "datasource",
    "name": "datasource",
    "label": "Data source",
    "query": "prometheus",
    "regex": "",
    "hide": 0,
    "multi": False,
    "includeAll": False,
    "current": {},
    "options": [],
    "refresh": 1,
    "skipUrlSync": False,
}


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
    for number, each in enumerate(panels, start=1):
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
    others = {
        "asDropdown": False,
        "icon": "dashboard",
        "includeVars": True,
        "keepTime": True,
        "tags": ["azure-scheduled-events"],
        "targetBlank": False,
        "title": "Azure Scheduled Events",
        "tooltip": "The other dashboards, for the same time and the same selection",
        "type": "dashboards",
        "url": "",
    }
    return {
        "annotations": {"list": [built_in, *(annotations or [])]},
        "description": description,
        "editable": False,
        "fiscalYearStartMonth": 0,
        "graphTooltip": 1,
        "id": None,
        "links": [others],
        "liveNow": False,
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
