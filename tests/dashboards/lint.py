"""Rules of this project for dashboards, and those of Grafana's dashboard-linter that it does not apply to single values."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from typing import Any

import boards

Board = dict[str, Any]
Finding = tuple[str, str, str]  # rule, panel, what is wrong
DATASOURCE = {"type": "prometheus", "uid": "${datasource}"}
MAX_QUERY = 500
MAX_QUERIES = {"azse-fleet": 15, "azse-vm": 20, "azse-history": 20}


def panel_form(board: Board) -> Iterator[Finding]:
    for panel in boards.panels(board):
        if panel["type"] == "row":
            continue
        if any(each["datasource"] != DATASOURCE for each in (panel, *panel["targets"])):
            yield "panel-datasource-rule", panel["title"], "does not use ${datasource}"
        if not panel["fieldConfig"]["defaults"].get("unit") or not panel["fieldConfig"]["defaults"].get("noValue"):
            yield "panel-units-rule", panel["title"], "has no unit, or no text for missing data"


def targets(board: Board) -> Iterator[Finding]:
    if (count := sum(len(panel.get("targets", [])) for panel in boards.panels(board))) > MAX_QUERIES[board["uid"]]:
        yield "queries", "", f"{count} queries"
    for query in boards.queries(board["uid"], board):
        if len(query.expr) >= MAX_QUERY:
            yield "length", query.panel, f"{query.ref}: {len(query.expr)} characters"
        for name in re.findall(r"(\w+_total)\b", query.expr):
            if not re.search(rf"\b(rate|increase)\({name}\b", query.expr):
                yield "target-counter-agg-rule", query.panel, f"{query.ref}: {name} without rate or increase"
        # What has no selector is joined with what is selected.
        for selector in re.findall(r"azure_scheduled_\w+(?::\w+)?\{([^}]*)\}", query.expr):
            if 'cluster=~"$cluster"' not in selector:
                yield "selection", query.panel, f"{query.ref}: {{{selector}}} without the cluster"


def importable(board: Board) -> Iterator[Finding]:
    """Requirements of Grafana's import, provisioning and sidecar."""
    if board["editable"] or "id" in board or not board["uid"].startswith("azse-") or "__inputs" in board:
        yield "importable", "", "is editable, or has an id or inputs"
    if board.get("timezone") != "utc":
        yield "importable", "", "shows the times of the browser, not UTC"
    ids = [panel["id"] for panel in boards.panels(board)]
    if ids != list(range(1, len(ids) + 1)):
        yield "importable", "", "panel ids are not 1, 2, 3, …"
    taken: set[tuple[int, int]] = set()
    for panel in boards.panels(board):
        at = panel["gridPos"]
        cells = {(x, y) for x in range(at["x"], at["x"] + at["w"]) for y in range(at["y"], at["y"] + at["h"])}
        if cells & taken or at["x"] + at["w"] > 24:
            yield "importable", panel["title"], "overlaps another panel or the edge"
        taken |= cells


def columns(board: Board) -> Iterator[Finding]:
    """All columns of a table fit into a window of 1,000 pixels. Grafana gives a column without a width 150."""
    for panel in boards.panels(board):
        if panel["type"] == "table":
            fields = [{p["id"]: p["value"] for p in each["properties"]} for each in panel["fieldConfig"]["overrides"]]
            shown = [field for field in fields if not field.get("custom.hidden")]
            needed = sum(field.get("custom.width", field.get("custom.minWidth", 150)) for field in shown)
            if needed > panel["gridPos"]["w"] * 40 - 16:
                yield "columns", panel["title"], f"the columns need {needed} pixels"


def links(board: Board) -> Iterator[Finding]:
    """A link passes only what both dashboards select: the cluster, never the VM, and no id of an organisation."""
    uids = {each["uid"] for each in boards.load().values()}
    names = {v["name"] for v in board["templating"]["list"]} | {"__url_time_range", "__data"}
    text = [(link["title"], link["url"]) for link in board["links"]]
    for panel in boards.panels(board):
        fields = panel.get("fieldConfig", {"overrides": []})["overrides"]
        found = [each for field in fields for p in field["properties"] if p["id"] == "links" for each in p["value"]]
        text += [(f"{panel['title']}: {link['title']}", link["url"]) for link in found]
        # The label `in` has a value also without a cluster.
        if any("fields.Cluster" in link["url"] for link in found) and '"in": "Cluster"' not in json.dumps(panel):
            yield "links", panel["title"], "passes on a cluster that the row may not have"
    for title, url in text:
        if any(link["includeVars"] for link in board["links"]) or "${instance" in url or "orgId" in url:
            yield "links", title, "passes on the selected VM, or names an organisation"
        if unknown := set(re.findall(r"\$\{(\w+)", url)) - names:
            yield "links", title, f"uses {', '.join(sorted(unknown))}, which this dashboard does not have"
        if (to := re.match(r"/d/([^?]+)", url)) and (to.group(1) not in uids or "cluster" not in url):
            yield "links", title, f"leads to {to.group(1)}, which does not exist, or passes on no cluster"


RULES: tuple[Callable[[Board], Iterator[Finding]], ...] = (panel_form, targets, importable, columns, links)


def findings(board: Board) -> list[Finding]:
    return [finding for rule in RULES for finding in rule(board)]
