"""alerts/tests/day.yml: the series of the scripted day, and the alerts that fire."""

from __future__ import annotations

import ast
import re
import subprocess
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

import yaml

from scenario import END, EVALUATION, STEP, Day

ROOT = Path(__file__).resolve().parent.parent.parent
SUITE = ROOT / "alerts" / "tests" / "day.yml"
HEAD = """\
# Every alert of a scripted day: when it starts to fire, when it is notified, and at its last evaluation. The query at the
# end counts the evaluations of each alert, so that no other alert fires, and none fires again. Written by
# tests/rules.d/notifications.py from tests/rules.d/day.py: UPDATE_GOLDENS=1 tests/rules

"""
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
    return [ROOT / "alerts" / name for name in ("scheduled-events.rules.yml", "exporter-health.rules.yml")]


def groups() -> list[str]:
    """Also those of the dashboards, which the suite does not load, because the order is the same in all suites."""
    paths = [*rule_files(), *sorted((ROOT / "dashboards").glob("*.rules.yml"))]
    return [group["name"] for path in paths for group in yaml.safe_load(path.read_text())["groups"]]


def document(day: Day, folder: str, alerts: list[dict], queries: list[dict]) -> dict:
    tests = {"interval": f"{STEP}s", "input_series": day.series()}
    tests |= {"alert_rule_test": alerts, "promql_expr_test": queries}
    return {
        "rule_files": [f"{folder}{path.name}" for path in rule_files()],
        "evaluation_interval": f"{EVALUATION}s",
        "group_eval_order": groups(),
        "tests": [tests],
    }


def evaluate(promtool: str, day: Day) -> list[Firing]:
    """All alerts of the day. promtool prints the result of each test that expects none."""
    steps = set()
    for name, first, last in periods(promtool, day):
        some = range(first, min(first + 4 * EVALUATION, last + 1), EVALUATION)
        steps |= {(name, at) for at in (*some, last)}
    tests = [{"eval_time": f"{at}s", "alertname": name, "exp_alerts": []} for name, at in sorted(steps)]
    found: dict[tuple, Firing] = {}
    at, labels = 0, {}
    for line in run(promtool, day, tests, []).splitlines():
        if match := re.search(r"alertname: ?\S+, time: (\S+?),", line):
            at = duration(match.group(1))
        elif match := re.search(r"Labels:\{(.*)\}", line):
            labels = values(match.group(1))
        elif match := re.search(r"Annotations:\{(.*)\}", line):
            firing = found.setdefault(tuple(sorted(labels.items())), Firing(labels))
            firing.annotations[at] = values(match.group(1))
    return list(found.values())


def periods(promtool: str, day: Day) -> list[tuple[str, int, int]]:
    """Name, first and last evaluation of each alert."""
    queries = [
        {
            "expr": f"{function}(timestamp({FIRING})[{END}s:{EVALUATION}s])",
            "eval_time": f"{END}s",
            "exp_samples": [],
        }
        for function in ("min_over_time", "max_over_time")
    ]
    results = []
    for line in run(promtool, day, [], queries).splitlines():
        if "got: " in line:
            samples = re.findall(r"\{([^{}]*)\} ([0-9.E+]+)", line)
            results.append({labels: round(float(value)) for labels, value in samples})
    first, last = results
    return [(values(labels)["alertname"], first[labels], last[labels]) for labels in first]


def run(promtool: str, day: Day, alerts: list[dict], queries: list[dict]) -> str:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "day.yml")
        path.write_text(yaml.safe_dump(document(day, f"{ROOT}/alerts/", alerts, queries), width=10**6))
        done = subprocess.run([promtool, "test", "rules", path], capture_output=True, text=True, check=False)
    return done.stdout + done.stderr


def values(text: str) -> dict[str, str]:
    return {name: ast.literal_eval(quoted) for name, quoted in LABEL.findall(text)}


def duration(text: str) -> int:
    units = {"h": 3600, "m": 60, "s": 1}
    return sum(int(number) * units[unit] for number, unit in re.findall(r"(\d+)([hms])", text))


def text(day: Day, firings: list[Firing], notified: set[tuple[str, int]]) -> str:
    """The suite: each alert at its first and last evaluation, and with the texts of its notifications."""
    times = {(firing.labels["alertname"], at) for firing in firings for at in (firing.first, firing.last)} | notified
    tests = [
        {"eval_time": clock(at), "alertname": name, "exp_alerts": expected(firings, name, at)}
        for name, at in sorted(times, key=lambda one: (one[1], one[0]))
    ]
    counts = [
        {
            "labels": "{" + ", ".join(f'{name}="{value}"' for name, value in sorted(firing.labels.items())) + "}",
            "value": (firing.last - firing.first) // EVALUATION + 1,
        }
        for firing in sorted(firings, key=lambda one: (one.first, sorted(one.labels.items())))
    ]
    expr = f"sum without (__name__, alertstate) (count_over_time({FIRING}[{END}s]))"
    queries = [{"expr": expr, "eval_time": f"{END}s", "exp_samples": counts}]
    suite = document(day, "../", tests, queries)
    order = f"group_eval_order: [{', '.join(suite.pop('group_eval_order'))}]\n"
    written = yaml.dump(suite, Dumper=Dumper, sort_keys=False, width=10**6)
    return HEAD + written.replace("tests:\n", f"{order}tests:\n", 1)


def expected(firings: list[Firing], name: str, at: int) -> list[dict]:
    alerts = [one for one in firings if one.labels["alertname"] == name and one.first <= at <= one.last]
    return [
        {
            "exp_labels": {label: text for label, text in firing.labels.items() if label != "alertname"},
            "exp_annotations": firing.annotations[at],
        }
        for firing in sorted(alerts, key=lambda one: sorted(one.labels.items()))
    ]


def read() -> list[Firing]:
    """The alerts that the suite expects. promtool checks it together with all other suites."""
    found: dict[tuple, Firing] = {}
    for test in yaml.safe_load(SUITE.read_text())["tests"][0]["alert_rule_test"]:
        for alert in test["exp_alerts"]:
            labels = {"alertname": test["alertname"]} | alert["exp_labels"]
            firing = found.setdefault(tuple(sorted(labels.items())), Firing(labels))
            firing.annotations[duration(test["eval_time"])] = alert["exp_annotations"]
    return list(found.values())


def clock(at: int) -> str:
    return "".join(f"{number}{unit}" for number, unit in zip(split(at), "hms", strict=True) if number) or "0s"


def split(at: int) -> tuple[int, int, int]:
    return at // 3600, at // 60 % 60, at % 60


class Dumper(yaml.SafeDumper):
    """Writes texts of several lines as blocks, and no aliases."""

    def ignore_aliases(self, data: object) -> bool:  # noqa: ARG002
        return True


def _text(dumper: yaml.SafeDumper, value: str) -> yaml.ScalarNode:
    return dumper.represent_scalar("tag:yaml.org,2002:str", value, style="|" if "\n" in value else None)


Dumper.add_representer(str, _text)
