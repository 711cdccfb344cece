"""Writes the rules in the forms of other rulers: python3 alerts/generator [--check].

`--check` writes nothing and fails if a file differs from the generated content. Requires PyYAML.
"""

from __future__ import annotations

import sys
from pathlib import Path

import azure_monitor

ROOT = Path(__file__).resolve().parent.parent.parent
OUTPUT = ROOT / "packaging" / "prometheus"
# Before the resources of the Prometheus Operator: PrometheusRule, monitoring.coreos.com/v1
HEAD = """\
# Written by alerts/generator. kubectl apply --namespace monitoring -f prometheusrule.yaml
# Prometheus loads the resources that its ruleSelector selects. Add that label, for example `release` of the chart
# kube-prometheus-stack. The selector of the targets is in the first rule: edit only that one.
"""


def prometheus_rule(name: str, text: str) -> str:
    """The groups are the text of the rule file, with a larger indentation. Thus they keep their comments and anchors."""
    groups = text[text.index("\ngroups:\n") + 1 :]
    body = "".join(f"  {line}\n" if line else "\n" for line in groups.splitlines())
    return f"""\
---
apiVersion: monitoring.coreos.com/v1
kind: PrometheusRule
metadata:
  name: azure-scheduled-events{"" if name == "scheduled-events" else f"-{name}"}
  labels:
    app.kubernetes.io/name: azure-scheduled-events-exporter
spec:
{body}"""


def main() -> int:
    paths = sorted(ROOT.glob("alerts/*.rules.yml"), reverse=True)
    rules = {path.name.removesuffix(".rules.yml"): path.read_text(encoding="utf-8") for path in paths}
    files = {
        OUTPUT / "kubernetes/prometheusrule.yaml": HEAD + "".join(prometheus_rule(*rule) for rule in rules.items()),
        OUTPUT / "azure-monitor/rule-groups.json": azure_monitor.build(rules),
    }
    stale = [path for path, content in files.items() if path.read_text(encoding="utf-8") != content]
    for path in stale:
        if "--check" in sys.argv[1:]:
            print(f"{path} is not what alerts/generator writes; run: python3 alerts/generator", file=sys.stderr)
        else:
            path.write_text(files[path], encoding="utf-8")
    return 1 if stale and "--check" in sys.argv[1:] else 0


if __name__ == "__main__":
    sys.exit(main())
