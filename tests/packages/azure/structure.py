"""Checks the files for Azure Monitor without a network: python3 structure.py PROMTOOL.

They are scrape configurations, by promtool; the job that the rules select; and the template of the rule groups, by the
limits of the service.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tempfile
from pathlib import Path

import yaml

ROOT = Path(__file__).resolve().parents[3]
MONITOR = ROOT / "packaging" / "prometheus" / "azure-monitor"
JOB = "azure-scheduled-events"
# Rules and groups: https://learn.microsoft.com/azure/azure-monitor/service-limits. Bytes of a deployment:
# https://learn.microsoft.com/azure/azure-resource-manager/troubleshooting/error-job-size-exceeded. No limit on the
# length of an expression in a rule is documented; the longest has to fit into the deployment.
MAX_RULES, MAX_GROUPS, MAX_BYTES = 20, 500, 1024 * 1024
GROUP_NAME = re.compile(r"[^:@/#{}%&+*<>?]+")

failures = []


def expect(condition: bool, what: str) -> None:
    if not condition:
        failures.append(what)


def check_scraping(promtool: str) -> None:
    config_map = yaml.safe_load((MONITOR / "ama-metrics-prometheus-config-node.yaml").read_text())
    expect(config_map["metadata"]["namespace"] == "kube-system", "ConfigMap: namespace")
    embedded = config_map["data"]["prometheus-config"]
    jobs = [job["job_name"] for job in yaml.safe_load(embedded)["scrape_configs"]]
    expect(jobs == [JOB], f"ConfigMap: jobs {jobs}")
    with tempfile.TemporaryDirectory() as folder:
        scrape = Path(folder, "scrape.yml")
        scrape.write_text(embedded)
        for path in (scrape, MONITOR / "remote-write.yml"):
            done = subprocess.run([promtool, "check", "config", path], capture_output=True, text=True, check=False)
            expect(done.returncode == 0, f"{path.name}: {done.stdout}{done.stderr}")

    rules = (ROOT / "alerts" / "scheduled-events.rules.yml").read_text()
    expect(f'up{{job="{JOB}"}}' in rules, f"the rules do not select the job {JOB}")


def check_limits() -> None:
    text = (MONITOR / "rule-groups.json").read_text()
    groups = json.loads(text)["resources"]
    expect(len(text.encode()) <= MAX_BYTES, "the template has more than 1 MB")
    expect(0 < len(groups) <= MAX_GROUPS, f"{len(groups)} rule groups")
    names = [re.findall(r"'([^']*)'", group["name"])[0] for group in groups]
    expect(len(set(names)) == len(names), "two rule groups have the same name")
    for name, group in zip(names, groups, strict=True):
        rules = len(group["properties"]["rules"])
        expect(bool(GROUP_NAME.fullmatch(name)), f"{name}: not a name of a rule group")
        expect(rules <= MAX_RULES, f"{name}: {rules} rules")
        minutes = re.fullmatch(r"PT(\d+)M", group["properties"]["interval"])
        expect(minutes is not None and 1 <= int(minutes[1]) <= 15, f"{name}: interval")


def main() -> int:
    check_scraping(sys.argv[1])
    check_limits()
    for failure in failures:
        print(failure, file=sys.stderr)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
