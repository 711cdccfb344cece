"""Looks at the dashboards in the scripted worlds: python3 world_check.py [WORLD...].

Writes what row 1 and the tables show to worlds/NAME.txt, if UPDATE_GOLDENS is set; otherwise compares it.
"""

from __future__ import annotations

import json
import os
import re
import sys
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import boards
import grafana_panels
import truths
import worlds
from boards import Query
from evaluation import Answer, Question, Sample, Series, copy_with_label, evaluate, rule_files
from exposition import PARTS, Exporters
from fleet import MINUTE, Vm
from grafana_panels import Look, Shown
from grafana_values import UnsupportedError
from worlds import Moment, World

GOLDENS = Path(__file__).resolve().parent / "worlds"
VARIABLE = re.compile(r"label_values\((?:(.*), *)?(\w+)\)|query_result\((.*)\)")
# promtool's engine reads at most 10,000 samples. Prometheus reads 50 million.
PROMTOOL_LIMIT = "would load too many samples"
# Points in seconds after now at which a panel about the coming week is evaluated.
AHEAD = (*range(0, 3601, 600), 3 * 3600, 6 * 3600, *range(12 * 3600, 7 * 86400 + 1, 12 * 3600))


def series_of(world: World) -> list[dict[str, str]]:
    end = max(moment.at for moment in world.moments) + 2 * MINUTE
    out: list[dict[str, str]] = []
    for replica in world.replicas or ("",):
        writer = Series(end, world.scrape, {"replica": replica} if replica else {})
        for vms in (world.vms, world.extra):
            detailed = [vm for vm in vms if vm == world.looked_at]
            others = [vm for vm in vms if vm not in detailed]
            _write(writer, world, detailed, end, PARTS)
            _write(writer, world, others, end, world.parts)
        out += writer.found
    return out


def _write(writer: Series, world: World, vms: list[Vm], end: int, parts: tuple[str, ...]) -> None:
    """The series of these targets. Another target of a VM has the VM's events."""
    same = {vm.name: vm for vm in vms}
    events = [
        replace(each, vms=tuple(same[vm.name] for vm in each.vms if vm.name in same), resources=len(each.vms))
        for each in world.events
    ]
    events = [each for each in events if each.vms]
    exporters = Exporters(vms, events, 0, end, world.scrape, dense=end + 1, sparse=world.scrape, job=worlds.JOB)
    exporters.write_series(writer, parts)


def link_variables(vm: Vm | None) -> dict[str, str]:
    """What a link to the VM dashboard sets."""
    return (
        {}
        if vm is None
        else {"instance": vm.instance} | {name: value for name, value in vm.target_labels if name == "cluster"}
    )


def escape(value: str) -> str:
    """A value of a variable for `=~`, as Grafana escapes it."""
    return re.sub(r"[$^*{}\[\]'+?.()|]", lambda found: "\\\\" + found.group(), value.replace("\\", "\\\\\\\\"))


class Variables:
    """The variables of a dashboard that a link opens: chosen by the link, All, or the first option.

    Options come from queries with the values of earlier variables. `answers` has the results that are known; for the
    others, the options are those of the VM that is looked at.
    """

    def __init__(self, board: dict[str, Any], world: World, moment: Moment, answers: dict[Question, Answer]):
        self.world, self.moment, self.answers = world, moment, answers
        self.asked: list[Question] = []
        self.values: dict[str, str] = {}
        chosen = link_variables(world.looked_at) if board["uid"] == "azse-vm" else {}
        span = boards.seconds(board["time"]["from"].removeprefix("now-"))
        for each in board["templating"]["list"]:
            name = each["name"]
            if each["type"] == "query":
                options = self._options(each, span)
                if name in chosen:
                    self.values[name] = escape(chosen[name])
                elif each["includeAll"]:
                    self.values[name] = each.get("allValue") or f"({'|'.join(map(escape, options))})"
                else:
                    self.values[name] = escape(options[0]) if options else ""
            elif each["type"] == "custom":
                self.values[name] = each["allValue"] if each["includeAll"] else each["current"]["value"]
            elif each["type"] in ("textbox", "constant"):
                self.values[name] = each["query"]

    def _options(self, variable: dict[str, Any], span: int) -> list[str]:
        found = VARIABLE.fullmatch(variable["definition"].strip())
        if not found:
            raise UnsupportedError(f"variable {variable['name']}: {variable['definition']}")
        series, label, query = found.groups()
        of = boards.interpolate(series or query or "", self.values, span, 15)
        expr = f"group by ({label}) (last_over_time({of}[{span}s]))" if label else of
        question = Question(expr, self.moment.at)
        self.asked.append(question)
        answer = self.answers.get(question)
        if answer is None or isinstance(answer, RuntimeError):
            vm = self.world.looked_at
            labels = {"vm_name": vm.name, "job": vm.job or worlds.JOB, "instance": vm.instance} if vm else {}
            answer = [Sample(labels | dict(vm.target_labels), 1.0)] if vm else []
        texts = [sample.labels.get(label, "") if label else as_text(sample) for sample in answer]
        return sorted({value for text in texts if (value := option(text, variable.get("regex", "")))})


