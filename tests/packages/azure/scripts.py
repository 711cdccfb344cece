"""Runs the scripts of packaging/azure with stubs of apt-get, rpm, systemctl and curl.

They are install.sh, the command in exporter.bicep and the script in cloud-init.yaml. Each run has a directory in place of /etc/default.
"""

from __future__ import annotations

import base64
import hashlib
import os
import re
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

import yaml

AZURE = Path(__file__).resolve().parents[3] / "packaging" / "azure"
PACKAGE = b"a package"
SHA256 = hashlib.sha256(PACKAGE).hexdigest()
STUBS = ("apt-get", "rpm", "systemctl", "journalctl", "sleep", "curl")
STUB = """#!/bin/sh
printf '%s\\n' "${0##*/} $*" >>"$CALLS"
case "${0##*/} $1" in
    'systemctl is-active') exit "$INACTIVE" ;;
    'curl '*) printf 'a package' >package.deb ;;
esac
"""


@dataclass
class Done:
    status: int
    calls: list[str]
    # The environment file of the unit, where the script wrote one
    defaults: str | None
    errors: str


def run(folder: Path, *command: str, inactive: int = 0) -> Done:
    stubs, calls = folder / "bin", folder / "calls"
    stubs.mkdir()
    for name in STUBS:
        (stubs / name).write_text(STUB)
        (stubs / name).chmod(0o755)
    environment = {
        "PATH": f"{stubs}:{os.environ['PATH']}",
        "CALLS": str(calls),
        "INACTIVE": str(inactive),
    }
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    file = folder / "azure-scheduled-events-exporter"
    return Done(
        done.returncode,
        calls.read_text().splitlines() if calls.exists() else [],
        file.read_text() if file.exists() else None,
        done.stderr,
    )


def install(name: str, *arguments: str, inactive: int = 0, defaults: str | None = None) -> Done:
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, name).write_bytes(PACKAGE)
        script = (AZURE / "install.sh").read_text()
        assert script.count("/etc/default/") == 1
        if defaults is not None:
            Path(folder, "azure-scheduled-events-exporter").write_text(defaults)
        Path(folder, "install.sh").write_text(script.replace("/etc/default", folder))
        return run(Path(folder), "sh", "install.sh", name, *arguments, inactive=inactive)


def cloud_init(sha256: str, inactive: int = 0) -> Done:
    config = yaml.safe_load((AZURE / "cloud-init.yaml").read_text())
    (command,) = config["runcmd"]
    command = [part.replace("PACKAGE_URL", "URL").replace("PACKAGE_SHA256", sha256) for part in command]
    with tempfile.TemporaryDirectory() as folder:
        return run(Path(folder), *command, inactive=inactive)


def extension(flags: str) -> Done:
    """Runs the command of the custom script extension as exporter.bicep composes it."""
    text = (AZURE / "exporter.bicep").read_text()
    (command,) = re.findall(r"^var linuxCommand = '(.*)'$", text, re.MULTILINE)
    values = {
        "linuxScript": base64.b64encode((AZURE / "install.sh").read_bytes()).decode(),
        "file": "exporter.deb",
        "packageSha256": SHA256,
        "quotedFlags": flags,
    }
    command = re.sub(r"\$\{(\w+)\}", lambda found: values[found[1]], command.replace("\\'", "'"))
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "exporter.deb").write_bytes(PACKAGE)
        return run(Path(folder), "sh", "-c", command)


def commands(done: Done) -> list[str]:
    return [" ".join(call.split()[:2]) for call in done.calls]


def main() -> None:
    start = ["systemctl enable", "systemctl restart", "sleep 2", "systemctl is-active"]

    done = install("exporter.deb", SHA256, "--log.level=debug --log.format=json")
    assert done.status == 0, done.errors
    assert commands(done) == ["apt-get install", *start], done.calls
    assert done.calls[0].endswith("/exporter.deb"), "apt-get needs an absolute path"
    assert done.defaults == 'ARGS="--log.level=debug --log.format=json"\n', done.defaults

    kept = "# A comment\nOTEL_EXPORTER_OTLP_ENDPOINT=http://collector:4318\n"
    done = install("exporter.deb", SHA256, "--log.format=json", defaults=f'ARGS="--log.level=debug"\n{kept}')
    assert done.defaults == f'{kept}ARGS="--log.format=json"\n', done.defaults

    done = install("exporter.rpm", SHA256)
    assert done.status == 0, done.errors
    assert commands(done) == ["rpm --upgrade", *start], done.calls
    assert done.defaults is None, "without FLAGS the environment file is left as it is"

    done = install("exporter.deb", "0" * 64, "--log.format=json")
    assert done.status == 1, done
    assert done.calls == [], "a wrong checksum installs nothing"
    assert done.defaults is None, "a wrong checksum changes nothing"

    done = install("exporter.deb", SHA256, inactive=3)
    assert done.status == 1, done
    assert commands(done)[-1] == "journalctl --unit", done.calls

    for arguments in (('--vm.name="x"',), ("--vm.name=$x",), ("a", "b")):
        done = install("exporter.deb", SHA256, *arguments)
        assert done.status == 64, done
        assert done.calls == [], done.calls
    done = install("exporter.zip", SHA256)
    assert done.status == 64, done
    assert done.calls == [], done.calls

    done = extension("")
    assert done.status == 0, done.errors
    assert commands(done) == ["apt-get install", *start], done.calls
    # Refused before anything is written
    assert extension("$x").status == 64, "the flags do not reach install.sh"

    done = cloud_init(SHA256)
    assert done.status == 0, done.errors
    assert commands(done) == ["curl --fail", "apt-get install", "sleep 2", "systemctl is-active"], done.calls
    assert cloud_init(SHA256, inactive=3).status == 3, "a service that does not run is a failure"
    done = cloud_init("0" * 64)
    assert done.status != 0, done
    assert commands(done) == ["curl --fail"], "a wrong checksum installs nothing"


if __name__ == "__main__":
    sys.exit(main())
