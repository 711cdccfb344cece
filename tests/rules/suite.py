"""The alerts of the scripted day: promtool evaluates the rules over alerts/tests/day.series.yml."""

from __future__ import annotations

import ast
import re
import subprocess
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

import yaml

ROOT = Path(__file__).resolve().parent.parent.parent
# A list of {series, values} in promtool's notation, written by a test of the exporter.
SERIES = ROOT / "alerts" / "tests" / "day.series.yml"
# Scrape and evaluation. The last scrape of a VM that disappears is between two evaluations, because Prometheus 3 excludes
# the left end of a range and Prometheus 2 includes it.
STEP = 10
EVALUATION = 15
END = 4 * 3600 + 40 * 60
FIRING = 'ALERTS{alertstate="firing", alertname!="AzureScheduledEventInProgress"}'
LABEL = re.compile(r'(\w+)=("(?:[^"\\]|\\.)*")')


@dataclass
class Firing:
    """An alert from its first to its last evaluation, with its annotations at some of them."""

    labels: dict[str, str]
    annotations: dict[int, dict[str, str]] = field(default_factory=dict)

    @property
    def first(self) -> int:
        return min(self.annotations)

    @property
    def last(self) -> int:
        return max(self.annotations)


def rule_files() -> list[Path]:
    return sorted((ROOT / "alerts").glob("*.rules.yml"), reverse=True)


def groups() -> list[str]:
    return [group["name"] for path in rule_files() for group in yaml.safe_load(path.read_text())["groups"]]


def evaluate(promtool: str) -> list[Firing]:
    """All alerts of the day. promtool prints the result of each test that expects none."""
    series = yaml.load(SERIES.read_text(), Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))
    steps = set()
    for name, first, last in periods(promtool, series):
        some = range(first, min(first + 4 * EVALUATION, last + 1), EVALUATION)
        steps |= {(name, at) for at in (*some, last)}
    tests = [{"eval_time": f"{at}s", "alertname": name, "exp_alerts": []} for name, at in sorted(steps)]
    found: dict[tuple, Firing] = {}
    at, labels = 0, {}
    for line in run(promtool, series, tests, []).splitlines():
        if match := re.search(r"alertname: ?\S+, time: (\S+?),", line):
            at = duration(match.group(1))
        elif match := re.search(r"Labels:\{(.*)\}", line):
            labels = values(match.group(1))
        elif match := re.search(r"Annotations:\{(.*)\}", line):
            firing = found.setdefault(tuple(sorted(labels.items())), Firing(labels))
            firing.annotations[at] = values(match.group(1))
    return list(found.values())


def periods(promtool: str, series: list[dict]) -> list[tuple[str, int, int]]:
    """Name, first and last evaluation of each alert. Fails if an alert ends and fires again."""
    queries = [
        {
            # By severity, because promtool limits the samples of a query.
            "expr": " or ".join(
                f"{function}_over_time(timestamp({FIRING[:-1]}, severity='{severity}'}})[{END}s:{EVALUATION}s])"
                for severity in ("critical", "warning", "info")
            ),
            "eval_time": f"{END}s",
            "exp_samples": [],
        }
        for function in ("min", "max", "count")
    ]
    results = []
    for line in run(promtool, series, [], queries).splitlines():
        if "got: " in line:
            samples = re.findall(r'\{((?:[^{}"]|"(?:[^"\\]|\\.)*")*)\} ([0-9.E+]+)', line)
            results.append({labels: round(float(value)) for labels, value in samples})
    first, last, count = results
    again = [labels for labels in first if (last[labels] - first[labels]) // EVALUATION + 1 != count[labels]]
    if again:
        raise SystemExit(f"alerts that fire more than once: {again}")
    return [(values(labels)["alertname"], first[labels], last[labels]) for labels in first]


def run(promtool: str, series: list[dict], alerts: list[dict], queries: list[dict]) -> str:
    test = {"interval": f"{STEP}s", "input_series": series}
    suite = {
        "rule_files": [str(path) for path in rule_files()],
        "evaluation_interval": f"{EVALUATION}s",
        "group_eval_order": groups(),
        "tests": [test | {"alert_rule_test": alerts, "promql_expr_test": queries}],
    }
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "day.yml")
        path.write_text(yaml.safe_dump(suite, width=10**6))
        done = subprocess.run([promtool, "test", "rules", path], capture_output=True, text=True, check=False)
    return done.stdout + done.stderr


def values(text: str) -> dict[str, str]:
    return {name: ast.literal_eval(quoted) for name, quoted in LABEL.findall(text)}


def duration(text: str) -> int:
    units = {"h": 3600, "m": 60, "s": 1}
    return sum(int(number) * units[unit] for number, unit in re.findall(r"(\d+)([hms])", text))


def clock(at: int) -> str:
    return f"{at // 3600:02}:{at // 60 % 60:02}:{at % 60:02}"
