"""The rules and the dashboards' queries in Thanos and Cortex, over two clusters with two Prometheus replicas each.

Both clusters have VMs of the same names on the same addresses (`instance`). Thanos: a sidecar at each Prometheus, a
querier with de-duplication, a ruler. Cortex: all Prometheus servers write to the tenant `fleet`, de-duplicated by the HA
tracker; its ruler evaluates the same groups for the tenants `fleet` and `empty`. Each path has its own Alertmanager.
"""

from __future__ import annotations

import json
import os
import sys
import time
import urllib.error
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "dashboards"))

import boards
import parts
import prometheus
from parts import Azure, Stack, Webhook, event, free_address, not_once, request, wait_for

INTERVAL = int(os.environ.get("INTERVAL", "5"))
CLUSTERS = ("east", "west")
# In no scale set, so that no alert about a scale set inhibits them.
VMS = ("web-a", "web-b")
# Instances, the same in both clusters.
INSTANCES = ("10.0.0.4:10169", "10.0.0.5:10169")
EVENT_LABELS = {"alertname", "severity", "event_id", "event_type", "event_source", "cluster"}


@dataclass
class Cluster:
    name: str
    azure: Azure
    exporters: list[Any]
    addresses: list[str]
    replicas: list[Any] = field(default_factory=list)  # Prometheus processes
    urls: list[str] = field(default_factory=list)
    sidecars: list[str] = field(default_factory=list)


def prometheus_config(cluster: Cluster, replica: int, cortex: str) -> str:
    targets = "".join(
        f"  - {{ targets: ['{address}'], labels: {{ instance: '{instance}' }} }}\n"
        for address, instance in zip(cluster.addresses, INSTANCES, strict=True)
    )
    return (
        f"global:\n  scrape_interval: {INTERVAL}s\n  scrape_timeout: {INTERVAL}s\n"
        f"  external_labels: {{ cluster: {cluster.name}, replica: '{replica}' }}\n"
        f"scrape_configs:\n- job_name: {parts.JOB}\n  static_configs:\n{targets}"
        f"remote_write:\n- url: http://{cortex}/api/v1/push\n  headers: {{ X-Scope-OrgID: fleet }}\n"
        "  queue_config: { batch_send_deadline: 500ms }\n"
    )


def start_prometheus(stack: Stack, cluster: Cluster, cortex: str) -> None:
    thanos = parts.built("rulers", "thanos", "thanos")
    for replica in range(2):
        process, address, data = parts.start_prometheus(
            stack,
            parts.built("prometheus3", "prometheus", "prometheus"),
            prometheus_config(cluster, replica, cortex),
            "--storage.tsdb.min-block-duration=2h",
            "--storage.tsdb.max-block-duration=2h",
        )
        grpc = free_address()
        stack.start(
            thanos,
            "sidecar",
            f"--prometheus.url=http://{address}",
            f"--tsdb.path={data}",
            f"--grpc-address={grpc}",
            f"--http-address={free_address()}",
        )
        cluster.replicas.append(process)
        cluster.urls.append(f"http://{address}")
        cluster.sidecars.append(grpc)


def start_thanos(stack: Stack, clusters: list[Cluster], alertmanager: str, rules: Path) -> str:
    """Returns the URL of the querier."""
    thanos = parts.built("rulers", "thanos", "thanos")
    querier, ruler = free_address(), free_address()
    stores = [grpc for cluster in clusters for grpc in cluster.sidecars] + [ruler]
    stack.start(
        thanos,
        "query",
        f"--http-address={querier}",
        f"--grpc-address={free_address()}",
        "--query.replica-label=replica",
        *(f"--endpoint={grpc}" for grpc in stores),
    )
    stack.start(
        thanos,
        "rule",
        f"--data-dir={stack.folder}/thanos-rule",
        f"--rule-file={rules}/*.rules.yml",
        f"--eval-interval={INTERVAL}s",
        f"--query=http://{querier}",
        f"--alertmanagers.url=http://{alertmanager}",
        # The querier and the notifications leave it out, as they do with the replicas of Prometheus.
        '--label=replica="ruler-0"',
        "--alert.label-drop=replica",
        f"--grpc-address={ruler}",
        f"--http-address={free_address()}",
    )
    return f"http://{querier}"


