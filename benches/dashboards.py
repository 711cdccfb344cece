#!/usr/bin/env python3
"""Measures the dashboards' queries in Prometheus: benches/dashboards.py URL [--repeat N] [--at UNIX_TIME] [--pid PID].

Sends every query of every dashboard as Grafana does, one at a time, with All selected and the dashboard's own time
range. Prints the total per dashboard (median of the repetitions) and the slowest queries. The first round warms the
caches and is not counted. Then sends the queries as a browser does, six at a time. benches/dashboards.sh creates the
fleet and runs this script.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests" / "dashboards"))

import boards
import prometheus


def cpu_time(pid: int | None) -> float:
    if pid is None:
        return 0.0
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def some_vm(server: prometheus.Api, at: float) -> str:
    """The instance of a VM that has events."""
    return server.instant("topk(1, azure_scheduled_event_open)", at)[0]["metric"]["instance"]


def main() -> None:
    cli = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    cli.add_argument("url")
    cli.add_argument("--repeat", type=int, default=5)
    cli.add_argument("--at", type=float, default=None)
    cli.add_argument(
        "--pid",
        type=int,
        default=None,
        help="process ID of Prometheus; also prints its CPU time, which does not depend on other load",
    )
    cli.add_argument("--slowest", type=int, default=5, help="number of slowest queries to print")
    args = cli.parse_args()
    server = prometheus.Api(args.url)
    for name, board in boards.load().items():
        span = boards.seconds(board["time"]["from"].removeprefix("now-"))
        chosen = {"cluster": "", "instance": some_vm(server, args.at or time.time())} if name == "azse-vm.json" else {}
        durations: dict[str, list[float]] = {}
        cpu_of: dict[str, list[float]] = {}
        series_count, cpu_seconds = 0, []
        for _ in range(args.repeat + 1):
            round_before = cpu_time(args.pid)
            for query in boards.queries(name, board):
                start, before = time.perf_counter(), cpu_time(args.pid)
                series = server.query_panel(query, boards.variables(board, chosen), span, args.at or time.time())
                durations.setdefault(query.where, []).append(time.perf_counter() - start)
                cpu_of.setdefault(query.where, []).append(cpu_time(args.pid) - before)
                series_count += len(series)
            cpu_seconds.append(cpu_time(args.pid) - round_before)
        medians = {where: statistics.median(times[1:]) for where, times in durations.items()}
        total = statistics.median(sum(times[i] for times in durations.values()) for i in range(1, args.repeat + 1))
        browser = []
        for _ in range(args.repeat):
            start = time.perf_counter()
            with ThreadPoolExecutor(6) as pool:
                requests = [
                    pool.submit(
                        server.query_panel, query, boards.variables(board, chosen), span, args.at or time.time()
                    )
                    for query in boards.queries(name, board)
                ]
                for request in requests:
                    request.result()
            browser.append(time.perf_counter() - start)
        cpu = f", {1000 * statistics.median(cpu_seconds[1:]):.0f} ms of CPU time" if args.pid else ""
        print(
            f"{name}: {len(medians)} queries, {1000 * total:.0f} ms one at a time, {1000 * statistics.median(browser):.0f} ms six at a time{cpu}, {series_count // (args.repeat + 1)} series"
        )
        for where, seconds in sorted(medians.items(), key=lambda item: -item[1])[: args.slowest]:
            cpu = f"{1000 * statistics.mean(cpu_of[where][1:]):6.0f} ms of CPU time" if args.pid else ""
            print(f"    {1000 * seconds:6.0f} ms {cpu}  {where.removeprefix(name + ': ')}")


if __name__ == "__main__":
    main()
