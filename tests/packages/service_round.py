"""Installs, upgrades and removes a package in a Debian 12 where systemd runs the service against a simulated IMDS.

Usage: service_round.py OLD NEW PROGRAM

OLD and NEW are two versions of one deb or rpm. NEW has another /etc/default file. PROGRAM plays IMDS. A deb is then
installed by packaging/azure/install.sh too.
"""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from machine import Machine
from parts import certificate, wait_for

NAME = "azure-scheduled-events-exporter"
UNIT = f"{NAME}.service"
INSTALL = Path(__file__).resolve().parents[2] / "packaging/azure/install.sh"
IMDS = "http://169.254.169.254"
DEFAULTS = f"/etc/default/{NAME}"
STATE = f"/var/lib/private/{NAME}"
PORT = 10269
RECEIVER_PORT = 10270
TLS = "/etc/exporter-tls"
# "prometheus" with the password "correct horse", of a low cost
USER = "prometheus: $2b$04$abcdefghijklmnopqrstuujydOTSfIH/d5oUHpsygqV5X9xJLQc6e"
SYSTEM_CALLS = f"/run/systemd/system/{UNIT}.d/kill.conf"


def check(is_right: object, what: str) -> None:
    if not is_right:
        raise SystemExit(f"not so: {what}")
    print(f"  {what}")


@dataclass
class Deb:
    """The ways of dpkg."""

    machine: Machine
    install = "dpkg", "--force-confold", "--install"
    # How it names a new configuration file beside a changed one
    new = "dpkg-dist"

    def remove(self) -> None:
        self.machine.run("dpkg", "--remove", NAME)
        check(self.machine.path(DEFAULTS).exists(), "removal keeps the changed /etc/default file")
        check(any(self.machine.path(STATE).iterdir()), "removal keeps the state")
        self.machine.run("dpkg", "--purge", NAME)
        folders, names = ("/etc", "/usr", "/lib", "/var"), ("-name", f"*{NAME}*", "-not", "-path", "/var/log/*")
        left = self.machine.run("find", *folders, "-xdev", *names)
        check(not left, f"purging leaves nothing {left}")


@dataclass
class Rpm:
    """The ways of rpm."""

    machine: Machine
    # Here, rpm does not know the files of Debian's packages.
    install = "rpm", "--upgrade", "--oldpackage", "--nodeps"
    new = "rpmnew"

    def remove(self) -> None:
        self.machine.run("rpm", "--erase", NAME)
        check(self.machine.path(f"{DEFAULTS}.rpmsave").exists(), "removal keeps the changed /etc/default file")
        check(any(self.machine.path(STATE).iterdir()), "removal keeps the state")


@dataclass
class Service:
    """The service as systemd sees it, its URL, and the flags of curl."""

    machine: Machine
    url: str = "http://127.0.0.1:10169"
    flags: tuple[str, ...] = ()

    def property(self, name: str) -> str:
        return self.machine.run("systemctl", "show", "--value", f"--property={name}", UNIT).strip()

    def write_environment(self, *lines: str) -> None:
        """Changes the /etc/default file as a user does."""
        path = self.machine.path(DEFAULTS)
        kept = [line for line in path.read_text("utf-8").splitlines() if line.startswith("#") or not line]
        path.write_text("\n".join([*kept, *lines, ""]), "utf-8")

    def set_environment(self, *lines: str) -> None:
        self.write_environment(*lines)
        self.machine.run("systemctl", "restart", UNIT, check=False)

    def refuses_its_flags(self) -> None:
        wait_for("the service fails", lambda: self.property("ActiveState") == "failed")
        check(self.property("ExecMainStatus") == "64", "a wrong flag is exit code 64, without a restart")

    def metrics(self) -> dict[str, float]:
        text = self.machine.get(f"{self.url}/metrics", *self.flags)
        samples = [line.rsplit(" ", 1) for line in text.splitlines() if not line.startswith("#")]
        return {name: float(value) for name, value in samples}

    def value(self, metric: str, label: str = "") -> float:
        """The value of a metric with this label and any others, once it has one that is not zero."""

        def found() -> float | None:
            samples = self.metrics().items()
            values = [value for name, value in samples if name.partition("{")[0] == metric and label in name and value]
            return values[0] if values else None

        return wait_for(metric, found)

    def log(self) -> str:
        return self.machine.run("journalctl", "--no-pager", "--output=cat", f"--unit={UNIT}")


