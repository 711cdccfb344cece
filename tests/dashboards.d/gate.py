"""Checks the dashboards, fastest check first. Every check prints what it covers; any finding fails the run."""

from __future__ import annotations

import dataclasses
import json
import math
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import promql_parser as promql

import boards
import catalog
import colours
import feed
import hour
import lint
import packages
import prometheus
import record
import world_check

DAY = 86400
# The first VM of the synthetic fleet.
WARMING_TARGET = "10.2.0.4:10169"


class Report:
    def __init__(self) -> None:
        self.findings: list[str] = []

    def check(self, what: str, findings: list[str], covered: str) -> None:
        print(f"{'ok  ' if not findings else 'FAIL'}  {what}: {covered}", flush=True)
        for finding in findings:
            print(f"      {finding}", flush=True)
        self.findings += findings


def check_generated_files(report: Report) -> None:
    """The committed files equal the generator's output, with sorted keys."""
    run = subprocess.run(
        [sys.executable, str(boards.ROOT / "dashboards" / "generator"), "--check"],
        capture_output=True,
        text=True,
        check=False,
    )
    wrong = run.stderr.splitlines() if run.returncode else []
    for name, board in boards.load().items():
        if json.dumps(board, indent=2, sort_keys=True, ensure_ascii=False) + "\n" != (
            boards.ROOT / "dashboards" / name
        ).read_text(encoding="utf-8"):
            wrong.append(f"{name}: keys are not sorted")
    report.check("files equal the generator's output", wrong, "three dashboards, the annotation snippet")


def check_lint_rules(report: Report) -> None:
    excluded = lint.exclusions((boards.ROOT / "dashboards" / ".lint").read_text(encoding="utf-8"))
    used, wrong = set(), []
    for name, board in boards.load().items():
        for rule, panel, why in lint.findings(name, board):
            # As in the linter, an exclusion without a panel applies to the whole dashboard.
            by = {(rule, board["title"], panel), (rule, board["title"], "")} & set(excluded)
            used |= by
            if not by:
                wrong.append(f"{name}: {panel}: {rule}: {why}")
    wrong += [f".lint: {entry} excludes nothing" for entry in excluded if entry not in used]
    report.check("the dashboard linter's rules", wrong, f"17 rules, {len(excluded)} exclusions with a reason")


def check_colours(report: Report) -> None:
    wrong = colours.wrong_formula()
    for name, board in boards.load().items():
        wrong += [f"{name}: {panel}: {why}" for _, panel, why in colours.findings(board)]
    covered = f"in 2 themes, for {', '.join(colours.VISION)}: CIEDE2000 of {colours.MIN_DIFFERENCE}, contrast of text of {colours.MIN_CONTRAST}"
    report.check("colours are told apart and readable", wrong, covered)


def check_packages(report: Report) -> None:
    wrong = list(packages.wrong_mixin())
    report.check("the mixin has the dashboards and rules", wrong, "jsonnet, with and without a configuration")
    wrong = list(packages.wrong_provisioning())
    report.check("the provisioned data source clashes with no other", wrong, "names, uids and defaults")


def check_names(report: Report) -> None:
    metrics, wrong, count = catalog.read(), [], 0
    for name, board in boards.load().items():
        expressions = [(q.where, q.expr) for q in boards.queries(name, board)]
        expressions += [
            (f"{name}: variable {v['name']}", boards.variable_query(v))
            for v in board["templating"]["list"]
            if v["type"] == "query"
        ]
        for where, expr in expressions:
            count += 1
            try:
                catalog.labels(promql.parse(boards.interpolate(expr, boards.variables(board), 3600, 15)), metrics)
            except (catalog.UnknownNameError, ValueError, KeyError) as why:
                wrong.append(f"{where}: {why}")
    report.check(
        "queries parse and use only catalogued metrics and labels", wrong, f"{count} queries, {len(metrics)} names"
    )


