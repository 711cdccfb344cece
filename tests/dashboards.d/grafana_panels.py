"""The text of a panel: what Grafana writes for the results of its queries, without colours and graphs."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any

import grafana_tables
from evaluation import Sample
from grafana_tables import Frame
from grafana_values import UnsupportedError, Value, text_of

# The texts of these panels are not evaluated: their values are the shape of a line.
GRAPHS = ("timeseries", "heatmap", "histogram", "barchart")


@dataclass
class Shown:
    """The text of one panel. `cells` are rows of texts; the first row of a table has its column titles."""

    title: str
    kind: str
    cells: list[list[str]] = field(default_factory=list)
    rows: list[dict[str, Value]] = field(default_factory=list)  # of a table, also with hidden columns
    is_empty: bool = False

    def lines(self) -> list[str]:
        if self.kind != "table" or self.is_empty:
            return [f"{self.title} │ {' │ '.join(' '.join(row) for row in self.cells)}"]
        widths = [max(map(len, column)) for column in zip(*self.cells, strict=True)]
        rows = [" │ ".join(text.ljust(width) for text, width in zip(row, widths, strict=True)) for row in self.cells]
        return [self.title, *(f"    {row}".rstrip() for row in rows)]


@dataclass
class Look:
    """What one dashboard shows at one moment."""

    board: str
    panels: list[Shown] = field(default_factory=list)
    row_1: list[Shown] = field(default_factory=list)
    partial: list[Shown] = field(default_factory=list)  # panels of row 1, if one of several queries fails
    failures: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Field:
    """A value with a name: one series, or one cell."""

    name: str
    labels: dict[str, str]
    value: Value
    ref: str


def show(panel: dict[str, Any], results: dict[str, list[Sample]], now: float) -> Shown:
    """`results` has the last value of each series of a range query."""
    kind = panel["type"]
    if kind == "table":
        return _table(panel, results, now)
    if kind in ("stat", "bargauge", "gauge", "piechart"):
        return _values(panel, results, now)
    if kind in GRAPHS:
        return Shown(panel["title"], kind)
    raise UnsupportedError(f"panel {panel['title']}: {kind}")


def config_of(panel: dict[str, Any], field: Field) -> dict[str, Any]:
    """The configuration of a field: the panel's defaults and the overrides that match."""
    settings = dict(panel["fieldConfig"]["defaults"])
    for override in panel["fieldConfig"]["overrides"]:
        if _matches(override["matcher"], field):
            settings |= {each["id"]: each.get("value") for each in override["properties"]}
    return settings


def _matches(matcher: dict[str, Any], field: Field) -> bool:
    options = matcher.get("options", "")
    match matcher["id"]:
        case "byName":
            return options == field.name
        case "byNames":
            return field.name in options["names"]
        case "byRegexp":
            return bool(re.search(options.strip("/"), field.name))
        case "byFrameRefID":
            return options == field.ref
        case "byType":
            kinds = {"number": float, "string": str}
            return options in kinds and isinstance(field.value, kinds[options])
    raise UnsupportedError(f"matcher {matcher['id']}")


def _display_name(settings: dict[str, Any], field: Field) -> str:
    def variable(found: re.Match[str]) -> str:
        if found.group(1) == "__field.name":
            return field.name
        return field.labels.get(found.group(1).removeprefix("__field.labels."), "")

    return re.sub(r"\$\{([^}]+)\}", variable, settings.get("displayName") or field.name)


def legend(target: dict[str, Any], labels: dict[str, str]) -> str:
    form = target.get("legendFormat", "__auto")
    if form and form != "__auto":
        return re.sub(r"\{\{\s*(\w+)\s*\}\}", lambda found: labels.get(found.group(1), found.group(0)), form)
    named = ", ".join(f'{k}="{v}"' for k, v in sorted(labels.items()) if k != "__name__")
    return f"{labels.get('__name__', '')}{{{named}}}" if named else labels.get("__name__", "Value")


def _fields(panel: dict[str, Any], results: dict[str, list[Sample]], now: float) -> list[Field]:
    targets = {target["refId"]: target for target in panel["targets"]}
    reduce = panel["options"]["reduceOptions"]
    if any(target.get("format") == "table" for target in targets.values()):
        tables = grafana_tables.frames_of(results, now)
        frames = grafana_tables.transform(tables, panel.get("transformations", []))
        return [each for frame in frames for each in _cells(frame, reduce)]
    if panel.get("transformations"):
        raise UnsupportedError(f"{panel['title']}: transformations of series")
    if not set(reduce["calcs"]) <= {"lastNotNull", "last"}:
        raise UnsupportedError(f"{panel['title']}: {reduce['calcs']}")
    return [
        Field(legend(targets[ref], sample.labels), sample.labels, sample.value, ref)
        for ref, samples in results.items()
        for sample in samples
    ]


