"""Checks the files in packaging/prometheus: python3 tests/rules/forms.py PROMTOOL.

The forms of the rules are current and have the rules of alerts/*.rules.yml. Those of Azure Monitor have annotations without
functions, and pass azure-monitor.yml in promtool. Its scrape configurations and those of docs/linux.md are valid, and have
the job of the rules.
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
FORMS = ROOT / "packaging" / "prometheus"
AZURE = FORMS / "azure-monitor"
PLAIN_ACTION = re.compile(r"\{\{ \$(labels\.\w+|value) \}\}")

failures = []


def expect(condition: bool, what: str) -> None:
    if not condition:
        failures.append(what)


def run(*command: str | Path) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    expect(done.returncode == 0, f"{' '.join(map(str, command[:3]))}: {done.stdout}{done.stderr}")


def check_kubernetes(plain: list[dict]) -> None:
    resources = yaml.safe_load_all((FORMS / "kubernetes" / "prometheusrule.yaml").read_text())
    groups = [group for resource in resources if resource for group in resource["spec"]["groups"]]
    expect(groups == plain, "PrometheusRule: not the rules of alerts/*.rules.yml")


def check_azure(promtool: str, plain: list[dict]) -> None:
    template = json.loads((AZURE / "rule-groups.json").read_text())
    used = set(re.findall(r"parameters\('(\w+)'\)", json.dumps(template)))
    expect(used == set(template["parameters"]), f"Azure Monitor: parameters {used ^ set(template['parameters'])}")
    optional = [group["name"] for group in template["resources"] if "condition" in group]
    expect(len(optional) == 1 and "optional" in optional[0], f"Azure Monitor: can be left out: {optional}")
    groups = [
        {"name": group["name"], "rules": [to_plain(rule) for rule in group["properties"]["rules"]]}
        for group in template["resources"]
    ]
    # InProgress is for Alertmanager's inhibition alone.
    expect(names(groups) | {"AzureScheduledEventInProgress"} == names(plain), "Azure Monitor: other names of rules")
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "rules.yml").write_text(yaml.safe_dump({"groups": groups}))
        suite = yaml.safe_load(Path(__file__).with_name("azure-monitor.yml").read_text())
        suite |= {"group_eval_order": [group["name"] for group in groups]}
        Path(folder, "test.yml").write_text(yaml.safe_dump(suite))
        run(promtool, "test", "rules", Path(folder, "test.yml"))


def names(groups: list[dict]) -> set[str]:
    return {rule.get("alert") or rule["record"] for group in groups for rule in group["rules"]}


def to_plain(rule: dict) -> dict:
    plain = {name: rule[name] for name in ("record", "alert", "labels") if name in rule}
    plain |= {"expr": evaluated(rule["expression"])}
    plain |= {"for": rule["for"].removeprefix("PT").lower()} if "for" in rule else {}
    if "annotations" in rule:
        plain["annotations"] = {name: evaluated(text) for name, text in rule["annotations"].items()}
    for name, text in plain.get("annotations", {}).items():
        expect("{{" not in PLAIN_ACTION.sub("", text), f"{rule['alert']}: a function in {name}: {text}")
    return plain


def evaluated(text: str) -> str:
    """A text, or the result of a concatenation. What begins with a bracket is an expression of the template language."""
    text = re.sub(r"^\[if\(empty\(parameters\('grafanaUrl'\)\), '', (.*)\)\]$", r"[\1]", text)
    found = re.fullmatch(r"\[concat\(parameters\('(grafanaUrl|runbookUrl)'\), '([^']*)'\)\]", text)
    if found:
        return f"https://{found[1]}{found[2]}"
    expect(not text.startswith("["), f"an expression of the template language: {text}")
    return text


def check_scraping(promtool: str) -> None:
    config_map = yaml.safe_load((AZURE / "ama-metrics-prometheus-config-node.yaml").read_text())
    embedded = config_map["data"]["prometheus-config"]
    expect("job_name: azure-scheduled-events\n" in embedded, "ConfigMap: not the job that the rules select")
    run(promtool, "check", "config", AZURE / "remote-write.yml")
    # The configuration on the page, and with what the page on HTTP adds for TLS.
    pages = "".join((ROOT / "docs" / name).read_text() for name in ("linux.md", "http.md"))
    blocks = re.findall(r"(?ms)^```yaml\n(.*?)^```", pages)
    [plain] = [block for block in blocks if "job_name: azure-scheduled-events " in block]
    [tls] = [block for block in blocks if "scheme: https" in block]
    for text in (embedded, plain, plain.replace("    static_configs:", tls + "    static_configs:", 1)):
        with tempfile.NamedTemporaryFile("w", suffix=".yml") as file:
            file.write(text)
            file.flush()
            run(promtool, "check", "config", "--syntax-only", file.name)


if __name__ == "__main__":
    run(sys.executable, ROOT / "alerts" / "generator", "--check")
    # The order of the generator
    paths = sorted(ROOT.glob("alerts/*.rules.yml"), reverse=True)
    rules = [group for path in paths for group in yaml.safe_load(path.read_text())["groups"]]
    check_kubernetes(rules)
    check_azure(sys.argv[1], rules)
    check_scraping(sys.argv[1])
    for failure in failures:
        print(failure, file=sys.stderr)
    sys.exit(1 if failures else 0)
