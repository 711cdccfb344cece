"""The rules of Grafana's dashboard-linter for Prometheus dashboards, and additional rules of this project.

The names of the rules are those of the linter (github.com/grafana/dashboard-linter, docs/index.md).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

import promql_parser as promql

import boards
import catalog
from boards import Query

Board = dict[str, Any]
Finding = tuple[str, str, str]  # rule, panel, what is wrong
DATASOURCE = {"type": "prometheus", "uid": "${datasource}"}
METRICS = catalog.read()
# The version whose form the files have.
GRAFANA, SCHEMA = "12.2.0", 42
# These are joined with what is selected.
JOINED = {
    "instance:azure_scheduled_events_target:up",
    "instance_event:azure_scheduled_event_alert:down",
    "scale_set:azure_scheduled_events_vm_info:count",
    "job:azure_scheduled_events_approvals:increase15m",
}
# The units that these dashboards use, from Grafana's list (packages/grafana-data/src/valueFormats/categories.ts).
UNITS = {"none", "short", "percentunit", "bytes", "s", "m", "dtdurations", "dateTimeAsIsoNoDateIfToday", "reqps"}


def _template(board: Board, name: str) -> dict[str, Any]:
    return next((v for v in board["templating"]["list"] if v["name"] == name), {})


def template_datasource(board: Board) -> Iterator[Finding]:
    sources = [v for v in board["templating"]["list"] if v["type"] == "datasource"]
    if (
        not sources
        or sources[0]["name"] != "datasource"
        or sources[0]["label"] not in ("Data source", "Data Source")
        or sources[0]["query"] != "prometheus"
    ):
        yield (
            "template-datasource-rule",
            "",
            "the first data source variable must have name datasource, label Data source, type prometheus",
        )


def template_queries(board: Board) -> Iterator[Finding]:
    for v in board["templating"]["list"]:
        if v["type"] != "query":
            continue
        if v["refresh"] != 2:
            yield (
                "template-on-time-change-reload-rule",
                "",
                f"variable {v['name']} does not reload when the time range changes",
            )
        try:
            promql.parse(boards.interpolate(boards.variable_query(v), boards.variables(board), 3600, 15))
        except (ValueError, KeyError) as why:
            yield "variable-query", "", f"variable {v['name']}: {why}"


def panel_form(board: Board) -> Iterator[Finding]:
    for panel in boards.panels(board):
        title = panel.get("title", "")
        if panel["type"] == "row":
            continue
        if panel.get("datasource") != DATASOURCE or any(t["datasource"] != DATASOURCE for t in panel["targets"]):
            yield "panel-datasource-rule", title, "does not use ${datasource}"
        if not title or not panel.get("description"):
            yield "panel-title-description-rule", title, "has no title or no description"
        if not panel.get("targets"):
            yield "panel-no-targets-rule", title, "has no query"
        if panel["fieldConfig"]["defaults"].get("unit") not in UNITS:
            yield "panel-units-rule", title, f"unit {panel['fieldConfig']['defaults'].get('unit')}"
        if not panel["fieldConfig"]["defaults"].get("noValue"):
            yield "missing-data-text", title, "has no text for missing data"
        shown = [
            m["options"]["result"]["text"]
            for m in panel["fieldConfig"]["defaults"].get("mappings", [])
            if m["type"] == "special"
        ]
        if panel["type"] == "stat" and shown != [panel["fieldConfig"]["defaults"]["noValue"]]:
            yield "missing-data-text", title, f"shows {shown} for missing data"


def _nodes(node: Any) -> Iterator[tuple[Any, tuple[Any, ...]]]:
    """Every node of an expression with its ancestors, the parent last."""
    stack = [(node, ())]
    while stack:
        at, above = stack.pop()
        yield at, above
        for name in ("lhs", "rhs", "expr", "args", "vector_selector"):
            below = getattr(at, name, None)
            for child in below if isinstance(below, list) else [below]:
                if isinstance(child, promql.Expr):
                    stack.append((child, (*above, at)))


def targets(name: str, board: Board) -> Iterator[Finding]:
    for query in boards.queries(name, board):
        if "logfmt" in query.expr or "|=" in query.expr:
            yield "target-logql-rule", query.panel, f"{query.ref}: LogQL in a Prometheus panel"
        if "$__auto" in query.expr:
            yield "target-logql-auto-rule", query.panel, f"{query.ref}: $__auto"
        try:
            # Variables keep their names, so that a matcher can be compared with the variable's name.
            node = promql.parse(
                boards.interpolate(
                    query.expr, {v["name"]: f"${v['name']}" for v in board["templating"]["list"]}, 3600, 15
                )
            )
        except (ValueError, KeyError) as why:
            yield "target-promql-rule", query.panel, f"{query.ref}: {why}"
            continue
        yield from _selectors(query, node)


def _selectors(query: Query, node: Any) -> Iterator[Finding]:
    """Each selector uses the variables whose label its series have. Records of events are joined with selected VMs."""
    for at, above in _nodes(node):
        if not isinstance(at, promql.VectorSelector):
            continue
        if at.name.endswith("_total") and not any(
            isinstance(a, promql.Call) and a.func.name in ("rate", "irate", "increase") for a in above
        ):
            yield "target-counter-agg-rule", query.panel, f"{query.ref}: {at.name} without rate or increase"
        if at.name in JOINED or at.name.startswith("event:"):
            continue
        used = {m.name for m in at.matchers.matchers if m.value == f"${m.name}" and m.op == promql.MatchOp.Re}
        # The words and times of an event can come from any VM of it.
        needed = {"cluster"} if at.name.startswith("azure_scheduled_event_") else {"cluster", "job", "instance"}
        if missing := sorted((needed & METRICS[at.name].labels) - used):
            yield "selection", query.panel, f"{query.ref}: {at.name} without {', '.join(missing)}"


def importable(board: Board) -> Iterator[Finding]:
    """Requirements of Grafana's import, provisioning and sidecar."""
    good = {
        "editable": board["editable"] is False,
        "id": board["id"] is None,
        "uid": board["uid"].startswith("azse-"),
        "schemaVersion": board["schemaVersion"] == SCHEMA,
        "__inputs": "__inputs" not in board and "__requires" not in board,
        "tags": "azure-scheduled-events" in board["tags"],
    }
    for what, is_good in good.items():
        if not is_good:
            yield "uneditable-dashboard" if what == "editable" else "importable", "", what
    for panel in boards.panels(board):
        if panel["type"] != "row" and panel.get("pluginVersion") != GRAFANA:
            yield "importable", panel["title"], f"is not in the form of Grafana {GRAFANA}"
    for note in board["annotations"]["list"]:
        # The built-in annotation has no query. Grafana converts the older form with `expr` and `step` when it loads it.
        if not note.get("builtIn") and (note.keys() & {"expr", "step"} or "target" not in note):
            yield "importable", f"annotation {note['name']}", "is not in the present form"
    ids = [panel["id"] for panel in boards.panels(board)]
    if ids != list(range(1, len(ids) + 1)):
        yield "importable", "", "panel ids are not 1, 2, 3, …"
    yield from _grid(board)


