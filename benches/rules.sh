#!/usr/bin/env bash
# Measures how long a real Prometheus takes to evaluate the rules of alerts/ over a large fleet.
#
#     benches/rules.sh [VMS [EVENTS]]        default 10000 500
#
# RULES is a list of checkouts and commits, default this checkout. They are measured one after another on the same fleet,
# which has the metrics of all of them: RULES="v0.1.0 ." compares that tag with this checkout.
#
# A real Prometheus on loopback scrapes the last 20 minutes of the fleet, a minute of samples every five seconds
# (benches/fleet.py), and evaluates the unmodified rule files. It therefore has the samples in memory, as that of a real
# fleet has. After the last scrape and eight more evaluations, three of a group that is evaluated once a minute, or one
# of a group with a longer interval, the script prints the times of each group and of the most expensive rules. No sample
# is written during these evaluations except those of the rules, so the result covers only the rules. The memory is that
# of Prometheus with the samples.
# PROMETHEUS sets another binary than the one in PATH.
set -euo pipefail
cd "$(dirname "$0")/.."
vms=${1:-10000} events=${2:-500}
prometheus=${PROMETHEUS:-prometheus}
command -v "$prometheus" >/dev/null || { echo "benches/rules.sh: $prometheus not found; install it: apt-get install prometheus" >&2; exit 1; }
read -ra versions <<<"${RULES:-.}"
work=$(mktemp -d)
server=
fleet=
stop() {
    local pid
    for pid in $server $fleet; do
        kill "$pid" 2>/dev/null || true
        wait "$pid" 2>/dev/null || true
    done
    server='' fleet=''
}
trap 'stop; rm -rf "$work"' EXIT
free_port() { python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])'; }

"$prometheus" --version 2>&1 | head -1
# measure CHECKOUT|COMMIT
measure() {
    local root=$work/$1 port source part i
    if [[ -d $1 ]]; then
        root=$(cd "$1" && pwd)
    else
        mkdir -p "$root"
        git archive "$1" alerts | tar -x -C "$root"
    fi
    port=$(free_port)
    source=$(free_port)
    # 21 scrapes of each target, and the time until the first one.
    benches/fleet.py "$source" "$vms" "$events" $(($(date +%s) + 120)) &
    fleet=$!
    cat >"$work/prometheus.yml" <<YAML
global: { evaluation_interval: 15s }
rule_files: ["$root/alerts/*.rules.yml"]
scrape_configs:
  - job_name: fleet
    honor_labels: true
    scrape_interval: 5s
    static_configs:
YAML
    for ((part = 0; part * 500 < vms; part++)); do
        echo "      - { targets: ['127.0.0.1:$source'], labels: { __metrics_path__: /$part } }" >>"$work/prometheus.yml"
    done
    for ((i = 0; i < 300; i++)); do
        ! curl -sf -o /dev/null "http://127.0.0.1:$source/left" || break
        sleep 0.2
    done
    "$prometheus" --config.file="$work/prometheus.yml" --storage.tsdb.path="$work/data" --web.listen-address="127.0.0.1:$port" >"$work/log" 2>&1 &
    server=$!
    echo "rules of $1"
    python3 - "http://127.0.0.1:$port" "$work/log" "$server" "http://127.0.0.1:$source" <<'PY'
import calendar, json, os, sys, time, urllib.request

base, log, server, source = sys.argv[1:]

def get(path):
    with urllib.request.urlopen(base + path, timeout=60) as answer:
        return json.load(answer)["data"]

def cpu():
    """CPU seconds of Prometheus. In contrast to the evaluation time, other load on the machine does not add to it."""
    fields = open(f"/proc/{server}/stat").read().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

# Groups are first evaluated within their interval.
while float(urllib.request.urlopen(source + "/left", timeout=60).read()) > 0:
    time.sleep(1)
filled = time.time()

began = None
deadline = time.monotonic() + 420
seen, groups, rules = {}, {}, {}
expected = {}  # evaluations to wait for; fewer of a group with an interval of its own
while not expected or any(len(groups.get(name, ())) < count for name, count in expected.items()):
    if time.monotonic() > deadline:
        sys.exit("too few evaluations within 420 s:\n" + open(log).read()[-2000:])
    time.sleep(7)  # seldom, because an answer has the texts of all alerts and takes time too
    try:
        answer = get("/api/v1/rules")["groups"]
    except OSError:
        continue  # not up yet
    expected = {group["name"]: 8 if group["interval"] <= 15 else 3 if group["interval"] <= 60 else 1 for group in answer}
    for group in answer:
        for rule in group["rules"]:
            if rule["health"] == "err":
                sys.exit(f"{rule['name']}: {rule['lastError']}")
        stamp = group["lastEvaluation"]
        if stamp == seen.get(group["name"]) or stamp.startswith("0001"):
            continue
        # Without the nanoseconds and the zone.
        if calendar.timegm(time.strptime(stamp[:19], "%Y-%m-%dT%H:%M:%S")) < filled + 10:
            continue
        seen[group["name"]] = stamp
        if began is None and all(name in seen for name, count in expected.items() if count > 1):
            began = cpu(), time.monotonic()
        groups.setdefault(group["name"], []).append(group["evaluationTime"])
        for rule in group["rules"]:
            key = (rule["name"], rule.get("labels", {}).get("severity", rule["type"]))
            rules.setdefault(key, []).append(rule["evaluationTime"])

def line(name, took):
    took = sorted(took)
    print(f"{name:58} median {took[len(took) // 2] * 1000:7.1f} ms   max {took[-1] * 1000:7.1f} ms")

print(f"{sum(len(g['rules']) for g in answer)} rules; "
      f"{sum(len(r.get('alerts', [])) for g in answer for r in g['rules'])} alerts active")
for name, took in groups.items():
    line(f"group {name}", took)
for (name, kind), took in sorted(rules.items(), key=lambda item: -sorted(item[1])[len(item[1]) // 2])[:12]:
    line(f"  {name} ({kind})", took)
# With the answers to this script.
print(f"mean load by Prometheus: {(cpu() - began[0]) / (time.monotonic() - began[1]):.2f} cores")
print("series in memory:", get("/api/v1/status/tsdb")["headStats"]["numSeries"])
resident = next(l for l in open(f"/proc/{server}/status") if l.startswith("VmHWM"))
print("peak memory of this Prometheus:", resident.split(":")[1].strip())
PY
    stop
    rm -rf "$work/data"
}

for version in "${versions[@]}"; do measure "$version"; done
