"""A Preempt and a Reboot through VictoriaMetrics and vmalert: one firing and one resolved notification each.

The VM of the Reboot and its exporter stop at NotBefore and come back while the event is Started.
"""

from __future__ import annotations

import re
import sys
import time

import parts

sys.path.append(str(parts.ROOT / "tests" / "dashboards"))
import boards
from parts import Azure, Stack, Webhook, debian, event, query, request, wait_for

INTERVAL = 5
LABELS = {"alertname", "severity", "event_id", "event_type", "event_source"}


def run(stack: Stack) -> list[str]:
    webhook = Webhook()
    alertmanager = parts.alertmanager(stack, parts.built("alertmanager"), webhook)
    spot, web = Azure(stack, "spot-a"), Azure(stack, "web-a")
    state = f"--state.directory={stack.folder}/state"
    _, spot_vm = spot.exporter("spot-a")
    victim, web_vm = web.exporter("web-a", state)
    scrape = stack.folder / "scrape.yml"
    scrape.write_text(
        f"global: {{ scrape_interval: {INTERVAL}s, scrape_timeout: {INTERVAL}s }}\n"
        f"scrape_configs:\n- job_name: {parts.JOB}\n  static_configs: [{{ targets: {[spot_vm, web_vm]} }}]\n",
        encoding="utf-8",
    )
    _, victoria = stack.listen(
        debian("victoria-metrics"),
        f"-storageDataPath={stack.folder}/victoria",
        "-httpListenAddr=127.0.0.1:0",
        f"-promscrape.config={scrape}",
        "-search.latencyOffset=0s",
    )
    wait_for("VictoriaMetrics", lambda: request(f"http://{victoria}/health"))
    urls = dict.fromkeys(("datasource", "remoteRead", "remoteWrite"), f"http://{victoria}")
    vmalert, _ = stack.listen(
        debian("vmalert"),
        f"-rule={parts.rules(stack)}/*.rules.yml",
        *(f"-{name}.url={url}" for name, url in urls.items()),
        f"-notifier.url=http://{alertmanager}",
        f"-evaluationInterval={INTERVAL}s",
        "-httpListenAddr=127.0.0.1:0",
        "-remoteWrite.flushInterval=1s",
        "-disableAlertgroupLabel",
    )
    wait_for("a scrape of both", lambda: query(victoria, "count(azure_scheduled_events_up) == 2"))
    time.sleep(3 * INTERVAL)
    announced = time.monotonic()
    events = spot.play(event("Preempt", "30s", "10s", "spot-a"))
    events |= web.play(event("Reboot", "60s", "60s", "web-a"))
    time.sleep(62)
    victim.kill()
    victim.wait()
    time.sleep(20)
    web.exporter("web-a", state, address=web_vm)
    # A second notification of an ended event comes after some evaluations, if at all.
    time.sleep(240)
    webhook.print()
    wrong = []
    for board in boards.load():
        for each in boards.queries(board, boards.load()[board]):
            found = query(victoria, boards.interpolate(each, 3600, {"job": parts.JOB}))
            if each.panel == "Coverage" and [one["metric"]["coverage"] for one in found] != ["2"]:
                wrong.append(f"{each.where} says {found} of two exporters that report")
    for kind, event_id in events.items():
        wrong += [f"{kind}: {why}" for why in webhook.not_once(event_id)]
        for one in webhook.of_event(event_id, "firing")[:1]:
            print(f"    {kind}: first notification after {one.at - announced:.1f} s")
            if not re.search("VMs?: (spot|web)-a", one.annotations.get("description", "")):
                wrong.append(f"{kind}: the notification does not name the VM")
            if set(one.labels) - LABELS:
                wrong.append(f"{kind}: more labels than expected: {sorted(one.labels)}")
        if not all("completed" in end.annotations["summary"] for end in webhook.of_event(event_id, "resolved")):
            wrong.append(f"{kind}: the resolved notification does not say that the event was completed")
    return wrong + [line for line in stack.log(vmalert).splitlines() if "\terror\t" in line][:5]


if __name__ == "__main__":
    with Stack() as stack:
        sys.exit(parts.report("vmalert", run(stack)))
