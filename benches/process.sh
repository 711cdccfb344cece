#!/usr/bin/env bash
# Measures the exporter process and Debian's node_exporter in one run, and prints a Markdown table.
#
#   benches/process.sh            about 20 minutes, on an otherwise idle machine
#   POLLS=600 CPU_SECONDS=30 benches/process.sh        a shorter run
#   EXPORTER=PATH benches/process.sh                   a build other than target/release
#
# The exporter polls its own simulator once a second; the simulator shows one event of this VM. For the
# memory rows, it polls five times a second to reach the polls of an hour sooner. node_exporter runs
# twice: with only the time collector, which shows the cost of its HTTP server, and with its defaults.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

POLLS=${POLLS:-3600}
SCRAPES=${SCRAPES:-10000}
CPU_SECONDS=${CPU_SECONDS:-120}
ROUNDS=${ROUNDS:-5}
SCENARIO=${SCENARIO:-host-maintenance}

die() { printf 'process.sh: %s\n' "$*" >&2; exit 1; }
for tool in prometheus-node-exporter wrk curl; do
  command -v "$tool" >/dev/null || die "$tool not found; run: tests/tools/install bench"
done
command -v python3 >/dev/null || die "python3 not found"

if [ -z "${EXPORTER:-}" ]; then
  cargo build --release --locked >&2
  EXPORTER=$(cargo metadata --format-version 1 --no-deps | sed 's/.*"target_directory":"\([^"]*\)".*/\1/')/release/azure-scheduled-events-exporter
fi
exporter=$(realpath "$EXPORTER")
node=$(command -v prometheus-node-exporter)
probe() { python3 benches/process/probe.py "$@"; }

work=$(mktemp -d)
started=()
# Ends only the processes that this script started.
end_all() {
  local pid
  for pid in "${started[@]}"; do kill "$pid" 2>/dev/null || true; done
  wait
  rm -rf "$work"
}
trap end_all EXIT

# run NAME PROGRAM [ARG…]: starts a program in the background and sets $pid.
run() {
  local name=$1
  shift
  "$@" >"$work/$name.log" 2>&1 &
  pid=$!
  started+=("$pid")
}

# answers PORT PATH: waits until the response is 200.
answers() {
  local left=300
  until curl -fsS -o /dev/null "http://127.0.0.1:$1$2" 2>/dev/null; do
    left=$((left - 1))
    [ $left -gt 0 ] || die "no response on port $1: $(tail -n 3 "$work"/*.log)"
    sleep 0.1
  done
}

