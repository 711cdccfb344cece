"""What must be true of the dashboards in every scripted world, whatever the texts are."""

from __future__ import annotations

import re
import statistics
from collections import Counter
from collections.abc import Iterator

import fleet
from fleet import Event, Vm
from grafana_panels import Look, Shown
from grafana_values import text_of
from worlds import Moment, World

ALL_CLEAR = re.compile(r"\b(none|nothing|no events?|no VMs?|all clear)\b", re.IGNORECASE)
# Texts for missing data that state nothing: Grafana shows them for a failed query too.
NEUTRAL = re.compile(r"–|No data|no (rows|data): see .*|", re.IGNORECASE)
KINDS = re.compile(rf"\b({'|'.join((*fleet.TYPES, *fleet.ADVISORY_TYPES))})\b")
LABEL_NAME = re.compile(r"[a-z][a-z0-9_]*")
ADVISORIES = "Advisories"


def findings(world: World, moment: Moment, looks: dict[str, Look]) -> Iterator[str]:
    at = f"{world.name} at {moment.at // 60} min"
    for board, look in looks.items():
        for finding in _of_any(world, look):
            yield f"{at}: {board}: {finding}"
        for finding in OF_BOARD[board](world, moment, look):
            yield f"{at}: {board}: {finding}"


def _of_any(world: World, look: Look) -> Iterator[str]:
    known = {event.event_type for event in world.events}
    for shown in look.panels:
        texts = [text for row in shown.cells for text in row]
        if world.does_fail and (wrong := [text for text in texts if not NEUTRAL.fullmatch(text)]):
            yield f"{shown.title}: a failed query says {', '.join(wrong)}"
        stray = [title for title in shown.cells[0] if LABEL_NAME.fullmatch(title)] if shown.kind == "table" else []
        if stray and not shown.is_empty:
            yield f"{shown.title}: a column {', '.join(stray)}"
        if shown.kind == "table" and not shown.is_empty and any(text.startswith("no rows") for text in texts):
            yield f"{shown.title}: a cell says that there are no rows"
        if look.board == "azse-history.json":
            continue  # it compares with what Azure promises for each type
        for kind in sorted({kind for text in texts for kind in KINDS.findall(text)} - known):
            yield f"{shown.title}: shows {kind}, but there is no such event"


def _of_fleet(world: World, moment: Moment, look: Look) -> Iterator[str]:
    now = moment.at
    events, blind = world.open_events(now), world.blind(now)
    known = [vm for vm in [*world.vms, *world.extra] if vm.is_target(now)]
    row = _text(look.row_1)
    if world.does_fail:
        return
    if set(world.rules) < {"alerts", "dashboards"}:
        yield from _missing(row, "no rules")
    elif re.search(r"\bno rules(?! or)\b", row):
        yield f"row 1 says no rules, but they are loaded: {row}"
    yield from _all_clear(look, events, now, bool(blind or not known or len(world.rules) < 2))
    if not events and not blind and known and not ALL_CLEAR.search(row):
        yield f"row 1 does not say that nothing is pending: {row}"
    if len(world.rules) < 2:
        return
    yield from _states(events, now, row)
    yield from _coverage(world, now, row)
    yield from _names(world, now, look)
    yield from _table(world, now, look, events)


def _coverage(world: World, now: float, row: str) -> Iterator[str]:
    """How many exporters report. A target that left service discovery in the last 15 minutes may count."""
    count = len({address(vm) for vm in [*world.vms, *world.extra] if vm.begin <= now < vm.end})
    recent = {address(vm) for vm in [*world.vms, *world.extra] if vm.begin <= now < vm.end + 900}
    blind = len(world.blind(now))
    texts = [f"{blind} of {count} blind"] if blind else []
    texts += [f"{count - blind} of {count} report"]
    if count == len(recent) > 0 and not any(text in row for text in texts):
        yield f"row 1 has none of: {', '.join(texts)}: {row}"


def _names(world: World, now: float, look: Look) -> Iterator[str]:
    """A VM has its name from the next scrape on, before the next evaluation of the rules."""
    tables = [shown for shown in look.panels if shown.title.startswith("Pending")]
    texts = [text for shown in [*look.row_1, *tables] for row in shown.cells for text in row]
    for vm in world.vms:
        if vm.named + world.scrape <= now and any(vm.instance in text for text in texts):
            yield f"{vm.instance} is shown instead of {vm.name}"


def address(vm: Vm) -> tuple[str, str]:
    return dict(vm.target_labels).get("cluster", ""), vm.instance


def _of_vm(world: World, moment: Moment, look: Look) -> Iterator[str]:
    if world.does_fail or world.looked_at is None:
        return
    vm = world.looked_at
    events = [event for event in world.open_events(moment.at) if vm.name in {one.name for one in event.vms}]
    is_blind = vm.name in {one.name for one in world.blind(moment.at)}
    yield from _all_clear(look, events, moment.at, is_blind)
    if len(world.rules) == 2:
        yield from _states(events, moment.at, _text(look.row_1))
        yield from _table(world, moment.at, look, events)


