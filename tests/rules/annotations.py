"""Checks the annotations of each alert, and that each alert has a section in docs/runbooks.md and a suite.

annotations.py RULES…
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


def problems(paths: list[str]) -> list[str]:
    groups = [group for path in paths for group in yaml.safe_load(Path(path).read_text())["groups"]]
    rules = [rule for group in groups for rule in group["rules"] if "alert" in rule]
    sections = set(re.findall(r"(?m)^## (AzureScheduledEvent\w+)$", (ROOT / "docs" / "runbooks.md").read_text()))
    suites = [path.read_text() for path in (ROOT / "alerts" / "tests").glob("*.yml") if path.name != "day.series.yml"]
    alerts = {rule["alert"] for rule in rules}
    found = [f"docs/runbooks.md: no alert {name}" for name in sorted(sections - alerts)]
    found += [f"{name}: no section in docs/runbooks.md" for name in sorted(alerts - sections)]
    # `exp_samples` and `exp_alerts` name an alert only if it must fire.
    fires = r'(alertname="{0}"[^\n]*severity|alertname: {0}\n +exp_alerts:\n|labels: \'{{alertname="{0}")'
    found += [
        f"{name}: no suite in which it fires"
        for name in sorted(alerts)
        if not any(re.search(fires.format(name), suite) for suite in suites)
    ]
    for rule in rules:
        name, annotations = rule["alert"], rule["annotations"]
        if set(annotations) != {"summary", "description", "runbook_url", "dashboard_url"}:
            found.append(f"{name}: annotations {sorted(annotations)}")
        elif annotations["runbook_url"] != f"{RUNBOOKS}#{name.lower()}":
            found.append(f"{name}: runbook_url {annotations['runbook_url']}")
        labels = set(rule.get("labels", {})) | ({"severity"} if "event_source, severity)" in rule["expr"] else set())
        if labels != {"severity"}:
            found.append(f"{name}: labels {sorted(labels)}")
    return found


if __name__ == "__main__":
    failures = problems(sys.argv[1:])
    print("\n".join(failures))
    sys.exit(1 if failures else 0)
