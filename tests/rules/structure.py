"""Checks of the rule files that promtool does not make: python3 tests/rules/structure.py RULES…

- A group has at most 20 rules: Azure Managed Prometheus, Mimir and Amazon Managed Prometheus refuse more.
- All files together have at most 40 rules and 380 lines.
- `cluster` is in every `by` and `on`, and every aggregation has a `by`: one ruler can evaluate several clusters with
  equal addresses.
- Each alert has its annotations, a section in docs/runbooks.md, and a suite in which it fires.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

import yaml

ROOT = Path(__file__).resolve().parent.parent.parent
RUNBOOKS = (
    "https://github.com/azure-scheduled-events-exporter/azure-scheduled-events-exporter/blob/main/docs/runbooks.md"
)
ANNOTATIONS = {"summary", "description", "runbook_url", "dashboard_url"}
AGGREGATION = r"\b(?:sum|min|max|avg|group|stddev|stdvar|count|count_values|bottomk|topk|quantile)\b"


def problems_of(rule: dict) -> list[str]:
    found, expr = [], re.sub(r"#.*", "", rule["expr"])
    for keyword, labels in re.findall(r"\b(by|on)\s*\(([^)]*)\)", expr):
        if "cluster" not in re.split(r"[,\s]+", labels):
            found.append(f"`{keyword} ({labels})` has no cluster")
    found += [
        f"`{keyword}`; list the labels with `by` or `on`" for keyword in re.findall(r"\b(?:without|ignoring)\b", expr)
    ]
    if re.search(AGGREGATION + r"\s*\((?!\s*\))", expr):
        found.append("an aggregation without `by` drops cluster")
    if "alert" in rule:
        annotations, anchor = rule["annotations"], f"{RUNBOOKS}#{rule['alert'].lower()}"
        if set(annotations) != ANNOTATIONS or annotations["runbook_url"] != anchor:
            found.append(f"annotations {annotations}")
        labels = set(rule.get("labels", {})) | ({"severity"} if "event_source, owner, severity)" in expr else set())
        if labels != {"severity"}:
            found.append(f"labels {sorted(labels)}")
    return [f"{rule.get('alert') or rule['record']}: {what}" for what in found]


def main() -> int:
    texts = [Path(name).read_text() for name in sys.argv[1:]]
    groups = [group for text in texts for group in yaml.safe_load(text)["groups"]]
    rules = [rule for group in groups for rule in group["rules"]]
    found = [f"{group['name']}: {len(group['rules'])} rules" for group in groups if len(group["rules"]) > 20]
    alerts = {rule["alert"] for rule in rules if "alert" in rule}
    found += [what for rule in rules for what in problems_of(rule)]
    sections = set(re.findall(r"(?m)^## (AzureScheduledEvent\w+)$", (ROOT / "docs" / "runbooks.md").read_text()))
    found += [f"docs/runbooks.md and the rules differ: {name}" for name in sorted(sections ^ alerts)]
    suites = [path.read_text() for path in (ROOT / "alerts" / "tests").glob("*.yml")]
    # `exp_samples` and `exp_alerts` name an alert only if it must fire.
    fires = r'(alertname="{0}"[^\n]*severity|alertname: {0}\n +exp_alerts:\n|labels: \'{{alertname="{0}")'
    found += [
        f"{name}: no suite in which it fires"
        for name in sorted(alerts)
        if not any(re.search(fires.format(name), suite) for suite in suites)
    ]
    lines = sum(len(text.splitlines()) for text in texts)
    if lines > 380 or len(rules) > 40:
        found.append(f"{lines} lines and {len(rules)} rules, more than 380 or 40")
    print("\n".join(found))
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
