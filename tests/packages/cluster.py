"""Installs the chart, by Helm 3 and 4, into the control plane of Kubernetes: etcd, API server, controllers, scheduler.

The nodes are simulated: kwok reports what kubelets would report, and no container runs. Used by tests/proof.
"""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "rulers"))

from parts import CACHE, PINS, ROOT, Stack, certificate, free_address, present, wait_for

NAME = "azure-scheduled-events-exporter"
CHART = ROOT / "packaging/helm" / NAME
HELMS = "HELM3", "HELM4"
IMAGE = f"registry.example.com/{NAME}"
VALUES = f"--set=image.repository={IMAGE}"
MONITORING = [f"--set={part}.enabled=true" for part in ("podMonitor", "prometheusRule", "dashboards")]
WINDOWS = f"--set=windows.enabled=true,windows.image.repository={IMAGE}-windows"
WAIT = "--wait", "--timeout=2m"
PRIVILEGES = 'host namespaces (hostNetwork=true), hostPort (container "exporter" uses hostPort 10169)'
# The namespaces of the test, and the Pod Security Standard that they enforce.
NAMESPACES = {"monitoring": "privileged", "restricted": "restricted", "quota": "privileged"}
# What Kubernetes puts into each namespace.
OWN_OF_KUBERNETES = {"kube-root-ca.crt", "default"}


def node(name: str, system: str = "linux", taint: str = "", pods: int = 110, **labels: str) -> dict[str, Any]:
    key_and_value, _, effect = taint.partition(":")
    key, _, value = key_and_value.partition("=")
    size = {"cpu": "4", "memory": "8Gi", "pods": str(pods)}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": {"kubernetes.io/os": system} | labels},
        "spec": {"taints": [{"key": key, "value": value, "effect": effect}]} if taint else {},
        "status": {"capacity": size, "allocatable": size},
    }


NODES = [
    node("full", pods=1),
    node("linux"),
    node("maintenance", taint="maintenance=now:NoExecute"),
    node("spot", taint="kubernetes.azure.com/scalesetpriority=spot:NoSchedule"),
    node("system", taint="CriticalAddonsOnly=true:NoSchedule"),
    # As the virtual nodes of AKS register.
    node("virtual", taint="virtual-kubelet.io/provider=azure:NoSchedule", type="virtual-kubelet"),
    node("windows", system="windows"),
]
LINUX = ["full", "linux", "maintenance", "spot", "system"]
# Fills the full node.
OCCUPANT = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "occupant", "namespace": "default"},
    "spec": {"nodeName": "full", "containers": [{"name": "occupant", "image": "occupant"}]},
}
CRITICAL = {"scopeName": "PriorityClass", "operator": "In", "values": ["system-node-critical"]}
QUOTA = {
    "apiVersion": "v1",
    "kind": "ResourceQuota",
    "metadata": {"name": "no-critical-pods", "namespace": "quota"},
    "spec": {"hard": {"pods": "0"}, "scopeSelector": {"matchExpressions": [CRITICAL]}},
}


def check(what: str, wanted: object, found: object) -> None:
    if wanted != found:
        raise SystemExit(f"not so: {what}\nexpected: {wanted}\n   found: {found}")
    print(f"  {what}", flush=True)


def expect(what: str, wanted: object, find: Callable[[], object]) -> None:
    """Waits until it is found."""
    end = time.monotonic() + 60
    while (found := find()) != wanted and time.monotonic() < end:
        time.sleep(0.2)
    check(what, wanted, found)


def installed(name: str, version: str, file: str = "", tool: str = "kubernetes") -> Path:
    """A file, or the folder, that tests/tools/install has put into its cache."""
    return Path(present(CACHE / f"{name}-{PINS[f'{version}_VERSION']}" / file, tool))


def succeeded(done: subprocess.CompletedProcess[str]) -> str:
    """The output of a command."""
    if done.returncode:
        raise SystemExit(f"{' '.join(done.args)}: {done.stderr}")
    return done.stdout


def is_ready(each: dict[str, Any]) -> bool:
    conditions = each.get("status", {}).get("conditions", [])
    return any(one["type"] == "Ready" and one["status"] == "True" for one in conditions)


