"""Checks the forms of the rules in packaging/prometheus: python3 tests/rules/forms.py PROMTOOL.

Both are current, and have the same rules as alerts/*.rules.yml. Azure Monitor: members of prometheusRuleGroups
2023-03-01, annotations without functions, and by promtool one alert for each event with its VM and words, and no text that
prints a label which the alert does not have. tests/packages/run checks the limits of Azure Monitor, and the other form
with the schema of the Prometheus Operator.
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
PLAIN_ACTION = re.compile(r"\{\{ \$(labels\.\w+|value) \}\}")
# https://learn.microsoft.com/rest/api/monitor/prometheus-rule-groups/create-or-update
GROUP_MEMBERS = {"description", "scopes", "clusterName", "enabled", "interval", "rules"}
RECORD_MEMBERS = {"record", "expression", "labels", "enabled"}
ALERT_MEMBERS = {"alert", "expression", "for", "labels", "annotations", "enabled", "severity"}
ALERT_MEMBERS |= {"resolveConfiguration", "actions"}
LOOKUP_OF_WORDS = "\n* on (cluster, event_id) group_left (summary, description)\n"

failures = []


def expect(condition: bool, what: str) -> None:
    if not condition:
        failures.append(what)


def run(*command: str | Path) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    expect(done.returncode == 0, f"{' '.join(map(str, command[:3]))}: {done.stdout}{done.stderr}")


def plain_groups() -> list[dict]:
    paths = [*ROOT.glob("alerts/*.rules.yml"), *ROOT.glob("dashboards/*.rules.yml")]
    return [group for path in paths for group in yaml.safe_load(path.read_text())["groups"]]


def check_kubernetes(plain: list[dict]) -> None:
    resources = yaml.safe_load_all((FORMS / "kubernetes" / "prometheusrule.yaml").read_text())
    groups = [group for resource in resources if resource for group in resource["spec"]["groups"]]
    by_name = [{group["name"]: group for group in one} for one in (groups, plain)]
    expect(by_name[0] == by_name[1], "PrometheusRule: not the rules of alerts/*.rules.yml")


def check_azure(promtool: str, plain: list[dict]) -> None:
    template = json.loads((FORMS / "azure-monitor" / "rule-groups.json").read_text())
    used = set(re.findall(r"parameters\('(\w+)'\)", json.dumps(template)))
    expect(used == set(template["parameters"]), f"Azure Monitor: parameters {used ^ set(template['parameters'])}")
    groups = [(resource["name"], resource["properties"]["rules"]) for resource in template["resources"]]
    for resource in template["resources"]:
        kind = resource["type"], resource["apiVersion"]
        expect(kind == ("Microsoft.AlertsManagement/prometheusRuleGroups", "2023-03-01"), f"Azure Monitor: {kind}")
        expect(set(resource["properties"]) <= GROUP_MEMBERS, f"{resource['name']}: {set(resource['properties'])}")
        for rule in resource["properties"]["rules"]:
            members = ALERT_MEMBERS if "alert" in rule else RECORD_MEMBERS
            expect(set(rule) <= members and rule.get("severity", 0) in range(5), f"{resource['name']}: {set(rule)}")
            expect(bool(re.fullmatch(r"PT\d+[SMH]", rule.get("for", "PT1M"))), f"{resource['name']}: for")
    converted = [{"name": name, "rules": [to_plain(rule) for rule in rules]} for name, rules in groups]
    # InProgress is for Alertmanager's inhibition alone.
    rules = (rule for group in plain for rule in group["rules"] if rule.get("alert") != "AzureScheduledEventInProgress")
    seen = {core(rule["expr"]) for group in converted for rule in group["rules"]}
    expect(seen == {core(rule["expr"]) for rule in rules}, "Azure Monitor: not the rules of alerts/*.rules.yml")
    optional = [resource["name"] for resource in template["resources"] if "condition" in resource]
    expect(len(optional) == 1 and "optional" in optional[0], f"Azure Monitor: can be left out: {optional}")
    preempt = {rule["actions"] for _, rules in groups for rule in rules if rule.get("alert", "").endswith("Preempt")}
    expect(preempt == {"[variables('warningActions')]"}, f"Azure Monitor: a Preempt goes to {preempt}")
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "rules.yml").write_text(yaml.safe_dump({"groups": converted}))
        suite = yaml.safe_load(Path(__file__).with_name("azure-monitor.yml").read_text())
        suite |= {"group_eval_order": [group["name"] for group in converted]}
        suite["tests"].append(every_event_alert(converted))
        Path(folder, "test.yml").write_text(yaml.safe_dump(suite))
        run(promtool, "test", "rules", Path(folder, "test.yml"))


def core(expr: str) -> str:
    """An expression without the words and the severity that this form adds."""
    rule, found, _ = expr.partition(LOOKUP_OF_WORDS)
    return re.sub(r', severity="\w+"\}\)$', "})", rule.removeprefix("(").removesuffix(")") if found else expr)


def evaluated(text: str) -> str:
    """A text, or the result of a concatenation of the template language."""
    found = re.fullmatch(r"\[concat\(parameters\('(grafanaUrl|runbookUrl)'\), '([^']*)'\)\]", text)
    if found:
        return f"https://{found[1]}{found[2]}"
    expect(not text.startswith("[") or text.startswith("[["), f"an expression of the template language: {text}")
    return text.removeprefix("[") if text.startswith("[[") else text


def to_plain(rule: dict) -> dict:
    plain = {name: rule[name] for name in ("record", "alert", "labels") if name in rule}
    plain |= {"expr": evaluated(rule["expression"])}
    plain |= {"for": rule["for"].removeprefix("PT").lower()} if "for" in rule else {}
    if "annotations" in rule:
        plain["annotations"] = {name: evaluated(text) for name, text in rule["annotations"].items()}
    for name, text in plain.get("annotations", {}).items():
        expect("{{" not in PLAIN_ACTION.sub("", text), f"{rule['alert']}: a function in {name}: {text}")
    return plain


def every_event_alert(groups: list[dict]) -> dict:
    """A scene in which every alert of an event fires: VM a has the event E, and VM b is down in its Reboot F."""
    scraped = 'job="azure-scheduled-events", instance'
    words = 'summary="Reboot of the VM", description="VM: it"'
    series = {f'up{{{scraped}="a"}}': "1x60", f'up{{{scraped}="b"}}': "1x10 0x50"}
    expected = {'{alertname="AzureScheduledEventReboot", severity="critical", event_id="F", ' + words + "}"}
    for instance, event_id, values in (("a", "E", "1x60"), ("b", "F", "1x10 stale")):
        named = f'{scraped}="{instance}", event_id="{event_id}"'
        series[f"azure_scheduled_event_open{{{named}}}"] = values
        series[f"azure_scheduled_event_message{{{named}, {words}}}"] = values
    alerts = [rule for group in groups for rule in group["rules"] if "$labels.summary" in str(rule.get("annotations"))]
    for rule in alerts:
        alert, severity = rule["alert"], rule["labels"]["severity"]
        event_id = "F" if "for" in rule else "E"
        alert_labels = f'event_type="Reboot", alert="{alert}", severity="{severity}"'
        if event_id == "E":
            series[f'azure_scheduled_event_alert{{{scraped}="a", event_id="E", {alert_labels}}}'] = "1x60"
        expected.add(f'{{alertname="{alert}", severity="{severity}", event_id="{event_id}", {words}}}')
    reboot = 'event_type="Reboot", alert="AzureScheduledEventReboot", severity="critical"'
    series[f'azure_scheduled_event_alert{{{scraped}="b", event_id="F", {reboot}}}'] = "1x10 stale"
    firing = (
        'count by (alertname, severity, event_id, summary, description) (ALERTS{alertstate="firing", event_id!=""})'
    )
    samples = [{"labels": labels, "value": 1} for labels in sorted(expected)]
    return {
        "name": "every alert of an event has words",
        "interval": "1m",
        "input_series": [{"series": name, "values": values} for name, values in series.items()],
        "promql_expr_test": [{"eval_time": "45m", "expr": firing, "exp_samples": samples}],
    }


if __name__ == "__main__":
    run(sys.executable, ROOT / "alerts" / "generator", "--check")
    check_kubernetes(plain_groups())
    check_azure(sys.argv[1], plain_groups())
    for failure in failures:
        print(failure, file=sys.stderr)
    sys.exit(1 if failures else 0)
