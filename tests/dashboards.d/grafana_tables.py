"""Frames of query results and the transformations of Grafana that the dashboards use."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from evaluation import Sample
from grafana_values import UnsupportedError, Value

Row = dict[str, Value]


class Frame:
    """A table: its columns in order, and rows. A row without a column has no value in it."""

    def __init__(self, columns: list[str], rows: list[Row], names: dict[str, str] | None = None):
        self.columns, self.rows = columns, rows
        self.names = names or {}  # display names by column

    def name(self, column: str) -> str:
        return self.names.get(column, column)

    def column(self, name: str) -> str | None:
        """The column with this name or display name."""
        return next((column for column in self.columns if name in (column, self.name(column))), None)


def frames_of(results: dict[str, list[Sample]], at: float) -> list[Frame]:
    """The tables that Grafana's data source makes of instant queries; an empty result has no columns."""
    out = []
    for ref, samples in results.items():
        value = "Value" if len(results) == 1 else f"Value #{ref}"
        labels = sorted({label for sample in samples for label in sample.labels})
        columns = ["Time", *labels, value] if samples else []
        rows: list[Row] = [
            {"Time": at * 1000, **dict.fromkeys(labels, ""), **s.labels, value: s.value} for s in samples
        ]
        out.append(Frame(columns, rows))
    return out


def transform(frames: list[Frame], transformations: list[dict[str, Any]]) -> list[Frame]:
    for each in transformations:
        if each.get("disabled"):
            continue
        if each["id"] not in TRANSFORMATIONS or each.get("filter"):
            raise UnsupportedError(f"transformation {each['id']}")
        frames = TRANSFORMATIONS[each["id"]](frames, each["options"])
    return frames


def merge(frames: list[Frame], _options: dict[str, Any]) -> list[Frame]:
    """Rows with equal values in all common columns become one row, if they do not differ in another column."""
    filled = [frame for frame in frames if frame.columns]
    if len(frames) < 2 or not filled:
        return frames[:1]
    columns = list(dict.fromkeys(column for frame in filled for column in frame.columns))
    common = [column for column in columns if all(column in frame.columns for frame in filled)]
    if not common:
        return frames
    by_key: dict[tuple, list[Row]] = {}
    rows: list[Row] = []
    for frame in filled:
        for row in frame.rows:
            same = by_key.setdefault(tuple(str(row[column]) for column in common), [])
            fitting = [one for one in same if all(one.get(name) in (None, value) for name, value in row.items())]
            for one in fitting:
                one.update(row)
            if not fitting:
                same.append(dict(row))
                rows.append(same[-1])
    return [Frame(columns, rows)]


def organize(frames: list[Frame], options: dict[str, Any]) -> list[Frame]:
    return [_organized(frame, options) for frame in frames]


def _organized(frame: Frame, options: dict[str, Any]) -> Frame:
    excluded, included = options.get("excludeByName", {}), options.get("includeByName", {})
    place, renamed = options.get("indexByName", {}), options.get("renameByName", {})

    def get(of: dict[str, Any], column: str) -> Any:
        return of.get(column, of.get(frame.name(column)))

    columns = [c for c in frame.columns if not get(excluded, c) and (not included or get(included, c))]
    columns.sort(key=lambda column: len(frame.columns) + 100 if get(place, column) is None else get(place, column))
    names = frame.names | {column: get(renamed, column) for column in columns if get(renamed, column)}
    return Frame(columns, frame.rows, names)


def sort_by(frames: list[Frame], options: dict[str, Any]) -> list[Frame]:
    for sort in options["sort"]:
        for frame in frames:
            if column := frame.column(sort["field"]):
                sort_rows(frame, column, sort.get("desc", False))
    return frames