class Cluster:
    """The control plane, and Helm and kubectl for it."""

    def __init__(self, stack: Stack) -> None:
        self.folder = stack.folder
        cert, key = certificate(self.folder)
        etcd, peer, server = (free_address() for _ in range(3))
        kubeconfig = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [
                {"name": "one", "cluster": {"server": f"https://{server}", "certificate-authority": str(cert)}}
            ],
            "users": [{"name": "one", "user": {"token": "one"}}],
            "contexts": [{"name": "one", "context": {"cluster": "one", "user": "one"}}],
            "current-context": "one",
        }
        (self.folder / "kubeconfig").write_text(json.dumps(kubeconfig), encoding="utf-8")
        (self.folder / "tokens").write_text("one,admin,admin,system:masters\n", encoding="utf-8")
        # No settings of the user.
        own = {name: str(self.folder) for name in ("HOME", "XDG_CACHE_HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME")}
        self.environment = os.environ | own | {"KUBECONFIG": f"{self.folder}/kubeconfig"}
        self.helm_version = "HELM4"

        stack.start(
            installed("kubernetes", "KUBERNETES", "server"),
            *(f"--listen-client-urls=http://{etcd}", f"--advertise-client-urls=http://{etcd}"),
            *(f"--listen-peer-urls=http://{peer}", f"--initial-advertise-peer-urls=http://{peer}"),
            *(f"--initial-cluster=default=http://{peer}", f"--data-dir={self.folder}/etcd", "--unsafe-no-fsync"),
        )
        process = stack.start(
            installed("kubernetes", "KUBERNETES", "kube-apiserver"),
            *(f"--etcd-servers=http://{etcd}", "--bind-address=127.0.0.1", f"--secure-port={server.split(':')[1]}"),
            *(f"--tls-cert-file={cert}", f"--tls-private-key-file={key}", f"--token-auth-file={self.folder}/tokens"),
            *("--service-account-issuer=https://localhost", f"--service-account-key-file={cert}"),
            *(f"--service-account-signing-key-file={key}", "--service-cluster-ip-range=10.0.0.0/24"),
            # Its own Service cannot have a loopback address. HostProcess containers are privileged.
            *("--endpoint-reconciler-type=none", "--allow-privileged", "--authorization-mode=RBAC"),
        )

        def ready() -> bool:
            stack.check_runs(process)
            return self.kubectl("get", "--raw=/readyz").returncode == 0

        wait_for("the API server", ready)
        client, no_server = f"--kubeconfig={self.folder}/kubeconfig", ("--secure-port=0", "--leader-elect=false")
        keys = f"--service-account-private-key-file={key}", f"--root-ca-file={cert}"
        stack.start(installed("kubernetes", "KUBERNETES", "kube-controller-manager"), client, *no_server, *keys)
        stack.start(installed("kubernetes", "KUBERNETES", "kube-scheduler"), client, *no_server)
        stages = [f"--config={path}" for path in installed("kwok-stages", "KWOK").iterdir()]
        kwok = installed("kwok", "KWOK", "kwok"), client, "--manage-all-nodes", "--node-lease-duration-seconds=40"
        stack.start(*kwok, *stages, **own)

    def run(self, *command: object, given: object, **variables: str) -> subprocess.CompletedProcess[str]:
        words, text = [str(word) for word in command], given if isinstance(given, str) else json.dumps(given)
        environment = self.environment | variables
        options = {"input": text, "capture_output": True, "text": True, "env": environment, "timeout": 300}
        return subprocess.run(words, check=False, **options)

    def kubectl(self, *words: str, given: object = None) -> subprocess.CompletedProcess[str]:
        return self.run(installed("kubernetes", "KUBERNETES", "kubectl"), *words, given=given)

    def helm(self, *words: object, namespace: str = "monitoring") -> subprocess.CompletedProcess[str]:
        program = installed("helm", self.helm_version, "helm", "chart helm3")
        return self.run(program, f"--namespace={namespace}", *words, given=None)

    def create(self, *objects: object) -> None:
        succeeded(self.kubectl("create", "--filename=-", given={"apiVersion": "v1", "kind": "List", "items": objects}))

    def get(self, kinds: str, *words: str) -> list[dict[str, Any]]:
        return json.loads(succeeded(self.kubectl("get", kinds, "--output=json", *words)))["items"]

    def ready_nodes(self) -> list[str]:
        return sorted(each["metadata"]["name"] for each in self.get("nodes") if is_ready(each))

    def pods(self, namespace: str = "monitoring") -> list[dict[str, Any]]:
        pods = self.get("pods", f"--namespace={namespace}", f"--selector=app.kubernetes.io/name={NAME}")
        return [pod for pod in pods if "deletionTimestamp" not in pod["metadata"]]

    def images(self) -> list[str]:
        return sorted({pod["spec"]["containers"][0]["image"] for pod in self.pods()})

    def ids(self) -> set[str]:
        return {pod["metadata"]["uid"] for pod in self.pods()}

    def nodes_with_pods(self, namespace: str) -> dict[str, list[str]]:
        """Where the ready pods of each DaemonSet are, and how many it wants if that is another number."""
        found: dict[str, list[str]] = {}
        component = "app.kubernetes.io/component"
        pods = [pod for pod in self.pods(namespace) if is_ready(pod)]
        for each in self.get("daemonsets", f"--namespace={namespace}"):
            system = each["metadata"]["labels"][component]
            own = (pod for pod in pods if pod["metadata"]["labels"][component] == system)
            found[system] = sorted(pod["spec"]["nodeName"] for pod in own)
            if (wanted := each["status"]["desiredNumberScheduled"]) != len(found[system]):
                found[system].append(f"{wanted} wanted")
        return found

    def expect_pods(self, what: str, namespace: str = "monitoring", **nodes: list[str]) -> None:
        expect(what, nodes, lambda: self.nodes_with_pods(namespace))

    def left(self) -> list[str]:
        """All that is in the namespace or has the name of the chart, without events."""
        kinds = succeeded(self.kubectl("api-resources", "--verbs=list", "--output=name")).split()
        found = []
        for each in self.get(",".join(kind for kind in kinds if not kind.startswith("events")), "--all-namespaces"):
            metadata = each["metadata"]
            is_inside = metadata.get("namespace") == "monitoring" and metadata["name"] not in OWN_OF_KUBERNETES
            if is_inside or NAME in json.dumps(metadata):
                found.append(f"{each['kind']} {metadata['name']}")
        return found

    def refusals(self, namespace: str, word: str) -> set[str]:
        """Why the API server refused pods, without their names, in messages with this word."""
        events = self.get("events", f"--namespace={namespace}", "--field-selector=reason=FailedCreate")
        return {each["message"].partition(" is forbidden: ")[2] for each in events if word in each["message"]}