def start_cortex(stack: Stack, alertmanager: str) -> str:
    """Returns the address of Cortex with all components in one process."""
    http, grpc, gossip = free_address(), free_address(), free_address()
    home = stack.folder / "cortex"
    (home / "rules").mkdir(parents=True)
    ring = {"kvstore": {"store": "inmemory"}, "instance_addr": "127.0.0.1"}
    config = {
        "auth_enabled": True,
        "server": {
            "http_listen_address": "127.0.0.1",
            "http_listen_port": int(http.rsplit(":", 1)[1]),
            "grpc_listen_address": "127.0.0.1",
            "grpc_listen_port": int(grpc.rsplit(":", 1)[1]),
        },
        "memberlist": {
            "bind_addr": ["127.0.0.1"],
            "bind_port": int(gossip.rsplit(":", 1)[1]),
            "abort_if_cluster_join_fails": False,
        },
        "distributor": {
            "ring": ring,
            "shard_by_all_labels": True,
            "ha_tracker": {
                "enable_ha_tracker": True,
                "kvstore": {"store": "memberlist"},
                "ha_tracker_update_timeout": "5s",
                "ha_tracker_update_timeout_jitter_max": "1s",
                "ha_tracker_failover_timeout": "10s",
            },
        },
        "ingester": {
            "lifecycler": {
                "address": "127.0.0.1",
                "min_ready_duration": "0s",
                "final_sleep": "0s",
                "num_tokens": 64,
                "ring": {"kvstore": {"store": "inmemory"}, "replication_factor": 1},
            }
        },
        "blocks_storage": {
            "backend": "filesystem",
            "filesystem": {"dir": str(home / "blocks")},
            "tsdb": {"dir": str(home / "tsdb")},
            "bucket_store": {"sync_dir": str(home / "sync")},
        },
        "compactor": {"data_dir": str(home / "compactor"), "sharding_ring": ring},
        "store_gateway": {"sharding_ring": ring},
        "ruler": {
            "enable_api": True,
            "rule_path": str(home / "rules"),
            "alertmanager_url": f"http://{alertmanager}",
            "evaluation_interval": f"{INTERVAL}s",
            "poll_interval": "5s",
            "ring": ring,
        },
        # Part of `all`, and not used: the alerts go to a separate Alertmanager.
        "alertmanager": {
            "external_url": "http://127.0.0.1/alertmanager",
            "data_dir": str(home / "alertmanager-data"),
            "cluster": {"listen_address": ""},
        },
        "alertmanager_storage": {"backend": "filesystem", "filesystem": {"dir": str(home / "alertmanager")}},
        "ruler_storage": {"backend": "filesystem", "filesystem": {"dir": str(home / "stored-rules")}},
        "limits": {
            "accept_ha_samples": True,
            "ha_cluster_label": "cluster",
            "ha_replica_label": "replica",
            # The limit of Azure Managed Prometheus, Mimir and Amazon Managed Prometheus.
            "ruler_max_rules_per_rule_group": 20,
        },
    }
    (home / "cortex.yml").write_text(json.dumps(config), encoding="utf-8")  # JSON is YAML
    stack.start(parts.built("rulers", "cortex", "cortex"), "-target=all", f"-config.file={home}/cortex.yml")
    stack.wait_for("Cortex", lambda: request(f"http://{http}/ready"))
    return http


def groups(directory: Path, rules: Path) -> list[dict[str, Any]]:
    """The rule groups, as the API of Cortex takes them. Prometheus reads the files, which share text by YAML anchors."""
    directory.mkdir()
    config = f'global: {{ evaluation_interval: 1d }}\nrule_files: ["{rules}/*.rules.yml"]\n'
    with prometheus.serving(directory, config) as api:
        loaded = api.get("rules")["groups"]
    return [
        {"name": group["name"]}
        | ({} if group["interval"] == boards.seconds("1d") else {"interval": f"{group['interval']:.0f}s"})
        | {
            "rules": [
                {"expr": rule["query"], "labels": rule.get("labels", {})}
                | (
                    {"record": rule["name"]}
                    if rule["type"] == "recording"
                    else {
                        "alert": rule["name"],
                        "for": f"{rule['duration']:.0f}s",
                        "annotations": rule["annotations"],
                    }
                )
                for rule in group["rules"]
            ]
        }
        for group in loaded
    ]


def load_rules(cortex: str, loaded: list[dict[str, Any]], tenant: str) -> list[str]:
    """Loads every group by the API and returns what Cortex refuses."""
    refused = []
    for group in loaded:
        url = f"http://{cortex}/api/v1/rules/azure-scheduled-events"
        try:
            request(url, json.dumps(group), {"X-Scope-OrgID": tenant})  # JSON is YAML
        except urllib.error.HTTPError as error:
            refused.append(f"Cortex refuses the group {group['name']}: {error.read().decode().strip()}")
    return refused


def cortex_api(cortex: str, tenant: str) -> prometheus.Api:
    return prometheus.Api(f"http://{cortex}/prometheus", {"X-Scope-OrgID": tenant})


def failing_queries(api: prometheus.Api, at: float) -> tuple[list[str], int, int]:
    """Queries of the dashboards that fail; the number of all queries, and of those with data."""
    failed, count, filled = [], 0, 0
    for name, board in boards.load().items():
        chosen = {"instance": INSTANCES[0]} if name == "azse-vm.json" else {}
        for query in boards.queries(name, board):
            count += 1
            try:
                filled += bool(api.query_panel(query, boards.variables(board, chosen), 900, at, INTERVAL))
            except (RuntimeError, OSError) as why:
                failed.append(f"{query.where}: {why}")
    return failed, count, filled


