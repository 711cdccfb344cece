"""Runs packaging/azure/install.sh with a real package in a Debian 12 with systemd: debian.py OLD.deb NEW.deb. As root."""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from machine import Machine, wait_for

NAME = "azure-scheduled-events-exporter"
SCRIPT = Path(__file__).resolve().parents[3] / "packaging" / "azure" / "install.sh"
# No metadata service answers there.
FLAGS = "--imds.url=http://127.0.0.1:9"


def main() -> None:
    with Machine() as machine:

        def install(package: Path, flags: str) -> subprocess.CompletedProcess[str]:
            shutil.copy(package, machine.path("/srv"))
            digest = hashlib.sha256(package.read_bytes()).hexdigest()
            command = machine.inside("sh", "/srv/install.sh", f"/srv/{package.name}", digest, flags)
            return subprocess.run(command, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL)

        def command_line() -> str:
            process = machine.run("systemctl", "show", "--value", "--property=MainPID", NAME).strip()
            return machine.path(f"/proc/{process}/cmdline").read_text("utf-8").replace("\0", " ").strip()

        def version() -> str:
            return machine.run("dpkg-query", "--show", "--showformat=${Version}", NAME)

        shutil.copy(SCRIPT, machine.path("/srv"))
        old, new = (Path(path) for path in sys.argv[1:])

        done = install(old, f"{FLAGS} --log.format=json")
        assert done.returncode == 0, f"{done.stdout}{done.stderr}"
        assert command_line().endswith(f"{FLAGS} --log.format=json"), command_line()
        assert "dpkg-dist" not in done.stdout, "the environment file of the script stays"
        wait_for("the exporter answers", lambda: machine.get("http://127.0.0.1:10169/-/healthy"))
        first = version()
        print(f"  install.sh installs {first} and starts it with its flags")

        done = install(new, "")
        assert done.returncode == 0, f"{done.stdout}{done.stderr}"
        assert version() != first, version()
        assert command_line().endswith("--log.format=json"), command_line()
        print(f"  it upgrades to {version()}, and the flags stay")

        done = install(old, FLAGS)
        assert done.returncode == 0, f"{done.stdout}{done.stderr}"
        assert version() == first, version()
        assert command_line().endswith(FLAGS), command_line()
        print("  it goes back to the older version, with other flags")

        done = install(old, "--no-such-flag")
        assert done.returncode == 1, done
        assert "--no-such-flag" in done.stderr, done.stderr
        print("  it fails with an invalid flag, and prints the reason")


if __name__ == "__main__":
    main()