def check_confinement(service: Service) -> None:
    path = service.machine.path(f"/proc/{service.property('MainPID')}")
    lines = (path / "status").read_text("utf-8").splitlines()
    status = {name: value.split() for name, _, value in (line.partition(":") for line in lines)}
    check(all(int(user) > 1000 for user in status["Uid"]), f"it runs as uid {status['Uid'][0]}")
    check(int(status["CapBnd"][0], 16) == 0, "without capabilities")
    check(status["NoNewPrivs"] == ["1"] and status["Seccomp"] == ["2"], "with filtered system calls")
    mode = service.machine.path(STATE).stat().st_mode & 0o7777
    check(mode == 0o700, f"with a state directory of mode {mode:o}")


def check_metrics(service: Service) -> None:
    # One from each file of /proc/PID
    of_process = ("cpu_seconds_total", "max_fds", "open_fds", "start_time_seconds")
    for metric in ("azure_scheduled_events_up", *(f"process_{name}" for name in of_process)):
        service.value(metric)
    check(True, "it polls IMDS and has the process metrics")
    boot_id = service.machine.path("/proc/sys/kernel/random/boot_id").read_text("utf-8").strip()
    files = [path.read_text("utf-8", "replace") for path in service.machine.path(STATE).glob("*") if path.is_file()]
    check(any(boot_id in text for text in files), "its state names the boot")


def check_system_calls(machine: Machine, received: Path) -> None:
    """Everything the exporter does, while a system call that the unit does not allow ends it."""
    authority = str(machine.path(f"{TLS}/cert.pem"))
    flags = ("--compressed", "--user", "prometheus:correct horse", "--cacert", authority)
    service = Service(machine, f"https://localhost:{PORT}", flags)
    drop_in = machine.path(SYSTEM_CALLS)
    drop_in.parent.mkdir(parents=True)
    drop_in.write_text("[Service]\nSystemCallErrorNumber=kill\n", "utf-8")
    machine.run("systemctl", "daemon-reload")
    receiver = f"https://localhost:{RECEIVER_PORT}"
    service.set_environment(
        f'ARGS="--web.listen-address=:{PORT} --web.config.file={TLS}/web.yml --approve.user-events --events.scope=all '
        f'--metrics.resources --alertmanager.url={receiver} --alertmanager.ca-file={TLS}/cert.pem --log.format=json"',
        f"OTEL_EXPORTER_OTLP_ENDPOINT={receiver}",
        f"OTEL_EXPORTER_OTLP_CERTIFICATE={TLS}/cert.pem",
        "OTEL_EXPORTER_OTLP_COMPRESSION=gzip",
    )
    service.value("azure_scheduled_events_up")
    pid = service.property("MainPID")
    machine.get(f"{IMDS}/simulator/start", "--json", '{"scenario": "user-reboot"}')
    service.value("azure_scheduled_events_approvals_total")
    for path in ("/v1/traces", "/api/v2/alerts"):
        wait_for(f"a POST of {path}", lambda path=path: path in received.read_text("utf-8").splitlines())
    pages = [machine.get(service.url + path, *flags) for path in ("/", "/api/v1/events", "/-/healthy")]
    check(all(pages), "TLS, passwords, gzip, approval, traces and alerts")
    machine.run("systemctl", "stop", UNIT)
    results = [service.property(name) for name in ("Result", "ExecMainStatus", "ExecMainPID")]
    check(results == ["success", "0", pid], "and SIGTERM need no other system calls than the unit allows")
    drop_in.unlink()
    machine.run("systemctl", "daemon-reload")


