"""The files of packaging/azure/resource-graph: python3 tests/rules/resource_graph.py PROMTOOL.

Both YAML files have the same Kusto query. promtool joins the metric of the module with the events of the exporters, by
the query of the README and by that of Grafana's rule.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tempfile
from pathlib import Path

import yaml

ROOT = Path(__file__).resolve().parent.parent.parent
FOLDER = ROOT / "packaging" / "azure" / "resource-graph"
MODULE = yaml.safe_load((FOLDER / "exporter.yaml").read_text())["queries"][0]
RULE = yaml.safe_load((FOLDER / "grafana-rule.yaml").read_text())["groups"][0]["rules"][0]
DATA = {part["refId"]: part["model"] for part in RULE["data"]}
LABELS = [field["name"] for field in MODULE["fields"]]


def exporter(metric: str, event: str, values: str, **labels: str) -> dict:
    own = {"job": "azure-scheduled-events", "instance": event, "event_id": event} | labels
    return {"series": series(metric, own), "values": values}


def azure(event: str) -> dict:
    return {"series": series(MODULE["metric"], last_word(event)), "values": "1x60"}


def last_word(event: str) -> dict:
    return dict(zip(LABELS, [event, "Preempt", "Completed"], strict=True))


def series(metric: str, labels: dict) -> str:
    return metric + "{" + ", ".join(f'{name}="{value}"' for name, value in labels.items()) + "}"


def problems() -> list[str]:
    found = []
    columns = re.findall(r"(\w+) = ", MODULE["query"].splitlines()[-1])
    if columns != LABELS or LABELS[0] != "event_id":
        found.append(f"the query has the columns {columns}, the metric the labels {LABELS}")
    counted = MODULE["query"] + "\n| summarize rows = count() by " + ", ".join(LABELS)
    if DATA["B"]["azureResourceGraph"]["query"] != counted:
        found.append("the query of the rule is not that of the module")
    pages = re.findall(r"```promql\n(.*?)```", (FOLDER / "README.md").read_text(), re.DOTALL)
    if len(pages) != 1 or MODULE["metric"] not in pages[0]:
        return [*found, f"README.md has no query of {MODULE['metric']}"]
    # The VM of `gone` is deleted in its event. `seen` has an end. Azure also knows an event of no exporter.
    ended = "azure_scheduled_event_ended_timestamp_seconds"
    inputs = [
        exporter("azure_scheduled_event_open", "gone", "1 1 stale"),
        exporter("azure_scheduled_event_open", "seen", "1 1 0 0 stale"),
        exporter(ended, "seen", "_ _ 30 30 stale", outcome="completed"),
        *map(azure, ["gone", "seen", "elsewhere"]),
    ]
    inputs += [
        {"series": f'up{{job="azure-scheduled-events", instance="{name}"}}', "values": "1x3 stale"}
        for name in ("gone", "seen")
    ]
    expected = {
        pages[0]: series(MODULE["metric"], last_word("gone")),
        DATA["A"]["expr"]: series("", {"event_id": "gone"}),
    }
    tests = [
        {"expr": expr, "eval_time": "50m", "exp_samples": [{"labels": labels, "value": 1}]}
        for expr, labels in expected.items()
    ]
    suite = {
        "rule_files": [str(ROOT / "alerts" / "scheduled-events.rules.yml")],
        "evaluation_interval": "15s",
        "tests": [{"interval": "1m", "input_series": inputs, "promql_expr_test": tests}],
    }
    with tempfile.NamedTemporaryFile("w", suffix=".yml") as file:
        json.dump(suite, file)
        file.flush()
        done = subprocess.run([sys.argv[1], "test", "rules", file.name], capture_output=True, text=True, check=False)
    return found + ([done.stdout + done.stderr] if done.returncode else [])


if __name__ == "__main__":
    failures = problems()
    print("\n".join(failures), file=sys.stderr)
    sys.exit(1 if failures else 0)
