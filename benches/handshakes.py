#!/usr/bin/env python3
"""Measures the exporter's memory with TLS on its port, at the start and after handshakes.

    benches/handshakes.py                 ten starts without and ten with TLS, about three minutes
    ROUNDS=3 HANDSHAKES=1000 benches/handshakes.py
    EXPORTER=PATH benches/handshakes.py   another binary (default: target/release)

Each start polls once a second. After four seconds, every scrape opens a connection of its own. The addresses of the
program are random, and with them the pages that Linux maps around those that are used: hence several starts. Reads VmRSS
and RssAnon from /proc/PID/status; 1 MB is 1,000 kB in that file. All traffic is on loopback. Prints a Markdown table.
Requires Python 3, Linux and openssl.
"""

import os
import socket
import ssl
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
from collector import EXPORTER, Metadata, free_port
from memory import certificates, memory, serve

ROUNDS = int(os.environ.get("ROUNDS", "10"))
HANDSHAKES = int(os.environ.get("HANDSHAKES", "200"))


def wait_until_listening(port, process):
    deadline = time.monotonic() + 30
    while True:
        try:
            return socket.create_connection(("127.0.0.1", port)).close()
        except OSError:
            if process.poll() is not None or time.monotonic() > deadline:
                sys.exit(f"{EXPORTER} does not listen")
            time.sleep(0.05)


def measure(metadata, config, certificate):
    """Resident and anonymous memory at the start and after the scrapes, in MB."""
    port = free_port()
    command = [
        EXPORTER,
        f"--web.listen-address=127.0.0.1:{port}",
        f"--imds.url=http://127.0.0.1:{metadata.server_port}",
        "--log.level=error",
        *config,
    ]
    process = subprocess.Popen(command, stderr=subprocess.DEVNULL)
    try:
        context = ssl.create_default_context(cafile=certificate) if config else None
        url = f"{'https' if config else 'http'}://127.0.0.1:{port}/metrics"
        wait_until_listening(port, process)
        time.sleep(4)
        figures = memory(process.pid)[1:]
        for _ in range(HANDSHAKES):
            with urllib.request.urlopen(url, context=context, timeout=10) as response:
                response.read()
        return [*figures, *memory(process.pid)[1:]]
    finally:
        process.kill()
        process.wait()


def main():
    if not os.access(EXPORTER, os.X_OK):
        sys.exit(f"{EXPORTER} not found; run: cargo build --release")
    print(f"| | at the start | anonymous | after {HANDSHAKES} scrapes | anonymous |")
    print("|---|---|---|---|---|")
    metadata = serve(Metadata())
    with tempfile.TemporaryDirectory() as directory:
        certificate, key, _ = certificates(Path(directory))
        file = Path(directory) / "web.yml"
        file.write_text(f"tls_server_config:\n  cert_file: {certificate}\n  key_file: {key}\n")
        for name, config in (("plain", []), ("TLS", [f"--web.config.file={file}"])):
            rounds = [measure(metadata, config, certificate) for _ in range(ROUNDS)]
            columns = (sorted(column) for column in zip(*rounds, strict=True))
            cells = (f"{column[len(column) // 2]:.2f} ({column[0]:.2f} to {column[-1]:.2f})" for column in columns)
            print(f"| {name} | {' | '.join(cells)} |", flush=True)
    print(f"\nMB: median (minimum to maximum) of {ROUNDS} starts, {Path(EXPORTER).stat().st_size:,} bytes.")


if __name__ == "__main__":
    main()
