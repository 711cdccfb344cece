#!/usr/bin/env python3
"""Writes the container image as an OCI image layout: one index with one manifest for each platform.

packaging/image/build calls it. The same inputs give the same bytes: files are sorted, and every time is --created.
"""

from __future__ import annotations

import argparse
import datetime
import gzip
import hashlib
import io
import json
import struct
import tarfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

NAME = "azure-scheduled-events-exporter"
PROGRAM = f"/usr/bin/{NAME}"
USER = 65532
STATE = "/state"
MACHINES = {"amd64": 62, "arm64": 183}  # e_machine of ELF
PT_INTERP = 3
CONFIG = {
    "User": f"{USER}:{USER}",
    "ExposedPorts": {"10169/tcp": {}},
    "Env": [
        "PATH=/usr/bin",
        # The default of --state.directory.
        f"STATE_DIRECTORY={STATE}",
        # glibc then returns the memory of an unusually large document to the system.
        "MALLOC_TRIM_THRESHOLD_=131072",
    ],
    "Entrypoint": [PROGRAM],
    "Volumes": {STATE: {}},
    "WorkingDir": "/",
    "StopSignal": "SIGTERM",
}
USERS = f"root:x:0:0:root:/:/sbin/nologin\nnonroot:x:{USER}:{USER}:nonroot:/:/sbin/nologin\n"
GROUPS = f"root:x:0:\nnonroot:x:{USER}:\n"
# Without this file, glibc would ask DNS before /etc/hosts.
NAME_SERVICES = "passwd: files\ngroup: files\nhosts: files dns\n"


def check_program(binary: bytes, platform: str) -> None:
    """Refuses a program of another architecture, and one that needs a dynamic linker."""
    if binary[:6] != b"\x7fELF\x02\x01":
        raise SystemExit(f"{platform}: not a 64-bit little-endian ELF file")
    (machine,) = struct.unpack_from("<H", binary, 18)
    if machine != MACHINES[platform]:
        raise SystemExit(f"{platform}: the ELF file is for machine {machine}, not {MACHINES[platform]}")
    (offset,) = struct.unpack_from("<Q", binary, 32)
    size, count = struct.unpack_from("<HH", binary, 54)
    kinds = [struct.unpack_from("<I", binary, offset + size * header)[0] for header in range(count)]
    if PT_INTERP in kinds:
        raise SystemExit(f"{platform}: the program is linked dynamically; the image contains no libraries")


@dataclass
class Files:
    """The contents of the image."""

    time: int
    entries: dict[str, tuple[tarfile.TarInfo, bytes]] = field(default_factory=dict)

    def add(self, path: str, content: bytes | None, mode: int, owner: int = 0) -> None:
        """Adds a file, or a folder if the content is None, and the folders above it."""
        above = Path(path).parent
        if above != Path() and str(above) not in self.entries:
            self.add(str(above), None, 0o755)
        entry = tarfile.TarInfo(path)
        entry.type = tarfile.DIRTYPE if content is None else tarfile.REGTYPE
        entry.size, entry.mode, entry.uid, entry.gid, entry.mtime = len(content or b""), mode, owner, owner, self.time
        self.entries[path] = (entry, content or b"")

    def tar(self) -> bytes:
        stream = io.BytesIO()
        with tarfile.open(fileobj=stream, mode="w", format=tarfile.USTAR_FORMAT) as archive:
            for _, (entry, content) in sorted(self.entries.items()):
                archive.addfile(entry, io.BytesIO(content))
        return stream.getvalue()


def certificates(package: Path) -> bytes:
    """The bundle that Debian's update-ca-certificates writes from its package."""
    found = sorted((package / "usr/share/ca-certificates/mozilla").glob("*.crt"), key=lambda path: path.name.encode())
    if not found:
        raise SystemExit(f"{package} has no certificates")
    return b"".join(path.read_bytes().strip() + b"\n" for path in found)


def files(binary: bytes, package: Path, license_text: Path, time: int) -> Files:
    contents = Files(time)
    contents.add("etc/passwd", USERS.encode(), 0o644)
    contents.add("etc/group", GROUPS.encode(), 0o644)
    contents.add("etc/nsswitch.conf", NAME_SERVICES.encode(), 0o644)
    contents.add("etc/ssl/certs/ca-certificates.crt", certificates(package), 0o644)
    contents.add(STATE[1:], None, 0o700, USER)
    contents.add(PROGRAM[1:], binary, 0o755)
    contents.add(f"usr/share/doc/{NAME}/LICENSE", license_text.read_bytes(), 0o644)
    copyright_text = (package / "usr/share/doc/ca-certificates/copyright").read_bytes()
    contents.add("usr/share/doc/ca-certificates/copyright", copyright_text, 0o644)
    # Scanners of images read the versions of Debian's packages here.
    contents.add("var/lib/dpkg/status.d/ca-certificates", (package / "DEBIAN/control").read_bytes(), 0o644)
    return contents


