"""The dashboards as Kubernetes ConfigMaps, for the sidecar of Grafana's Helm chart (label `grafana_dashboard`)."""

from __future__ import annotations

HEAD = """\
# Written by dashboards/generator. kubectl apply --namespace monitoring -f configmap.yaml
# The sidecar of Grafana's chart and of kube-prometheus-stack loads ConfigMaps with this label; the annotation names
# the folder, where the sidecar's folderAnnotation is grafana_folder.
"""


def build(boards: dict[str, str]) -> str:
    return HEAD + "".join(_one(name, content) for name, content in boards.items())


def _one(name: str, content: str) -> str:
    body = "".join(f"    {line}\n" for line in content.splitlines())
    return f"""\
---
apiVersion: v1
kind: ConfigMap
metadata:
  name: {name.removesuffix(".json")}-dashboard
  labels:
    app.kubernetes.io/name: azure-scheduled-events-exporter
    grafana_dashboard: "1"
  annotations:
    grafana_folder: Azure
data:
  {name}: |
{body}"""
