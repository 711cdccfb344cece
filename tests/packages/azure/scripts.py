"""Runs the scripts of packaging/azure with stubs of apt-get, rpm, systemctl and curl.

They are install.sh, the command in exporter.bicep and the script in cloud-init.yaml. Each run has a directory in place of
/etc/default, where an environment file that exists is a link.
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
    'systemctl restart' | 'systemctl is-active') exit "$INACTIVE" ;;
    'curl '*) printf 'a package' >package.deb ;;
esac
"""


@dataclass
class Done:
    status: int
    errors: str
    calls: list[str]
    # The environment file of the unit, where there is one, and its mode
    defaults: str | None
    mode: int | None

    def commands(self) -> list[str]:
        return [" ".join(call.split()[:2]) for call in self.calls]


def run(script: str, *arguments: str, inactive: int = 0, defaults: str | None = None) -> Done:
    """Runs a script beside packages of each kind. `inactive` is the exit code of a systemctl that starts or asks."""
    with tempfile.TemporaryDirectory() as folder:
        calls, file = Path(folder, "calls"), Path(folder, "azure-scheduled-events-exporter")
        for kind in ("deb", "rpm", "zip"):
            Path(folder, f"exporter.{kind}").write_bytes(PACKAGE)
        for name in STUBS:
            stub = Path(folder, "bin", name)
            stub.parent.mkdir(exist_ok=True)
            stub.write_text(STUB)
            stub.chmod(0o755)
        if defaults is not None:
            link, file = file, Path(folder, "defaults")
            file.write_text(defaults)
            file.chmod(0o640)
            link.symlink_to(file)
        environment = {"PATH": f"{folder}/bin:{os.environ['PATH']}", "CALLS": str(calls), "INACTIVE": str(inactive)}
        command = ["sh", "-euc", script.replace("/etc/default", folder), "sh", *arguments]
        done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
        called = calls.read_text().splitlines() if calls.exists() else []
        is_there = file.exists()
        defaults, mode = (file.read_text(), file.stat().st_mode & 0o777) if is_there else (None, None)
        return Done(done.returncode, done.stderr, called, defaults, mode)


def install(*arguments: str, inactive: int = 0, defaults: str | None = None) -> Done:
    return run((AZURE / "install.sh").read_text(), *arguments, inactive=inactive, defaults=defaults)


def cloud_init(sha256: str, inactive: int = 0) -> Done:
    text = (AZURE / "cloud-init.yaml").read_text()
    placeholders = re.findall(r"replace\(\w+, '(\w+)'", (AZURE / "scale-set.bicep").read_text())
    assert set(placeholders) == set(re.findall("[A-Z]+_[A-Z0-9]+", text.partition("write_files")[0])), placeholders
    for placeholder, value in zip(placeholders, ("URL", sha256, "--log.format=json"), strict=True):
        text = text.replace(placeholder, value)
    document = yaml.safe_load(text)
    assert document["write_files"][0]["content"] == 'ARGS="--log.format=json"\n', document
    [[*shell, script]] = document["runcmd"]
    assert shell == ["sh", "-euc"], shell
    return run(script, inactive=inactive)


def extension(flags: str) -> Done:
    """Runs the command of the custom script extension as exporter.bicep composes it."""
    [command] = re.findall(r"(?m)^var linuxCommand = '(.*)'$", (AZURE / "exporter.bicep").read_text())
    script = base64.b64encode((AZURE / "install.sh").read_bytes()).decode()
    values = {"linuxScript": script, "file": "exporter.deb", "packageSha256": SHA256, "quotedFlags": flags}
    return run(re.sub(r"\$\{(\w+)\}", lambda found: values[found[1]], command.replace("\\'", "'")))


def main() -> None:
    start = ["systemctl enable", "systemctl restart"]

    done = install("exporter.deb", SHA256, "--log.level=debug --log.format=json")
    assert (done.status, done.commands()) == (0, ["apt-get install", *start]), done
    assert done.calls[0].endswith("/exporter.deb"), "apt-get needs an absolute path"
    assert done.defaults == 'ARGS="--log.level=debug --log.format=json"\n', done

    kept = "# A comment\nOTEL_EXPORTER_OTLP_ENDPOINT=http://collector:4318\n"
    done = install("exporter.deb", SHA256, "--log.format=json", defaults=f'ARGS="--log.level=debug"\n{kept}')
    assert (done.defaults, done.mode) == (f'{kept}ARGS="--log.format=json"\n', 0o640), done
    continued = 'ARGS="--log.level=debug \\\n  --vm.name=a \\\n  --events.scope=all"\n'
    done = install("exporter.deb", SHA256, "--log.format=json", defaults=f"{continued}{kept}")
    assert done.defaults == f'{kept}ARGS="--log.format=json"\n', done
    done = install("exporter.deb", SHA256, "--log.format=json", defaults="ARGS=--log.level=debug \\")
    assert done.defaults == 'ARGS="--log.format=json"\n', done
    done = install("exporter.deb", SHA256, "--log.format=json", defaults="OTEL_SERVICE_NAME=a")
    assert done.defaults == 'OTEL_SERVICE_NAME=a\nARGS="--log.format=json"\n', done

    done = install("exporter.rpm", SHA256)
    assert (done.status, done.commands()) == (0, ["rpm --upgrade", *start]), done
    assert done.defaults is None, "without FLAGS the environment file is left as it is"

    done = install("exporter.deb", "0" * 64, "--log.format=json")
    assert (done.status, done.calls, done.defaults) == (1, [], None), "a wrong checksum changes nothing"
    done = install("exporter.deb", SHA256, inactive=3)
    assert (done.status, done.commands()[-1]) == (1, "journalctl --unit"), done
    for name, *flags in (("deb", '--vm.name="x"'), ("deb", "--vm.name=$x"), ("deb", "a", "b"), ("zip",)):
        done = install(f"exporter.{name}", SHA256, *flags)
        assert (done.status, done.calls) == (64, []), done

    done = extension("")
    assert (done.status, done.commands()) == (0, ["apt-get install", *start]), done
    # Refused before anything is written
    assert extension("$x").status == 64, "the flags do not reach install.sh"

    done, download = cloud_init(SHA256), "curl --fail"
    assert (done.status, done.commands()) == (0, [download, "apt-get install", "sleep 2", "systemctl is-active"]), done
    assert cloud_init(SHA256, inactive=3).status == 3, "a service that does not run is a failure"
    done = cloud_init("0" * 64)
    assert (done.status, done.commands()) == (1, [download]), "a wrong checksum installs nothing"


if __name__ == "__main__":
    sys.exit(main())
