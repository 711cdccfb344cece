"""The rules of Grafana's dashboard-linter for Prometheus dashboards, and additional rules of this project.

The rule names are those of the linter (github.com/grafana/dashboard-linter, docs/index.md), so both read
`dashboards/.lint`. That file excludes a rule for a panel, with a reason. An unused exclusion is an error.
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
# The units that these dashboards use, from Grafana's list (packages/grafana-data/src/valueFormats/categories.ts).
UNITS = {"none", "short", "percentunit", "bytes", "s", "m", "dateTimeAsIsoNoDateIfToday", "reqps"}


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


def template_targets(board: Board) -> Iterator[Finding]:
    for name, label in (("job", "Job"), ("instance", "Instance")):
        v = _template(board, name)
        wrong = [
            what
            for what, good in {
                "datasource": v.get("datasource", {}).get("uid") in ("$datasource", "${datasource}"),
                "type": v.get("type") == "query",
                "label": v.get("label") == label,
                "multi": v.get("multi") is True,
                "allValue": v.get("allValue") == ".+",
            }.items()
            if not good
        ]
        if wrong:
            yield f"template-{name}-rule", "", f"variable {name}: {', '.join(wrong)}"


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
        if not v["definition"].startswith("label_values("):
            yield "template-label-promql-rule", "", f"variable {v['name']} is not of the form label_values(…)"
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
        for found in re.finditer(r"\b(?:rate|irate|increase)\([^\[]*\[([^\]]+)\]", query.expr):
            if found.group(1) != "$__rate_interval":
                yield "target-rate-interval-rule", query.panel, f"{query.ref}: [{found.group(1)}]"


def _selectors(query: Query, node: Any) -> Iterator[Finding]:
    for at, above in _nodes(node):
        if not isinstance(at, promql.VectorSelector):
            continue
        matchers = {(m.name, str(m.op), m.value) for m in at.matchers.matchers}
        for label in ("job", "instance"):
            if (label, str(promql.MatchOp.Re), f"${label}") not in matchers:
                yield f"target-{label}-rule", query.panel, f'{query.ref}: {at.name} without {label}=~"${label}"'
        if wrong := _unselected(at, matchers):
            yield "selection", query.panel, f"{query.ref}: {at.name or 'a selector'} without {', '.join(wrong)}"
        if at.name.endswith("_total") and not any(
            isinstance(a, promql.Call) and a.func.name in ("rate", "irate", "increase") for a in above
        ):
            yield "target-counter-agg-rule", query.panel, f"{query.ref}: {at.name} without rate or increase"


def _unselected(at: Any, matchers: set[tuple[str, str, str]]) -> list[str]:
    """The variables that a selector does not use although the series have the label. No exclusion applies to this."""
    names = [at.name] if at.name else [value for name, _, value in matchers if name == "__name__"]
    have = set().union(*(METRICS[name].labels for each in names for name in each.split("|") if name in METRICS))
    if "event_id" in {name for name, _, _ in matchers} and "ALERTS" in names:
        have -= {"job", "instance"}  # alerts about an event have neither
    if at.name == "azure_scheduled_events:target" and not matchers:
        return []  # read to see whether the rules are evaluated at all
    if ("alertname", "AzureScheduledEventsExporterAbsent") in {(name, value) for name, _, value in matchers}:
        return []  # about all exporters
    used = {(name, value) for name, op, value in matchers if op == str(promql.MatchOp.Re)}
    return [label for label in ("cluster", "job", "instance") if label in have and (label, f"${label}") not in used]


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
    template_targets,
    template_queries,
    panel_form,
    importable,
    links,
)


def findings(name: str, board: Board) -> list[Finding]:
    return [finding for rule in RULES for finding in rule(board)] + list(targets(name, board))


def exclusions(text: str) -> list[tuple[str, str, str]]:
    """(rule, dashboard, panel) per exclusion of a `.lint` file. Reads only the format used in this project."""
    out: list[tuple[str, str, str]] = []
    rule, reasoned = "", False
    for line in text.splitlines():
        bare = line.strip()
        if not bare or bare.startswith("#") or bare in ("exclusions:", "entries:"):
            continue
        if re.fullmatch(r"  [a-z-]+:", line):
            rule, reasoned = bare.removesuffix(":"), False
        elif bare.startswith("reason: ") and len(bare) > 20:
            reasoned = True
        elif bare.startswith("- dashboard: ") and reasoned:
            out.append((rule, bare.removeprefix("- dashboard: "), ""))
        elif bare.startswith("panel: ") and out:
            out[-1] = (*out[-1][:2], bare.removeprefix("panel: "))
        else:
            raise SystemExit(f"dashboards/.lint: invalid line, or exclusion without a reason: {line}")
    return out
