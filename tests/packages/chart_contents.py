#!/usr/bin/env python3
"""Checks that the chart and the kustomization contain the rules and dashboards of the repository, all of them and unchanged.

Usage: chart_contents.py HELM KUBERNETES_VERSION KUSTOMIZE. Requires PyYAML.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import yaml

ROOT = Path(__file__).resolve().parent.parent.parent
CHART = ROOT / "packaging" / "helm" / "azure-scheduled-events-exporter"
RULES = sorted(ROOT.glob("alerts/*.rules.yml"))
DASHBOARDS = sorted(ROOT.glob("dashboards/azse-*.json"))
HELM, KUBERNETES_VERSION, KUSTOMIZE = sys.argv[1:]


def resources(*command: str | Path) -> list[dict]:
    """The resources that a command prints."""
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{' '.join(map(str, command))}: {done.stderr}")
    return [resource for resource in yaml.safe_load_all(done.stdout) if resource]


def render(*values: str) -> list[dict]:
    # Helm that is built from its module knows no version of Kubernetes.
    version = f"--kube-version={KUBERNETES_VERSION}"
    return resources(HELM, "template", "release", CHART, version, f"--set=linux.enabled=false,{','.join(values)}")


def wrong_rules() -> Iterator[str]:
    rendered = render("prometheusRule.enabled=true", "prometheusRule.optional=true")
    found = {resource["metadata"]["name"]: resource["spec"] for resource in rendered}
    prefix = "release-azure-scheduled-events-exporter-"
    expected = {prefix + path.name.removesuffix(".rules.yml"): yaml.safe_load(path.read_text()) for path in RULES}
    for name in found.keys() | expected.keys():
        if found.get(name) != expected.get(name):
            yield f"{name} has other rules than the file"


def wrong_dashboards() -> Iterator[str]:
    expected = {path.name: path.read_text(encoding="utf-8") for path in DASHBOARDS}
    kustomized = resources(KUSTOMIZE, "build", ROOT / "dashboards")
    for tool, maps in (("the chart", render("dashboards.enabled=true")), ("the kustomization", kustomized)):
        if {name: content for each in maps for name, content in each["data"].items()} != expected:
            yield f"the dashboards of {tool} are not dashboards/azse-*.json"
        for metadata in (each["metadata"] for each in maps):
            for_sidecar = metadata["labels"].get("grafana_dashboard"), metadata["annotations"]
            if for_sidecar != ("1", {"grafana_folder": "Azure"}):
                yield f"{tool}: {metadata['name']} lacks the label or the folder for the sidecar"


failures = [*wrong_rules(), *wrong_dashboards()]
print("\n".join(failures))
sys.exit(1 if failures else 0)