field() { awk -v key="$2:" '$1 == key { print $2 }' "/proc/$1/status"; }
cpu_ns() { cat "/proc/$1"/task/*/schedstat | awk '{ total += $1 } END { printf "%.0f", total }'; }
mb() { awk -v kb="$1" 'BEGIN { printf "%.1f MB", kb / 1000 }'; }
# polls PORT: number of requests of the exporter to IMDS.
polls() { curl -fsS "http://127.0.0.1:$1/metrics" | awk '$1 == "azure_scheduled_events_imds_requests_total" { print int($2) }'; }
median() { sort -n | awk '{ all[NR] = $1 } END { print all[int((NR + 1) / 2)] }'; }

base=$((21000 + RANDOM % 8000))
imds=$base
ports=($((base + 1)) $((base + 2)) $((base + 3)))
names=("this exporter" "node_exporter (time only)" "node_exporter (defaults)")
fast=$((base + 4))
calm_imds=$((base + 5)) calm=$((base + 6))

command_of() {
  local at="127.0.0.1:${ports[$1]}"
  case $1 in
    0) command=("$exporter" "--web.listen-address=$at" "--imds.url=http://127.0.0.1:$imds") ;;
    1) command=("$node" --collector.disable-defaults --collector.time "--web.listen-address=$at") ;;
    2) command=("$node" "--web.listen-address=$at") ;;
  esac
}

declare -A cell
say() { printf '%s %s\n' "$(date +%T)" "$*" >&2; }

run imds "$exporter" simulate "--web.listen-address=127.0.0.1:$imds" "--scenario=$SCENARIO"
answers "$imds" /

say "start-up, 20 times each"
for i in 0 1 2; do
  command_of $i
  cell[size,$i]=$(stat -Lc %s "${command[0]}")
  read -r middle low high < <(probe startup 20 "${ports[$i]}" "${command[@]}")
  cell[startup,$i]="$middle ms ($low to $high)"
done

pids=()
for i in 0 1 2; do
  command_of $i
  run "peer$i" "${command[@]}"
  pids[i]=$pid
done
# The same exporter without a pending event, which is the usual case.
run calm_imds "$exporter" simulate "--web.listen-address=127.0.0.1:$calm_imds"
answers "$calm_imds" /
run calm "$exporter" "--web.listen-address=127.0.0.1:$calm" "--imds.url=http://127.0.0.1:$calm_imds"
calm_pid=$pid
say "idle for 30 s, never scraped"
sleep 30
for i in 0 1 2; do
  cell[idle,$i]="$(mb "$(field "${pids[$i]}" VmRSS)") ($(mb "$(field "${pids[$i]}" RssAnon)") anonymous)"
  cell[threads,$i]=$(field "${pids[$i]}" Threads)
done

cell[calm,1]=– cell[calm,2]=–
# used PID BEFORE TOOK: CPU seconds per hour.
used() { awk -v used=$(($(cpu_ns "$1") - $2)) -v took="$3" 'BEGIN { printf "%.2f s", used / took * 3600 }'; }
for turn in 1 2; do
  say "CPU time over $CPU_SECONDS s, run $turn"
  before=()
  for i in 0 1 2; do before[i]=$(cpu_ns "${pids[$i]}"); done
  calm_before=$(cpu_ns "$calm_pid")
  from=$(date +%s%N)
  for ((second = 0; second < CPU_SECONDS; second += 15)); do
    for i in 0 1 2; do probe scrape 1 "${ports[$i]}"; done
    probe scrape 1 "$calm"
    sleep 15
  done
  took=$(($(date +%s%N) - from))
  for i in 0 1 2; do cell[cpu,$i]="${cell[cpu,$i]:+${cell[cpu,$i]} / }$(used "${pids[$i]}" "${before[i]}" "$took")"; done
  cell[calm,0]="${cell[calm,0]:+${cell[calm,0]} / }$(used "$calm_pid" "$calm_before" "$took")"
done

say "wrk, $ROUNDS rounds"
for ((round = 0; round < ROUNDS; round++)); do
  for i in 0 1 2; do
    for connections in 1 8; do
      line=$(wrk -t1 -c$connections -d2s -s benches/process/latency.lua "http://127.0.0.1:${ports[$i]}/metrics" | grep '^RESULT')
      read -r _ p50 p99 rate bad <<<"$line"
      [ "$bad" = 0 ] || die "${names[$i]}: $bad failed requests"
      echo "$p50 $p99 $rate" >>"$work/wrk.$i.$connections"
    done
  done
done
for i in 0 1 2; do
  cell[p50,$i]="$(awk '{ print $1 }' "$work/wrk.$i.1" | median) µs"
  cell[p99,$i]="$(awk '{ print $2 }' "$work/wrk.$i.1" | median) µs"
  cell[rate,$i]="$(awk '{ print $3 }' "$work/wrk.$i.8" | median) /s"
done
for i in 0 1 2; do
  cell[bytes,$i]=$(curl -fsS -H 'Accept-Encoding: gzip' "http://127.0.0.1:${ports[$i]}/metrics" | wc -c)
  kill "${pids[$i]}"
done

say "$POLLS polls at five a second, $SCRAPES scrapes"
ports[0]=$fast
command_of 0
run hour "${command[@]}" --imds.poll-interval=200ms
pids[0]=$pid
for i in 1 2; do
  command_of $i
  run "hour$i" "${command[@]}"
  pids[i]=$pid
done
for i in 0 1 2; do
  answers "${ports[$i]}" /metrics
  probe scrape "$SCRAPES" "${ports[$i]}"
done
while [ "$(polls "$fast")" -lt "$POLLS" ]; do sleep 5; done
for i in 0 1 2; do
  cell[peak,$i]=$(mb "$(field "${pids[$i]}" VmHWM)")
  cell[after,$i]="$(mb "$(field "${pids[$i]}" VmRSS)") ($(mb "$(field "${pids[$i]}" RssAnon)") anonymous)"
  cell[later,$i]=$(field "${pids[$i]}" Threads)
done

row() { printf '| %s | %s | %s | %s |\n' "$1" "${cell[$2,0]}" "${cell[$2,1]}" "${cell[$2,2]}"; }
printf '%s; %s cores; %s; %s\n\n' "$("$exporter" --version)" "$(nproc)" \
  "$("$node" --version 2>&1 | head -n 1 | cut -d'(' -f1)" "$(uname -sr)"
printf '| | %s | %s | %s |\n|---|---|---|---|\n' "${names[@]}"
row 'binary, bytes' size
row 'exec to the first 200, median of 20 (min to max)' startup
row 'resident after 30 s, never scraped' idle
row 'threads when idle' threads
row "CPU time per hour, one scrape per 15 s (this exporter: and one poll per second), two runs of $CPU_SECONDS s" cpu
row 'the same without a pending event' calm
row "scrape p50, one connection, gzip, median of $ROUNDS" p50
row "scrape p99, one connection, gzip, median of $ROUNDS" p99
row "scrapes per second, eight connections, gzip, median of $ROUNDS" rate
row 'bytes of one scrape, gzip, text 0.0.4' bytes
row "peak memory (VmHWM) after $SCRAPES scrapes (this exporter: and $POLLS polls)" peak
row 'resident after that' after
row 'threads after that' later
