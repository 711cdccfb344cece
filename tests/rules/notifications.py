"""Renders the notifications of a scripted day: python3 tests/rules/notifications.py PROMTOOL AMTOOL ROUTES.

promtool evaluates the rules over alerts/tests/day/series.yml, which a test of the exporter writes. amtool finds the
receivers of each alert in ROUTES, the example configuration as this amtool reads it, and renders its templates.
scenes.json beside it has the titles of the scenes. Fails if alerts/tests/notifications.md differs; UPDATE_GOLDENS=1 writes it.
"""

from __future__ import annotations

import ast
import json
import os
import re
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

import yaml

ROOT = Path(__file__).resolve().parent.parent.parent
ALERTS, ALERTING, PAGE = ROOT / "alerts", ROOT / "docs" / "alerting.md", ROOT / "alerts" / "tests" / "notifications.md"
DAY = ALERTS / "tests" / "day"
PROMTOOL, AMTOOL, ROUTES = sys.argv[1:]
# Scrape and evaluation. The last scrape of a VM that disappears is between two evaluations, because Prometheus 3 excludes
# the left end of a range and Prometheus 2 includes it.
STEP = 10
EVALUATION = 15
END = 4 * 3600 + 40 * 60
FIRING = 'ALERTS{alertstate="firing", alertname!="AzureScheduledEventInProgress", severity="%s"}'
TITLE, TEXT = (f'{{{{ template "azure_scheduled_events.{name}" . }}}}' for name in ("title", "text"))
SEPARATOR = "----8<----"
# Paragraphs are one line, as in all documents.
HEAD = """\
# Notifications of a day

<!-- Written by tests/rules/notifications.py: UPDATE_GOLDENS=1 tests/rules/run -->

The notifications of a scripted day with the shipped files: the rules in `alerts/*.rules.yml`, evaluated every 15 seconds, and the receivers, titles and texts of `alerts/alertmanager.example.yml` and `alerts/alertmanager.tmpl`. The times in UTC are those of the evaluations at which an alert fires and ends; the waits of Alertmanager follow (`group_wait`, `group_interval`), and the real delays are in [push.md](../../docs/internals/push.md#latency). The VMs are in the cluster `prod`, and one is in `staging`. A scrape and an evaluation follow each announcement immediately.

Receivers: `pager-and-chat` is PagerDuty and Slack. `chat` is Slack and Teams. `automation` is a webhook that gets each critical event by itself, without the templates.
"""


@dataclass
class Alert:
    """An alert with its first and last evaluation, and its annotations at both."""

    labels: dict[str, str]
    first: int
    last: int
    annotations: dict[int, dict[str, str]]

    @property
    def group(self) -> tuple[str, ...]:
        """All evictions of a cluster are one group in the example."""
        name = self.labels["alertname"]
        event = self.labels.get("event_id", "") if name != "AzureScheduledEventPreempt" else ""
        return name, self.labels["severity"], self.labels.get("cluster", ""), event


