"""Checks the mixin, which contains the dashboards and rules."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import _gojsonnet as jsonnet
import yaml

import boards

MIXIN = boards.ROOT / "packaging" / "mixin" / "mixin.libsonnet"
OPTIONAL = "optional.rules.yml"
SELECTOR = 'job="azure-scheduled-events"'


def groups(*folders: str) -> list[dict[str, Any]]:
    """The groups of the default rule files as a YAML parser reads them, by name."""
    files = [path for folder in folders for path in (boards.ROOT / folder).glob("*.rules.yml") if path.name != OPTIONAL]
    return sorted(
        (group for path in files for group in yaml.safe_load(path.read_text(encoding="utf-8"))["groups"]),
        key=lambda group: group["name"],
    )


def mixin(config: str = "{}") -> dict[str, Any]:
    fields = ("prometheusAlerts", "prometheusRules", "grafanaDashboards", "grafanaDashboardFolder")
    shown = ", ".join(f"{field}: mixin.{field}" for field in fields)
    source = f"local mixin = (import '{MIXIN}') {{ _config+:: {config} }}; {{ {shown} }}"
    return json.loads(jsonnet.evaluate_snippet("test.jsonnet", source))


def wrong_mixin() -> Iterator[str]:
    made = mixin()
    for field, folder in (("prometheusAlerts", "alerts"), ("prometheusRules", "dashboards")):
        if sorted(made[field]["groups"], key=lambda group: group["name"]) != groups(folder):
            yield f"{field} differ from {folder}/*.rules.yml"
    if made["grafanaDashboards"] != boards.load():
        yield "grafanaDashboards differ from dashboards/azse-*.json"
    chosen = 'job="other", region="west"'
    changed = mixin(f"{{ selector: '{chosen}', dashboardFolder: 'VMs' }}")
    if json.dumps(changed["prometheusAlerts"]) != json.dumps(made["prometheusAlerts"]).replace(
        json.dumps(SELECTOR)[1:-1], json.dumps(chosen)[1:-1]
    ):
        yield "the selector is not that of the configuration"
    if json.dumps(chosen)[1:-1] not in json.dumps(changed["prometheusAlerts"]):
        yield "the selector of the configuration is not in the rules"
    if changed["grafanaDashboardFolder"] != "VMs":
        yield "the folder is not that of the configuration"
