#!/usr/bin/env bash
# Measures the duration of all dashboard queries over a large fleet in a real Prometheus.
#
#     benches/dashboards.sh [VMS [EVENTS [MINUTES [PAST]]]]      default 10000 500 40 0
#
# The script writes the last MINUTES of the fleet as blocks (benches/fleet.py, promtool) and adds the output of the
# recording rules of alerts/ and dashboards/ (tests/dashboards/record.py). It waits until Prometheus has compacted them,
# and runs every query of every dashboard (benches/dashboards.py). PAST is the number of events that ended in the last
# 30 days. The script takes several minutes and 4 GB in TMPDIR.
# PROMETHEUS and PROMTOOL set other binaries than those in PATH. ROUNDS is the number of runs of each query.
set -euo pipefail
cd "$(dirname "$0")/.."
vms=${1:-10000} events=${2:-500} minutes=${3:-40} past=${4:-0}
prometheus=${PROMETHEUS:-prometheus} promtool=${PROMTOOL:-promtool}
for tool in "$prometheus" "$promtool"; do
    command -v "$tool" >/dev/null || { echo "benches/dashboards.sh: $tool not found; install it: apt-get install prometheus" >&2; exit 1; }
done
work=$(mktemp -d)
server=
finish() {
    if [ -n "$server" ] && kill "$server" 2>/dev/null; then wait "$server" 2>/dev/null || true; fi
    rm -rf "$work"
}
trap finish EXIT

"$prometheus" --version 2>&1 | head -1
end=$(date +%s)
benches/fleet.py --vms "$vms" --events "$events" --minutes "$minutes" --past "$past" --end "$end" >"$work/fleet.om"
"$promtool" tsdb create-blocks-from openmetrics --max-block-duration=1000h "$work/fleet.om" "$work/data" | tail -n +2 | awk '{ samples += $(NF-3); series = $(NF-1) } END { print series " series, " samples " samples" }'
rm "$work/fleet.om"
blocks() { set -- "$work"/data/01*; echo $#; }
plain=$(blocks)
python3 tests/dashboards/record.py "$work/data" $((end - minutes * 60)) $((end + 60))

port=$(python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
echo 'global: {}' >"$work/prometheus.yml"
"$prometheus" --config.file="$work/prometheus.yml" --storage.tsdb.path="$work/data" --storage.tsdb.retention.time=100d --web.listen-address="127.0.0.1:$port" >"$work/log" 2>&1 &
server=$!
# Compaction starts a minute after Prometheus. Without the wait, the queries would read a hundred blocks.
deadline=$((SECONDS + 300))
while [ "$(blocks)" -gt $((plain + 1)) ]; do
    if [ $SECONDS -gt $deadline ] || ! kill -0 "$server"; then echo "benches/dashboards.sh: $(blocks) blocks were not compacted:" >&2; tail -5 "$work/log" >&2; exit 1; fi
    sleep 1
done
echo "load average $(cut -d' ' -f1-3 /proc/loadavg) before"
python3 benches/dashboards.py "http://127.0.0.1:$port" --at "$end" --pid "$server" --repeat "${ROUNDS:-5}"
echo "load average $(cut -d' ' -f1-3 /proc/loadavg) after"
