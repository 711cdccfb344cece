"""Writes the dashboards: python3 dashboards/generator [--check].

`--check` writes nothing and fails if a file differs from the generated content. Requires only the standard library.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import annotations
import fleet
import history
import vm

HERE = Path(__file__).resolve().parent.parent
ROOT = HERE.parent


def files() -> dict[Path, str]:
    out = {}
    for build in (fleet.build, vm.build, history.build):
        board = build()
        out[HERE / f"{board['uid']}.json"] = text(board)
    out[HERE / "annotations.json"] = text(annotations.build())
    return out


def text(value: object) -> str:
    return json.dumps(value, indent=2, sort_keys=True, ensure_ascii=False) + "\n"


def main() -> int:
    stale = []
    for path, content in files().items():
        if "--check" in sys.argv[1:]:
            if not path.exists() or path.read_text(encoding="utf-8") != content:
                stale.append(path.relative_to(ROOT))
            continue
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content, encoding="utf-8")
    for path in stale:
        print(f"{path} is not what dashboards/generator writes; run: python3 dashboards/generator", file=sys.stderr)
    return 1 if stale else 0


if __name__ == "__main__":
    sys.exit(main())
