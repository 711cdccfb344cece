"""Evaluates the rules over the scripted day with promtool, and writes what fires as alerts/tests/day.yml."""

from __future__ import annotations

import ast
import re
import subprocess
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

import yaml

from scenario import END, STEP, Day

ROOT = Path(__file__).resolve().parent.parent.parent
SUITE = ROOT / "alerts" / "tests" / "day.yml"
HEAD = """\
# Every alert of a scripted day: expected when it starts to fire, at its last evaluation, and no more after it.
# Written by tests/rules.d/notifications.py from tests/rules.d/day.py: UPDATE_GOLDENS=1 tests/rules

"""
LABEL = re.compile(r'(\w+)=("(?:[^"\\]|\\.)*")')


@dataclass
class Firing:
    """An alert from its first to its last evaluation. The annotations are those of each evaluation."""

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


def groups() -> list[dict]:
    return [group for path in rule_files() for group in yaml.safe_load(path.read_text())["groups"]]


def alert_names() -> list[str]:
    return sorted({rule["alert"] for group in groups() for rule in group["rules"] if "alert" in rule})


def document(day: Day, folder: str, tests: list[dict]) -> dict:
    return {
        "rule_files": [f"{folder}{path.name}" for path in rule_files()],
        "evaluation_interval": f"{STEP}s",
        "group_eval_order": [group["name"] for group in groups()],
        "tests": [{"interval": f"{STEP}s", "input_series": day.series(), "alert_rule_test": tests}],
    }


def evaluate(promtool: str, day: Day) -> list[Firing]:
    """All alerts of the day. promtool prints the alerts of each test that expects none."""
    tests = [
        {"eval_time": f"{at}s", "alertname": name, "exp_alerts": []}
        for at in range(0, END + 1, STEP)
        for name in alert_names()
    ]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "day.yml")
        path.write_text(yaml.safe_dump(document(day, f"{ROOT}/alerts/", tests), width=10**6))
        done = subprocess.run([promtool, "test", "rules", path], capture_output=True, text=True, check=False)
    return parse(done.stdout + done.stderr)


def parse(output: str) -> list[Firing]:
    found: list[Firing] = []
    at = 0
    labels: dict[str, str] = {}
    for line in output.splitlines():
        if match := re.search(r"alertname: ?\S+, time: (\S+?),", line):
            at = duration(match.group(1))
        elif match := re.search(r"Labels:\{(.*)\}", line):
            labels = values(match.group(1))
        elif match := re.search(r"Annotations:\{(.*)\}", line):
            record(found, labels, at, values(match.group(1)))
    return found


def values(text: str) -> dict[str, str]:
    return {name: ast.literal_eval(quoted) for name, quoted in LABEL.findall(text)}


def duration(text: str) -> int:
    units = {"h": 3600, "m": 60, "s": 1}
    return sum(int(number) * units[unit] for number, unit in re.findall(r"(\d+)([hms])", text))


def record(found: list[Firing], labels: dict[str, str], at: int, annotations: dict[str, str]) -> None:
    for firing in found:
        if firing.labels == labels and firing.last == at - STEP:
            firing.annotations[at] = annotations
            return
    found.append(Firing(labels, {at: annotations}))


def text(day: Day, firings: list[Firing]) -> str:
    """The suite: each alert at its first and last evaluation, and none after it."""
    times = {(firing.labels["alertname"], at) for firing in firings for at in around(firing)}
    tests = [
        {"eval_time": clock(at), "alertname": name, "exp_alerts": expected(firings, name, at)}
        for name, at in sorted(times, key=lambda one: (one[1], one[0]))
    ]
    return HEAD + yaml.dump(document(day, "../", tests), Dumper=Dumper, sort_keys=False, width=10**6)


def around(firing: Firing) -> list[int]:
    return [at for at in (firing.first - STEP, firing.first, firing.last, firing.last + STEP) if 0 <= at <= END]


def expected(firings: list[Firing], name: str, at: int) -> list[dict]:
    alerts = [firing for firing in firings if firing.labels["alertname"] == name and at in firing.annotations]
    return [
        {
            "exp_labels": {label: text for label, text in firing.labels.items() if label != "alertname"},
            "exp_annotations": firing.annotations[at],
        }
        for firing in sorted(alerts, key=lambda one: sorted(one.labels.items()))
    ]


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
