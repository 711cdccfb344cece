#!/usr/bin/env python3
"""Checks the structure of rule files that is not syntax, and prints what is wrong.

- A group has at most 20 rules: Azure Managed Prometheus, Mimir and Amazon Managed Prometheus refuse more.
- A rule has at most three levels: raw series, record, record, alert. Every level is a delay of up to one evaluation in
  rulers that do not see the results of an evaluation within it. A rule that reads itself or a later rule of its group
  reads the previous evaluation, which is a memory and not a level. The targets are not a level either, because they
  change only with the scrape configuration, nor are the VMs that are down: their samples count for 15 minutes.
- All files together have at most 40 rules and 450 lines.
- `cluster` is in every `by` and `on`, and every aggregation has a `by`: one ruler can evaluate several clusters with
  equal addresses.
"""

import re
import sys
from dataclasses import dataclass, field
from pathlib import Path

MAX_RULES = 20
MAX_LEVELS = 3
MAX_LINES = 450
MAX_ALL_RULES = 40
# To read these delays no alert.
NO_LEVEL = {
    "instance:azure_scheduled_events_target:up",
    "job:azure_scheduled_events_target:count",
    "instance_event:azure_scheduled_event_alert:down",
}
AGGREGATION = r"\b(?:sum|min|max|avg|group|stddev|stdvar|count|count_values|bottomk|topk|quantile)\b"


@dataclass
class Rule:
    file: str
    group: str
    kind: str
    name: str
    position: int
    lines: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        return f"{self.file}: {self.kind} {self.name}"

    @property
    def expr(self) -> str:
        return " ".join(line.split("#")[0] for line in self.lines)


def parse(path: Path) -> list[Rule]:
    """Reads the rules by their indentation, as in all rule files of this project."""
    rules: list[Rule] = []
    group, in_expr = "", False
    for line in path.read_text().splitlines():
        if found := re.match(r"  - name: (\S+)", line):
            group = found[1]
        elif found := re.match(r"      - (record|alert): (\S+)", line):
            rules.append(Rule(path.name, group, found[1], found[2], len(rules)))
        elif found := re.match(r"        (\w+):(.*)", line):
            in_expr = found[1] == "expr"
            if in_expr and found[2].strip() not in {"|-", "|", ">-"}:
                rules[-1].lines.append(found[2])
        elif in_expr and line.startswith("          "):
            rules[-1].lines.append(line)
    return rules


def levels(rules: list[Rule]) -> dict[int, int]:
    """The level of each rule, by its index. A rule that reads only raw series has level 1."""
    records: dict[str, list[int]] = {}
    for index, rule in enumerate(rules):
        if rule.kind == "record":
            records.setdefault(rule.name, []).append(index)
    known: dict[int, int] = {}

    def level(index: int) -> int:
        if index not in known:
            rule = rules[index]
            # A record that reads itself reads its previous result.
            read = set(re.findall(r"[a-zA-Z_][\w:]*", rule.expr)) & records.keys() - NO_LEVEL - {rule.name}
            earlier = [
                other
                for name in read
                for other in records[name]
                if rules[other].group != rule.group or rules[other].position < rule.position
            ]
            known[index] = 1 + max((level(other) for other in earlier), default=0)
        return known[index]

    for index in range(len(rules)):
        level(index)
    return known


def problems(rules: list[Rule]) -> list[str]:
    found = []
    groups: dict[tuple[str, str], int] = {}
    for rule in rules:
        groups[rule.file, rule.group] = groups.get((rule.file, rule.group), 0) + 1
    for (file, group), count in groups.items():
        if count > MAX_RULES:
            found.append(f"{file}: group {group} has {count} rules, more than {MAX_RULES}")
    for index, level in levels(rules).items():
        if level > MAX_LEVELS:
            found.append(f"{rules[index]} has level {level}, more than {MAX_LEVELS}")
    for rule in rules:
        for keyword, labels in re.findall(r"\b(by|on)\s*\(([^)]*)\)", rule.expr):
            if "cluster" not in re.split(r"[,\s]+", labels):
                found.append(f"{rule}: `{keyword} ({labels})` has no cluster")
        for keyword in re.findall(r"\b(without|ignoring)\s*\(", rule.expr):
            found.append(f"{rule}: `{keyword}`; list the labels with `by` or `on`")
        if re.search(AGGREGATION + r"\s*\((?!\s*\))", rule.expr):
            found.append(f"{rule}: an aggregation without `by` drops cluster")
    return found


def main() -> int:
    rules = [rule for name in sys.argv[1:] for rule in parse(Path(name))]
    found = problems(rules)
    lines = sum(len(Path(name).read_text().splitlines()) for name in sys.argv[1:])
    if lines > MAX_LINES or len(rules) > MAX_ALL_RULES:
        found.append(f"{lines} lines and {len(rules)} rules, more than {MAX_LINES} or {MAX_ALL_RULES}")
    for line in found:
        print(line)
    print(f"{lines} lines, {len(rules)} rules, at most {max(levels(rules).values())} levels")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
