"""The rules and the dashboards' queries in Thanos and Cortex, over two clusters with two Prometheus replicas each.

Both clusters have VMs of the same names on the same addresses (`instance`). Thanos: a sidecar at each Prometheus, a
querier with de-duplication, a ruler. Cortex: all Prometheus servers write to the tenant `fleet`, de-duplicated by the HA
tracker; its ruler evaluates the same groups for the tenants `fleet` and `empty`. Each path has its own Alertmanager.
Requires PyYAML.
"""

from __future__ import annotations

import json
import re
import sys
import time
import urllib.error
from dataclasses import dataclass
from pathlib import Path
from subprocess import Popen
from typing import Any

import yaml

import parts
from parts import ROOT, Azure, Stack, Webhook, built, event, free_address, request, wait_for

INTERVAL = 5
# In no scale set, so that no alert about a scale set inhibits them.
VMS = ("web-a", "web-b")
# Instances, the same in both clusters.
INSTANCES = ("10.0.0.4:10169", "10.0.0.5:10169")
EVENTS = {
    "east": [event("Reboot", "40s", "30s", VMS[0]), event("Preempt", "30s", "20s", VMS[1])],
    "west": [event("Redeploy", "50s", "30s", *VMS), event("Freeze", "30s", "30s", VMS[0])],
}
EVENT_LABELS = {"alertname", "severity", "event_id", "event_type", "event_source", "cluster"}


@dataclass
class Cluster:
    name: str
    azure: Azure
    exporters: list[Popen[bytes]]
    replicas: list[Popen[bytes]]  # of Prometheus
    sidecars: list[str]


@dataclass
class Ruler:
    """One of the two, the API that has its results, and the webhook that gets its notifications."""

    name: str
    address: str
    headers: dict[str, str]
    webhook: Webhook

    def query(self, expr: str) -> list[Any]:
        return parts.query(self.address, expr, headers=self.headers)

    def groups(self) -> list[dict[str, Any]]:
        return json.loads(request(f"http://{self.address}/api/v1/rules", headers=self.headers))["data"]["groups"]

    def is_notified_down(self, cluster: str) -> bool:
        labels = {"alertname": "AzureScheduledEventsExporterDown", "cluster": cluster}.items()
        return any(labels <= one.labels.items() for one in list(self.webhook.received))


def start_cluster(stack: Stack, name: str, cortex: str) -> Cluster:
    azure = Azure(stack, VMS[0])
    exporters = [azure.exporter(vm) for vm in VMS]
    cluster = Cluster(name, azure, [process for process, _ in exporters], [], [])
    targets = [
        {"targets": [address], "labels": {"instance": instance}}
        for (_, address), instance in zip(exporters, INSTANCES, strict=True)
    ]
    write = {"url": f"http://{cortex}/api/v1/push", "headers": {"X-Scope-OrgID": "fleet"}}
    write |= {"queue_config": {"batch_send_deadline": "500ms"}}
    for replica in ("0", "1"):
        common = {"scrape_interval": f"{INTERVAL}s", "scrape_timeout": f"{INTERVAL}s"}
        common |= {"external_labels": {"cluster": name, "replica": replica}}
        blocks = "--storage.tsdb.min-block-duration=2h", "--storage.tsdb.max-block-duration=2h"
        config = {"global": common, "remote_write": [write]}
        process, address, data = parts.start_prometheus(stack, built("prometheus3"), targets, *blocks, **config)
        sidecar = free_address()
        reads = f"--prometheus.url=http://{address}", f"--tsdb.path={data}"
        start_thanos(stack, "sidecar", f"--grpc-address={sidecar}", *reads)
        cluster.replicas.append(process)
        cluster.sidecars.append(sidecar)
    return cluster


def start_thanos(stack: Stack, component: str, *flags: str) -> str:
    """Returns the address of HTTP."""
    http = free_address()
    stack.start(built("thanos"), component, f"--http-address={http}", *flags)
    return http


def start_querier_and_ruler(stack: Stack, sidecars: list[str], alertmanager: str, rules: Path) -> str:
    """Returns the address of the querier."""
    ruler = free_address()
    querier = start_thanos(
        stack,
        "query",
        f"--grpc-address={free_address()}",
        "--query.replica-label=replica",
        *(f"--endpoint={grpc}" for grpc in [*sidecars, ruler]),
    )
    start_thanos(
        stack,
        "rule",
        f"--grpc-address={ruler}",
        f"--data-dir={stack.folder}/thanos-rule",
        f"--rule-file={rules}/*.rules.yml",
        f"--eval-interval={INTERVAL}s",
        f"--query=http://{querier}",
        f"--alertmanagers.url=http://{alertmanager}",
        # The querier and the notifications leave it out, as they do with the replicas of Prometheus.
        '--label=replica="ruler-0"',
        "--alert.label-drop=replica",
    )
    return querier


def start_cortex(stack: Stack, alertmanager: str) -> str:
    """Returns the address of Cortex."""
    http, grpc, gossip = (free_address() for _ in range(3))
    ports = {"HTTP_PORT": http, "GRPC_PORT": grpc, "GOSSIP_PORT": gossip}
    variables = {name: address.rsplit(":", 1)[1] for name, address in ports.items()}
    variables |= {"ALERTMANAGER": alertmanager, "INTERVAL": str(INTERVAL)}
    config = Path(__file__).with_name("cortex.yml")
    stack.start(built("cortex"), "-target=all", f"-config.file={config}", "-config.expand-env", **variables)
    wait_for("Cortex", lambda: request(f"http://{http}/ready"))
    return http


