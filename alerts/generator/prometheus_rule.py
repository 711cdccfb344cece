"""The rules as resources of the Prometheus Operator: PrometheusRule, monitoring.coreos.com/v1.

The groups are the text of the rule files, with a larger indentation. Thus they keep their comments and anchors.
"""

from __future__ import annotations

HEAD = """\
# Written by alerts/generator. kubectl apply --namespace monitoring -f prometheusrule.yaml
# Prometheus loads the resources that its ruleSelector selects. Add that label, for example `release` of the chart
# kube-prometheus-stack. The selector of the targets is in the first rule: edit only that one.
"""

HELM_HEAD = """\
{{- /*
Written by alerts/generator. Copy this file to the folder templates of a Helm chart. Braces of the rules are escaped,
because Helm would evaluate them. The selector of the targets is in the first rule: edit only that one.
*/ -}}
"""


def build(rules: dict[str, str]) -> str:
    return HEAD + "".join(_one(name, text, "") for name, text in rules.items())


def build_helm(rules: dict[str, str]) -> str:
    release = "    release: {{ .Release.Name | quote }}\n"
    return HELM_HEAD + "".join(_one(name, _escape(text), release) for name, text in rules.items())


def _escape(text: str) -> str:
    """Helm writes the string for the action; closing braces outside of an action are plain text."""
    return text.replace("{{", '{{ "{{" }}')


def _resource(name: str) -> str:
    return "azure-scheduled-events" if name == "scheduled-events" else f"azure-scheduled-events-{name}"


def _one(name: str, text: str, labels: str) -> str:
    groups = text[text.index("\ngroups:\n") + 1 :]
    body = "".join(f"  {line}\n" if line else "\n" for line in groups.splitlines())
    return f"""\
---
apiVersion: monitoring.coreos.com/v1
kind: PrometheusRule
metadata:
  name: {_resource(name)}
  labels:
    app.kubernetes.io/name: azure-scheduled-events-exporter
{labels}spec:
{body}"""
