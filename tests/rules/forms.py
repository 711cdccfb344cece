"""Checks the forms of the rules in packaging/prometheus: python3 tests/rules/forms.py PROMTOOL.

- all: current, and with the same rules as alerts/*.rules.yml
- Kubernetes: the structure of the custom resource of the Prometheus Operator (PrometheusRule, v1)
- Azure Monitor: the structure of Microsoft.AlertsManagement/prometheusRuleGroups 2023-03-01, the limits of the service,
  annotations without functions, and by promtool one alert for each event with its VM and words, and no text that prints
  a label which the alert does not have
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
DURATION = re.compile(r"(\d+[smhdwy])+")
ISO_DURATION = re.compile(r"PT\d+[SMH]")
PLAIN_ACTION = re.compile(r"\{\{ \$(labels\.\w+|value) \}\}")
# https://github.com/prometheus-operator/prometheus-operator/blob/main/Documentation/api-reference/api.md
KUBERNETES_RULE = {"record", "alert", "expr", "for", "keep_firing_for", "labels", "annotations"}
KUBERNETES_GROUP = {"name", "labels", "interval", "query_offset", "rules", "partial_response_strategy", "limit"}
# https://learn.microsoft.com/rest/api/monitor/prometheus-rule-groups/create-or-update
AZURE_RECORD = {"record", "expression", "labels", "enabled"}
AZURE_ALERT = {"alert", "expression", "for", "labels", "annotations", "enabled", "severity"}
AZURE_ALERT |= {"resolveConfiguration", "actions"}
AZURE_GROUP = {"description", "scopes", "clusterName", "enabled", "interval", "rules"}

failures = []


def expect(condition: bool, what: str) -> None:
    if not condition:
        failures.append(what)


def run(*command: str | Path) -> str:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    expect(done.returncode == 0, f"{' '.join(map(str, command[:3]))}: {done.stdout}{done.stderr}")
    return done.stdout


def plain_groups() -> list[dict]:
    paths = [path for folder in ("alerts", "dashboards") for path in (ROOT / folder).glob("*.rules.yml")]
    return [group for path in sorted(paths) for group in yaml.safe_load(path.read_text())["groups"]]


def by_name(groups: list[dict]) -> list[dict]:
    return sorted(groups, key=lambda group: group["name"])


def check_kubernetes(text: str, plain: list[dict]) -> list[dict]:
    resources = [resource for resource in yaml.safe_load_all(text) if resource]
    for resource in resources:
        name = resource["metadata"]["name"]
        expect(resource["apiVersion"] == "monitoring.coreos.com/v1", f"{name}: apiVersion")
        expect(resource["kind"] == "PrometheusRule", f"{name}: kind")
        expect(re.fullmatch(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?", name) is not None, f"{name}: not a DNS label")
        expect(set(resource) == {"apiVersion", "kind", "metadata", "spec"}, f"{name}: members {set(resource)}")
        expect(set(resource["spec"]) == {"groups"}, f"{name}: members of spec")
        for group in resource["spec"]["groups"]:
            expect(set(group) <= KUBERNETES_GROUP, f"{group['name']}: members {set(group)}")
            for rule in group["rules"]:
                expect(set(rule) <= KUBERNETES_RULE, f"{group['name']}: members {set(rule)}")
                expect(isinstance(rule["expr"], str), f"{group['name']}: expr is not text")
                expect(bool(DURATION.fullmatch(rule.get("for", "1s"))), f"{group['name']}: for")
    groups = [group for resource in resources for group in resource["spec"]["groups"]]
    expect(by_name(groups) == by_name(plain), "PrometheusRule: not the rules of alerts/*.rules.yml")
    return groups


def check_azure(promtool: str, plain: list[dict]) -> None:
    template = json.loads((FORMS / "azure-monitor" / "rule-groups.json").read_text())
    parameters = {"azureMonitorWorkspaceId", "location", "clusterName"}
    parameters |= {"criticalActionGroupIds", "warningActionGroupIds", "optionalRules", "grafanaUrl", "runbookUrl"}
    expect(set(template["parameters"]) == parameters, "Azure Monitor: parameters")
    for used in re.findall(r"parameters\('(\w+)'\)", json.dumps(template)):
        expect(used in parameters, f"Azure Monitor: unknown parameter {used}")
    expressions = {core(rule["expr"]) for group in plain for rule in group["rules"] if not is_inhibition(rule)}
    seen, converted = set(), []
    for resource in template["resources"]:
        properties, name = resource["properties"], resource["name"]
        expect(resource["type"] == "Microsoft.AlertsManagement/prometheusRuleGroups", f"{name}: type")
        expect(resource["apiVersion"] == "2023-03-01", f"{name}: apiVersion")
        expect(set(properties) <= AZURE_GROUP, f"{name}: members {set(properties)}")
        expect(properties["scopes"] == ["[parameters('azureMonitorWorkspaceId')]"], f"{name}: scopes")
        expect(properties["interval"] == "PT1M", f"{name}: interval")
        expect(0 < len(properties["rules"]) <= 20, f"{name}: {len(properties['rules'])} rules")
        for rule in properties["rules"]:
            check_azure_rule(rule, name)
            seen.add(core(literal(rule["expression"])))
        converted.append({"name": name, "rules": [to_plain(rule) for rule in properties["rules"]]})
    expect(seen == expressions, "Azure Monitor: not the rules of alerts/*.rules.yml")
    optional = [resource["name"] for resource in template["resources"] if "condition" in resource]
    expect(len(optional) == 1 and "optional" in optional[0], f"Azure Monitor: can be left out: {optional}")
    rules = [rule for resource in template["resources"] for rule in resource["properties"]["rules"]]
    actions = {rule["actions"] for rule in rules if rule.get("alert") == "AzureScheduledEventPreempt"}
    expect(actions == {"[variables('warningActions')]"}, f"Azure Monitor: a Preempt goes to {actions}")
    check_promtool(promtool, converted)


def core(expr: str) -> str:
    """An expression without the words and the severity that this form adds."""
    found = re.fullmatch(
        r"\((.*)\)\n\* on \(cluster, event_id\) group_left \(summary, description\)\n.*", expr, re.DOTALL
    )
    return re.sub(r', severity="\w+"\}\)$', "})", found[1] if found else expr)


def is_inhibition(rule: dict) -> bool:
    return rule.get("alert") == "AzureScheduledEventInProgress"


def check_azure_rule(rule: dict, group: str) -> None:
    name = f"{group}: {rule.get('alert') or rule['record']}"
    expect(set(rule) <= (AZURE_ALERT if "alert" in rule else AZURE_RECORD), f"{name}: members {set(rule)}")
    if "alert" not in rule:
        return
    expect(rule["severity"] in {0, 1, 2, 3, 4}, f"{name}: severity")
    expect(bool(ISO_DURATION.fullmatch(rule.get("for", "PT1M"))), f"{name}: for")
    for annotation, expression in rule["annotations"].items():
        text = evaluated(expression)
        expect("{{" not in PLAIN_ACTION.sub("", text), f"{name}: a function in {annotation}: {text}")
        expect("  " not in text and text.strip() == text, f"{name}: spaces in {annotation}")


def evaluated(text: str) -> str:
    """A text, or the result of a concatenation of the template language with the defaults of the parameters."""
    found = re.fullmatch(r"\[concat\(parameters\('(grafanaUrl|runbookUrl)'\), '([^']*)'\)\]", text)
    return f"https://{found[1]}{found[2]}" if found else literal(text)


def literal(text: str) -> str:
    expect(not text.startswith("[") or text.startswith("[["), f"an expression of the template language: {text}")
    return text.removeprefix("[") if text.startswith("[[") else text


def to_plain(rule: dict) -> dict:
    plain = {"expr": literal(rule["expression"])}
    plain |= {name: rule[name] for name in ("record", "alert", "labels") if name in rule}
    plain |= {"for": rule["for"].removeprefix("PT").lower()} if "for" in rule else {}
    if "annotations" in rule:
        plain["annotations"] = {name: evaluated(text) for name, text in rule["annotations"].items()}
    return plain


def check_promtool(promtool: str, groups: list[dict]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        rules = Path(folder, "rules.yml")
        rules.write_text(yaml.safe_dump({"groups": groups}))
        run(promtool, "check", "rules", rules)
        if groups[0]["name"].startswith("[concat("):
            test = yaml.safe_load(Path(__file__).with_name("azure-monitor.yml").read_text())
            test |= {"group_eval_order": [group["name"] for group in groups]}
            test["tests"].append(every_event_alert(groups))
            Path(folder, "test.yml").write_text(yaml.safe_dump(test))
            run(promtool, "test", "rules", Path(folder, "test.yml"))


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


def main() -> int:
    (promtool,) = sys.argv[1:]
    run(sys.executable, ROOT / "alerts" / "generator", "--check")
    plain = plain_groups()
    kubernetes = (FORMS / "kubernetes" / "prometheusrule.yaml").read_text()
    check_promtool(promtool, check_kubernetes(kubernetes, plain))
    check_azure(promtool, plain)
    for failure in failures:
        print(failure, file=sys.stderr)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