def links(board: Board) -> Iterator[Finding]:
    """A link passes only what both dashboards select: never the VM, and no id of an organisation."""
    uids = {each["uid"] for each in boards.load().values()}
    names = {v["name"] for v in board["templating"]["list"]} | {"__url_time_range"}
    text = [(link["title"], link["url"], link["includeVars"]) for link in board["links"]]
    for panel in boards.panels(board):
        fields = panel.get("fieldConfig", {"overrides": []})["overrides"]
        for each in [p for field in fields for p in field["properties"] if p["id"] == "links"]:
            text += [(f"{panel['title']}: {link['title']}", link["url"], False) for link in each["value"]]
    for title, url, inherits in text:
        if inherits or "${instance" in url or "${__all_variables}" in url:
            yield "links", title, "passes on the selected VM"
        if "orgId" in url:
            yield "links", title, "names an organisation"
        if unknown := set(re.findall(r"\$\{(\w+)[}:]", url)) - names:
            yield "links", title, f"uses {', '.join(sorted(unknown))}, which this dashboard does not have"
        if (to := re.match(r"/d/([^?]+)", url)) and to.group(1) not in uids:
            yield "links", title, f"leads to {to.group(1)}, which does not exist"


def _grid(board: Board) -> Iterator[Finding]:
    taken: dict[tuple[int, int], str] = {}
    for panel in boards.panels(board):
        at = panel["gridPos"]
        for cell in ((x, y) for x in range(at["x"], at["x"] + at["w"]) for y in range(at["y"], at["y"] + at["h"])):
            if cell[0] >= 24 or cell in taken:
                yield "importable", panel["title"], f"overlaps {taken.get(cell, 'the edge')}"
                break
            taken[cell] = panel["title"]


RULES: tuple[Callable[[Board], Iterator[Finding]], ...] = (
    template_datasource,
    template_queries,
    panel_form,
    importable,
    links,
)


def findings(name: str, board: Board) -> list[Finding]:
    return [finding for rule in RULES for finding in rule(board)] + list(targets(name, board))
