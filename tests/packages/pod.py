"""Runs the container of a rendered DaemonSet with runc: pod.py LAYOUT VERSION HELM.

In a network namespace of its own, as root (tests/packages/pod). The simulator has the address of IMDS there, a collector
and an Alertmanager are on loopback.
"""

from __future__ import annotations

import base64
import contextlib
import http.server
import json
import signal
import subprocess
import sys
import tempfile
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, ClassVar

import yaml

from kubelet import ANY_CERTIFICATE, Pod, Secrets, run

CHART = Path(__file__).resolve().parent.parent.parent / "packaging" / "helm" / "azure-scheduled-events-exporter"
IMDS = "169.254.169.254"
FIRST_SEEN = "azure_scheduled_event_first_seen_timestamp_seconds{"
LIMIT = 60.0
# Of the passwords "first" and "second".
HASHES = {
    "first": "$2b$04$EPgkNupO8svTmt0rQiOnuOzlb5zGufYSqOzoTdcV/Qntn6ujzNL4q",
    "second": "$2b$04$RgrDR5kl0H72Tg1xCmRddeP1daM578pZbm59KU/QGBSJwkDLi4JBm",
}
VALUES = {
    "state": {"type": "hostPath"},
    "webConfig": {"secretName": "web", "tls": True},
    "otlp": {
        "endpoint": "http://127.0.0.1:4318",
        "resourceAttributes": {"k8s.cluster.name": "prod, west"},
        "secret": {"name": "collector", "headersKey": "headers"},
    },
    "alertmanager": {
        "urls": ["http://127.0.0.1:9093"],
        "externalLabels": {"cluster": "prod"},
        "secret": {"name": "alertmanager", "bearerTokenKey": "token"},
    },
}


class Receiver(http.server.BaseHTTPRequestHandler):
    """Collector and Alertmanager: keeps the requests with a body."""

    received: ClassVar[list[tuple[str, str | None, bytes]]] = []

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.received.append((self.path, self.headers["Authorization"], body))
        self.respond(b"")

    def do_GET(self) -> None:
        self.respond(b"[]")

    def respond(self, body: bytes) -> None:
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


def wait_for(what: str, ready: Callable[[], Any]) -> Any:
    deadline = time.monotonic() + LIMIT
    while not (value := ready()):
        if time.monotonic() > deadline:
            raise SystemExit(f"no {what} after {LIMIT:.0f} s")
        time.sleep(0.1)
    return value


def render(helm: str, values: dict[str, Any], work: Path) -> dict[str, Any]:
    (work / "values.yaml").write_text(json.dumps(values), encoding="utf-8")
    default = CHART / "ci" / "default-values.yaml"
    text = run(helm, "template", "events", CHART, "--values", default, "--values", work / "values.yaml")
    (daemon_set,) = (each for each in yaml.safe_load_all(text) if each and each["kind"] == "DaemonSet")
    return daemon_set


class Image:
    def __init__(self, layout: str, version: str, work: Path):
        reference = f"{layout}:{version}"
        self.entrypoint = json.loads(run("skopeo", "inspect", "--config", f"oci:{reference}"))["config"]["Entrypoint"]
        # umoci does not follow an index of platforms.
        run("skopeo", "copy", "--quiet", f"oci:{reference}", f"oci:{work}/image:{version}")
        self.bundle = work / "bundle"
        run("umoci", "unpack", "--image", f"{work}/image:{version}", self.bundle)
        self.pristine = (self.bundle / "config.json").read_text(encoding="utf-8")
        self.runc = ("runc", "--root", str(work / "runc"))
        self.log = work / "log"

    @contextlib.contextmanager
    def running(self, pod: Pod) -> Iterator[int]:
        """Runs the container of the pod until it is ready, and expects exit code 0 after SIGTERM."""
        (self.bundle / "config.json").write_text(self.pristine, encoding="utf-8")
        pod.configure(self.bundle, self.entrypoint)
        with self.log.open("wb") as output:
            process = subprocess.Popen([*self.runc, "run", "--bundle", str(self.bundle), "exporter"], stderr=output)
        try:
            wait_for("readiness", lambda: process.poll() is not None or pod.probe("readinessProbe"))
            if process.poll() is not None:
                raise SystemExit(f"the container ended with {process.returncode}")
            if not pod.probe("livenessProbe"):
                raise SystemExit("the container is not healthy")
            yield json.loads(run(*self.runc, "state", "exporter"))["pid"]
            process.send_signal(signal.SIGTERM)
            if code := process.wait(LIMIT):
                raise SystemExit(f"exit code {code} after SIGTERM")
        except BaseException:
            process.kill()
            process.wait()
            subprocess.run([*self.runc, "delete", "--force", "exporter"], check=False)
            print(self.log.read_text(encoding="utf-8", errors="replace"), file=sys.stderr)
            raise


def check_privileges(pid: int, user: int) -> None:
    lines = Path(f"/proc/{pid}/status").read_text(encoding="utf-8").splitlines()
    status = dict(line.split(":\t", 1) for line in lines if ":\t" in line)
    expected = {"Uid": "\t".join([str(user)] * 4), "CapEff": "0" * 16, "CapBnd": "0" * 16, "NoNewPrivs": "1"}
    for name, value in expected.items():
        if status[name] != value:
            raise SystemExit(f"{name} of the process is {status[name]}, expected {value}")


