"""Draws the dashboards of some worlds, and checks what they show: tests/dashboards/run draw PROGRAM [WORLD...].

PROGRAM draws a dashboard as Grafana does. It is called with `DASHBOARD.json PROMETHEUS_URL OUT.png --from=TIME --to=TIME
--var=NAME=VALUE --width=PIXELS --theme=dark|light --report=FILE`. The report is JSON: `panels`, each with its `title`,
`errors`, `noData`, and `text` as a list of lines; `variables` and `annotations`, each with its `name` and `error`.

It is no stage of tests/run, because such a program needs a browser and much of Grafana's code, and is not part of this
project. tests/run asks the queries of all panels in all worlds. OUT is the folder for pictures and reports, WIDTH and
THEME are 1280 and dark by default.

pictures.txt has the world, dashboard, minute and variables of each picture, lines that follow each other in the text of a
panel, and the panels without data.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import boards
import gate
import worlds

sys.path.append(str(boards.ROOT / "tests" / "rulers"))
import parts

Picture = tuple[str, list[str]]  # board, minute and variables; what it shows


def pictures() -> dict[str, list[Picture]]:
    """The pictures of each world."""
    out: dict[str, list[Picture]] = {}
    for block in re.split(r"\n(?=\S)", Path(__file__).with_name("pictures.txt").read_text(encoding="utf-8")):
        first, *shows = block.splitlines()
        world, what = first.split(" ", 1)
        out.setdefault(world, []).append((what, [line.strip() for line in shows]))
    return out


def write_blocks(world: worlds.World, folder: Path) -> None:
    """Writes blocks of Prometheus with the series of a world."""
    lines = [
        f"{name} {value} {number * world.step}\n"
        for name, values in world.series().items()
        for number, value in enumerate(values)
        if value is not None
    ]
    (folder / "series.txt").write_text("".join([*lines, "# EOF\n"]), encoding="utf-8")
    command = [gate.promtool(), "tsdb", "create-blocks-from", "openmetrics", "series.txt", "data"]
    subprocess.run(command, cwd=folder, check=True, stdout=subprocess.DEVNULL)


def wrong(shows: list[str], report: dict[str, Any]) -> Iterator[str]:
    # Data sources of traces are optional.
    named = [each for each in report["variables"] + report["annotations"] if each["name"] not in ("tempo", "jaeger")]
    yield from (f"{each['name']}: {each['error']}" for each in named if each.get("error"))
    panels = {panel["title"]: panel for panel in report["panels"]}
    yield from (f"{title}: {error}" for title, panel in panels.items() for error in panel.get("errors", []))
    expected = dict(line.split(": ", 1) for line in shows)
    without = set(filter(None, expected.pop("no data", "").split("; ")))
    if empty := without ^ {title for title, panel in panels.items() if panel.get("noData")}:
        yield f"with and without data, other than expected: {', '.join(sorted(empty))}"
    for title, lines in expected.items():
        text = panels[title]["text"] if title in panels else ["no such panel"]
        if f" | {lines} | " not in f" | {' | '.join(text)} | ":
            yield f"{title}: {' | '.join(text)}, expected: {lines}"


def draw(program: str, prometheus: str, picture: Picture, out: Path) -> list[str]:
    (board, minute, *chosen), shows = picture[0].split(), picture[1]
    at = f"1970-01-01T{int(minute) // 60:02}:{int(minute) % 60:02}:00Z"
    (report := out.with_suffix(".json")).unlink(missing_ok=True)
    arguments = ["--from=1970-01-01T00:00:00Z", f"--to={at}", f"--report={report}", *(f"--var={one}" for one in chosen)]
    arguments += [f"--width={os.environ.get('WIDTH', '1280')}", f"--theme={os.environ.get('THEME', 'dark')}"]
    command = [program, boards.ROOT / "dashboards" / f"azse-{board}.json", prometheus, out, *arguments]
    run = subprocess.run(command, capture_output=True, text=True, check=False)
    if not report.exists():
        return [f"{program} wrote no report", *run.stderr.splitlines()]
    return list(wrong(shows, json.loads(report.read_text(encoding="utf-8"))))


def main() -> int:
    if len(sys.argv) < 2 or not os.access(sys.argv[1], os.X_OK):
        sys.exit("tests/dashboards/run draw: give the path of a program that draws dashboards, which draw.py describes")
    program, drawn = sys.argv[1], pictures()
    folder = Path(os.environ.get("OUT") or tempfile.mkdtemp(prefix="dashboards-"))
    report = gate.Report()
    for world in worlds.named(sys.argv[2:] or list(drawn), drawn):
        with parts.Stack() as stack:
            write_blocks(world, stack.folder)
            _, address = stack.listen(
                parts.debian("prometheus"),
                f"--config.file={os.devnull}",
                f"--storage.tsdb.path={stack.folder}/data",
                "--web.listen-address=127.0.0.1:0",
                # A series has a sample at each step, or has ended.
                f"--query.lookback-delta={world.step - 1}s",
            )
            parts.wait_for("Prometheus", lambda address=address: parts.request(f"http://{address}/-/ready"))
            for picture in drawn[world.name]:
                out = folder / f"{world.name}-{picture[0].split()[0]}.png"
                report.check(f"{world.name}: {picture[0]}", draw(program, f"http://{address}", picture, out), str(out))
    return 1 if report.findings else 0


if __name__ == "__main__":
    sys.exit(main())
