"""The scenes of the scripted day of docs/notifications.md. Their events are in alerts/tests/day.series.yml.

The ID of an event begins with the number of its scene, from 1: 00000004-0000-4000-8000-000000000001 is the first event
of the fourth scene.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Scene:
    title: str
    about: str = ""
    # The alerts without an event that belong to this scene.
    alerts: tuple[str, ...] = ()


SCENES = (
    Scene("A Freeze of 9 s", "Azure pauses the VM for some seconds. Severity `info`: it is only on the dashboards."),
    Scene("Host maintenance without interruption", "Announced with a duration of 0. Severity `info`."),
    Scene("A Freeze of unknown duration"),
    Scene("A Reboot", "The usual notice is 15 minutes. The VM is down for two minutes."),
    Scene(
        "A Redeploy that is announced hours ahead",
        "The VM is a node of AKS. A warning at first sight, and a critical alert in the last hour.",
    ),
    Scene(
        "Degraded hardware", "A Redeploy that is announced six days ahead. It is still open at the end of the day."
    ),
    Scene("A Reboot of three VMs that is cancelled"),
    Scene("A Reboot that a user ordered", "It waits for an approval, which comes after five minutes."),
    Scene("A hardware failure", "The event is Started at first sight. There was no announcement."),
    Scene("A Reboot that is overdue", "Azure starts it 15 minutes after NotBefore."),
    Scene(
        "An advisory, then a Spot eviction",
        "The advisory is `info`. The VM is deleted 45 seconds after the announcement of the eviction.",
    ),
    Scene(
        "A storm: 25 Spot evictions within 5 s",
        "Most of a scale set. One page says so; the evictions are one group in the chat.",
        ("AzureScheduledEventsScaleSetEvicted",),
    ),
    Scene("A deletion by the autoscaler"),
    Scene(
        "A Reboot after which the VM stays down for 50 minutes",
        "The alert stays open until the VM is back. After 30 minutes another page says that it is not.",
    ),
    Scene("Equal names in two clusters", "Both clusters have a VM with the name db-0."),
    Scene("An event of an unknown type"),
    Scene("A VM that disappears before its Freeze", "No exporter reports the end of the event."),
    Scene("An exporter that cannot be scraped", "No event explains it.", ("AzureScheduledEventsExporterDown",)),
)


def scene_of(labels: dict[str, str]) -> Scene | None:
    if event_id := labels.get("event_id"):
        return SCENES[int(event_id[:8], 16) - 1]
    return next((scene for scene in SCENES if labels["alertname"] in scene.alerts), None)
