"""The rules as rule groups of Azure Monitor managed service for Prometheus, in one template of Azure Resource Manager.

Microsoft.AlertsManagement/prometheusRuleGroups, API version 2023-03-01:
https://learn.microsoft.com/azure/azure-monitor/metrics/prometheus-rule-groups

Microsoft documents that annotations can be templates, but no functions in them. Annotations of this form therefore
contain only `$labels` and `$value`.
"""

from __future__ import annotations

import json
import re

import yaml

SEVERITIES = {"critical": 0, "warning": 2, "info": 3}
# Only for inhibition in Alertmanager.
OMITTED = {"AzureScheduledEventInProgress"}
PLAIN_ACTION = re.compile(r"\{\{ ?\$(labels\.\w+|value) ?\}\}")
# The largest number of rules in one group: https://learn.microsoft.com/azure/azure-monitor/service-limits
MAX_RULES = 20


def build(rules: dict[str, str]) -> str:
    groups = [group for text in rules.values() for group in yaml.safe_load(text)["groups"]]
    template = {
        "$schema": "https://schema.management.azure.com/schemas/2019-04-01/deploymentTemplate.json#",
        "contentVersion": "1.0.0.0",
        "metadata": {"description": "Rules for Azure Scheduled Events. Written by alerts/generator."},
        "parameters": _parameters(),
        "variables": {
            "copy": [_action_groups("critical"), _action_groups("warning")],
            "suffix": "[if(empty(parameters('clusterName')), '', concat('-', parameters('clusterName')))]",
        },
        "resources": [_group(part) for group in groups for part in _parts(group)],
    }
    return json.dumps(template, indent=2, ensure_ascii=False) + "\n"


def _parameters() -> dict:
    def parameter(kind: str, description: str, **rest: object) -> dict:
        return {"type": kind, **rest, "metadata": {"description": description}}

    workspace = "Resource ID of the Azure Monitor workspace that has the metrics of the exporters"
    cluster = "Value of the label cluster to which the rules are limited; empty: all clusters of the workspace"
    return {
        "azureMonitorWorkspaceId": parameter("string", workspace),
        "location": parameter("string", "Location of the workspace", defaultValue="[resourceGroup().location]"),
        "clusterName": parameter("string", cluster, defaultValue=""),
        "criticalActionGroupIds": parameter("array", "Action groups of critical alerts, for example a pager"),
        "warningActionGroupIds": parameter("array", "Action groups of warnings", defaultValue=[]),
    }


def _action_groups(severity: str) -> dict:
    parameter, name = f"parameters('{severity}ActionGroupIds')", f"{severity}Actions"
    action = {"actionGroupId": f"[{parameter}[copyIndex('{name}')]]"}
    return {"name": name, "count": f"[length({parameter})]", "input": action}


def _parts(group: dict) -> list[dict]:
    rules = [rule for rule in group["rules"] if rule.get("alert") not in OMITTED]
    if len(rules) > MAX_RULES:
        raise SystemExit(f"group {group['name']} has {len(rules)} rules; Azure Monitor accepts {MAX_RULES}")
    return [{"name": group["name"], "rules": rules}] if rules else []


def _group(group: dict) -> dict:
    return {
        "type": "Microsoft.AlertsManagement/prometheusRuleGroups",
        "apiVersion": "2023-03-01",
        "name": f"[concat('{group['name']}', variables('suffix'))]",
        "location": "[parameters('location')]",
        "properties": {
            "description": "Rules for Azure Scheduled Events",
            "scopes": ["[parameters('azureMonitorWorkspaceId')]"],
            "clusterName": "[if(empty(parameters('clusterName')), null(), parameters('clusterName'))]",
            "enabled": True,
            "interval": "PT1M",
            "rules": [_alert(rule) if "alert" in rule else _record(rule) for rule in group["rules"]],
        },
    }


def _record(rule: dict) -> dict:
    labels = {"labels": rule["labels"]} if "labels" in rule else {}
    return {"record": rule["record"], "expression": _literal(rule["expr"]), **labels, "enabled": True}


def _alert(rule: dict) -> dict:
    severity = rule["labels"]["severity"]
    wait = {"for": "PT" + rule["for"].upper()} if "for" in rule else {}
    actions = {} if severity == "info" else {"actions": f"[variables('{severity}Actions')]"}
    return {
        "alert": rule["alert"],
        "expression": _literal(rule["expr"]),
        **wait,
        "severity": SEVERITIES[severity],
        "labels": rule["labels"],
        "annotations": {name: _literal(text) for name, text in _annotations(rule).items()},
        "enabled": True,
        "resolveConfiguration": {"autoResolved": True, "timeToResolve": "PT5M"},
        **actions,
    }


def _literal(text: str) -> str:
    """A string that begins with a bracket is an expression of the template language, unless the bracket is doubled."""
    return f"[{text}" if text.startswith("[") else text


def _annotations(rule: dict) -> dict[str, str]:
    texts = _replacements(rule["alert"])
    annotations = {}
    for name, text in rule["annotations"].items():
        plain = re.sub(r"\{\{ ?(\$labels\.\w+) \| urlquery ?\}\}", r"{{ \1 }}", text)
        is_plain = "{{" not in PLAIN_ACTION.sub("", plain)
        annotations[name] = plain.strip() if is_plain else texts[name]
    return annotations


def _replacements(alert: str) -> dict[str, str]:
    """Texts without functions. They cannot name the VMs, so they contain the query that does."""
    is_event = not alert.startswith("AzureScheduledEvents")
    words = re.sub(r"(?<=[a-z])(?=[A-Z])", " ", re.sub("^AzureScheduledEvents?", "", alert)).lower()
    words = words[:1].upper() + words[1:]
    if is_event:
        summary = f"{words}: Azure scheduled event {{{{ $labels.event_id }}}} of type {{{{ $labels.event_type }}}}"
        query = 'azure_scheduled_event:vm{event_id="{{ $labels.event_id }}"}'
        description = (
            "Type: {{ $labels.event_type }}\nSource: {{ $labels.event_source }}\nEvent: {{ $labels.event_id }}\n"
            f"For the VMs, run this query in the Azure Monitor workspace: {query}"
        )
    else:
        summary = f"{words}: {{{{ $labels.cluster }}}} {{{{ $labels.job }}}} {{{{ $labels.instance }}}}"
        description = f"{words}. Value: {{{{ $value }}}}. For the cause and the mitigation see the runbook."
    return {"summary": summary, "description": description}
