#!/usr/bin/env python3
"""Checks what the chart contains: chart_contents.py HELM KUBERNETES_VERSION KUSTOMIZE. Requires PyYAML.

- its rules and dashboards are all rules and dashboards of the repository, and links to them
- what it renders of them is the source, byte by byte, and so is what the kustomization generates
- its package has the files in place of the links, and renders the same
- its schema has exactly the values of values.yaml
"""

from __future__ import annotations

import json
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Iterator
from pathlib import Path

import yaml

ROOT = Path(__file__).resolve().parent.parent.parent
CHART = ROOT / "packaging" / "helm" / "azure-scheduled-events-exporter"
RULES = sorted([*ROOT.glob("alerts/*.rules.yml"), *ROOT.glob("dashboards/*.rules.yml")])
DASHBOARDS = sorted(ROOT.glob("dashboards/azse-*.json"))
EVERYTHING = [f"--values={CHART}/ci/{name}-values.yaml" for name in ("full", "monitoring")]
HELM, KUBERNETES_VERSION, KUSTOMIZE = sys.argv[1:]


def run(*command: str | Path) -> str:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{' '.join(map(str, command))}: {done.stderr}")
    return done.stdout


def render(chart: Path, *options: str) -> str:
    # Helm that is built from its module knows no version of Kubernetes.
    return run(HELM, "template", "release", chart, "--namespace=apps", f"--kube-version={KUBERNETES_VERSION}", *options)


def wrong_links() -> Iterator[str]:
    for folder, sources in (("rules", RULES), ("dashboards", DASHBOARDS)):
        links = sorted((CHART / "files" / folder).iterdir(), key=lambda link: link.resolve())
        if [link.resolve() for link in links] != sources:
            yield f"files/{folder} are not {[str(path.relative_to(ROOT)) for path in sources]}"
        if not all(link.is_symlink() for link in links):
            yield f"files/{folder} has a copy in place of a link"


def wrong_rules() -> Iterator[str]:
    rendered = {}
    for document in render(
        CHART, "--set=linux.enabled=false,prometheusRule.enabled=true,prometheusRule.optional=true"
    ).split("\n---\n"):
        resource = yaml.safe_load(document)
        # Each line has the indentation of its place in the resource.
        lines = document.partition("\nspec:\n")[2].rstrip().split("\n")
        text = "".join(line.removeprefix("  ") + "\n" for line in lines)
        rendered[resource["metadata"]["name"]] = (text, resource["spec"])
    for source in RULES:
        name = "release-azure-scheduled-events-exporter-" + source.name.removesuffix(".rules.yml")
        text, spec = rendered.pop(name, ("", {}))
        expected = source.read_text(encoding="utf-8")
        if text != expected:
            yield f"{name} is not the text of {source.name}"
        if spec != yaml.safe_load(expected):
            yield f"{name} has other rules than {source.name}"
    yield from (f"{name} is not a file of rules" for name in rendered)


def wrong_dashboards() -> Iterator[str]:
    ours = render(CHART, "--set=linux.enabled=false,dashboards.enabled=true")
    kustomized = run(KUSTOMIZE, "build", ROOT / "dashboards")
    for tool, text in (("the chart", ours), ("the kustomization", kustomized)):
        maps = [each for each in yaml.safe_load_all(text) if each]
        found = {name: content for each in maps for name, content in each["data"].items()}
        if found != {path.name: path.read_text(encoding="utf-8") for path in DASHBOARDS}:
            yield f"the dashboards of {tool} are not dashboards/azse-*.json"
        for each in maps:
            if each["metadata"]["labels"].get("grafana_dashboard") != "1":
                yield f"{tool}: {each['metadata']['name']} has no label for the sidecar"
            if each["metadata"]["annotations"] != {"grafana_folder": "Azure"}:
                yield f"{tool}: {each['metadata']['name']} has no folder"
            # kubectl apply keeps the whole resource in an annotation, whose limit is 256 KiB.
            if len(json.dumps(each)) > 256 * 1024:
                yield f"{tool}: {each['metadata']['name']} is too large for kubectl apply"


def wrong_package() -> Iterator[str]:
    with tempfile.TemporaryDirectory() as folder:
        run(HELM, "package", CHART, f"--destination={folder}")
        (package,) = Path(folder).glob("*.tgz")
        with tarfile.open(package) as archive:
            members = {member.name.split("/", 1)[1]: member for member in archive.getmembers()}
        for source, path in [(each, "rules") for each in RULES] + [(each, "dashboards") for each in DASHBOARDS]:
            member = members.get(f"files/{path}/{source.name}")
            if member is None or not member.isfile() or member.size != source.stat().st_size:
                yield f"the package has no file {source.name}"
        if "LICENSE" not in members:
            yield "the package has no LICENSE"
        for name in members:
            if name.startswith(("ci/", "unittests/")) or name.endswith(".gotmpl"):
                yield f"the package has {name}"
        if render(package, *EVERYTHING) != render(CHART, *EVERYTHING):
            yield "the package renders something else than the directory"
        # Kubernetes limits a Secret to 1 MiB, and Helm keeps a release in one: chart and manifest, compressed.
        if package.stat().st_size > 300_000:
            yield f"the package has {package.stat().st_size} bytes"


def wrong_schema(schema: dict, values: object, path: str = "") -> Iterator[str]:
    """Values that the schema does not name are errors of Helm; here, names of the schema without a value."""
    definitions = json.loads((CHART / "values.schema.json").read_text(encoding="utf-8"))["definitions"]
    if "$ref" in schema:
        schema = definitions[schema["$ref"].rsplit("/", 1)[1]]
    names = schema.get("properties", {}).keys()
    is_closed = schema.get("additionalProperties") is False
    if isinstance(values, dict) and schema.get("properties"):
        if not is_closed and path != ".global":
            yield f"{path or 'the schema'} accepts unknown values"
        for name in sorted(names - values.keys()):
            if path not in {".livenessProbe", ".readinessProbe", ".podMonitor.limits", ".serviceMonitor.limits"}:
                yield f"{path}.{name} is in the schema and not in values.yaml"
        for name, value in values.items():
            yield from wrong_schema(schema["properties"][name], value, f"{path}.{name}")


def main() -> int:
    schema = json.loads((CHART / "values.schema.json").read_text(encoding="utf-8"))
    values = yaml.safe_load((CHART / "values.yaml").read_text(encoding="utf-8"))
    failures = [
        *wrong_links(),
        *wrong_rules(),
        *wrong_dashboards(),
        *wrong_package(),
        *wrong_schema(schema, values),
    ]
    for failure in failures:
        print(failure)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