def sort_rows(frame: Frame, column: str, desc: bool) -> None:
    """Rows without a value are last in ascending order and first in descending order, as in Grafana's tables."""

    def key(row: Row) -> tuple[bool, Any]:
        value = row.get(column)
        if value is None or value == "":
            return (True, 0 if isinstance(value, float) else "")
        return (False, value.casefold() if isinstance(value, str) else value)

    missing = [row for row in frame.rows if key(row)[0]]
    present = sorted((row for row in frame.rows if not key(row)[0]), key=key, reverse=desc)
    frame.rows = missing + present if desc else present + missing


def _numbers(values: list[Value]) -> list[float]:
    return [value for value in values if isinstance(value, float)]


def _unique(values: list[Value]) -> list[Value]:
    return list(dict.fromkeys(values))


REDUCERS: dict[str, Callable[[list[Value]], Value]] = {
    "first": lambda values: values[0],
    "last": lambda values: values[-1],
    "firstNotNull": lambda values: next((value for value in values if value is not None), None),
    "lastNotNull": lambda values: next((value for value in reversed(values) if value is not None), None),
    "max": lambda values: max(_numbers(values), default=None),
    "min": lambda values: min(_numbers(values), default=None),
    "sum": lambda values: float(sum(_numbers(values))),
    "count": lambda values: float(len(values)),
    "distinctCount": lambda values: float(len(_unique(values))),
    "allUniqueValues": lambda values: [str(value) for value in _unique(values) if value is not None],
    "uniqueValues": lambda values: [str(value) for value in _unique(values) if value is not None],
    "allValues": lambda values: [str(value) for value in values if value is not None],
}


def group_by(frames: list[Frame], options: dict[str, Any]) -> list[Frame]:
    out = []
    for frame in frames:
        fields = {column: options["fields"].get(frame.name(column)) for column in frame.columns}
        keys = [c for c, field in fields.items() if field and field["operation"] == "groupby"]
        if not keys:
            continue
        groups: dict[tuple, list[Row]] = {}
        for row in frame.rows:
            groups.setdefault(tuple(str(row.get(key)) for key in keys), []).append(row)
        columns, rows = list(keys), [{key: group[0].get(key) for key in keys} for group in groups.values()]
        for column, field in fields.items():
            if not field or field["operation"] == "groupby":
                continue
            for name in field["aggregations"]:
                if field["operation"] != "aggregate" or name not in REDUCERS:
                    raise UnsupportedError(f"groupBy: {field['operation']} {name}")
                columns.append(f"{frame.name(column)} ({name})")
                for row, group in zip(rows, groups.values(), strict=True):
                    row[columns[-1]] = REDUCERS[name]([one.get(column) for one in group])
        out.append(Frame(columns, rows))
    return out


def limit(frames: list[Frame], options: dict[str, Any]) -> list[Frame]:
    return [Frame(frame.columns, frame.rows[: int(options["limitField"])], frame.names) for frame in frames]


def grouping_to_matrix(frames: list[Frame], options: dict[str, Any]) -> list[Frame]:
    """One row per value of a column, and one column per value of another one."""
    empty = {"zero": 0.0, "null": None, "empty": ""}[options.get("emptyValue", "empty")]
    out = []
    for frame in frames:
        row_of, column_of, value_of = (frame.column(options[f"{name}Field"]) for name in ("row", "column", "value"))
        if not (row_of and column_of and value_of):
            return frames
        columns = _unique([str(row[column_of]) for row in frame.rows])
        corner = f"{options['rowField']}\\{options['columnField']}"
        rows: dict[str, Row] = {}
        for row in frame.rows:
            new = rows.setdefault(str(row[row_of]), {corner: str(row[row_of]), **dict.fromkeys(columns, empty)})
            new[str(row[column_of])] = row[value_of]
        out.append(Frame([corner, *columns], list(rows.values())))
    return out


TRANSFORMATIONS = {
    "groupingToMatrix": grouping_to_matrix,
    "merge": merge,
    "organize": organize,
    "sortBy": sort_by,
    "groupBy": group_by,
    "limit": limit,
}