def check_promtool(report: Report, directory: Path) -> None:
    tool = prometheus.promtool()
    rules = [
        {"record": f"query:{i}", "expr": boards.interpolate(q.expr, boards.variables(board), 3600, 15)}
        for name, board in boards.load().items()
        for i, q in enumerate(boards.queries(name, board))
    ]
    snippet = json.loads((boards.ROOT / "dashboards" / "annotations.json").read_text(encoding="utf-8"))
    rules += [
        {"record": "query:annotation", "expr": each["target"]["expr"], "labels": {"of": each["name"]}}
        for each in snippet
    ]
    path = directory / "queries.yml"
    path.write_text(json.dumps({"groups": [{"name": "queries", "rules": rules}]}), encoding="utf-8")  # JSON is YAML
    run = subprocess.run(
        [tool, "check", "rules", "--lint=none", str(path)], capture_output=True, text=True, check=False
    )
    report.check(
        "promtool parses", (run.stdout + run.stderr).splitlines() if run.returncode else [], f"{len(rules)} queries"
    )


def has_value(series: list[Any]) -> bool:
    return any(
        not math.isnan(float(value))
        for one in series
        for _, value in (one["values"] if "values" in one else [one["value"]])
    )


def empty_panels(
    api: prometheus.Api, name: str, board: dict[str, Any], variables: dict[str, str], span: int, at: float, scrape: int
) -> tuple[list[str], list[str]]:
    """The panels without data, and the queries that failed."""
    filled, seen, failed = set(), [], []
    for query in boards.queries(name, board):
        if query.panel not in seen:
            seen.append(query.panel)
        try:
            # A scripted hour takes a minute, which is the least step of some panels.
            asked = dataclasses.replace(query, interval="") if scrape < boards.SCRAPE_INTERVAL else query
            if has_value(api.query_panel(asked, variables, span, at, scrape)):
                filled.add(query.panel)
        except RuntimeError as why:
            failed.append(f"{query.where}: {why}")
    return [panel for panel in seen if panel not in filled], failed


# The rules count the approvals of 15 minutes, and the scripted hour takes one. The synthetic fleet has approvals.
FILLED_LATER = "Approvals"


def check_scripted_hour(report: Report, directory: Path) -> None:
    directory.mkdir()
    with hour.run_scenario(directory) as (api, vm, began, ended):
        for name, board in boards.load().items():
            span = 30 * DAY if name == "azse-history.json" else int(ended - began) + 30
            empty, failed = empty_panels(
                api, name, board, boards.variables(board, vm if name == "azse-vm.json" else {}), span, ended, 1
            )
            report.check(
                f"{name}: the scripted hour fills every panel",
                failed + [f"{panel}: no data" for panel in empty if panel != FILLED_LATER],
                f"{len(board['panels'])} panels",
            )


def texts_of_first_row(api: prometheus.Api, name: str, chosen: dict[str, str], at: float) -> list[str]:
    """The labels that the queries of the first row return."""
    board = boards.load()[name]
    first_row = {panel["title"] for panel in board["panels"] if panel["gridPos"]["y"] == 0}
    return [
        label
        for query in boards.queries(name, board)
        if query.panel in first_row
        for one in api.query_panel(query, boards.variables(board, chosen), 3600, at)
        for label in one["metric"].values()
    ]


def find_false_all_clear(api: prometheus.Api, at: float) -> list[str]:
    """Without any exporter, the first row of Fleet and VM says so. It does not show `none` or `nothing`."""
    wrong = []
    for name, says in (("azse-fleet.json", "no rules"), ("azse-vm.json", "blind · no exporter")):
        shown = texts_of_first_row(api, name, {}, at)
        if set(shown) != {says}:
            wrong.append(f"{name}: {shown}")
    return wrong


def find_all_clear_while_warming_up(api: prometheus.Api, at: float) -> list[str]:
    """While an exporter warms up, the first row of Fleet and VM does not show `none` or `nothing`."""
    wrong = []
    for name, says in (("azse-fleet.json", "1 of 24 blind"), ("azse-vm.json", "blind · warming up")):
        shown = texts_of_first_row(api, name, {"instance": WARMING_TARGET} if name == "azse-vm.json" else {}, at)
        if says not in shown or {"none", "nothing"} & set(shown):
            wrong.append(f"{name}: {shown}")
    return wrong


# With a selection, these are estimated from the series of single exporters.
ESTIMATED = ("Approvals", "Lost per 1,000 VM-h")


