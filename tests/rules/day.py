"""The scenes of the scripted day of docs/notifications.md, from alerts/tests/day.json."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

SCRIPT = Path(__file__).resolve().parent.parent.parent / "alerts" / "tests" / "day.json"


@dataclass(frozen=True)
class Scene:
    title: str
    about: str
    # The alerts without an event that belong to this scene.
    alerts: tuple[str, ...]
    events: frozenset[str]


SCENES = tuple(
    Scene(one["title"], one["about"], tuple(one["alerts"]), frozenset(event["id"] for event in one["events"]))
    for one in json.loads(SCRIPT.read_text(encoding="utf-8"))["scenes"]
)


def scene_of(labels: dict[str, str]) -> Scene | None:
    if event_id := labels.get("event_id"):
        return next(scene for scene in SCENES if event_id in scene.events)
    return next((scene for scene in SCENES if labels["alertname"] in scene.alerts), None)
