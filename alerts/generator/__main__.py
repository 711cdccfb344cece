"""Writes the rules in the forms of other rulers: python3 alerts/generator [--check].

`--check` writes nothing and fails if a file differs from the generated content. Requires PyYAML.
"""

from __future__ import annotations

import sys
from pathlib import Path

import azure_monitor
import prometheus_rule

ROOT = Path(__file__).resolve().parent.parent.parent
OUTPUT = ROOT / "packaging" / "prometheus"


def files() -> dict[Path, str]:
    rules = {}
    for folder in ("alerts", "dashboards"):
        for path in sorted((ROOT / folder).glob("*.rules.yml"), reverse=folder == "alerts"):
            rules[path.name.removesuffix(".rules.yml")] = path.read_text(encoding="utf-8")
    return {
        OUTPUT / "kubernetes" / "prometheusrule.yaml": prometheus_rule.build(rules),
        OUTPUT / "azure-monitor" / "rule-groups.json": azure_monitor.build(rules),
    }


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
        print(f"{path} is not what alerts/generator writes; run: python3 alerts/generator", file=sys.stderr)
    return 1 if stale else 0


if __name__ == "__main__":
    sys.exit(main())
