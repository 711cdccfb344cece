"""Writes the dashboards: python3 dashboards/generator [--check].

`--check` writes nothing and fails if a file differs from the generated content. Requires only the standard library.
"""

import json
import sys
from pathlib import Path

import annotations
import fleet
import history
import vm

HERE = Path(__file__).resolve().parent.parent


def files() -> dict[Path, str]:
    boards = [build() for build in (fleet.build, vm.build, history.build)]
    contents = {f"{board['uid']}.json": board for board in boards} | {"annotations.json": annotations.build()}
    return {
        HERE / name: json.dumps(content, indent=2, sort_keys=True, ensure_ascii=False) + "\n"
        for name, content in contents.items()
    }


def main() -> int:
    stale = [path for path, text in files().items() if not path.exists() or path.read_text(encoding="utf-8") != text]
    for path in stale:
        if "--check" in sys.argv:
            print(
                f"{path.name} is not what dashboards/generator writes; run: python3 dashboards/generator",
                file=sys.stderr,
            )
        else:
            path.write_text(files()[path], encoding="utf-8")
    return 1 if stale and "--check" in sys.argv else 0


if __name__ == "__main__":
    sys.exit(main())
