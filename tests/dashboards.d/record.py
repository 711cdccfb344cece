"""Backfills the recording rules of alerts/ and dashboards/ into existing blocks: python3 record.py DATA BEGIN END [--step SECONDS].

`promtool tsdb create-blocks-from rules` evaluates the rules, but a rule does not see the results of other rules in the
same run. The rules are therefore evaluated in dependency order, in several stages, each with a Prometheus on loopback
that serves the blocks. A rule that reads itself or a later rule of its group does not see those results.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import tempfile
from pathlib import Path

import prometheus
from boards import ROOT

CONFIG = f'global: {{ evaluation_interval: 1d }}\nrule_files: ["{ROOT}/alerts/*.rules.yml", "{ROOT}/dashboards/*.rules.yml"]\n'


def records(directory: Path) -> dict[str, tuple[str, str]]:
    """The group and the expression of each recording rule by name, as loaded by Prometheus."""
    with prometheus.serving(directory, CONFIG) as server:
        groups = server.get("rules")["groups"]
    return {
        rule["name"]: (group["name"], rule["query"])
        for group in groups
        for rule in group["rules"]
        if rule["type"] == "recording"
    }


def stages(rules: dict[str, tuple[str, str]]) -> list[list[str]]:
    """Stages of rules in dependency order: no rule reads a series recorded in its own stage or a later one.

    A rule that reads itself or a later rule of its group reads the previous evaluation, which is no dependency.
    """
    names = list(rules)
    named = {name: re.compile(rf"(?<![\w:]){name}(?![\w:])") for name in rules}
    reads = {
        name: {
            other
            for other, (other_group, _) in rules.items()
            if named[other].search(expr) and (other_group != group or names.index(other) < names.index(name))
        }
        for name, (group, expr) in rules.items()
    }
    order, done = [], set()
    while stage := [name for name in rules if name not in done and reads[name] <= done]:
        order.append(stage)
        done |= set(stage)
    if cyclic := sorted(set(rules) - done):
        raise SystemExit(f"rules with cyclic dependencies: {', '.join(cyclic)}")
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
                                "rules": [{"record": name, "expr": rules[name][1]} for name in stage],
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