def scrape(url: str, password: str | None = None) -> str:
    request = urllib.request.Request(url)
    if password is not None:
        login = base64.b64encode(f"prometheus:{password}".encode()).decode()
        request.add_header("Authorization", f"Basic {login}")
    with urllib.request.urlopen(request, timeout=LIMIT, context=ANY_CERTIFICATE) as response:
        return response.read().decode()


def scrape_status(url: str, password: str | None) -> int:
    try:
        scrape(url, password)
    except urllib.error.HTTPError as error:
        return error.code
    return 200


def first_seen(url: str, password: str | None = None) -> str:
    def value() -> str | None:
        lines = scrape(url, password).splitlines()
        return next((line.rpartition(" ")[2] for line in lines if line.startswith(FIRST_SEEN)), None)

    return wait_for("event", value)


def check_defaults(image: Image, helm: str, work: Path) -> None:
    """User 65532 with an emptyDir, which survives a restart of the container."""
    pod = Pod(render(helm, {}, work), {}, work, work / "node")
    url = f"http://127.0.0.1:{pod.port('metrics')}/metrics"
    seen = []
    for _ in range(2):
        with image.running(pod) as pid:
            check_privileges(pid, 65532)
            seen.append(first_seen(url))
    if len(set(seen)) != 1:
        raise SystemExit(f"the event was first seen at {seen[0]}, after the restart at {seen[1]}")


def make_secrets(work: Path) -> Secrets:
    kind = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2", "-subj", "/CN=node-1"]
    files = ["-keyout", work / "key.pem", "-out", work / "cert.pem"]
    subprocess.run(["openssl", "req", "-x509", *kind, *files], check=True, stderr=subprocess.DEVNULL)
    return {
        "web": {
            "web.yml": web_config("first"),
            **{name: (work / name).read_text() for name in ("key.pem", "cert.pem")},
        },
        "collector": {"headers": "authorization=Bearer%20collector"},
        "alertmanager": {"token": "alertmanager\n"},
    }


def web_config(password: str) -> str:
    return json.dumps(
        {
            "tls_server_config": {"cert_file": "cert.pem", "key_file": "key.pem"},
            "basic_auth_users": {"prometheus": HASHES[password]},
        }
    )


def check_everything(image: Image, helm: str, work: Path) -> None:
    """Root without capabilities in a directory of the node, which survives a new pod; TLS, users and tokens of Secrets."""
    daemon_set, secrets, seen = render(helm, VALUES, work), make_secrets(work), []
    for name in ("old", "new"):
        (work / name).mkdir()
        pod = Pod(daemon_set, secrets, work / name, work / "node")
        url = f"https://127.0.0.1:{pod.port('metrics')}/metrics"
        with image.running(pod) as pid:
            check_privileges(pid, 0)
            seen.append(first_seen(url, "first"))
            if not seen[1:]:
                check_requests()
                check_rotation(pod, url)
    if len(set(seen)) != 1:
        raise SystemExit(f"the event was first seen at {seen[0]}, by the new pod at {seen[1]}")


def check_requests() -> None:
    def received(path: str) -> tuple[str | None, bytes] | None:
        return next(((login, body) for where, login, body in Receiver.received if where == path), None)

    login, body = wait_for("span", lambda: received("/v1/traces"))
    if login != "Bearer collector":
        raise SystemExit(f"the collector got the header {login}")
    for text in (b"node-1", b"prod, west"):
        if text not in body:
            raise SystemExit(f"the span has no resource attribute {text!r}")
    login, body = wait_for("alert", lambda: received("/api/v2/alerts"))
    if login != "Bearer alertmanager" or json.loads(body)[0]["labels"]["cluster"] != "prod":
        raise SystemExit(f"the Alertmanager got the header {login} and {body.decode()}")


def check_rotation(pod: Pod, url: str) -> None:
    """A changed Secret takes effect without a restart."""
    statuses = [scrape_status(url, password) for password in (None, "second", "first")]
    if statuses != [401, 401, 200]:
        raise SystemExit(f"scrapes without, with a wrong and with the right password: {statuses}")
    (secret,) = (volume["secret"] for volume in pod.spec["volumes"] if volume["name"] == "web")
    unchanged = pod.secrets["web"]
    pod.secrets = pod.secrets | {"web": unchanged | {"web.yml": web_config("second")}}
    pod.update_secret(secret, pod.volumes["web"])
    statuses = [scrape_status(url, password) for password in ("first", "second")]
    if statuses != [401, 200]:
        raise SystemExit(f"scrapes with the old and the new password: {statuses}")
    if not pod.probe("readinessProbe"):
        raise SystemExit("not ready after the change of the Secret")


def main() -> None:
    layout, version, helm = sys.argv[1:]
    run("ip", "link", "set", "lo", "up")
    run("ip", "address", "add", f"{IMDS}/32", "dev", "lo")
    for port in (4318, 9093):
        server = http.server.ThreadingHTTPServer(("127.0.0.1", port), Receiver)
        threading.Thread(target=server.serve_forever, daemon=True).start()
    for check in (check_defaults, check_everything):
        start = time.monotonic()
        with tempfile.TemporaryDirectory() as folder:
            work = Path(folder)
            image = Image(layout, version, work)
            program = image.bundle / "rootfs" / image.entrypoint[0].lstrip("/")
            command = [program, "simulate", f"--web.listen-address={IMDS}:80", "--scenario=platform-redeploy"]
            simulator = subprocess.Popen(command, stderr=subprocess.DEVNULL)
            try:
                check(image, helm, work)
            finally:
                simulator.terminate()
                simulator.wait()
        print(f"pod: {check.__doc__} {time.monotonic() - start:.0f} s")


if __name__ == "__main__":
    main()