def _of_history(world: World, moment: Moment, look: Look) -> Iterator[str]:
    """Every event and every VM of an event counts once."""
    now = moment.at
    if world.does_fail or len(world.rules) < 2:
        return
    events = [event for event in world.events if not event.is_advisory and event.first_seen <= now]
    started = [event for event in events if event.started is not None and event.started <= now]
    ended = [event for event in events if event.ended is not None and event.ended <= now]
    lost = sum(event.interruption.get(vm.name, 0.0) for event in ended for vm in event.vms)
    outcomes = Counter(event.outcome for event in ended) + Counter({"not ended": len(events) - len(ended)})
    approved = Counter(event.event_type for event in events for _ in event.vms if event.approved)
    expected = {
        "Events": [str(len(events))],
        "VMs hit": [str(len({address(vm) for event in started for vm in event.vms}))],
        "Time lost": [text_of(lost, {"unit": "s", "decimals": 1}, now)],
        "What became of them": [f"{name}: {count}" for name, count in sorted(outcomes.items())],
        "Approvals": [f"{kind}: approved: {count}" for kind, count in sorted(approved.items())],
    }
    if events and all(event.not_before is not None and event in ended for event in events):
        # As first announced: a later NotBefore does not count.
        notice = statistics.median(float(event.not_before - event.first_seen) for event in events)
        expected["Median notice"] = [text_of(notice, {"unit": "s", "decimals": 1}, now)]
    for shown in look.panels:
        said = sorted(" ".join(row) for row in shown.cells) if not shown.is_empty else []
        if shown.title in expected and said != expected[shown.title] and not (shown.is_empty and not events):
            yield f"{shown.title}: {', '.join(said) or 'nothing'}, not {', '.join(expected[shown.title])}"


def _all_clear(look: Look, events: list[Event], now: float, is_blind: bool) -> Iterator[str]:
    """The panels Now and Next are about events that have or have not started, the others about all open events."""
    started = [event for event in events if event.started is not None and event.started <= now]
    about = {"Now": started, "Next": [event for event in events if event not in started]}
    for shown in [*look.row_1, *look.partial]:
        is_false = is_blind or bool(about.get(shown.title, events))
        said = [text for row in shown.cells for text in row if ALL_CLEAR.search(text)]
        if is_false and said and shown.title != ADVISORIES:
            yield f"{shown.title}: says {', '.join(said)}"


def _states(events: list[Event], now: float, row: str) -> Iterator[str]:
    """Row 1 tells what happens now, what is due, and what is next."""
    started = [event for event in events if event.started is not None and event.started <= now]
    waiting = [event for event in events if event not in started]
    due = [event for event in waiting if event.not_before is not None and event.not_before <= now]
    timeless = [event for event in waiting if event.not_before is None]
    planned = sorted(
        (event for event in waiting if event not in due and event not in timeless), key=lambda e: e.not_before
    )
    for some, word in ((started[:1], "now"), (due[:1], "due"), (timeless[:1], "any moment"), (planned[:1], "")):
        for event in some:
            yield from _missing(row, event.event_type)
            yield from _missing(row, word)


def _missing(row: str, word: str) -> Iterator[str]:
    if not re.search(rf"\b{word}\b", row, re.IGNORECASE):
        yield f"row 1 does not say {word}: {row}"


def _table(world: World, now: float, look: Look, events: list[Event]) -> Iterator[str]:
    """Each open event is in exactly one row of the table of pending events, and no other event is in it."""
    shown = next((one for one in look.panels if one.kind == "table" and one.title.startswith("Pending")), None)
    if shown is None:
        yield "no table of pending events"
        return
    counts: dict[str, int] = {}
    advisories = {event.event_id for event in world.events if event.is_advisory}
    for row in shown.rows:
        event_id = next((str(value) for value in row.values() if isinstance(value, str) and "-4000-8000-" in value), "")
        counts[event_id] = counts.get(event_id, 0) + 1
    started = [event.event_id for event in events if event.started is not None and event.started <= now]
    is_started = [any(event_id in row.values() for event_id in started) for row in shown.rows]
    if is_started != sorted(is_started):
        yield f"{shown.title}: a started event is above one that has not started"
    for event in events:
        if counts.pop(event.event_id, 0) != 1:
            rows = sum(event.event_id in row.values() for row in shown.rows)
            yield f"{shown.title}: {event.event_type} {event.event_id[:8]} has {rows} rows"
    for event_id in counts.keys() - advisories:
        yield f"{shown.title}: a row of {event_id or 'no event'}, which is not open"


def _text(row_1: list[Shown]) -> str:
    return " │ ".join(f"{shown.title}: {', '.join(' '.join(cells) for cells in shown.cells)}" for shown in row_1)


OF_BOARD = {"azse-fleet.json": _of_fleet, "azse-history.json": _of_history, "azse-vm.json": _of_vm}
