#!/usr/bin/env python3
"""Writes JSON schemas for kubeconform: schemas.py SWAGGER CRD_FOLDER OUTPUT_FOLDER. Requires PyYAML.

SWAGGER is api/openapi-spec/swagger.json of a Kubernetes release, CRD_FOLDER has custom resource definitions of the
Prometheus Operator. Only the kinds that the chart renders are written. Members that a schema does not name are refused,
as an API server does with strict field validation.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import yaml

PREFIX = "#/definitions/"
META = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"
KINDS = {
    "configmap-v1": "io.k8s.api.core.v1.ConfigMap",
    "service-v1": "io.k8s.api.core.v1.Service",
    "serviceaccount-v1": "io.k8s.api.core.v1.ServiceAccount",
    "daemonset-apps-v1": "io.k8s.api.apps.v1.DaemonSet",
}
CUSTOM_KINDS = ("podmonitors", "prometheusrules", "servicemonitors")


def references(value: object) -> set[str]:
    if isinstance(value, dict):
        own = {value["$ref"].removeprefix(PREFIX)} if isinstance(value.get("$ref"), str) else set()
        return own.union(*(references(each) for each in value.values()))
    return set().union(*(references(each) for each in value)) if isinstance(value, list) else set()


def strict(value: object) -> object:
    """The same schema without unknown members. A number or a string has one notation, which JSON schema knows."""
    if isinstance(value, list):
        return [strict(each) for each in value]
    if not isinstance(value, dict):
        return value
    if value.get("format") == "int-or-string" or value.get("x-kubernetes-int-or-string"):
        return {"type": ["integer", "string"]}
    result = {name: strict(each) for name, each in value.items()}
    is_object = isinstance(value.get("properties"), dict) and value.get("type", "object") == "object"
    if is_object and not value.get("x-kubernetes-preserve-unknown-fields"):
        result.setdefault("additionalProperties", False)
    return result


def with_definitions(schema: dict, definitions: dict) -> dict:
    """Adds the definitions that the schema refers to, directly or not."""
    found, open_names = {}, references(schema)
    while open_names:
        name = open_names.pop()
        found[name] = strict(definitions[name])
        open_names |= references(found[name]) - found.keys()
    return {**schema, "definitions": found}


def main() -> None:
    swagger, crds, output = map(Path, sys.argv[1:])
    definitions = json.loads(swagger.read_text(encoding="utf-8"))["definitions"]
    schemas = {name: strict(definitions[kind]) for name, kind in KINDS.items()}
    for plural in CUSTOM_KINDS:
        crd = yaml.safe_load((crds / f"monitoring.coreos.com_{plural}.yaml").read_text(encoding="utf-8"))
        (version,) = (each for each in crd["spec"]["versions"] if each["name"] == "v1")
        schema = strict(version["schema"]["openAPIV3Schema"])
        # The definition leaves the metadata to the API server.
        schema["properties"]["metadata"] = {"$ref": PREFIX + META}
        schemas[f"{crd['spec']['names']['singular']}-monitoring-v1"] = schema
    output.mkdir(parents=True, exist_ok=True)
    for name, schema in schemas.items():
        (output / f"{name}.json").write_text(json.dumps(with_definitions(schema, definitions)), encoding="utf-8")


if __name__ == "__main__":
    main()
