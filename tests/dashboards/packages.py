"""Checks the mixin, which contains the dashboards and rules."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import _gojsonnet as jsonnet
import yaml

import boards

MIXIN = boards.ROOT / "packaging" / "mixin" / "mixin.libsonnet"
SELECTOR = 'job="azure-scheduled-events"'


def groups() -> list[dict[str, Any]]:
    """The groups of the default rule files as a YAML parser reads them."""
    files = [boards.ROOT / "alerts" / f"{name}.rules.yml" for name in ("scheduled-events", "exporter-health")]
    return [group for path in files for group in yaml.safe_load(path.read_text(encoding="utf-8"))["groups"]]


def mixin(config: str = "{}") -> dict[str, Any]:
    fields = ("prometheusAlerts", "grafanaDashboards", "grafanaDashboardFolder")
    shown = ", ".join(f"{field}: mixin.{field}" for field in fields)
    source = f"local mixin = (import '{MIXIN}') {{ _config+:: {config} }}; {{ {shown} }}"
    return json.loads(jsonnet.evaluate_snippet("test.jsonnet", source))


def wrong_mixin() -> Iterator[str]:
    made = mixin()
    if made["prometheusAlerts"]["groups"] != groups():
        yield "prometheusAlerts differ from alerts/*.rules.yml"
    if made["grafanaDashboards"] != boards.load():
        yield "grafanaDashboards differ from dashboards/azse-*.json"
    chosen = 'job="other", region="west"'
    changed = mixin(f"{{ selector: '{chosen}', dashboardFolder: 'VMs' }}")
    rules = json.dumps(made["prometheusAlerts"])
    selector, other = (json.dumps(text)[1:-1] for text in (SELECTOR, chosen))
    if selector not in rules or json.dumps(changed["prometheusAlerts"]) != rules.replace(selector, other):
        yield "the selector is not that of the configuration"
    if changed["grafanaDashboardFolder"] != "VMs":
        yield "the folder is not that of the configuration"
