"""Checks the files for Azure without a network: python3 structure.py PROMTOOL.

- Bicep: syntax, no name that is declared but not used, files that exist
- Azure Monitor: scrape configurations by promtool, the job that the rules select, and the limits of the service on the
  template of the rule groups
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tempfile
from pathlib import Path

import bicep
import yaml

MONITOR = bicep.ROOT / "packaging" / "prometheus" / "azure-monitor"
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


def check_bicep() -> None:
    templates = bicep.all_templates()
    expect(len(templates) == 2, "packaging/azure has two Bicep files")
    for template in templates:
        # Without the names of members
        code = re.sub(r"(?m)^ *\w+:(?! \{)", "", bicep.without_comments(template.text))
        for name in bicep.declared(template):
            uses = len(re.findall(rf"(?<!')\b{name}\b", code))
            is_created = any(item.name == name and not item.existing for item in template.resources)
            expect(uses > 1 or is_created, f"{template.path.name}: {name} is not used")
        for file in re.findall(r"loadTextContent\('([^']+)'\)", code):
            expect((bicep.AZURE / file).is_file(), f"{template.path.name}: no file {file}")
        for name, parameter in template.parameters.items():
            decorators = {decorator["type"]: decorator.get("argument") for decorator in parameter["decorators"]}
            expect("Url" not in name or "secure" in decorators, f"{template.path.name}: {name} may contain a SAS token")
    replaced = set(re.findall(r"replace\(\w+, '([A-Z_0-9]+)'", templates[1].text))
    config = (bicep.AZURE / "cloud-init.yaml").read_text().split("write_files:")[1]
    placeholders = set(re.findall(r"\b(?:PACKAGE|EXPORTER)_[A-Z0-9]+\b", config))
    expect(
        replaced == placeholders != set(), f"scale-set.bicep replaces {replaced}, cloud-init.yaml has {placeholders}"
    )


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

    monitor = yaml.safe_load((MONITOR / "podmonitor.yaml").read_text())
    expect(monitor["apiVersion"] == "azmonitoring.coreos.com/v1", "PodMonitor: apiVersion")
    (endpoint,) = monitor["spec"]["podMetricsEndpoints"]
    jobs = [item["replacement"] for item in endpoint["relabelings"] if item["targetLabel"] == "job"]
    expect(jobs == [JOB], f"PodMonitor: jobs {jobs}")
    rules = (bicep.ROOT / "alerts" / "scheduled-events.rules.yml").read_text()
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
    check_bicep()
    check_scraping(sys.argv[1])
    check_limits()
    for failure in failures:
        print(failure, file=sys.stderr)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
