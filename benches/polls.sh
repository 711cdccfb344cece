#!/usr/bin/env bash
# Measures what polling costs, in one run beside node_exporter and beside a blocking C program that polls too
# (benches/process/floor.c), and prints a Markdown table.
#
#   benches/polls.sh [EXPORTER…]              builds to compare; without an argument: target/release
#   EVENTS=100 RESOURCES=100 benches/polls.sh the document of the polls; without events, the simulator is polled
#   SCRAPE_INTERVAL=15 benches/polls.sh       scrapes the exporters and node_exporter meanwhile
#   PRIORITY=1 benches/polls.sh               real-time priority for the measured programs, on a machine with other load
#
# CPU time is the sum of /proc/PID/task/*/schedstat; context switches are those of /proc/PID/task/*/status. System
# calls are counted by strace afterwards, because it slows the process down.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

ROUNDS=${ROUNDS:-5}
ROUND_SECONDS=${ROUND_SECONDS:-60}
EVENTS=${EVENTS:-0}
RESOURCES=${RESOURCES:-1}
SCRAPE_INTERVAL=${SCRAPE_INTERVAL:-0}
STRACE_SECONDS=${STRACE_SECONDS:-20}

die() { printf 'polls.sh: %s\n' "$*" >&2; exit 1; }
for tool in prometheus-node-exporter curl strace; do
  command -v "$tool" >/dev/null || die "$tool not found; run: tests/tools/install bench"
done
for tool in cc python3 chrt; do
  command -v "$tool" >/dev/null || die "$tool not found; run: tests/tools/install bench"
done

if [ $# -eq 0 ]; then
  cargo build --release --locked >&2
  set -- "$(cargo metadata --format-version 1 --no-deps | sed 's/.*"target_directory":"\([^"]*\)".*/\1/')/release/azure-scheduled-events-exporter"
fi

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

priority=()
[ -z "${PRIORITY:-}" ] || priority=(chrt -r "$PRIORITY")
# run PROGRAM [ARG…]: starts a program in the background and sets $pid.
run() {
  "${priority[@]}" "$@" >"$work/${#started[@]}.log" 2>&1 &
  pid=$!
  started+=("$pid")
}

# answers PORT PATH: waits until the response is 200.
answers() {
  local left=300
  until curl -fsS -o /dev/null -H 'Metadata: true' "http://127.0.0.1:$1$2" 2>/dev/null; do
    left=$((left - 1))
    [ $left -gt 0 ] || die "no response on port $1: $(tail -n 3 "$work"/*.log)"
    sleep 0.1
  done
}

base=$((21000 + RANDOM % 8000))
imds=$base
events='/metadata/scheduledevents?api-version=2020-07-01'
if [ "$EVENTS" -eq 0 ]; then
  run "$1" simulate "--web.listen-address=127.0.0.1:$imds"
else
  run python3 benches/process/imds.py "$imds" "$EVENTS" "$RESOURCES"
fi
answers "$imds" "$events"

names=() pids=() ports=()
add() {
  names+=("$1")
  pids+=("$pid")
  ports+=("$2")
}
options=(--vm.name=web_0)
[ "$RESOURCES" -le 1 ] || options+=(--metrics.resources)
for exporter in "$@"; do
  port=$((base + ${#names[@]} + 1))
  run "$exporter" "--web.listen-address=127.0.0.1:$port" "--imds.url=http://127.0.0.1:$imds" "${options[@]}"
  label='this exporter'
  [ $# -eq 1 ] || label=$exporter
  add "$label" $port
done
port=$((base + ${#names[@]} + 1))
run prometheus-node-exporter --collector.disable-defaults --collector.time "--web.listen-address=127.0.0.1:$port"
add 'node_exporter (time only)' $port
cc -O2 -D_GNU_SOURCE -Wall -Wextra -Werror -o "$work/floor" benches/process/floor.c
run "$work/floor" "$imds"
add 'floor (C)' 0

cpu_ns() { cat "/proc/$1"/task/*/schedstat | awk '{ total += $1 } END { printf "%.0f", total }'; }
switches() { cat "/proc/$1"/task/*/status | awk '/ctxt_switches/ { total += $2 } END { print total + 0 }'; }
# spread FORMAT: median (minimum to maximum) of the numbers on stdin.
spread() { sort -n | awk -v f="$1" '{ all[NR] = $1 } END { printf f " (" f " to " f ")", all[int((NR + 1) / 2)], all[1], all[NR] }'; }

# All measured programs have opened their connections and mapped their pages by then.
sleep 10
for ((round = 1; round <= ROUNDS; round++)); do
  printf '%s round %s of %s\n' "$(date +%T)" "$round" "$ROUNDS" >&2
  cpu=() switched=()
  from=$(date +%s%N)
  for i in "${!pids[@]}"; do
    cpu[i]=$(cpu_ns "${pids[i]}")
    switched[i]=$(switches "${pids[i]}")
  done
  if [ "$SCRAPE_INTERVAL" -eq 0 ]; then
    sleep "$ROUND_SECONDS"
  else
    for ((second = 0; second < ROUND_SECONDS; second += SCRAPE_INTERVAL)); do
      for port in "${ports[@]}"; do [ "$port" -eq 0 ] || python3 benches/process/probe.py scrape 1 "$port"; done
      sleep "$SCRAPE_INTERVAL"
    done
  fi
  took=$(($(date +%s%N) - from))
  for i in "${!pids[@]}"; do
    awk -v used=$(($(cpu_ns "${pids[i]}") - cpu[i])) -v took=$took 'BEGIN { print used / took * 3600 }' >>"$work/cpu.$i"
    awk -v more=$(($(switches "${pids[i]}") - switched[i])) -v took=$took 'BEGIN { print more / took * 1e9 }' >>"$work/switches.$i"
  done
done
for i in "${!pids[@]}"; do
  timeout "$STRACE_SECONDS" strace -f -c -U calls,name -o "$work/calls.$i" -p "${pids[i]}" 2>/dev/null || true
done

printf '%s; %s cores; load average %s; %s; %s events of %s VMs; scrapes every %s s (0: none)\n\n' "$("$1" --version)" \
  "$(nproc)" "$(cut -d' ' -f1 /proc/loadavg)" "$(uname -sr)" "$EVENTS" "$RESOURCES" "$SCRAPE_INTERVAL"
printf '| | CPU time per hour, %s rounds of %s s | context switches per second | system calls per second |\n|---|---|---|---|\n' \
  "$ROUNDS" "$ROUND_SECONDS"
for i in "${!pids[@]}"; do
  kill -0 "${pids[i]}" || die "${names[i]} has ended"
  calls=$(awk -v took="$STRACE_SECONDS" '$2 == "total" { printf "%.1f", $1 / took }' "$work/calls.$i")
  printf '| %s | %s | %s | %s |\n' "${names[i]}" "$(spread '%.2f s' <"$work/cpu.$i")" \
    "$(spread '%.1f' <"$work/switches.$i")" "${calls:-0}"
done
for i in "${!pids[@]}"; do
  printf '\n%s:\n' "${names[i]}" >&2
  cat "$work/calls.$i" >&2
done