def compare_selection_with_all(api: prometheus.Api, at: float) -> list[str]:
    """History reads records of events for All, and joins them with the VMs for a selection. All VMs are the same."""
    name = "azse-history.json"
    board, wrong = boards.load()[name], []
    vms = api.instant("group by (instance) (last_over_time(azure_scheduled_event:history_vm[1d]))", at)
    every = "|".join(sorted(one["metric"]["instance"].replace(".", "\\\\.") for one in vms))
    for query in boards.queries(name, board):
        if query.panel in ESTIMATED:
            continue
        found = [
            {
                json.dumps(one["metric"], sort_keys=True): one.get("values", one.get("value", [])[1:])
                for one in api.query_panel(query, boards.variables(board, chosen), DAY, at)
            }
            for chosen in ({}, {"instance": f"({every})"})
        ]
        if found[0] != found[1]:
            wrong.append(f"{query.where}: {found[0]} for All, {found[1]} for the selection")
    return wrong


def check_synthetic_fleet(report: Report, directory: Path, quiet: bool) -> None:
    """Queries blocks of the synthetic fleet: events fill every panel, and no query fails without events."""
    directory.mkdir()
    now = time.time()
    feed.write(directory / "fleet.om", now, events=30, days=2, dense=3600, quiet=quiet)
    subprocess.run(
        [
            prometheus.promtool(),
            "tsdb",
            "create-blocks-from",
            "openmetrics",
            "--max-block-duration=2400h",
            str(directory / "fleet.om"),
            str(directory / "data"),
        ],
        check=True,
        stdout=subprocess.DEVNULL,
    )
    (directory / "fleet.om").unlink()
    record.write(directory / "data", now - 3 * 3600, now + 60)
    with prometheus.serving(directory, "global: { scrape_interval: 15s }\n") as api:
        for name, board in boards.load().items():
            chosen = {"instance": "10.2.0.9:10169"} if name == "azse-vm.json" else {}
            span = DAY if name == "azse-history.json" else 3 * 3600
            empty, failed = empty_panels(api, name, board, boards.variables(board, chosen), span, now, 15)
            wrong = failed + ([] if quiet else [f"{panel}: no data" for panel in empty])
            what = (
                f"no query fails without events ({len(empty)} panels show a text for missing data)"
                if quiet
                else "events fill every panel"
            )
            report.check(f"{name}: {what}", wrong, f"{len(board['panels'])} panels")
        if not quiet:
            report.check(
                "azse-history.json: a selection of all VMs shows what All shows",
                compare_selection_with_all(api, now),
                "every query except estimates",
            )
        if quiet:
            report.check(
                "missing exporters are not shown as no events",
                find_false_all_clear(api, now - 10 * DAY),
                "the first rows of Fleet and VM, at a time without any exporter",
            )
            report.check(
                "an exporter that is warming up is not an all-clear",
                find_all_clear_while_warming_up(api, now),
                "the first rows of Fleet and VM",
            )


def check_worlds(report: Report, chosen: list[str]) -> None:
    failed, untrue, count = world_check.check_all(chosen)
    report.check("no query fails in the scripted worlds", failed, f"{count} worlds, texts in worlds/*.txt")
    report.check("what the dashboards say in these worlds is true", untrue, "the assertions in truths.py")


def main() -> int:
    report = Report()
    if "--worlds" in sys.argv[1:]:
        check_worlds(report, [name for name in sys.argv[1:] if name != "--worlds"])
        return 1 if report.findings else 0
    check_generated_files(report)
    check_lint_rules(report)
    check_colours(report)
    check_packages(report)
    check_names(report)
    with tempfile.TemporaryDirectory() as scratch:
        check_promtool(report, Path(scratch))
        if "--static" not in sys.argv[1:]:
            check_worlds(report, [])
            check_synthetic_fleet(report, Path(scratch) / "busy", quiet=False)
            check_synthetic_fleet(report, Path(scratch) / "quiet", quiet=True)
            check_scripted_hour(report, Path(scratch) / "hour")
    print(f"dashboards: {len(report.findings)} findings" if report.findings else "dashboards: ok")
    return 1 if report.findings else 0


if __name__ == "__main__":
    sys.exit(main())
