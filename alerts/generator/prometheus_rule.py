"""The rules as resources of the Prometheus Operator: PrometheusRule, monitoring.coreos.com/v1.

The groups are the text of the rule files, with a larger indentation. Thus they keep their comments and anchors.
"""

from __future__ import annotations

HEAD = """\
# Written by alerts/generator. kubectl apply --namespace monitoring -f prometheusrule.yaml
# Prometheus loads the resources that its ruleSelector selects. Add that label, for example `release` of the chart
# kube-prometheus-stack. The selector of the targets is in the first rule: edit only that one.
"""


def build(rules: dict[str, str]) -> str:
    return HEAD + "".join(_one(name, text) for name, text in rules.items())


def _resource(name: str) -> str:
    return "azure-scheduled-events" if name == "scheduled-events" else f"azure-scheduled-events-{name}"


def _one(name: str, text: str) -> str:
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
spec:
{body}"""
