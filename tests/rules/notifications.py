"""Renders the notifications of a scripted day: python3 tests/rules/notifications.py PROMTOOL AMTOOL.

promtool evaluates the rules over alerts/tests/day.series.yml, alertmanager.py applies the example configuration of
Alertmanager, and amtool renders its templates. day.py has the titles of the scenes. Fails if docs/notifications.md
differs; UPDATE_GOLDENS=1 writes it.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

import yaml

import day
import suite
from alertmanager import EXAMPLE, PAGING, Alert, Alertmanager, Notification

ROOT = suite.ROOT
PAGE = ROOT / "docs" / "notifications.md"
TEMPLATES = ROOT / "alerts" / "alertmanager.tmpl"
TITLE, TEXT = "azure_scheduled_events.title", "azure_scheduled_events.text"
SEPARATOR = "----8<----"
# Paragraphs are one line, as in all documents.
HEAD = """\
# Notifications of a day

<!-- Written by tests/rules/notifications.py: UPDATE_GOLDENS=1 tests/rules/run -->

All notifications of a scripted day with the shipped files: the rules in `alerts/*.rules.yml`, evaluated every 15 seconds, and the receivers, titles and texts of `alerts/alertmanager.example.yml` and `alerts/alertmanager.tmpl`. Times are UTC. The VMs are in the cluster `prod`, and one is in `staging`. A scrape and an evaluation follow each announcement immediately; the real delays are in [paging.md](paging.md#latency).

Two replicas of Prometheus send each alert with the external label `replica`. The relabelling in [paging.md](paging.md) removes it, so there is one notification.

Receivers: `pager-and-chat` is PagerDuty and Slack. `chat` is Slack and Teams. `automation` is a webhook that gets each critical event by itself; its title is the annotation `summary` of that event.
"""


def main() -> int:
    promtool, amtool = sys.argv[1:]
    notifications = Alertmanager(suite.evaluate(promtool)).run()
    page = render(amtool, notifications)
    failures = [*check_titles(), *check_examples(page), *check(PAGE, page)]
    for failure in failures:
        print(failure, file=sys.stderr)
    return 1 if failures else 0


def check(path: Path, content: str) -> list[str]:
    if os.environ.get("UPDATE_GOLDENS"):
        path.write_text(content)
    elif not path.exists() or path.read_text() != content:
        diff = ["diff", "--unified", path, "-"]
        shown = subprocess.run(diff, input=content, capture_output=True, text=True, check=False).stdout
        return [f"{shown}{path.relative_to(ROOT)} differs; read it after: UPDATE_GOLDENS=1 tests/rules/run"]
    return []


def check_titles() -> list[str]:
    """The title of every receiver is the template. A webhook has no title of its own."""
    title = f'{{{{ template "{TITLE}" . }}}}'
    failures = []
    for receiver in yaml.safe_load(EXAMPLE.read_text())["receivers"]:
        for kind, configs in receiver.items():
            for config in configs if kind.endswith("_configs") and kind != "webhook_configs" else []:
                where = {"email_configs": config.get("headers", {}).get("Subject")}
                where |= {"slack_configs": config.get("title"), "pagerduty_configs": config.get("description")}
                where |= {"msteamsv2_configs": config.get("title")}
                if where.get(kind) != title:
                    failures.append(f"{EXAMPLE.name}: {receiver['name']}: {kind}: the title is {where.get(kind)}")
    return failures


def check_examples(page: str) -> list[str]:
    """The titles and texts in docs/paging.md are those of the page."""
    blocks = re.findall(r"```text\n(.*?)```", PAGING.read_text(), re.DOTALL)
    lines = [line for block in blocks for line in block.splitlines()]
    shown = set(page.replace("**", "").splitlines())
    return (
        [f"docs/paging.md: not in {PAGE.name}: {line}" for line in lines if line not in shown]
        if lines
        else ["no examples"]
    )


def render(amtool: str, notifications: list[Notification]) -> str:
    found: dict[day.Scene | None, list[Notification]] = {}
    for one in notifications:
        if one.receiver != "nobody":
            scene = day.scene_of((one.firing or one.resolved)[0].labels)
            found.setdefault(scene, []).append(one)
    if others := found.get(None):
        raise SystemExit(f"notifications of no scene: {others}")
    parts = [HEAD]
    for scene in day.SCENES:
        parts.append(f"\n## {scene.title}\n")
        if scene.about:
            parts.append(f"\n{scene.about}\n")
        parts += blocks(amtool, found.get(scene, [])) or ["\nNo notification.\n"]
    return "".join(parts)


def blocks(amtool: str, notifications: list[Notification]) -> list[str]:
    automation = [one for one in notifications if one.receiver == "automation"]
    found = [block(amtool, one) for one in notifications if one.receiver != "automation"]
    for status in ("firing", "resolved"):
        own = [one for one in automation if ("firing" if one.firing else "resolved") == status]
        if own:
            times = sorted({suite.clock(one.at) for one in own})
            summary = (own[0].firing or own[0].resolved)[0]
            more = "" if len(own) == 1 else f" and {len(own) - 1} more, one webhook each"
            first = annotations(summary, own[0].at)["summary"]
            found.append(f"\nTo `automation`, {status}, {' and '.join(times)}: {first}{more}\n")
    return found


def block(amtool: str, notification: Notification) -> str:
    status = "firing" if notification.firing else "resolved"
    title, text = template(amtool, notification)
    head = f"\n### {suite.clock(notification.at)}, {status}, to {notification.receiver}\n"
    return f"{head}\n**{title}**\n\n```text\n{text}\n```\n"


def annotations(alert: Alert, at: int) -> dict[str, str]:
    return alert.firing.annotations[time_of_text(alert, at)]


def time_of_text(alert: Alert, at: int) -> int:
    """The last evaluation until then. A resolved alert has the texts of its last evaluation."""
    return max(time for time in alert.firing.annotations if time <= at)


def template(amtool: str, notification: Notification) -> tuple[str, str]:
    status = "firing" if notification.firing else "resolved"
    alerts = [
        {
            "status": "resolved" if alert in notification.resolved else "firing",
            "labels": alert.labels,
            "annotations": annotations(alert, notification.at),
            "startsAt": "1970-01-01T00:00:00Z",
            "endsAt": "1970-01-01T00:00:00Z",
            "generatorURL": "",
            "fingerprint": "",
        }
        for alert in notification.firing + notification.resolved
    ]
    data = {
        "receiver": notification.receiver,
        "status": status,
        "alerts": alerts,
        "groupLabels": notification.group_labels,
        "commonLabels": common([alert["labels"] for alert in alerts]),
        "commonAnnotations": common([alert["annotations"] for alert in alerts]),
        "externalURL": "",
    }
    with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
        json.dump(data, file)
        file.flush()
        text = f'{{{{ template "{TITLE}" . }}}}{SEPARATOR}{{{{ template "{TEXT}" . }}}}'
        options = [f"--template.glob={TEMPLATES}", f"--template.data={file.name}", f"--template.text={text}"]
        done = subprocess.run([amtool, "template", "render", *options], capture_output=True, text=True, check=True)
    title, text = done.stdout.split(SEPARATOR)
    if "\n" in title:
        raise SystemExit(f"a title of several lines: {title}")
    return title, text.rstrip()


def common(maps: list[dict[str, str]]) -> dict[str, str]:
    return {name: value for name, value in maps[0].items() if all(one.get(name) == value for one in maps)}


if __name__ == "__main__":
    sys.exit(main())
