"""Annotations that users can add to their own dashboards: maintenance as shaded regions, NotBefore as a line."""

from typing import Any

from parts import CRITICAL, DATASOURCE, WARNING


def _query(name: str, expr: str, colour: str, title: str, **more: Any) -> dict[str, Any]:
    return {
        "name": name,
        "datasource": DATASOURCE,
        "enable": True,
        "iconColor": colour,
        "target": {
            "datasource": DATASOURCE,
            "editorMode": "code",
            "expr": expr,
            "instant": False,
            "interval": "15s",
            "range": True,
            "refId": "Anno",
        },
        "titleFormat": title,
        "textFormat": "Event {{event_id}}",
        "tagKeys": "event_type,event_source",
        **more,
    }


def build(matchers: str = "") -> list[dict[str, Any]]:
    """`matchers` selects events. The standalone snippet has none, because other dashboards have other variables."""
    more = f", {matchers}" if matchers else ""
    by = "cluster, event_id, event_type, event_source"
    started = f'max by ({by}) (azure_scheduled_event_status{{event_status="Started", scope!="other"{more}}})'
    announced = f'1000 * max by ({by}) (azure_scheduled_event_not_before_timestamp_seconds{{scope!="other"{more}}})'
    return [
        _query("Azure maintenance", started, CRITICAL, "{{event_type}} is under way"),
        _query("Azure maintenance, not before", announced, WARNING, "{{event_type}} may start", useValueForTime=True),
    ]
