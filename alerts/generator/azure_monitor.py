"""The rules as rule groups of Azure Monitor managed service for Prometheus, in one template of Azure Resource Manager.

Microsoft.AlertsManagement/prometheusRuleGroups, API version 2023-03-01:
https://learn.microsoft.com/azure/azure-monitor/metrics/prometheus-rule-groups

Microsoft documents that annotations can be templates, but no functions in them. Annotations of this form therefore
contain only `$labels` and `$value`, and the alerts of events have their words as labels. These are the first words of the
last day, because a changed label is another alert.
"""

from __future__ import annotations

import json

import yaml

SEVERITIES = {"critical": 0, "warning": 2, "info": 3}
# Only for inhibition in Alertmanager.
OMITTED = {"AzureScheduledEventInProgress"}
# Evictions come in storms, and nothing groups them.
WARNING_ACTIONS = {"AzureScheduledEventPreempt"}
OPTIONAL = "azure-scheduled-events-optional"
RUNBOOKS = (
    "https://github.com/azure-scheduled-events-exporter/azure-scheduled-events-exporter/blob/main/docs/runbooks.md"
)
WORDS = """\
* on (cluster, event_id) group_left (summary, description)
bottomk by (cluster, event_id) (1,
  max by (cluster, event_id, summary, description) (last_over_time(azure_scheduled_event_message[1d]))
)"""
# Azure Monitor has a severity for each rule. These alerts take theirs from the series: one rule for each severity.
SEVERITIES_OF = {
    "AzureScheduledEventReboot": ("critical", "warning"),
    "AzureScheduledEventRedeploy": ("critical", "warning"),
    "AzureScheduledEventFreeze": ("warning", "info"),
}
# Texts in place of those with functions.
SCALE_SET, TODO = "scale set {{ $labels.vm_scale_set }}", "To do: add capacity; approve none of these events"
TEXTS = {
    "AzureScheduledEventsScaleSetAtRisk": {
        "summary": f"Several events interrupt half or more of the VMs of {SCALE_SET}",
        "description": f"Share of the VMs: {{{{ $value }}}}\n{TODO}",
    },
    "AzureScheduledEventsFleetAtRisk": {
        "summary": "Several events interrupt a tenth or more of all VMs",
        "description": f"Share of the VMs: {{{{ $value }}}}\n{TODO}",
    },
    "AzureScheduledEventsScaleSetEvicted": {"summary": f"Half or more of the VMs of {SCALE_SET} are evicted"},
    "AzureScheduledEventsExporterAbsent": {
        "description": "For 15 minutes no target of job {{ $labels.job }} in cluster {{ $labels.cluster }} was selected by "
        "the first rule. There are no alerts about events of its VMs. Check scrape configuration and selector."
    },
    "AzureScheduledEventsDataStale": {
        "description": "{{ $labels.instance }} ({{ $labels.job }}) has not read the instance metadata service for "
        "{{ $value }} seconds (0: since its start). It keeps the events that it knows, and misses new ones."
    },
}
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
        "warningActionGroupIds": parameter("array", "Action groups of warnings and Spot evictions", defaultValue=[]),
        "optionalRules": parameter("bool", "Include the rules of optional.rules.yml", defaultValue=False),
        "grafanaUrl": parameter(
            "string", "URL of your Grafana, for the links to dashboards; empty: no such links", defaultValue=""
        ),
        "runbookUrl": parameter("string", "URL of the runbooks", defaultValue=RUNBOOKS),
    }


def _action_groups(severity: str) -> dict:
    parameter, name = f"parameters('{severity}ActionGroupIds')", f"{severity}Actions"
    action = {"actionGroupId": f"[{parameter}[copyIndex('{name}')]]"}
    return {"name": name, "count": f"[length({parameter})]", "input": action}


def _parts(group: dict) -> list[dict]:
    rules = [part for rule in group["rules"] if rule.get("alert") not in OMITTED for part in _by_severity(rule)]
    if len(rules) > MAX_RULES:
        raise SystemExit(f"group {group['name']} has {len(rules)} rules; Azure Monitor accepts {MAX_RULES}")
    return [{"name": group["name"], "rules": rules}] if rules else []


def _by_severity(rule: dict) -> list[dict]:
    if "alert" not in rule or "labels" in rule:
        return [rule]
    selector = f'alert="{rule["alert"]}"'
    return [
        {
            **rule,
            "expr": rule["expr"].replace(selector, f'{selector}, severity="{severity}"'),
            "labels": {"severity": severity},
        }
        for severity in SEVERITIES_OF[rule["alert"]]
    ]


def _group(group: dict) -> dict:
    return {
        **({"condition": "[parameters('optionalRules')]"} if group["name"] == OPTIONAL else {}),
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
    return {"record": rule["record"], "expression": rule["expr"], "enabled": True}


def _alert(rule: dict) -> dict:
    severity = rule["labels"]["severity"]
    wait = {"for": "PT" + rule["for"].upper()} if "for" in rule else {}
    receivers = "warning" if rule["alert"] in WARNING_ACTIONS else severity
    actions = {} if severity == "info" else {"actions": f"[variables('{receivers}Actions')]"}
    return {
        "alert": rule["alert"],
        "expression": f"({rule['expr']})\n{WORDS}" if _is_event(rule) else rule["expr"],
        **wait,
        "severity": SEVERITIES[severity],
        "labels": rule["labels"],
        "annotations": _annotations(rule),
        "enabled": True,
        "resolveConfiguration": {"autoResolved": True, "timeToResolve": "PT5M"},
        **actions,
    }


def _is_event(rule: dict) -> bool:
    return "event_id" in rule["expr"] and not rule["alert"].startswith("AzureScheduledEvents")


def _annotations(rule: dict) -> dict[str, str]:
    if _is_event(rule):
        prefix = "Down for 30 minutes: " if "for" in rule else ""
        texts = {"summary": f"{prefix}{{{{ $labels.summary }}}}", "description": "{{ $labels.description }}"}
    else:
        texts = {name: rule["annotations"][name] for name in ("summary", "description")} | TEXTS.get(rule["alert"], {})
    dashboard = rule["annotations"]["dashboard_url"].removeprefix('{{ with "" }}{{ . }}')
    dashboard = dashboard.replace("{{ with $labels.cluster }}", "").replace("{{ end }}", "")
    dashboard = dashboard.replace("{{ . |", "{{ $labels.cluster |").replace(" | urlquery", "")
    anchor = rule["annotations"]["runbook_url"].removeprefix(RUNBOOKS)
    return {
        **texts,
        "dashboard_url": f"[if(empty(parameters('grafanaUrl')), '', concat(parameters('grafanaUrl'), '{dashboard}'))]",
        "runbook_url": f"[concat(parameters('runbookUrl'), '{anchor}')]",
    }
