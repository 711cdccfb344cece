"""Checks the dashboards, fastest check first. Every check prints what it covers; any finding fails the run."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import boards
import catalog
import lint
import packages
import worlds

DAY = 86400


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
    report.check("files equal the generator's output", wrong, "three dashboards, the annotation snippet")


def check_lint_rules(report: Report) -> None:
    wrong = [
        f"{name}: {panel}: {rule}: {why}"
        for name, board in boards.load().items()
        for rule, panel, why in lint.findings(board)
    ]
    report.check("form, links and layout", wrong, "three dashboards")


def check_linter(report: Report, linter: str) -> None:
    """Grafana's dashboard-linter, with the exclusions in dashboards/.lint."""
    wrong = []
    for name in boards.load():
        files = ["-c", str(boards.ROOT / "dashboards" / ".lint"), str(boards.ROOT / "dashboards" / name)]
        run = subprocess.run([linter, "lint", "--strict", *files], capture_output=True, text=True, check=False)
        wrong += (run.stdout + run.stderr).splitlines() if run.returncode else []
    report.check("dashboard-linter", wrong, "three dashboards")


def check_names(report: Report) -> None:
    wrong, count = [], 0
    for name, board in boards.load().items():
        expressions = [(q.where, q.expr) for q in boards.queries(name, board)]
        queries = [v for v in board["templating"]["list"] if v["type"] == "query"]
        expressions += [(f"{name}: variable {v['name']}", boards.variable_query(v)) for v in queries]
        count += len(expressions)
        wrong += [f"{where}: {why}" for where, expr in expressions for why in catalog.unknown(expr)]
    report.check("queries use only known metrics and labels", wrong, f"{count} queries, {len(catalog.METRICS)} names")


def expression_tests(world: worlds.World) -> list[dict]:
    """The truths of a world, and each query at the time of each truth without an error."""
    jobs = {"job": "|".join(sorted({vm.job for vm in world.vms}))}

    def ask(query: boards.Query, chosen: dict[str, str]) -> str:
        span = 7 * DAY if query.board == worlds.HISTORY else 6 * 3600
        return boards.interpolate(query, span, jobs | chosen)

    queries = {
        (q.board, q.panel, q.ref): q for name, board in boards.load().items() for q in boards.queries(name, board)
    }
    tests, moments = [], {(truth.minute, *sorted(truth.chosen.items())): truth for truth in world.truths}
    for truth in moments.values():
        for query in queries.values():
            tests.append({"expr": f"count({ask(query, truth.chosen)}) < 0", "eval_time": seconds(truth.minute)})
    for truth in world.truths:
        query = queries[truth.board, truth.panel, truth.ref]
        samples = []
        for labels, value in truth.expected.items():
            pairs = zip(truth.by, labels, strict=True)
            samples.append({"labels": "{" + ",".join(f'{k}="{v}"' for k, v in pairs if v) + "}", "value": value})
        # Versions of promtool differ in the last digit of a rate.
        expr = f"round(max by ({','.join(truth.by)}) ({ask(query, truth.chosen)}), 0.001)"
        tests.append({"expr": expr, "eval_time": seconds(truth.minute), "exp_samples": samples})
    return tests


def seconds(minutes: float) -> str:
    return f"{round(minutes * 60)}s"


def promtool() -> str:
    path = shutil.which(os.environ.get("PROMTOOL", "promtool"))
    return path or sys.exit("tests/dashboards/run: promtool not found; apt-get install prometheus")


def run_promtool(world: worlds.World, directory: Path) -> list[str]:
    """What promtool prints, if a test fails."""
    series = [{"series": name, "values": worlds.notation(values)} for name, values in world.series().items()]
    test = {
        "evaluation_interval": f"{world.step}s",
        "tests": [{"interval": f"{world.step}s", "input_series": series, "promql_expr_test": expression_tests(world)}],
    }
    path = directory / f"{world.name}.yml"
    path.write_text(json.dumps(test), encoding="utf-8")  # JSON is YAML
    run = subprocess.run([promtool(), "test", "rules", str(path)], capture_output=True, text=True, check=False)
    return (run.stdout + run.stderr).splitlines() if run.returncode else []


def main() -> int:
    report = Report()
    chosen = [name for name in sys.argv[1:] if not name.startswith("--")]
    made = worlds.named(chosen)
    if not chosen:
        check_generated_files(report)
        check_lint_rules(report)
        if linter := os.environ.get("DASHBOARD_LINTER"):
            check_linter(report, linter)
        wrong = list(packages.wrong_mixin())
        report.check("the mixin has the dashboards and rules", wrong, "jsonnet, with and without a configuration")
        check_names(report)
    with tempfile.TemporaryDirectory() as scratch:
        for world in made if "--static" not in sys.argv[1:] else []:
            wrong = run_promtool(world, Path(scratch))
            report.check(f"{world.name}: {world.about}", wrong, f"{len(world.truths)} truths")
    print(f"dashboards: {len(report.findings)} findings" if report.findings else "dashboards: ok")
    return 1 if report.findings else 0


if __name__ == "__main__":
    sys.exit(main())
