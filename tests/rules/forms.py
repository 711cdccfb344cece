"""Checks the files in packaging/prometheus: python3 tests/rules/forms.py PROMTOOL DEBIAN_PROMTOOL.

The forms of the rules are current and have the rules of alerts/*.rules.yml. Those of Azure Monitor have annotations without
functions, and pass azure-monitor.yml in promtool. Its scrape configurations and those of all pages are valid, and have the
job of the rules.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tempfile
import textwrap
from pathlib import Path

import yaml

ROOT = Path(__file__).resolve().parent.parent.parent
FORMS = ROOT / "packaging" / "prometheus"
AZURE = FORMS / "azure-monitor"
CONFIGURATIONS = 9
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


def check_scraping(newest: str, debian: str) -> None:
    """What pages have for Prometheus, within the rest of a configuration if need be, and the job of each scrape."""
    config_map = yaml.safe_load((AZURE / "ama-metrics-prometheus-config-node.yaml").read_text())
    run(newest, "check", "config", AZURE / "remote-write.yml")
    blocks = [config_map["data"]["prometheus-config"]]
    pages = [ROOT / "README.md", *ROOT.glob("docs/**/*.md"), *ROOT.glob("packaging/**/README.md")]
    for page in pages:
        blocks += re.findall(r"(?ms)^ *```(?:yaml|alloy)\n(.*?)^ *```", page.read_text())
    jobs = [job for block in blocks for job in re.findall(r'job_name *[:=] *"?([\w-]*azure-sched[\w-]*)', block)]
    expect(len(jobs) > 4 and set(jobs) == {"azure-scheduled-events"}, f"not the job that the rules select: {jobs}")
    checked = 0
    for block in blocks:
        if not re.match(
            r" *(?:#.*\n *)?(?:global|rule_files|alerting|scrape_configs|azure_sd_configs|scheme|receivers:\n  prometheus):",
            block,
        ):
            continue
        found = yaml.safe_load(textwrap.dedent(block))
        config = found["receivers"]["prometheus"]["config"] if "receivers" in found else found
        if not config.keys() & {"rule_files", "alerting", "scrape_configs"}:
            config = {"scrape_configs": [{"job_name": "azure-scheduled-events", **config}]}
        with tempfile.NamedTemporaryFile("w", suffix=".yml") as file:
            # No promtool here has the discovery of Kubernetes, and only Debian's has that of Azure.
            file.write(json.dumps(config).replace('"kubernetes_sd_configs": [{"role": "pod"}]', '"static_configs": []'))
            file.flush()
            run(debian if "azure_sd_configs" in block else newest, "check", "config", "--syntax-only", file.name)
        checked += 1
    expect(checked == CONFIGURATIONS, f"{checked} configurations of Prometheus, not {CONFIGURATIONS}")


if __name__ == "__main__":
    run(sys.executable, ROOT / "alerts" / "generator", "--check")
    # The order of the generator
    paths = sorted(ROOT.glob("alerts/*.rules.yml"), reverse=True)
    rules = [group for path in paths for group in yaml.safe_load(path.read_text())["groups"]]
    check_kubernetes(rules)
    check_azure(sys.argv[1], rules)
    check_scraping(*sys.argv[1:])
    for failure in failures:
        print(failure, file=sys.stderr)
    sys.exit(1 if failures else 0)