def life(cluster: Cluster, chart: Path) -> None:
    """Installed, upgraded, rolled back, uninstalled."""
    cluster.create(OCCUPANT)
    succeeded(cluster.helm("install", "events", chart, VALUES, *MONITORING))
    cluster.expect_pods("a pod on each Linux node, tainted or full, and none on the others", linux=LINUX)
    kinds = [each["kind"] for each in cluster.get("podmonitors,prometheusrules", "--namespace=monitoring")]
    check("the PodMonitor and both PrometheusRules are accepted", ["PodMonitor", *["PrometheusRule"] * 2], kinds)
    old, ids = cluster.images(), cluster.ids()

    succeeded(cluster.helm("upgrade", "events", chart, "--reuse-values", WINDOWS))
    cluster.expect_pods("windows.enabled adds a pod on the Windows node", linux=LINUX, windows=["windows"])
    check("and replaces no other pod", set(), ids - cluster.ids())

    ids = cluster.ids()
    tags = "--set=image.tag=0.2.0,windows.image.tag=0.2.0"
    succeeded(cluster.helm("upgrade", "events", chart, "--reuse-values", tags, *WAIT))
    expect("an upgrade: all pods have the other tag", [f"{IMAGE}-windows:0.2.0", f"{IMAGE}:0.2.0"], cluster.images)
    cluster.expect_pods("on the same nodes", linux=LINUX, windows=["windows"])
    check("and all are new", set(), ids & cluster.ids())

    succeeded(cluster.helm("rollback", "events", "1", *WAIT))
    expect("a rollback: all pods have the first image", old, cluster.images)
    cluster.expect_pods("and none is on the Windows node", linux=LINUX)

    succeeded(cluster.helm("uninstall", "events"))
    expect("uninstall leaves nothing", [], cluster.left)


def admission(cluster: Cluster, chart: Path) -> None:
    """What a namespace must allow."""
    defaults = "install", "events", chart, VALUES
    succeeded(cluster.helm(*defaults, namespace="restricted"))
    violation = {f'violates PodSecurity "restricted:latest": {PRIVILEGES}'}
    expect(
        "restricted: only the network of the host is refused",
        violation,
        lambda: cluster.refusals("restricted", "PodSecurity"),
    )
    own_network = "--reuse-values", "--set=hostNetwork=false"
    succeeded(cluster.helm("upgrade", "events", chart, *own_network, namespace="restricted"))
    cluster.expect_pods("restricted: without it, the pods are accepted", "restricted", linux=LINUX)
    succeeded(cluster.helm("uninstall", "events", *WAIT, namespace="restricted"))

    cluster.create(QUOTA)
    succeeded(cluster.helm(*defaults, namespace="quota"))
    message = "exceeded quota: no-critical-pods, requested: pods=1, used: pods=0, limited: pods=0"
    expect("a quota can refuse the priority class", {message}, lambda: cluster.refusals("quota", "quota:"))
    cluster.create(OCCUPANT)
    no_class = "--reuse-values", "--set=priorityClassName="
    succeeded(cluster.helm("upgrade", "events", chart, *no_class, namespace="quota"))
    others = [*(name for name in LINUX if name != "full"), f"{len(LINUX)} wanted"]
    cluster.expect_pods("without the class, the pods are accepted, but a full node has none", "quota", linux=others)
    succeeded(cluster.helm("uninstall", "events", *WAIT, namespace="quota"))