def _cells(frame: Frame, reduce: dict[str, Any]) -> list[Field]:
    """All cells of a table, or one per column. Without `fields`, those with numbers."""
    chosen = reduce.get("fields", "")
    names = [frame.name(column) for column in frame.columns]
    rows = frame.rows[: int(reduce.get("limit") or 25)]
    if not reduce.get("values") and rows:
        rows = [
            {c: grafana_tables.REDUCERS[reduce["calcs"][0]]([row.get(c) for row in frame.rows]) for c in frame.columns}
        ]
    strings = [[str(row.get(c)) for c in frame.columns if isinstance(row.get(c), str)] for row in rows]
    out = []
    for row, words in zip(rows, strings, strict=True):
        for column, name in zip(frame.columns, names, strict=True):
            value = row.get(column)
            if (re.search(chosen.strip("/"), name) if chosen else isinstance(value, float)) and column != "Time":
                # With all values, Grafana names a row by its texts.
                title = " ".join(words) if reduce.get("values") and words and isinstance(value, float) else name
                out.append(Field(title, {}, value, ""))
    return out


def _values(panel: dict[str, Any], results: dict[str, list[Sample]], now: float) -> Shown:
    defaults = panel["fieldConfig"]["defaults"]
    fields = _fields(panel, results, now)
    out = Shown(panel["title"], panel["type"])
    mode = panel["options"].get("textMode", "auto" if panel["type"] == "stat" else "value_and_name")
    for each in fields:
        settings = config_of(panel, each)
        name, text = _display_name(settings, each), text_of(each.value, settings, now)
        if mode == "auto":
            mode = "value" if len(fields) == 1 else "value_and_name"
        shown = {"name": [name], "value": [text], "value_and_name": [f"{name}:", text], "none": []}
        out.cells.append(shown[mode])
    if not fields:
        out.is_empty = True
        out.cells.append([text_of(None, defaults, now) or "No data"])
    return out


def _table(panel: dict[str, Any], results: dict[str, list[Sample]], now: float) -> Shown:
    out = Shown(panel["title"], "table")
    tables = grafana_tables.frames_of(results, now)
    frames = grafana_tables.transform(tables, panel.get("transformations", []))
    if len(frames) > 1 and any(frame.rows for frame in frames[1:]):
        raise UnsupportedError(f"{panel['title']}: {len(frames)} tables in one panel")
    frame = frames[0] if frames else Frame([], [])
    if not frame.rows or not frame.columns:
        out.is_empty = True
        out.cells.append([panel["fieldConfig"]["defaults"].get("noValue") or "No data"])
        return out
    for sort in panel["options"].get("sortBy", []):
        if column := frame.column(sort["displayName"]):
            grafana_tables.sort_rows(frame, column, sort.get("desc", False))
    visible: list[tuple[str, dict[str, Any]]] = []
    for column in frame.columns:
        value = next((row[column] for row in frame.rows if row.get(column) is not None), None)
        settings = config_of(panel, Field(frame.name(column), {}, value, ""))
        if not settings.get("custom.hidden") and not settings.get("custom.hideFrom", {}).get("viz"):
            visible.append((column, settings))
    out.cells.append([settings.get("displayName") or frame.name(column) for column, settings in visible])
    for row in frame.rows:
        out.cells.append([text_of(row.get(column), settings, now) for column, settings in visible])
    out.rows = frame.rows
    return out


def show_timeline(panel: dict[str, Any], points: list[tuple[float, dict[str, list[Sample]]]], now: float) -> Shown:
    """A state timeline: each row's states in order, with the times after `now` at which they begin."""
    targets = {target["refId"]: target for target in panel["targets"]}
    series: dict[tuple[str, str], list[tuple[float, str]]] = {}
    for at, results in points:
        for ref, samples in results.items():
            for sample in samples:
                one = Field(legend(targets[ref], sample.labels), sample.labels, sample.value, ref)
                settings = config_of(panel, one)
                key = (str(sorted(sample.labels.items())), _display_name(settings, one))
                states = series.setdefault(key, [])
                text = text_of(sample.value, settings, now)
                if not states or states[-1][1] != text:
                    states.append((at - now, text))
    out = Shown(panel["title"], "state-timeline")
    for (_, name), states in sorted(series.items()):
        out.cells.append([f"{name}:", ", ".join(f"{text} {_offset(at)}" for at, text in states)])
    if not series:
        out.is_empty = True
        out.cells.append([panel["fieldConfig"]["defaults"].get("noValue") or "No data"])
    return out


def _offset(seconds: float) -> str:
    days, rest = divmod(int(abs(seconds)), 86400)
    clock = f"{rest // 3600:02}:{rest // 60 % 60:02}"
    return f"{'-' if seconds < 0 else '+'}{f'{days}d ' if days else ''}{clock}"
