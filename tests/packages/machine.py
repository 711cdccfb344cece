"""A Debian 12 with its own systemd, in new namespaces of this machine. It needs root."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path
from types import TracebackType

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "rulers"))

from parts import CACHE, wait_for

DEBIAN = CACHE / "debian-12"
BOOT = Path(__file__).resolve().parent / "boot"
CGROUPS = Path("/sys/fs/cgroup")


def own_cgroup(name: str) -> Path:
    """A cgroup for the machine, in the hierarchy of version 2."""
    hierarchy = CGROUPS / "unified" if (CGROUPS / "unified").is_dir() else CGROUPS
    paths = dict(line.split(":", 2)[1:] for line in Path("/proc/self/cgroup").read_text("utf-8").splitlines())
    return hierarchy / paths[""][1:] / name


class Machine:
    """Booted on entry, killed on exit."""

    def __enter__(self) -> Machine:
        if os.geteuid() != 0:
            raise SystemExit("a Debian with its own systemd needs root")
        if not DEBIAN.is_dir():
            raise SystemExit(f"{DEBIAN} is missing; run: tests/tools/install packages")
        self.folder = tempfile.TemporaryDirectory(prefix="machine-")
        self.cgroup = own_cgroup(Path(self.folder.name).name)
        self.cgroup.mkdir()
        self.shell = subprocess.Popen(
            [
                *("sh", "-c", 'echo $$ >"$0/cgroup.procs" && exec "$@"', str(self.cgroup)),
                *("unshare", "--mount", "--pid", "--fork", "--uts", "--ipc", "--net", "--cgroup", "--kill-child"),
                *(str(BOOT), str(DEBIAN), self.folder.name),
            ],
            stdin=subprocess.DEVNULL,
        )
        try:
            self.pid = wait_for("systemd starts", self._systemd)
            wait_for("the machine has booted", self._has_booted)
        except BaseException:
            self._stop()
            raise
        return self

    def _systemd(self) -> int | None:
        """The process of systemd, as this machine numbers it."""
        if self.shell.poll() is not None:
            raise SystemExit(f"no machine: exit code {self.shell.returncode}")
        children = Path(f"/proc/{self.shell.pid}/task/{self.shell.pid}/children").read_text("utf-8").split()
        names = {Path(f"/proc/{child}/comm").read_text("utf-8").strip(): int(child) for child in children}
        return names.get("systemd")

    def _has_booted(self) -> bool:
        # Some units of Debian fail in namespaces: degraded.
        return self.run("systemctl", "is-system-running", check=False).strip() in {"running", "degraded"}

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        if kind is not None:
            print(self.run("journalctl", "--no-pager", "--lines=60", check=False))
        self._stop()

    def _stop(self) -> None:
        self.shell.kill()
        self.shell.wait()
        wait_for("the processes end", lambda: not self._processes())
        for path in sorted(self.cgroup.glob("**/"), reverse=True):
            path.rmdir()
        self.folder.cleanup()

    def _processes(self) -> list[str]:
        files = self.cgroup.glob("**/cgroup.procs")
        return [process for file in files for process in file.read_text("utf-8").split()]

    def inside(self, *command: str) -> list[str]:
        """The command line that runs a command in the machine."""
        return ["nsenter", f"--target={self.pid}", *("-m", "-p", "-u", "-i", "-n", "-C", "-r", "-w"), *command]

    def network(self, *command: str) -> list[str]:
        """The command line that runs a program of this machine in the network of the other."""
        return ["nsenter", f"--target={self.pid}", "-n", *command]

    def run(self, *command: str, check: bool = True) -> str:
        """The output of a command in the machine."""
        done = subprocess.run(
            self.inside(*command), capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL, timeout=120
        )
        if check and done.returncode != 0:
            raise SystemExit(f"{' '.join(command)}: exit code {done.returncode}\n{done.stdout}{done.stderr}")
        return done.stdout

    def path(self, path: str) -> Path:
        """A file of the machine."""
        return Path(f"/proc/{self.pid}/root") / path.lstrip("/")

    def get(self, url: str, *flags: str) -> str:
        """The body of a response, or nothing."""
        command = self.network("curl", "--silent", "--fail", "--max-time", "10", *flags, url)
        return subprocess.run(command, capture_output=True, text=True, check=False).stdout