def play(clusters: dict[str, Cluster]) -> dict[tuple[str, str], str]:
    """Announces events in both clusters. Returns their ids by cluster and type."""
    scripts = {
        "east": [event("Reboot", "40s", "30s", VMS[0]), event("Preempt", "30s", "20s", VMS[1])],
        "west": [event("Redeploy", "50s", "30s", *VMS), event("Freeze", "30s", "30s", VMS[0])],
    }
    ids = {}
    for name, script in scripts.items():
        azure = clusters[name].azure
        azure.play(*script)
        ids |= {(name, kind): event_id for kind, event_id in azure.events().items()}
    return ids


def check_events(path: str, webhook: Webhook, ids: dict[tuple[str, str], str]) -> list[str]:
    wrong = []
    for (cluster, kind), event_id in ids.items():
        for status in ("firing", "resolved"):
            wrong += [f"{path}: {kind} in {cluster}: {why}" for why in not_once(webhook, event_id, status)]
        for one in webhook.of_event(event_id, "firing"):
            if set(one.labels) != EVENT_LABELS or one.labels["cluster"] != cluster:
                wrong.append(f"{path}: {kind} in {cluster}: labels {one.labels}")
            if VMS[0] not in str(one.annotations) and VMS[1] not in str(one.annotations):
                wrong.append(f"{path}: {kind} in {cluster}: names no VM: {one.annotations}")
    return wrong


def is_notified_down(webhook: Webhook, cluster: str) -> bool:
    return any(
        one.labels["alertname"] == "AzureScheduledEventsExporterDown" and one.labels.get("cluster") == cluster
        for one in list(webhook.received)
    )


def run(stack: Stack) -> list[str]:
    program = parts.built("alertmanager", "alertmanager", "alertmanager")
    webhooks = {"Thanos": Webhook(), "Cortex": Webhook()}
    managers = {path: parts.alertmanager(stack, program, webhook) for path, webhook in webhooks.items()}
    rules = parts.rules(stack.folder)
    cortex = start_cortex(stack, managers["Cortex"])
    loaded = groups(stack.folder / "groups", rules)
    wrong = load_rules(cortex, loaded, "fleet")
    load_rules(cortex, loaded, "empty")
    clusters = {}
    for name in CLUSTERS:
        azure = Azure(stack, VMS[0])
        exporters = [azure.exporter(vm) for vm in VMS]
        clusters[name] = Cluster(name, azure, [one for one, _ in exporters], [address for _, address in exporters])
        start_prometheus(stack, clusters[name], cortex)
    querier = start_thanos(stack, list(clusters.values()), managers["Thanos"], rules)
    apis = {"Thanos": prometheus.Api(querier), "Cortex": cortex_api(cortex, "fleet")}
    for path, api in apis.items():
        wait_for(f"{path}: four targets", lambda api=api: api.instant("count(up == 1) == 4", time.time()))
        try:
            recorded = "instance:azure_scheduled_events_target:up"
            wait_for(recorded, lambda api=api, query=recorded: api.instant(query, time.time()), limit=60)
        except TimeoutError:
            wrong.append(f"{path}: no recorded series")
    time.sleep(3 * INTERVAL)

    began = time.monotonic()
    ids = play(clusters)
    print(f"announced: {ids}", flush=True)
    # All are announced, none has ended.
    time.sleep(25)
    # One replica of a cluster stops while its events are open.
    clusters["west"].replicas[0].kill()
    for path, api in apis.items():
        failed, count, filled = failing_queries(api, time.time())
        print(f"{path}: {count} queries of the dashboards, {filled} with data, {len(failed)} fail", flush=True)
        wrong += [f"{path}: {one}" for one in failed]
    # Resolved notifications, and time for a second notification of an ended event.
    time.sleep(max(0.0, 240 - (time.monotonic() - began)))
    for path, webhook in webhooks.items():
        wrong += check_events(path, webhook, ids)

    clusters["east"].exporters[0].kill()
    for path, webhook in webhooks.items():
        try:
            wait_for("a down alert", lambda webhook=webhook: is_notified_down(webhook, "east"), limit=60 + 6 * INTERVAL)
        except TimeoutError:
            wrong.append(f"{path}: no alert for an exporter that is down in one cluster only")
        if is_notified_down(webhook, "west"):
            wrong.append(f"{path}: an alert for an exporter that is up")

    evaluated = {
        "Cortex": apis["Cortex"].get("rules")["groups"],
        "the tenant `empty`": cortex_api(cortex, "empty").get("rules")["groups"],
        "Thanos": apis["Thanos"].get("rules")["groups"],
    }
    for path, found in evaluated.items():
        print(f"{path}: {sum(len(group['rules']) for group in found)} rules in {len(found)} groups")
        wrong += [f"{path}: {one}" for one in parts.rule_errors(found)]
    for path, webhook in webhooks.items():
        print(f"{path}:")
        webhook.print()
    return wrong


def main() -> int:
    with Stack() as stack:
        wrong = run(stack)
    for one in wrong:
        print(f"FAIL  {one}")
    print("distributed: ok" if not wrong else f"distributed: {len(wrong)} findings")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
