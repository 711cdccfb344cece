"""Writes a month of a synthetic fleet as OpenMetrics: python3 feed.py OUT.om [--vms N] [--events N] [--days N] [--quiet].

Create blocks with: promtool tsdb create-blocks-from openmetrics --max-block-duration=2400h OUT.om DIR
The data ends half an hour in the future, so a dashboard that is opened in this time shows current events.
"""

from __future__ import annotations

import argparse
import time
from dataclasses import replace
from pathlib import Path

import fleet
from exposition import Exporters

AHEAD = 30 * fleet.MINUTE
FAILING = 40 * fleet.MINUTE


def write(
    path: Path,
    now: float,
    count: int = 24,
    events: int = 90,
    days: int = 30,
    dense: float = 3 * fleet.HOUR,
    quiet: bool = False,
    warming_up: int = 1,
) -> int:
    vms = fleet.vms(count)
    end = now + AHEAD
    failures = ((end - FAILING, fleet.FOREVER),)
    if not quiet and count >= 20:
        vms[14] = replace(vms[14], down=failures)
        vms[17] = replace(vms[17], failing=failures)
    for i in range(warming_up):
        vms[i] = replace(vms[i], warming_up=((0.0, fleet.FOREVER),))
    fleet_events = [] if quiet else fleet.past(vms, now, days, events) + fleet.current(vms, now)
    exporters = Exporters(
        vms,
        fleet_events,
        begin=now - days * fleet.DAY,
        end=end,
        step=15,
        dense=dense,
        sparse=240,
        job="azure-scheduled-events",
    )
    with path.open("w", encoding="utf-8", newline="\n") as out:
        return exporters.write(out)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out", type=Path)
    parser.add_argument("--vms", type=int, default=24)
    parser.add_argument("--events", type=int, default=90)
    parser.add_argument("--days", type=int, default=30)
    parser.add_argument("--now", type=float, default=time.time())
    parser.add_argument("--quiet", action="store_true", help="no events and no failures")
    args = parser.parse_args()
    print(write(args.out, args.now, args.vms, args.events, args.days, quiet=args.quiet), "samples")