def play(machine: Machine, old: Path, new: Path, received: Path) -> None:
    package = Deb(machine) if old.suffix == ".deb" else Rpm(machine)
    service = Service(machine)
    for path in (old, new, INSTALL):
        shutil.copy(path, machine.path("/srv"))

    print(f"install {old.name}")
    machine.run(*package.install, f"/srv/{old.name}")
    check(service.property("UnitFileState") == "enabled", "the service is enabled, as the preset says")
    if isinstance(package, Rpm):
        check(service.property("ActiveState") == "inactive", "rpm does not start it")
        machine.run("systemctl", "start", UNIT)
    check_metrics(service)
    check_confinement(service)
    # Other events may follow.
    freeze = ("azure_scheduled_event_first_seen_timestamp_seconds", 'event_type="Freeze"')
    first_seen = service.value(*freeze)

    print("flags")
    args = f'ARGS="--web.listen-address=127.0.0.1:{PORT} --log.level=debug"'
    service = Service(machine, f"http://127.0.0.1:{PORT}")
    service.set_environment(args)
    service.value("azure_scheduled_events_up")
    check(True, "ARGS of the /etc/default file take effect")
    service.set_environment('ARGS="--no-such-flag"')
    service.refuses_its_flags()
    check("--no-such-flag" in service.log(), "and a line in the journal")
    service.set_environment(args)
    machine.run("systemctl", "kill", "--signal=KILL", UNIT)
    wait_for("a restart", lambda: service.property("NRestarts") == "1")
    service.value("azure_scheduled_events_up")
    check(True, "it is started again when it was killed")

    print("system calls")
    check_system_calls(machine, received)
    service.set_environment(args)
    service.value("azure_scheduled_events_up")

    print(f"upgrade to {new.name}")
    pid = service.property("MainPID")
    machine.run(*package.install, f"/srv/{new.name}")
    check(machine.path(f"{DEFAULTS}.{package.new}").exists(), "the new /etc/default file is beside the changed one")
    check(service.property("MainPID") not in {pid, "0"}, "the service has been restarted")
    check(args in machine.path(DEFAULTS).read_text("utf-8").splitlines(), "the /etc/default file has its flags")
    check(service.value(*freeze) == first_seen, "the state survived")

    print(f"back to {old.name} with a wrong flag")
    service.write_environment('ARGS="--another-flag"')
    machine.run(*package.install, f"/srv/{old.name}")
    service.refuses_its_flags()
    service.set_environment(args)
    check(service.value(*freeze) == first_seen, "with right flags it goes on from its state")

    print("remove")
    package.remove()
    check(service.property("LoadState") == "not-found", "the service is gone")
    check(not machine.path(f"/usr/bin/{NAME}").exists(), "the program is gone")


def check_install_script(machine: Machine, old: Path, new: Path) -> None:
    service = Service(machine)

    def install(package: Path, flags: str) -> subprocess.CompletedProcess[str]:
        digest = hashlib.sha256(package.read_bytes()).hexdigest()
        command = machine.inside("sh", "/srv/install.sh", f"/srv/{package.name}", digest, flags)
        return subprocess.run(command, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL)

    def installed(package: Path, flags: str) -> tuple[str, list[str]]:
        """The version that is installed then, and the flags of the process."""
        done = install(package, flags)
        check(done.returncode == 0, f"install.sh {package.name} {flags} {done.stderr if done.returncode else ''}")
        process = machine.path(f"/proc/{service.property('MainPID')}/cmdline").read_text("utf-8")
        return machine.run("dpkg-query", "--show", "--showformat=${Version}", NAME), process.split("\0")[1:-1]

    flags = "--log.level=debug --log.format=json"
    first, used = installed(old, flags)
    check(used == flags.split(), "starts it with the flags")
    second, used = installed(new, "")
    check(second != first and used == flags.split(), "upgrades, and the flags stay")
    check(installed(old, "--log.level=info") == (first, ["--log.level=info"]), "goes back, with other flags")
    done = install(old, "--no-such-flag")
    check(done.returncode == 1 and "--no-such-flag" in done.stderr, "fails with a wrong flag, and prints the reason")


def main() -> None:
    old, new, program = map(Path, sys.argv[1:])
    with tempfile.TemporaryDirectory() as folder, Machine() as machine:
        received = Path(folder) / "received"
        certificate(Path(folder))
        shutil.copytree(folder, machine.path(TLS), dirs_exist_ok=True)
        tls = f"tls_server_config:\n  cert_file: cert.pem\n  key_file: key.pem\nbasic_auth_users:\n  {USER}\n"
        machine.path(f"{TLS}/web.yml").write_text(tls, "utf-8")
        # The user of the service has no name that files could have.
        machine.run("chmod", "--recursive", "u=rwX,go=rX", TLS)
        script = str(Path(__file__).with_name("receiver.py"))
        receiver = [sys.executable, script, str(RECEIVER_PORT), "cert.pem", "key.pem"]
        simulator = [str(program), "simulate", "--web.listen-address=169.254.169.254:80", "--scenario=live-migration"]
        with (
            received.open("w") as out,
            subprocess.Popen(machine.network(*receiver), cwd=folder, stdout=out) as first,
            subprocess.Popen(machine.network(*simulator), stderr=subprocess.DEVNULL) as second,
        ):
            try:
                wait_for("the simulator", lambda: machine.get(f"{IMDS}/simulator/state"))
                play(machine, old, new, received)
                if old.suffix == ".deb":
                    check_install_script(machine, old, new)
            finally:
                first.kill()
                second.kill()


main()