def as_text(sample: Sample) -> str:
    """A sample as Grafana writes it for query_result()."""
    return f"{{{','.join(f'{k}={json.dumps(v)}' for k, v in sorted(sample.labels.items()))}}} {sample.value:g}"


def option(text: str, regex: str) -> str:
    """The value of an option: what the variable's regular expression finds in the text."""
    if not regex:
        return text
    found = re.search(regex.strip("/").replace("(?<", "(?P<"), text)
    if not found:
        return ""
    return found.groupdict().get("value") or (found.group(1) if found.groups() else text)


def questions(query: Query, variables: dict[str, str], span: int, at: int) -> Iterator[tuple[float, Question]]:
    """The evaluations of a query, by time: one of an instant query, the last of a range query, some of the future."""
    step = boards.step(query, query.ahead or span, boards.SCRAPE_INTERVAL)
    expr = boards.interpolate(query.expr, variables, query.ahead or span, step)
    if not query.ahead:
        yield at, Question(expr, at if query.instant else at - at % step)
        return
    if "@ start()" not in expr:
        raise UnsupportedError(f"{query.where}: reads the future without @ start()")
    # The rules are evaluated only until now, so the query is too. Grafana aligns the start to a full step.
    fixed = expr.replace("@ start()", f"@ {at - step}")
    for offset in AHEAD:
        yield at + offset, Question(fixed.replace("time()", f"({at + offset})"), at)


def look_at(world: World) -> dict[Moment, list[Look]]:
    with tempfile.TemporaryDirectory() as scratch:
        files = rule_files(world.rules)
        if world.replicas and not world.is_ruler_global:
            files = copy_with_label(files, "replica", Path(scratch))
        series = [] if world.does_fail else series_of(world)

        def ask(asked: list[Question]):
            return evaluate(series, files, world.scrape, world.interval, asked)

        return _look(world, boards.load(), ask)


def _look(world: World, loaded: dict[str, dict[str, Any]], ask) -> dict[Moment, list[Look]]:
    answers: dict[Question, Answer] = {}
    while True:
        asked: dict[tuple[Query, Moment], list[tuple[float, Question]]] = {}
        every: list[Question] = []
        for name, board in loaded.items():
            span = boards.seconds(board["time"]["from"].removeprefix("now-"))
            for moment in world.moments:
                variables = Variables(board, world, moment, answers)
                every += variables.asked
                for query in boards.queries(name, board):
                    asked[query, moment] = list(questions(query, variables.values, span, moment.at))
                    every += [one for _, one in asked[query, moment]]
        # In most worlds, the variables do not change with the first answers.
        missing = [] if world.does_fail else [one for one in every if one not in answers]
        if not missing:
            break
        answers |= ask(missing)
    return {
        moment: [_shown(world, name, board, moment, asked, answers) for name, board in loaded.items()]
        for moment in world.moments
    }


