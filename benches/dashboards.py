#!/usr/bin/env python3
"""How long a dashboard's queries take in a real Prometheus: benches/dashboards.py URL [--repeat N] [--at UNIX_TIME] [--pid PID].

Asks every query of every dashboard as Grafana would, one after the other, with everything selected, over the
dashboard's own time range, and prints the sum per dashboard (the median of the repetitions) and the dearest queries.
The first round warms the caches and is not counted. Then the same once more as a browser would, six queries at a time.
benches/dashboards.sh makes the fleet to measure against, and asks this.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests" / "dashboards.d"))

import boards
import prometheus


def processor_seconds(pid: int | None) -> float:
    if pid is None:
        return 0.0
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def main() -> None:
    cli = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    cli.add_argument("url")
    cli.add_argument("--repeat", type=int, default=5)
    cli.add_argument("--at", type=float, default=None)
    cli.add_argument(
        "--pid",
        type=int,
        default=None,
        help="of that Prometheus: also says what processor time it took, to which other work on the machine adds nothing",
    )
    cli.add_argument("--dearest", type=int, default=5, help="how many of the dearest queries to show")
    args = cli.parse_args()
    server = prometheus.Api(args.url)
    for name, board in boards.load().items():
        span = boards.seconds(board["time"]["from"].removeprefix("now-"))
        chosen = server.first_target(args.at or time.time()) if name == "azse-vm.json" else {}
        taken: dict[str, list[float]] = {}
        points, worked = 0, []
        for _ in range(args.repeat + 1):
            before = processor_seconds(args.pid)
            for query in boards.queries(name, board):
                began = time.perf_counter()
                answer = server.ask(query, boards.variables(board, chosen), span, args.at or time.time())
                taken.setdefault(query.where, []).append(time.perf_counter() - began)
                points += len(answer)
            worked.append(processor_seconds(args.pid) - before)
        medians = {where: statistics.median(times[1:]) for where, times in taken.items()}
        total = statistics.median(sum(times[i] for times in taken.values()) for i in range(1, args.repeat + 1))
        browser = []
        for _ in range(args.repeat):
            began = time.perf_counter()
            with ThreadPoolExecutor(6) as pool:
                asked = [
                    pool.submit(server.ask, query, boards.variables(board, chosen), span, args.at or time.time())
                    for query in boards.queries(name, board)
                ]
                for answer in asked:
                    answer.result()
            browser.append(time.perf_counter() - began)
        work = f", {1000 * statistics.median(worked[1:]):.0f} ms of processor" if args.pid else ""
        print(
            f"{name}: {len(medians)} queries, {1000 * total:.0f} ms one after the other, {1000 * statistics.median(browser):.0f} ms six at a time{work}, {points // (args.repeat + 1)} series"
        )
        for where, seconds in sorted(medians.items(), key=lambda item: -item[1])[: args.dearest]:
            print(f"    {1000 * seconds:6.0f} ms  {where.removeprefix(name + ': ')}")


if __name__ == "__main__":
    main()
