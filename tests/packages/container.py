"""Starts the container image with runc as a cluster would: uid 65532, no capabilities, read-only root, a volume.

Usage: container.py LAYOUT VERSION PLATFORM…; in a network namespace of its own, as root (tests/packages/image).
The simulator has the address of IMDS there, and a collector is on loopback.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "rulers"))

from parts import receive, request, wait_for

USER = 65532
IMDS = "169.254.169.254"
FIRST_SEEN = "azure_scheduled_event_first_seen_timestamp_seconds{"
# Emulated, on a busy machine.
LIMIT = 120.0
PRIVILEGES = {"Uid": "\t".join([str(USER)] * 4), "CapPrm": "0" * 16, "CapEff": "0" * 16, "NoNewPrivs": "1"}

received = threading.Event()


def run(*command: object) -> str:
    return subprocess.run([str(part) for part in command], check=True, stdout=subprocess.PIPE, text=True).stdout


def first_seen() -> str | None:
    lines = request("http://127.0.0.1:10169/metrics").decode().splitlines()
    return next((line.rpartition(" ")[2] for line in lines if line.startswith(FIRST_SEEN)), None)


def unpack(layout: str, version: str, platform: str, work: Path) -> Path:
    """The bundle of one platform, with what a cluster adds to the image: security context, network, volumes."""
    one = ("--override-arch", platform, "--override-os", "linux")
    run("skopeo", *one, "copy", "--quiet", f"oci:{layout}:{version}", f"oci:{work}/image:{version}")
    run("umoci", "unpack", "--image", f"{work}/image:{version}", work / "bundle")
    (work / "volume").mkdir(mode=0o700)
    os.chown(work / "volume", USER, USER)
    (work / "hosts").write_text("127.0.0.1 collector.test\n", encoding="utf-8")
    path = work / "bundle/config.json"
    config = json.loads(path.read_text(encoding="utf-8"))
    config["process"] |= {"terminal": False, "noNewPrivileges": True, "capabilities": {}}
    config["process"]["env"].append("OTEL_EXPORTER_OTLP_ENDPOINT=http://collector.test:4318")
    config["root"]["readonly"] = True
    config["linux"]["namespaces"] = [kind for kind in config["linux"]["namespaces"] if kind["type"] != "network"]
    own = {"/state": ("volume", "rw"), "/etc/hosts": ("hosts", "ro")}
    config["mounts"] = [mount for mount in config["mounts"] if mount["destination"] not in own]
    for destination, (source, access) in own.items():
        mount = {"destination": destination, "source": str(work / source), "type": "bind", "options": ["bind", access]}
        config["mounts"].append(mount)
    path.write_text(json.dumps(config), encoding="utf-8")
    return work / "bundle"


@contextlib.contextmanager
def started(bundle: Path) -> Iterator[None]:
    """Runs the container, and expects that it ends with exit code 0 after SIGTERM."""
    runc = ("runc", "--root", f"{bundle}-runc")
    process = subprocess.Popen([*runc, "run", "--bundle", bundle, "exporter"])
    try:
        wait_for("container", first_seen)
        pid = json.loads(run(*runc, "state", "exporter"))["pid"]
        lines = Path(f"/proc/{pid}/status").read_text(encoding="utf-8").splitlines()
        status = dict(line.split(":\t", 1) for line in lines if ":\t" in line)
        found = {name: status[name] for name in PRIVILEGES}
        assert found == PRIVILEGES, found
        yield
        process.send_signal(signal.SIGTERM)
        assert process.wait(LIMIT) == 0, "it does not end in order after SIGTERM"
    finally:
        process.kill()
        process.wait()


def check(layout: str, version: str, platform: str) -> None:
    received.clear()
    with tempfile.TemporaryDirectory() as folder:
        bundle = unpack(layout, version, platform, Path(folder))
        program = bundle / "rootfs/usr/bin/azure-scheduled-events-exporter"
        command = [program, "simulate", f"--web.listen-address={IMDS}:80", "--scenario=platform-redeploy"]
        with subprocess.Popen(command, stderr=subprocess.DEVNULL) as simulator:
            try:
                with started(bundle):
                    seen = first_seen()
                    assert received.wait(LIMIT), "no span at the collector, whose name is in /etc/hosts"
                with started(bundle):
                    assert first_seen() == seen, "the state is not that of the volume"
            finally:
                simulator.kill()


def main() -> None:
    layout, version, *platforms = sys.argv[1:]
    run("ip", "link", "set", "lo", "up")
    run("ip", "address", "add", f"{IMDS}/32", "dev", "lo")
    receive(lambda _path, _body: received.set(), port=4318)
    for platform in platforms:
        start = time.monotonic()
        check(layout, version, platform)
        print(f"image: {platform} runs: uid {USER}, no capabilities, read-only root; {time.monotonic() - start:.0f} s")


if __name__ == "__main__":
    main()