def all_values(cluster: Cluster, chart: Path) -> None:
    """Helm 4 applies on the server, which refuses unknown fields, and a variable that is there twice."""
    for values in sorted((CHART / "ci").glob("*-values.yaml")):
        for version in HELMS:
            cluster.helm_version = version
            succeeded(cluster.helm("install", "events", chart, f"--values={values}"))
            succeeded(cluster.helm("uninstall", "events", *WAIT))
        expect(f"both Helms install {values.name}, and remove all of it", [], cluster.left)


def block(marker: str, page: str = "scripts") -> str:
    """The code block of a page with this text."""
    blocks = (ROOT / f"docs/{page}.md").read_text("utf-8").split("\n```")[1::2]
    return next(code for code in blocks if marker in code).partition("\n")[2] + "\n"


def simulator(cluster: Cluster) -> None:
    command = block("run simulator", "aks").partition("$ helm")[0].removeprefix("$ kubectl ").replace("\\\n", "")
    succeeded(cluster.kubectl(*shlex.split(command)))
    (pod,) = cluster.get("pods", "--namespace=monitoring", "--selector=run=simulator")
    check("the simulator is for Linux nodes", {"kubernetes.io/os": "linux"}, pod["spec"].get("nodeSelector"))


def node_conditions(cluster: Cluster) -> None:
    """The script of docs/scripts.md with the rights of its ServiceAccount. Stubs play `watch` and the exporter."""
    name, folder = "node-conditions", cluster.folder
    succeeded(cluster.kubectl("create", "--filename=-", given=block("kind: ServiceAccount")))
    token = succeeded(cluster.kubectl("create", "token", name, "--namespace=kube-system")).strip()
    kubectl = f'exec {installed("kubernetes", "KUBERNETES", "kubectl")} --token={token} "$@"'
    for stub, command in {NAME: "true", "curl": f"cat {folder}/events", "kubectl": kubectl}.items():
        (folder / stub).write_text(f"#!/bin/sh\n{command}\n", encoding="utf-8")
        (folder / stub).chmod(0o755)
    own = {"PATH": f"{folder}:{os.environ['PATH']}", "NODE_NAME": "linux", "STATE_DIRECTORY": str(folder)}

    def conditions(*phases: str) -> dict[str, tuple[str, str]]:
        events = [{"scope": "self", "phase": phase, "summary": f'{phase} "now"'} for phase in phases]
        (folder / "events").write_text(json.dumps({"events": events}), encoding="utf-8")
        succeeded(cluster.run("sh", "-c", block(f"# {name}: "), given="", **own))
        (node,) = (each for each in cluster.get("nodes") if each["metadata"]["name"] == "linux")
        maintenance = (one for one in node["status"]["conditions"] if one["type"] in both)
        return {one["type"]: (one["status"], one.get("message", "")) for one in maintenance}

    both = {"MaintenancePlanned": ("True", 'scheduled "now"'), "MaintenanceInProgress": ("True", 'started "now"')}
    check("the script sets both node conditions", both, conditions("scheduled", "started"))
    check("and their end", dict.fromkeys(both, ("False", "")), conditions())
    check("the node is still ready", True, "linux" in cluster.ready_nodes())
    user, status = f"--as=system:serviceaccount:kube-system:{name}", ("nodes", "--subresource=status")
    asked = [(verb, *what) for verb in ("get", "list", "patch", "update") for what in (("nodes",), status, ("pods",))]
    allowed = [words for words in asked if cluster.kubectl("auth", "can-i", *words, user).stdout.strip() == "yes"]
    check("and the account may do nothing else", [("get", "nodes"), ("get", *status), ("patch", *status)], allowed)


def main() -> None:
    with Stack() as stack:
        cluster = Cluster(stack)
        cluster.create(*NODES)
        for name, level in NAMESPACES.items():
            labels = {"pod-security.kubernetes.io/enforce": level}
            cluster.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}})
        definitions = installed("prometheus-operator-crds", "PROMETHEUS_OPERATOR")
        succeeded(cluster.kubectl("create", f"--filename={definitions}"))
        succeeded(cluster.kubectl("wait", "crd", "--all", "--for=condition=Established", "--timeout=60s"))
        expect("the nodes are ready", [each["metadata"]["name"] for each in NODES], cluster.ready_nodes)
        succeeded(cluster.helm("package", CHART, f"--destination={stack.folder}"))
        (chart,) = stack.folder.glob("*.tgz")
        for version in HELMS:
            print(f"Helm {PINS[f'{version}_VERSION']}", flush=True)
            cluster.helm_version = version
            life(cluster, chart)
        admission(cluster, chart)
        all_values(cluster, chart)
        simulator(cluster)
        node_conditions(cluster)
    print("cluster: ok")


if __name__ == "__main__":
    main()
