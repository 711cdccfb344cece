"""Measurements that are too fast for a shell script: time to the first response, and thousands of scrapes.

probe.py startup ROUNDS PORT PROGRAM [ARG…]   ms from exec to the first 200 on /metrics: median min max
probe.py scrape COUNT PORT                    COUNT scrapes in sequence on one connection
"""

import http.client
import statistics
import subprocess
import sys
import time

HEADERS = {
    # What Prometheus 3 sends.
    "Accept": "application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.6,"
    "application/openmetrics-text;version=0.0.1;q=0.5,"
    "text/plain;version=1.0.0;escaping=allow-utf-8;q=0.4,text/plain;version=0.0.4;q=0.3,*/*;q=0.2",
    "Accept-Encoding": "gzip",
}


def scrape(connection: http.client.HTTPConnection) -> int:
    connection.request("GET", "/metrics", headers=HEADERS)
    response = connection.getresponse()
    response.read()
    return response.status


def time_to_first_response(port: int, command: list[str]) -> float:
    start = time.perf_counter()
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        while True:
            if process.poll() is not None:
                sys.exit(f"{command[0]} exited with {process.returncode} before it responded")
            if time.perf_counter() - start > 30:
                sys.exit(f"{command[0]} did not respond on port {port} within 30 s")
            try:
                if scrape(http.client.HTTPConnection("127.0.0.1", port, timeout=5)) == 200:
                    return (time.perf_counter() - start) * 1000
            except OSError:
                time.sleep(0.0001)
    finally:
        process.kill()
        process.wait()


def main() -> None:
    if sys.argv[1] == "startup":
        rounds, port, command = int(sys.argv[2]), int(sys.argv[3]), sys.argv[4:]
        times = [time_to_first_response(port, command) for _ in range(rounds)]
        print(f"{statistics.median(times):.1f} {min(times):.1f} {max(times):.1f}")
    else:
        count, port = int(sys.argv[2]), int(sys.argv[3])
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
        for _ in range(count):
            if scrape(connection) != 200:
                sys.exit("a scrape failed")


main()