def load_rules(cortex: str, rules: Path, tenant: str) -> list[str]:
    """Loads every group by the API and returns what Cortex refuses."""
    refused = []
    for group in (group for path in rules.iterdir() for group in yaml.safe_load(path.read_text())["groups"]):
        url = f"http://{cortex}/api/v1/rules/azure-scheduled-events"
        try:
            request(url, group, {"X-Scope-OrgID": tenant, "Content-Type": "application/yaml"})  # JSON is YAML
        except urllib.error.HTTPError as error:
            refused.append(f"Cortex refuses the group {group['name']}: {error.read().decode().strip()}")
    return refused


def dashboard_queries() -> list[str]:
    """The queries of all dashboards with everything selected, but one VM."""
    values = {"__range": "15m", "__rate_interval": "1m", "__interval": "1m", "instance": INSTANCES[0]}
    boards = "".join(board.read_text(encoding="utf-8") for board in ROOT.glob("dashboards/*.json"))
    queries = {json.loads(text) for text in re.findall(r'"expr": ("(?:[^"\\]|\\.)*")', boards)}
    return sorted(re.sub(r"\$(\w+)", lambda name: values.get(name[1], ".*"), query) for query in queries)


def check_queries(path: Ruler) -> list[str]:
    queries, failed, filled = dashboard_queries(), [], 0
    for query in queries:
        try:
            filled += bool(path.query(query))
        except OSError as why:
            body = why.read().decode() if isinstance(why, urllib.error.HTTPError) else why
            failed.append(f"{path.name}: {query}: {body}")
    print(f"{path.name}: {len(queries)} queries of the dashboards, {filled} with data, {len(failed)} fail", flush=True)
    return failed if filled else [*failed, f"{path.name}: no query has data"]


def check_events(path: Ruler, ids: dict[tuple[str, str], str]) -> list[str]:
    wrong = []
    for (cluster, kind), event_id in ids.items():
        where = f"{path.name}: {kind} in {cluster}"
        wrong += [f"{where}: {why}" for why in path.webhook.not_once(event_id)]
        for one in path.webhook.of_event(event_id, "firing"):
            if set(one.labels) != EVENT_LABELS or one.labels["cluster"] != cluster:
                wrong.append(f"{where}: labels {one.labels}")
            if not any(vm in str(one.annotations) for vm in VMS):
                wrong.append(f"{where}: names no VM: {one.annotations}")
    return wrong


def run(stack: Stack) -> list[str]:
    rules, program = parts.rules(stack), built("alertmanager")
    webhooks = [Webhook(), Webhook()]
    managers = [parts.alertmanager(stack, program, webhook) for webhook in webhooks]
    cortex = start_cortex(stack, managers[1])
    wrong = load_rules(cortex, rules, "fleet") + load_rules(cortex, rules, "empty")
    clusters = {name: start_cluster(stack, name, cortex) for name in EVENTS}
    sidecars = [sidecar for cluster in clusters.values() for sidecar in cluster.sidecars]
    querier = start_querier_and_ruler(stack, sidecars, managers[0], rules)
    api = f"{cortex}/prometheus"
    paths = [
        Ruler("Thanos", querier, {}, webhooks[0]),
        Ruler("Cortex", api, {"X-Scope-OrgID": "fleet"}, webhooks[1]),
    ]
    for path in paths:
        wait_for(f"{path.name}: four targets", lambda path=path: path.query("count(up == 1) == 4"))
        wait_for(f"{path.name}: records", lambda path=path: path.query("instance:azure_scheduled_events_target:up"))
    time.sleep(3 * INTERVAL)

    began = time.monotonic()
    announced = {name: clusters[name].azure.play(*script) for name, script in EVENTS.items()}
    ids = {(name, kind): event_id for name, found in announced.items() for kind, event_id in found.items()}
    # All are announced, none has ended.
    time.sleep(25)
    # One replica of a cluster stops while its events are open.
    clusters["west"].replicas[0].kill()
    for path in paths:
        wrong += check_queries(path)
    # Resolved notifications, and time for a second notification of an ended event.
    time.sleep(max(0.0, began + 240 - time.monotonic()))
    for path in paths:
        wrong += check_events(path, ids)

    clusters["east"].exporters[0].kill()
    for path in paths:
        try:
            wait_for("a down alert", lambda path=path: path.is_notified_down("east"), limit=60 + 6 * INTERVAL)
        except TimeoutError:
            wrong.append(f"{path.name}: no alert for an exporter that is down in one cluster only")
        if path.is_notified_down("west"):
            wrong.append(f"{path.name}: an alert for an exporter that is up")
    for path in [*paths, Ruler("the tenant `empty`", api, {"X-Scope-OrgID": "empty"}, Webhook())]:
        found = path.groups()
        print(f"{path.name}: {sum(len(group['rules']) for group in found)} rules in {len(found)} groups")
        wrong += [f"{path.name}: {one}" for one in parts.rule_errors(found)]
        path.webhook.print()
    return wrong


if __name__ == "__main__":
    with Stack() as stack:
        sys.exit(parts.report("distributed", run(stack)))
