"""Compares resources with Microsoft's definitions of resource types: python3 arm_types.py AZMCP.

AZMCP is the Azure MCP server (PyPI: msmcp-azure), which contains the definitions that the Bicep compiler uses. Checks
the Bicep files of packaging/azure and the template of the rule groups: API version, members, required members, and the
types of literals. Expressions are not evaluated.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys

import bicep

RULE_GROUPS = bicep.ROOT / "packaging" / "prometheus" / "azure-monitor" / "rule-groups.json"
SCALARS = {"string": str, "bool": bool, "int": int}

failures = []


def expect(condition: bool, what: str) -> None:
    if not condition:
        failures.append(what)


class Types:
    """The definitions of one resource type."""

    def __init__(self, azmcp: str, kind: str):
        environment = os.environ | {"AZURE_MCP_COLLECT_TELEMETRY": "false"}
        command = [azmcp, "bicepschema", "get", "--resource-type", kind]
        done = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
        found = json.loads(done.stdout)["results"]["BicepSchemaResult"]
        self.resource = next(item for item in found if item["$type"] == "Resource")["bodyType"]
        self.objects = {item["name"]: item for item in found if item["$type"] == "Object"}

    @property
    def api_version(self) -> str:
        return next(item["type"] for item in self.resource["properties"] if item["name"] == "apiVersion")

    def check(self, value: object, definition: dict, where: str, names: set[str]) -> None:
        """Checks an object. `names` are those that a Bicep file declares, which stand for any value."""
        members = {item["name"]: item for item in definition["properties"]}
        rest = definition.get("additionalPropertiesType")
        for name, member in value.items():
            known = members.get(name)
            if known is None:
                expect(rest is not None, f"{where}: no member {name} in {definition['name']}")
                continue
            expect("ReadOnly" not in known.get("flags", ""), f"{where}.{name}: read-only")
            self.check_value(member, known["type"], f"{where}.{name}", names)
        for name, member in members.items():
            expect("Required" not in member.get("flags", "") or name in value, f"{where}: {name} is missing")

    def check_value(self, value: object, kind: str, where: str, names: set[str]) -> None:
        if is_expression(value, names) or kind == "any":
            return
        if isinstance(value, list):
            expect(kind.endswith("[]"), f"{where}: a list, not {kind}")
            for index, item in enumerate(value):
                self.check_value(item, kind.removesuffix("[]"), f"{where}[{index}]", names)
        elif isinstance(value, dict):
            expect(kind in self.objects, f"{where}: an object, not {kind}")
            if kind in self.objects:
                self.check(value, self.objects[kind], where, names)
        else:
            scalars = [SCALARS[part] for part in kind.split(" | ") if part in SCALARS]
            literals = [part for part in kind.split(" | ") if part not in SCALARS]
            fits = type(value) in scalars or value in literals
            expect(fits, f"{where}: {value!r} is not {kind}")


def is_expression(value: object, names: set[str]) -> bool:
    if isinstance(value, str):
        return value in names or "${" in value or value.startswith("[") or re.fullmatch(r"\w+\.\w+", value) is not None
    return value is None or (isinstance(value, dict) and set(value) in ({"operator"}, {"function"}))


def main() -> int:
    types: dict[str, Types] = {}

    def of(kind: str) -> Types:
        if kind not in types:
            types[kind] = Types(sys.argv[1], kind)
        return types[kind]

    resources = 0
    for template in bicep.all_templates():
        names = set(bicep.declared(template))
        for resource in template.resources:
            resources += 1
            where = f"{template.path.name}: {resource.name}"
            found = of(resource.kind)
            expect(resource.api_version == found.api_version, f"{where}: the definition is of {found.api_version}")
            body = {name: value for name, value in resource.body.items() if name != "parent"}
            if not resource.existing:
                found.check(body, found.resource, where, names)
    for resource in json.loads(RULE_GROUPS.read_text())["resources"]:
        resources += 1
        found = of(resource["type"])
        expect(resource["apiVersion"] == found.api_version, f"{resource['name']}: {found.api_version}")
        body = {name: value for name, value in resource.items() if name not in {"type", "apiVersion"}}
        found.check(body, found.resource, resource["name"], set())

    for failure in failures:
        print(failure, file=sys.stderr)
    print(f"{resources} resources of {len(types)} types")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
