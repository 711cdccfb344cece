#!/usr/bin/env python3
"""Prints what built a release as an in-toto statement with SLSA provenance 1.0. packaging/release calls it.

The statement is not signed: who publishes the release signs it, for example with `cosign attest-blob`.
"""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
BUILDER = "urn:azure-scheduled-events-exporter:packaging/release"
# What writes bytes of a release, beside the toolchain of rust-toolchain.toml.
PACKAGES = (
    "binutils",
    "debhelper",
    "dpkg-dev",
    "gcc",
    "gcc-aarch64-linux-gnu",
    "gcc-mingw-w64-x86-64",
    "gzip",
    "libc6-dev",
    "libc6-dev-arm64-cross",
    "python3",
    "rpm",
    "rust-web-src",
    "rustc-web",
    "tar",
    "zlib1g",
)


def output(*command: str) -> str:
    return subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True).stdout.strip()


def sha256(path: Path) -> dict[str, str]:
    return {"sha256": hashlib.sha256(path.read_bytes()).hexdigest()}


def installed(package: str) -> dict[str, Any] | None:
    shown = subprocess.run(
        ["dpkg-query", "--show", "--showformat=${db:Status-Abbrev} ${Version} ${Architecture}", package],
        check=False,
        capture_output=True,
        text=True,
    ).stdout.split()
    if shown[:1] != ["ii"]:
        return None
    return {"name": package, "uri": f"pkg:deb/debian/{package}@{shown[1]}?arch={shown[2]}"}


def materials(revision: str, certificates: str) -> list[dict[str, Any]]:
    rustc = output("rustc", "--version").split()[1]
    program = Path(output("rustc", "--print", "sysroot")) / "bin/rustc"
    return [
        {"name": "source", "digest": {"gitCommit": revision}},
        {"name": "Cargo.lock", "digest": sha256(ROOT / "Cargo.lock")},
        {"name": "rustc", "uri": f"pkg:generic/rustc@{rustc}", "digest": sha256(program)},
        {"name": "ca-certificates", "uri": f"pkg:deb/debian/ca-certificates@{certificates}?arch=all"},
        *(found for package in PACKAGES if (found := installed(package))),
    ]


def statement(folder: Path, certificates: str) -> dict[str, Any]:
    revision = output("git", "rev-parse", "HEAD")
    files = sorted(path for path in folder.iterdir() if path.is_file())
    return {
        "_type": "https://in-toto.io/Statement/v1",
        "subject": [{"name": path.name, "digest": sha256(path)} for path in files],
        "predicateType": "https://slsa.dev/provenance/v1",
        "predicate": {
            "buildDefinition": {
                "buildType": BUILDER,
                "externalParameters": {"revision": revision, "SOURCE_DATE_EPOCH": os.environ["SOURCE_DATE_EPOCH"]},
                "resolvedDependencies": materials(revision, certificates),
            },
            "runDetails": {"builder": {"id": BUILDER}},
        },
    }


if __name__ == "__main__":
    if len(sys.argv) != 3:
        raise SystemExit("usage: provenance.py FOLDER VERSION-OF-CA-CERTIFICATES, with SOURCE_DATE_EPOCH")
    print(json.dumps(statement(Path(sys.argv[1]), sys.argv[2]), indent=2))