def _shown(world: World, name: str, board: dict[str, Any], moment: Moment, asked, results) -> Look:
    look = Look(name)
    not_evaluated: set[str] = set()
    of_panel: dict[str, list[Query]] = {}
    for query in boards.queries(name, board):
        of_panel.setdefault(query.panel, []).append(query)
        for _, one in asked[query, moment]:
            error = results.get(one)
            if isinstance(error, RuntimeError) and len(world.vms) > 1000 and PROMTOOL_LIMIT in str(error):
                not_evaluated.add(query.panel)
            elif isinstance(error, RuntimeError):
                look.failures.append(f"{query.where}: {error}")
                break
    for panel in boards.panels(board):
        if "targets" not in panel:
            continue
        points: dict[float, dict[str, list[Sample]]] = {}
        for query in of_panel[panel["title"]]:
            for at, one in asked[query, moment]:
                answer = results.get(one, [])
                points.setdefault(at, {})[query.ref] = [] if isinstance(answer, RuntimeError) else answer
        if panel["type"] == "state-timeline":
            shown = grafana_panels.show_timeline(panel, sorted(points.items()), moment.at)
        else:
            shown = grafana_panels.show(panel, points[moment.at], moment.at)
        if shown.title in not_evaluated:
            shown = Shown(shown.title, shown.kind, [["(promtool cannot read that many samples)"]], is_empty=True)
        look.panels.append(shown)
        if panel["gridPos"]["y"] == 0:
            look.row_1.append(shown)
            results_now = points[moment.at]
            for ref in results_now if len(results_now) > 1 else ():
                look.partial.append(grafana_panels.show(panel, {**results_now, ref: []}, moment.at))
    return look


class Names:
    """Replaces the names of VMs that share an event.

    A panel may show any of them, such as "Reboot of vm-1 and 3 more". Prometheus always takes the same one, because it
    orders series, and promtool takes any.
    """

    def __init__(self, world: World):
        shared = [event for event in world.events if len(event.vms) > 1]
        self.of = {
            name: f"(VM of {event.event_id[:8]})"
            for event in shared
            for vm in event.vms
            for name in (vm.name, vm.instance)
        }
        names = sorted(map(re.escape, self.of), key=len, reverse=True)
        self.pattern = re.compile(rf"(?<![\w.-])(?:{'|'.join(names)})(?![\w-])") if names else None

    def replaced(self, shown: Shown) -> Shown:
        if not self.pattern:
            return shown
        cells = [[self.pattern.sub(lambda name: self.of[name.group()], text) for text in row] for row in shown.cells]
        return replace(shown, cells=cells)


def text(world: World, looks: dict[Moment, list[Look]]) -> str:
    lines = [f"{world.name}: {world.about}"]
    names = Names(world)
    for moment, boards_shown in looks.items():
        hours, rest = divmod(moment.at, 3600)
        lines += ["", f"== {hours:02}:{rest // 60:02}:{rest % 60:02} {moment.about}"]
        for look in boards_shown:
            if look.board not in world.shown:
                continue
            lines += ["", f"-- {look.board.removesuffix('.json')}"]
            lines += [line for panel in look.row_1 for line in names.replaced(panel).lines()]
            rest_of = [
                panel for panel in look.panels if panel not in look.row_1 and panel.kind not in grafana_panels.GRAPHS
            ]
            lines += [line for panel in rest_of for line in names.replaced(panel).lines()]
    return "\n".join(lines) + "\n"


def check(world: World) -> tuple[list[str], list[str]]:
    """What fails, and what is not true."""
    try:
        looks = look_at(world)
    except UnsupportedError as why:
        return [f"{world.name}: not supported: {why}"], []
    failures = [
        f"{world.name} at {moment.at // MINUTE} min: {failure}"
        for moment, shown in looks.items()
        for look in shown
        for failure in look.failures
    ]
    untrue = [
        finding
        for moment, shown in looks.items()
        for finding in truths.findings(world, moment, {look.board: look for look in shown})
    ]
    path, got = GOLDENS / f"{world.name}.txt", text(world, looks)
    if os.environ.get("UPDATE_GOLDENS"):
        path.parent.mkdir(exist_ok=True)
        path.write_text(got, encoding="utf-8")
    elif not path.exists() or path.read_text(encoding="utf-8") != got:
        failures.append(f"{path.name} differs; UPDATE_GOLDENS=1 tests/dashboards writes it")
    return failures, untrue


def check_all(chosen: list[str]) -> tuple[list[str], list[str], int]:
    """What fails, what is not true, and the number of worlds. promtool runs in two processes."""
    every = [world for world in worlds.script() if not chosen or world.name in chosen]
    with ThreadPoolExecutor(2) as pool:
        results = list(pool.map(check, every))
    return [one for some, _ in results for one in some], [one for _, some in results for one in some], len(every)


if __name__ == "__main__":
    failed, not_true, _ = check_all(sys.argv[1:])
    print("\n".join(failed + not_true))
    sys.exit(bool(failed + not_true))
