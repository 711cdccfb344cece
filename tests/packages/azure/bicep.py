"""Reads the Bicep files of packaging/azure with pycep, a parser of the language in Python.

It is no compiler: it does not know types, functions or scopes. A name and a text are both `str` in its result.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from pycep import BicepParser

ROOT = Path(__file__).resolve().parents[3]
AZURE = ROOT / "packaging" / "azure"


@dataclass
class Resource:
    name: str
    kind: str
    api_version: str
    existing: bool
    body: dict


@dataclass
class Template:
    path: Path
    text: str
    parameters: dict[str, dict]
    variables: dict[str, dict]
    resources: list[Resource]


def read(path: Path) -> Template:
    text = path.read_text()
    parsed = BicepParser().parse(text=text)
    resources = []
    for name, resource in parsed["resources"].items():
        body = resource["config"]
        # A loop or a condition is around the body.
        while "config" in body:
            body = body["config"]
        resources.append(Resource(name, resource["type"], resource["api_version"], resource["existing"], body))
    return Template(path, text, parsed["parameters"], parsed["variables"], resources)


def all_templates() -> list[Template]:
    return [read(path) for path in sorted(AZURE.glob("*.bicep"))]


def declared(template: Template) -> Iterator[str]:
    yield from template.parameters
    yield from template.variables
    yield from (resource.name for resource in template.resources)


def without_comments(text: str) -> str:
    return "\n".join(line for line in text.splitlines() if not re.match(r" *(//|@description)", line))
