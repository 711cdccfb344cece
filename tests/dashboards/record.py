"""Backfills the recording rules of alerts/ into existing blocks: python3 record.py DATA BEGIN END [--step SECONDS].

`promtool tsdb create-blocks-from rules` evaluates the rules, but a rule does not see the results of other rules in the
same run. The rules are therefore evaluated in dependency order, in several stages, each with a Prometheus on loopback
that serves the blocks. A rule that reads its own past, or the result of a later rule at the previous evaluation, does not
see them.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import tempfile
from pathlib import Path

import prometheus
from boards import RULE_FILES

CONFIG = f"global: {{ evaluation_interval: 1d }}\nrule_files: {RULE_FILES}\n"


def records(directory: Path) -> dict[str, list[str]]:
    """The expressions of the recording rules by name, as loaded by Prometheus."""
    with prometheus.serving(directory, CONFIG) as server:
        groups = server.get("rules")["groups"]
    found: dict[str, list[str]] = {}
    for rule in (rule for group in groups for rule in group["rules"] if rule["type"] == "recording"):
        found.setdefault(rule["name"], []).append(rule["query"])
    return found


def stages(rules: dict[str, list[str]]) -> list[list[str]]:
    """Stages of rules in dependency order: a rule reads series of its own stage or a later one only as its memory."""
    named = {name: re.compile(rf"(?<![\w:]){name}(?![\w:])") for name in rules}
    reads = {
        name: {other for other in rules if other != name and any(named[other].search(expr) for expr in exprs)}
        for name, exprs in rules.items()
    }
    order, done = [], set()
    while waiting := [name for name in rules if name not in done]:
        # If all wait for each other, the first one reads what the others recorded at the previous evaluation.
        stage = [name for name in waiting if reads[name] <= done] or waiting[:1]
        order.append(stage)
        done |= set(stage)
    return order


def write(data: Path, begin: float, end: float, step: int = 60) -> int:
    """Adds blocks with the recorded series to `data` and returns the number of metric names."""
    with tempfile.TemporaryDirectory() as scratch:
        directory = Path(scratch)
        rules = records(directory)
        for stage in stages(rules):
            path = directory / "stage.json"  # JSON is YAML
            path.write_text(
                json.dumps(
                    {
                        "groups": [
                            {
                                "name": "stage",
                                "rules": [{"record": name, "expr": expr} for name in stage for expr in rules[name]],
                            }
                        ]
                    }
                ),
                encoding="utf-8",
            )
            with prometheus.serving(directory, "global: {}\n", data=data) as server:
                run = subprocess.run(
                    [
                        prometheus.promtool(),
                        "tsdb",
                        "create-blocks-from",
                        "rules",
                        f"--start={begin:.0f}",
                        f"--end={end:.0f}",
                        f"--eval-interval={step}s",
                        f"--url={server.url}",
                        f"--output-dir={data}",
                        str(path),
                    ],
                    capture_output=True,
                    text=True,
                    check=False,
                )
            if run.returncode or "level=error" in run.stderr or "level=ERROR" in run.stderr:
                raise SystemExit(f"promtool did not record {', '.join(stage)}: {run.stdout}{run.stderr}")
    return len(rules)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path, help="directory of the blocks")
    parser.add_argument("begin", type=float, help="Unix time of the first evaluation")
    parser.add_argument("end", type=float, help="Unix time of the last evaluation")
    parser.add_argument("--step", type=int, default=60, help="seconds between evaluations")
    args = parser.parse_args()
    print(write(args.data, args.begin, args.end, args.step), "names recorded")