def evaluate() -> list[Alert]:
    """All alerts of the day. promtool prints the result of each test that expects none."""
    files = sorted(ALERTS.glob("*.rules.yml"), reverse=True)
    groups = [group["name"] for path in files for group in yaml.safe_load(path.read_text())["groups"]]
    suite = {"rule_files": [str(path) for path in files], "evaluation_interval": f"{EVALUATION}s"}
    suite |= {"group_eval_order": groups}
    scene = {"interval": f"{STEP}s", "input_series": yaml.safe_load((DAY / "series.yml").read_text())}

    def run(**tests: list[dict]) -> list[str]:
        with tempfile.NamedTemporaryFile("w", suffix=".yml") as file:
            # JSON is YAML.
            json.dump(suite | {"tests": [scene | tests]}, file)
            file.flush()
            done = subprocess.run([PROMTOOL, "test", "rules", file.name], capture_output=True, text=True, check=False)
        return (done.stdout + done.stderr).splitlines()

    def query(function: str) -> dict:
        # By severity, because promtool limits the samples of a query.
        parts = (f"timestamp({FIRING % severity})" for severity in ("critical", "warning", "info"))
        parts = (f"{function}_over_time({part}[{END}s:{EVALUATION}s])" for part in parts)
        return {"expr": " or ".join(parts), "eval_time": f"{END}s", "exp_samples": []}

    results = []
    for line in run(promql_expr_test=[query("min"), query("max"), query("count")]):
        if "got: " in line:
            samples = re.findall(r'\{((?:[^{}"]|"(?:[^"\\]|\\.)*")*)\} ([0-9.E+]+)', line)
            results.append({text: round(float(value)) for text, value in samples})
    first, last, count = results
    again = [text for text in first if (last[text] - first[text]) // EVALUATION + 1 != count[text]]
    if again:
        raise SystemExit(f"alerts that fire more than once: {again}")
    periods = {(labels(text)["alertname"], at) for text in first for at in (first[text], last[text])}
    tests = [{"eval_time": f"{at}s", "alertname": name, "exp_alerts": []} for name, at in sorted(periods)]
    found: dict[tuple, dict[int, dict[str, str]]] = {}
    for line in run(alert_rule_test=tests):
        if match := re.search(r"alertname: ?\S+, time: (\S+?),", line):
            at = seconds(match[1])
        elif match := re.search(r"Labels:\{(.*)\}", line):
            own = labels(match[1])
        elif match := re.search(r"Annotations:\{(.*)\}", line):
            found.setdefault(tuple(sorted(own.items())), {})[at] = labels(match[1])
    alerts = []
    for text in first:
        own = {name: value for name, value in labels(text).items() if name not in {"__name__", "alertstate"}}
        alerts.append(Alert(own, first[text], last[text], found[tuple(sorted(own.items()))]))
    return sorted(alerts, key=lambda alert: alert.first)


def labels(text: str) -> dict[str, str]:
    return {name: ast.literal_eval(quoted) for name, quoted in re.findall(r'(\w+)=("(?:[^"\\]|\\.)*")', text)}


def seconds(text: str) -> int:
    units = {"h": 3600, "m": 60, "s": 1}
    return sum(int(number) * units[unit] for number, unit in re.findall(r"(\d+)([hms])", text))


def render(alerts: list[Alert]) -> str:
    page = HEAD
    for scene in json.loads((DAY / "scenes.json").read_text(encoding="utf-8"))["scenes"]:
        wanted = {event["id"] for event in scene["events"]} | set(scene["alerts"])
        own = [one for one in alerts if {one.labels.get("event_id"), one.labels["alertname"]} & wanted]
        alerts = [one for one in alerts if one not in own]
        blocks = [block for group in {one.group: 0 for one in own} for block in notifications(own, group)]
        page += f"\n## {scene['title']}\n" + (f"\n{scene['about']}\n" if scene["about"] else "")
        page += "".join(text for _, text in sorted(blocks)) or "\nNo notification.\n"
    if alerts:
        raise SystemExit(f"alerts of no scene: {alerts}")
    return page


def notifications(alerts: list[Alert], group: tuple[str, ...]) -> list[tuple[int, str]]:
    """The time and text of the notification that a group fires, and of that of its end."""
    own = [one for one in alerts if one.group == group]
    matched = [f"{name}={value}" for name, value in own[0].labels.items()]
    receivers = amtool("config", "routes", "test", f"--config.file={ROUTES}", *matched).strip()
    if receivers == "nobody":
        return []
    found = [("firing", own[0].first, {id(one): one.annotations[one.first] for one in own})]
    end = max(one.last for one in own) + EVALUATION
    if end < END:
        found.append(("resolved", end, {id(one): one.annotations[one.last] for one in own}))
    blocks = []
    for status, at, texts in found:
        title, text = template(status, [(one.labels, texts[id(one)]) for one in own])
        head = f"{at // 3600:02}:{at // 60 % 60:02}:{at % 60:02}, {status}, to {receivers.replace(',', ' and ')}"
        blocks.append((at, f"\n### {head}\n\n**{title}**\n\n```text\n{text}\n```\n"))
    return blocks


def amtool(*arguments: str) -> str:
    return subprocess.run([AMTOOL, *arguments], capture_output=True, text=True, check=True).stdout


def template(status: str, alerts: list[tuple[dict, dict]]) -> tuple[str, str]:
    stamp = "1970-01-01T00:00:00Z"
    fixed = {"status": status, "startsAt": stamp, "endsAt": stamp, "generatorURL": "", "fingerprint": ""}
    shared = [dict(set.intersection(*(set(one[part].items()) for one in alerts))) for part in (0, 1)]
    data = {
        "receiver": "",
        "status": status,
        "alerts": [{"labels": own, "annotations": annotations, **fixed} for own, annotations in alerts],
        "groupLabels": {"alertname": alerts[0][0]["alertname"]},
        "commonLabels": shared[0],
        "commonAnnotations": shared[1],
        "externalURL": "",
    }
    with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
        json.dump(data, file)
        file.flush()
        options = (f"--template.glob={ALERTS}/alertmanager.tmpl", f"--template.data={file.name}")
        rendered = amtool("template", "render", *options, f"--template.text={TITLE}{SEPARATOR}{TEXT}")
    title, text = rendered.split(SEPARATOR)
    if "\n" in title:
        raise SystemExit(f"a title of several lines: {title}")
    return title, text.rstrip()


def check_page(page: str) -> list[str]:
    """The page is current, and the titles and texts in docs/alerting.md are on it."""
    examples = "".join(re.findall(r"```text\n(.*?)```", ALERTING.read_text(), re.DOTALL)).splitlines()
    shown = set(page.replace("**", "").splitlines())
    failures = [f"docs/alerting.md: not in {PAGE.name}: {line}" for line in examples if line not in shown]
    if os.environ.get("UPDATE_GOLDENS"):
        PAGE.write_text(page)
    elif PAGE.read_text() != page:
        command = ["diff", "--unified", PAGE, "-"]
        failures.append(subprocess.run(command, input=page, capture_output=True, text=True, check=False).stdout)
        failures.append(f"{PAGE.name} differs; read it after: UPDATE_GOLDENS=1 tests/rules/run")
    return failures


if __name__ == "__main__":
    problems = check_page(render(evaluate()))
    print("\n".join(problems), file=sys.stderr)
    sys.exit(1 if problems else 0)
