"""A Preempt and a Reboot through VictoriaMetrics and vmalert: one firing and one resolved notification each.

The VM of the Reboot and its exporter stop at NotBefore and come back while the event is Started.
"""

from __future__ import annotations

import os
import re
import sys
import time

import parts
from parts import Azure, Stack, Webhook, debian, event, not_once, request, wait_for

INTERVAL = int(os.environ.get("INTERVAL", "5"))


def config(targets: list[str]) -> str:
    return (
        f"global: {{ scrape_interval: {INTERVAL}s, scrape_timeout: {INTERVAL}s }}\n"
        f"scrape_configs:\n- job_name: {parts.JOB}\n  static_configs: [{{ targets: {targets} }}]\n"
    )


def run(stack: Stack) -> list[str]:
    webhook = Webhook()
    alertmanager = parts.alertmanager(stack, parts.built("alertmanager", "alertmanager", "alertmanager"), webhook)
    spot, web = Azure(stack, "spot-a"), Azure(stack, "web-a")
    _, spot_vm = spot.exporter("spot-a")
    victim, web_vm = web.exporter("web-a", f"--state.directory={stack.folder}/state")
    scrape = stack.folder / "scrape.yml"
    scrape.write_text(config([spot_vm, web_vm]), encoding="utf-8")
    _, victoria = stack.listen(
        debian("victoria-metrics"),
        f"-storageDataPath={stack.folder}/victoria",
        "-httpListenAddr=127.0.0.1:0",
        f"-promscrape.config={scrape}",
        *os.environ.get("VICTORIA_FLAGS", "-search.latencyOffset=0s").split(),
    )
    wait_for("VictoriaMetrics", lambda: request(f"http://{victoria}/health"))
    vmalert, _ = stack.listen(
        debian("vmalert"),
        f"-rule={parts.rules(stack.folder)}/*.rules.yml",
        f"-datasource.url=http://{victoria}",
        f"-remoteRead.url=http://{victoria}",
        f"-remoteWrite.url=http://{victoria}",
        f"-notifier.url=http://{alertmanager}",
        f"-evaluationInterval={INTERVAL}s",
        "-httpListenAddr=127.0.0.1:0",
        *os.environ.get("VMALERT_FLAGS", "-remoteWrite.flushInterval=1s -disableAlertgroupLabel").split(),
    )
    query = f"http://{victoria}/api/v1/query?query=count(azure_scheduled_events_up)"
    wait_for("a scrape of both", lambda: b'"2"' in request(query))
    time.sleep(3 * INTERVAL)
    announced = time.monotonic() - webhook.began
    spot.play(event("Preempt", "30s", "10s", "spot-a"))
    web.play(event("Reboot", "60s", "60s", "web-a"))
    events = spot.events() | web.events()
    print(f"    {announced:7.1f} s  announced: {events}", flush=True)
    time.sleep(62)
    victim.kill()
    victim.wait()
    time.sleep(20)
    web.exporter("web-a", f"--state.directory={stack.folder}/state", address=web_vm)
    print(f"    {time.monotonic() - webhook.began:7.1f} s  the VM of the Reboot is back", flush=True)
    # A second notification of an ended event comes after some evaluations, if at all.
    time.sleep(float(os.environ.get("OBSERVE", "240")))
    webhook.print()
    wrong = [
        f"{kind}: {why}"
        for kind, event_id in events.items()
        for status in ("firing", "resolved")
        for why in not_once(webhook, event_id, status)
    ]
    for kind, event_id in events.items():
        for one in webhook.of_event(event_id, "firing")[:1]:
            print(f"    {kind}: first notification after {one.at - announced:.1f} s")
            print("        " + one.annotations.get("description", "").replace("\n", "\n        "))
            if not re.search("VMs?: (spot|web)-a", one.annotations.get("description", "")):
                wrong.append(f"{kind}: the notification does not name the VM")
            if not all("completed" in end.annotations["summary"] for end in webhook.of_event(event_id, "resolved")):
                wrong.append(f"{kind}: the resolved notification does not say that the event was completed")
            if set(one.labels) - {"alertname", "severity", "event_id", "event_type", "event_source"}:
                wrong.append(f"{kind}: more labels than expected: {sorted(one.labels)}")
    complaints = [line for line in stack.log(vmalert).splitlines() if "\terror\t" in line]
    return wrong + complaints[:5]


def main() -> int:
    with Stack() as stack:
        wrong = run(stack)
    for one in wrong:
        print(f"FAIL  vmalert: {one}")
    print("vmalert: ok" if not wrong else f"vmalert: {len(wrong)} findings")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
