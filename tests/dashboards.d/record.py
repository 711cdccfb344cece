"""What the rules of alerts/ would have recorded over blocks of the past: python3 record.py DATA BEGIN END [--step SECONDS].

`promtool tsdb create-blocks-from rules` does the work, but a rule does not see there what another one records. So
the rules go in turns: first those that read only what was scraped, then those that also read what is now recorded,
and so on, with a Prometheus on loopback over the blocks for each turn. What a rule reads of its own past stays unseen.
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

CONFIG = 'global: {{ evaluation_interval: 1d }}\nrule_files: ["{rules}"]\n'


def records(directory: Path) -> dict[str, list[str]]:
    """The recording rules, name to expressions, as a Prometheus reads them."""
    with prometheus.serving(directory, CONFIG.format(rules=ROOT / "alerts" / "*.rules.yml")) as server:
        groups = server.get("rules")["groups"]
    found: dict[str, list[str]] = {}
    for rule in (rule for group in groups for rule in group["rules"] if rule["type"] == "recording"):
        found.setdefault(rule["name"], []).append(rule["query"])
    return found


def turns(rules: dict[str, list[str]]) -> list[list[str]]:
    """Who can be recorded together: nobody reads what another one of the same turn, or of a later one, records."""
    named = {name: re.compile(rf"(?<![\w:]){name}(?![\w:])") for name in rules}
    reads = {
        name: {other for other in rules if other != name and any(named[other].search(expr) for expr in exprs)}
        for name, exprs in rules.items()
    }
    order, done = [], set()
    while turn := [name for name in rules if name not in done and reads[name] <= done]:
        order.append(turn)
        done |= set(turn)
    if lost := sorted(set(rules) - done):
        raise SystemExit(f"these rules read each other: {', '.join(lost)}")
    return order


def write(data: Path, begin: float, end: float, step: int = 60) -> int:
    """Adds blocks with the recorded series to `data`; returns how many names they have."""
    with tempfile.TemporaryDirectory() as scratch:
        directory = Path(scratch)
        rules = records(directory)
        for turn in turns(rules):
            path = directory / "turn.json"  # JSON is YAML
            path.write_text(
                json.dumps(
                    {
                        "groups": [
                            {
                                "name": "turn",
                                "rules": [{"record": name, "expr": expr} for name in turn for expr in rules[name]],
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
                raise SystemExit(f"promtool did not record {', '.join(turn)}: {run.stdout}{run.stderr}")
    return len(rules)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path, help="the directory of the blocks")
    parser.add_argument("begin", type=float, help="Unix time of the first evaluation")
    parser.add_argument("end", type=float, help="Unix time of the last one")
    parser.add_argument("--step", type=int, default=60, help="seconds from one evaluation to the next")
    args = parser.parse_args()
    print(write(args.data, args.begin, args.end, args.step), "names recorded")