@dataclass
class Layout:
    folder: Path

    def add(self, content: bytes, media_type: str) -> dict[str, Any]:
        """Writes a blob and returns its descriptor."""
        digest = hashlib.sha256(content).hexdigest()
        (self.folder / "blobs/sha256" / digest).write_bytes(content)
        return {"mediaType": media_type, "digest": f"sha256:{digest}", "size": len(content)}

    def add_json(self, value: dict[str, Any], kind: str) -> dict[str, Any]:
        return self.add(canonical(value), f"application/vnd.oci.image.{kind}.v1+json")


def canonical(value: dict[str, Any]) -> bytes:
    return json.dumps(value, sort_keys=True, separators=(",", ":")).encode()


def manifest(layout: Layout, platform: str, contents: Files, labels: dict[str, str]) -> dict[str, Any]:
    tar = contents.tar()
    # Level 9 of gzip, which every client reads; without a time in its header.
    layer = layout.add(gzip.compress(tar, 9, mtime=0), "application/vnd.oci.image.layer.v1.tar+gzip")
    created = labels["org.opencontainers.image.created"]
    where = {"architecture": platform, "os": "linux"}
    config = {
        **where,
        "created": created,
        "config": {**CONFIG, "Labels": labels},
        "rootfs": {"type": "layers", "diff_ids": [f"sha256:{hashlib.sha256(tar).hexdigest()}"]},
        "history": [{"created": created, "created_by": "packaging/image/build"}],
    }
    described = {
        "schemaVersion": 2,
        "mediaType": "application/vnd.oci.image.manifest.v1+json",
        "config": layout.add_json(config, "config"),
        "layers": [layer],
        "annotations": labels,
    }
    return {**layout.add_json(described, "manifest"), "platform": where}


def write(
    folder: Path, binaries: dict[str, Path], package: Path, license_text: Path, time: int, labels: dict[str, str]
) -> None:
    (folder / "blobs/sha256").mkdir(parents=True)
    layout = Layout(folder)
    manifests = []
    for platform in sorted(binaries):
        binary = binaries[platform].read_bytes()
        check_program(binary, platform)
        manifests.append(manifest(layout, platform, files(binary, package, license_text, time), labels))
    media_type = "application/vnd.oci.image.index.v1+json"
    index = {"schemaVersion": 2, "mediaType": media_type, "manifests": manifests, "annotations": labels}
    tag = {"org.opencontainers.image.ref.name": labels["org.opencontainers.image.version"]}
    tagged = {**layout.add_json(index, "index"), "annotations": tag}
    (folder / "index.json").write_bytes(canonical({"schemaVersion": 2, "mediaType": media_type, "manifests": [tagged]}))
    (folder / "oci-layout").write_bytes(canonical({"imageLayoutVersion": "1.0.0"}))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--output", type=Path, required=True, help="folder of the layout; must not exist")
    parser.add_argument("--binary", action="append", required=True, metavar="PLATFORM=PATH")
    parser.add_argument("--certificates", type=Path, required=True, help="the unpacked package ca-certificates")
    parser.add_argument("--license", type=Path, required=True)
    parser.add_argument("--version", required=True)
    parser.add_argument("--revision", required=True, help="commit of the source")
    parser.add_argument("--created", type=int, required=True, help="Unix time in seconds")
    arguments = parser.parse_args()
    created = datetime.datetime.fromtimestamp(arguments.created, datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    labels = {
        "title": NAME,
        "description": "Prometheus and OpenTelemetry exporter for Azure Scheduled Events",
        "version": arguments.version,
        "revision": arguments.revision,
        "created": created,
        "licenses": "Apache-2.0",
    }
    binaries = {platform: Path(path) for platform, _, path in (value.partition("=") for value in arguments.binary)}
    if unknown := binaries.keys() - MACHINES.keys():
        raise SystemExit(f"unknown platform {', '.join(sorted(unknown))}: {' '.join(MACHINES)}")
    write(
        arguments.output,
        binaries,
        arguments.certificates,
        arguments.license,
        arguments.created,
        {f"org.opencontainers.image.{name}": value for name, value in labels.items()},
    )


if __name__ == "__main__":
    main()
