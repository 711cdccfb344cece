#!/usr/bin/env python3
"""Prints what a release contains as a CycloneDX 1.6 document. packaging/release calls it.

cargo-cyclonedx is not used: its documents differ from run to run (issue 514 of CycloneDX/cyclonedx-rust-cargo).
"""

from __future__ import annotations

import datetime
import json
import os
import re
import subprocess
import sys
import tomllib
import uuid
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
TARGETS = ("x86_64-unknown-linux-gnu", "aarch64-unknown-linux-gnu", "x86_64-pc-windows-gnu")
# A line of `cargo tree --prefix depth`: depth, name, version, what cargo adds (source, "proc-macro"), licence, "(*)".
LINE = re.compile(r"(\d+)(\S+) v(\S+)[^|]*\|(.*?)(?: \(\*\))?")


def tree() -> str:
    """The crates in the program: not those of tests, build scripts and macros."""
    command = ["cargo", "tree", "--locked", "--edges=normal,no-proc-macro", "--prefix=depth", "--format={p}|{l}"]
    command += [f"--target={target}" for target in TARGETS]
    return subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True).stdout


def reference(name: str, version: str) -> str:
    return f"pkg:cargo/{name}@{version}"


def checksums() -> dict[str, str]:
    lock = tomllib.loads((ROOT / "Cargo.lock").read_text(encoding="utf-8"))
    return {reference(entry["name"], entry["version"]): entry.get("checksum", "") for entry in lock["package"]}


def crate(name: str, version: str, license_text: str, checksum: str) -> dict[str, Any]:
    purl = reference(name, version)
    return {
        "type": "library",
        "bom-ref": purl,
        "name": name,
        "version": version,
        "purl": purl,
        # The slash is an older form of OR, which crates.io accepts.
        "licenses": [{"expression": license_text.replace("/", " OR ")}],
        "hashes": [{"alg": "SHA-256", "content": checksum}],
    }


def crates(text: str, checksum_of: dict[str, str]) -> tuple[dict[str, dict[str, Any]], dict[str, set[str]]]:
    """Components and dependencies, by reference; the first line is the exporter itself."""
    components: dict[str, dict[str, Any]] = {}
    dependencies: dict[str, set[str]] = {}
    path: list[str] = []
    for line in filter(None, text.splitlines()):  # an empty line between two targets
        if not (found := LINE.fullmatch(line)):
            raise SystemExit(f"cargo tree printed: {line}")
        depth, name, version, license_text = int(found[1]), found[2], found[3], found[4]
        purl = reference(name, version)
        path[depth:] = [purl]
        dependencies.setdefault(purl, set())
        if depth:
            dependencies[path[depth - 1]].add(purl)
            components[purl] = crate(name, version, license_text, checksum_of[purl])
    return components, dependencies


def other(name: str, version: str, license_id: str, description: str, purl: str) -> dict[str, Any]:
    return {
        "type": "library",
        "bom-ref": purl,
        "name": name,
        "version": version,
        "purl": purl,
        "description": description,
        "licenses": [{"expression": license_id}],
    }


def installed(package: str) -> str:
    command = ["dpkg-query", "--show", "--showformat=${Version}", package]
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout


def compiler(rustc: str) -> str:
    output = subprocess.run([rustc, "--version"], cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True).stdout
    return output.split()[1]


def other_components(certificates: str) -> list[dict[str, Any]]:
    """What does not come from crates."""
    std = "MIT OR Apache-2.0"
    amd64, others = compiler("rustc"), compiler("/usr/bin/rustc")
    libc, cross = installed("libc6-dev"), installed("libc6-dev-arm64-cross")
    return [
        other("std", amd64, std, "in the programs for Linux on amd64", f"pkg:generic/rust-std@{amd64}"),
        other("std", others, std, "in the programs for arm64 and Windows", f"pkg:generic/rust-std-web@{others}"),
        other(
            "glibc", libc, "LGPL-2.1-or-later", "in the static program for amd64", f"pkg:deb/debian/libc6-dev@{libc}"
        ),
        other(
            "glibc",
            cross,
            "LGPL-2.1-or-later",
            "in the static program for arm64",
            f"pkg:deb/debian/libc6-dev-arm64-cross@{cross}",
        ),
        other(
            "ca-certificates",
            certificates,
            "MPL-2.0",
            "in the image",
            f"pkg:deb/debian/ca-certificates@{certificates}",
        ),
    ]


def document(certificates: str, created: int) -> dict[str, Any]:
    manifest = tomllib.loads((ROOT / "Cargo.toml").read_text(encoding="utf-8"))["package"]
    components, dependencies = crates(tree(), checksums())
    others = other_components(certificates)
    root = reference(manifest["name"], manifest["version"])
    dependencies[root].update(component["bom-ref"] for component in others)
    time = datetime.datetime.fromtimestamp(created, datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    result = {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {
            "timestamp": time,
            "component": {
                "type": "application",
                "bom-ref": root,
                "name": manifest["name"],
                "version": manifest["version"],
                "description": manifest["description"],
                "licenses": [{"expression": manifest["license"]}],
            },
        },
        "components": [components[purl] for purl in sorted(components)] + others,
        "dependencies": [{"ref": ref, "dependsOn": sorted(of)} for ref, of in sorted(dependencies.items())],
    }
    # The identity of a document: the same contents have the same number.
    number = uuid.uuid5(uuid.NAMESPACE_OID, json.dumps(result, sort_keys=True))
    return {"serialNumber": f"urn:uuid:{number}", **result}


if __name__ == "__main__":
    if len(sys.argv) != 2:
        raise SystemExit("usage: sbom.py VERSION-OF-CA-CERTIFICATES, with SOURCE_DATE_EPOCH")
    print(json.dumps(document(sys.argv[1], int(os.environ["SOURCE_DATE_EPOCH"])), indent=2))
