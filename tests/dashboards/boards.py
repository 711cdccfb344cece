"""Reads the dashboards: panels, queries, and the interpolation that Grafana applies before it sends a query."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent.parent


@dataclass(frozen=True)
class Query:
    board: str
    panel: str
    ref: str
    expr: str

    @property
    def where(self) -> str:
        return f"{self.board}: {self.panel}: {self.ref}"


def load() -> dict[str, dict[str, Any]]:
    """All dashboards, by file name."""
    return {
        path.name: json.loads(path.read_text(encoding="utf-8"))
        for path in sorted((ROOT / "dashboards").glob("azse-*.json"))
    }


def panels(board: dict[str, Any]) -> Iterator[dict[str, Any]]:
    for panel in board["panels"]:
        yield panel
        yield from panel.get("panels", [])


def queries(name: str, board: dict[str, Any]) -> Iterator[Query]:
    for panel in panels(board):
        for target in panel.get("targets", []):
            yield Query(name, panel["title"], target["refId"], target["expr"])
    for note in board["annotations"]["list"]:
        if "target" in note:
            yield Query(name, f"annotation {note['name']}", note["target"]["refId"], note["target"]["expr"])


def variable_query(variable: dict[str, Any]) -> str:
    """The PromQL of a query variable."""
    found = re.fullmatch(r"label_values\((.*), \w+\)|query_result\((.*)\)", variable["query"])
    if not found:
        raise ValueError(f"variable {variable['name']}: {variable['query']}")
    return found.group(1) or found.group(2)


def interpolate(query: Query, span: int, chosen: dict[str, str]) -> str:
    """The query for `span` seconds and the chosen values, and All for the other variables."""
    variables = [v["name"] for v in load()[query.board]["templating"]["list"] if v["type"] == "query"]
    values = {
        **dict.fromkeys(variables, ".*"),
        "tempo": "Tempo",
        "jaeger": "Jaeger",
        "__range": f"{span}s",
        "__range_s": str(span),
        "__interval": "30m",
        "__rate_interval": "1m",
        **chosen,
    }
    return re.sub(r"\$\{?([A-Za-z_]\w*)\}?", lambda found: values[found.group(1)], query.expr)
