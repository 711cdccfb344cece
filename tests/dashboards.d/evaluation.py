"""Evaluates queries with the shipped rules over scripted series: promtool keeps the rules' memory and takes seconds.

A query is a test that expects no result. promtool prints the result that it got, or the error.
"""

from __future__ import annotations

import ast
import json
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import yaml

import prometheus
from boards import ROOT

sys.path.insert(0, str(ROOT / "tests" / "rules.d"))

from scenario import promtool_series

GROUP = re.compile(r"^ *- name: (\S+)$", re.MULTILINE)
SAMPLE = re.compile(r'[\w:]*\{((?:\w+="(?:[^"\\]|\\.)*"(?:, )?)*)\} (\S+?)(?:, |$)')
LABEL = re.compile(r'(\w+)=("(?:[^"\\]|\\.)*")')
DURATION = {"d": 86400, "h": 3600, "m": 60, "s": 1}


@dataclass(frozen=True)
class Sample:
    labels: dict[str, str]
    value: float


@dataclass(frozen=True)
class Question:
    expr: str
    at: int


Answer = list[Sample] | RuntimeError


class Series:
    """Collects the series of the exporters as promtool's input, one sample every `step` seconds from 0 to `end`."""

    def __init__(self, end: int, step: int, extra: dict[str, str] | None = None):
        self.end, self.step, self.extra = end, step, extra or {}
        self.found: list[dict[str, str]] = []

    def family(self, name: str, kind: str) -> None:
        """promtool does not need the type."""

    def series(self, name: str, labels: dict[str, str], value, times: Iterable[float]) -> None:
        samples: list[float | None] = [None] * (self.end // self.step + 1)
        for t in times:
            v = value(t)
            samples[round(t / self.step)] = int(v) if v is not None and float(v).is_integer() else v
        if any(sample is not None for sample in samples):
            self.found.append(promtool_series(name, labels | self.extra, samples, self.step))


def rule_files(directories: Iterable[str]) -> list[Path]:
    return [path for name in directories for path in sorted((ROOT / name).glob("*.rules.yml"), reverse=True)]


def copy_with_label(files: Iterable[Path], label: str, directory: Path) -> list[Path]:
    """The rules with one more label in each grouping and join, as docs/paging.md describes."""
    out = []
    for path in files:
        out.append(directory / path.name)
        out[-1].write_text(re.sub(r"\bcluster\b", rf"cluster, {label}", path.read_text(encoding="utf-8")))
    return out


def copy_without_alerts(files: Iterable[Path], directory: Path) -> list[Path]:
    """The recording rules. They take half of the time of all rules."""
    out = []
    for path in files:
        document = yaml.safe_load(path.read_text(encoding="utf-8"))
        for group in document["groups"]:
            group["rules"] = [rule for rule in group["rules"] if "record" in rule]
        out.append(directory / path.name)
        out[-1].write_text(yaml.safe_dump(document, sort_keys=False), encoding="utf-8")
    return out


def evaluate(
    series: list[dict[str, str]], files: list[Path], scrape: int, interval: int, questions: Iterable[Question]
) -> dict[Question, Answer]:
    asked = list(dict.fromkeys(questions))
    tests = [{"expr": each.expr, "eval_time": f"{each.at}s", "exp_samples": []} for each in asked]
    # Without group_eval_order, promtool evaluates groups in random order.
    suite = {
        "rule_files": [str(path) for path in files],
        "evaluation_interval": f"{interval}s",
        "group_eval_order": [name for path in files for name in GROUP.findall(path.read_text(encoding="utf-8"))],
        "tests": [{"interval": f"{scrape}s", "input_series": series, "promql_expr_test": tests}],
    }
    with tempfile.TemporaryDirectory() as scratch:
        path = Path(scratch, "suite.json")  # JSON is YAML
        path.write_text(json.dumps(suite, ensure_ascii=False), encoding="utf-8")
        run = subprocess.run(
            [prometheus.promtool(), "test", "rules", str(path)], capture_output=True, text=True, check=False
        )
    answers = parse(run.stdout + run.stderr)
    if unknown := set(answers) - set(asked):
        raise SystemExit(f"promtool: answers to other queries: {unknown}")
    if run.returncode and not answers:
        raise SystemExit(f"promtool: {run.stdout}{run.stderr}"[:4000])
    return {question: answers.get(question, []) for question in asked}


def parse(output: str) -> dict[Question, Answer]:
    answers: dict[Question, Answer] = {}
    question = None
    for line in output.splitlines():
        if found := re.match(r'\s+expr: ("(?:[^"\\]|\\.)*"), time: ([0-9dhms]+),(?: err: (.*))?', line):
            question = Question(ast.literal_eval(found.group(1)), seconds(found.group(2)))
            if found.group(3):
                answers[question] = RuntimeError(found.group(3))
        elif question and (found := re.match(r"\s+got: (.*)", line)):
            answers[question] = [
                Sample({name: ast.literal_eval(text) for name, text in LABEL.findall(labels)}, float(value))
                for labels, value in SAMPLE.findall(found.group(1))
            ]
        elif re.search(r"\berror\b|name: |alertname:", line) and not re.search("expr:|exp:", line):
            raise SystemExit(f"promtool: {line}")
    return answers


def seconds(duration: str) -> int:
    return sum(int(number) * DURATION[unit] for number, unit in re.findall(r"(\d+)([dhms])", duration))
