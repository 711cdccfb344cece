#!/usr/bin/env python3
"""Measures the exporter's memory with OTLP off, on, over TLS, and with a full spool.

    benches/memory.py                     all modes in sequence, about 10 minutes
    benches/memory.py off full            only these modes
    POLLS=3600 SCRAPES=10000 benches/memory.py      3,600 polls for each mode, over an hour
    EXPORTER=PATH benches/memory.py       another binary (default: target/release)

Each mode starts a new exporter with its own state directory. It polls five times per second, the maximum rate. This
script is also the metadata service and replaces its event every 30 s: spans are exported throughout, but ended events,
which are exposed for ten minutes, add little memory. This script is also the collector, with these modes:

    off       no endpoint is set
    on        accepts everything over HTTP with gzip
    tls       as on, over HTTPS, with the CA certificate in a file (OTEL_EXPORTER_OTLP_CERTIFICATE)
    store     as on, over HTTPS, with the CA certificate in the system's store, which the exporter reads as a whole
    untrusted has a certificate that the exporter rejects: the store is read again for each attempt
    full      refuses connections; the spool is filled beforehand to 4,096 batches or 16 MiB, whichever is less
    drained   the same spool, with a collector that accepts everything

Reads VmHWM (peak), VmRSS and RssAnon from /proc/PID/status after POLLS polls and SCRAPES scrapes (OpenMetrics and gzip,
as requested by Prometheus 3), and in mode `drained` after the spool is empty. 1 MB is 1,000 kB in that file, as in
benches/process.sh. All traffic is on loopback. Prints a Markdown table. Requires Python 3, Linux and openssl.
"""

import os
import shutil
import ssl
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
from collector import EXPORTER, ROOT, VM, Collector, Metadata, free_port, scrape, total, wait_until_up

POLLS = int(os.environ.get("POLLS", "450"))
SCRAPES = int(os.environ.get("SCRAPES", "2000"))
MODES = ["off", "on", "tls", "store", "untrusted", "full", "drained"]
MAX_BATCHES, MAX_BYTES = 4096, 16 << 20
SYSTEM_STORE = "/etc/ssl/certs/ca-certificates.crt"
# Three of the four spans of a batch contain the description. This length gives batches of about 4 KiB.
DESCRIPTION = "Virtual machine is being paused because of a memory-preserving Live Migration operation. " * 7


class LongDescriptionMetadata(Metadata):
    """The metadata service, with a long event description."""

    event_lifetime = 30

    def document(self):
        document = super().document()
        document["Events"][0]["Description"] = DESCRIPTION
        return document


def serve(server):
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return server


def certificates(folder):
    """Creates a self-signed certificate, its key, and a copy of the system's store with that certificate."""
    certificate, key, store = (str(folder / name) for name in ("cert.pem", "key.pem", "store.pem"))
    command = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
    subject = ["-subj", "/CN=collector", "-addext", "subjectAltName=IP:127.0.0.1", "-days", "2"]
    # openssl makes it a CA certificate by default, which is rejected as a server certificate.
    subject += ["-addext", "basicConstraints=critical,CA:FALSE"]
    subprocess.run([*command, *subject, "-keyout", key, "-out", certificate], check=True, capture_output=True)
    Path(store).write_text(Path(SYSTEM_STORE).read_text() + Path(certificate).read_text())
    return certificate, key, store


def start(metadata, directory, variables):
    port = free_port()
    environment = {key: value for key, value in os.environ.items() if not key.startswith("OTEL_")}
    command = [
        EXPORTER,
        f"--web.listen-address=127.0.0.1:{port}",
        f"--imds.url=http://127.0.0.1:{metadata.server_port}",
        "--imds.poll-interval=200ms",
        f"--vm.name={VM}",
        f"--state.directory={directory}",
        "--log.level=error",
    ]
    process = subprocess.Popen(
        command, env=environment | variables, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    url = f"http://127.0.0.1:{port}/metrics"
    wait_until_up(url, process)
    return process, port, url


def fill_spool(directory):
    """Fills the spool to its limits with copies of a batch that the exporter wrote. Returns the batches and bytes."""
    metadata = LongDescriptionMetadata()
    metadata.event_lifetime = 1
    serve(metadata)
    spool = directory / "spool"
    unreachable = {"OTEL_EXPORTER_OTLP_ENDPOINT": f"http://127.0.0.1:{free_port()}"}
    process, _, _ = start(metadata, directory, unreachable)
    deadline = time.monotonic() + 30
    # The first batch has only the announcement. The second is like all later batches.
    while len(found := sorted(spool.glob("*.json"))) < 2:
        if time.monotonic() > deadline:
            sys.exit("no batch was spooled within the deadline")
        time.sleep(0.05)
    process.kill()
    process.wait()
    metadata.shutdown()
    template = found[1].read_bytes()
    suffix = found[1].name.split("-", 1)[1]
    count = min(MAX_BATCHES, MAX_BYTES // len(template))
    shutil.rmtree(spool)
    spool.mkdir()
    for sequence in range(1, count + 1):
        (spool / f"{sequence:020}-{suffix}").write_bytes(template)
    (directory / "state.json").unlink()
    return count, count * len(template)


def memory(pid):
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    fields = dict(line.split(":", 1) for line in lines)
    return [int(fields[name].split()[0]) / 1000 for name in ("VmHWM", "VmRSS", "RssAnon")]


def measure(mode, directory):
    metadata = serve(LongDescriptionMetadata())
    collector = serve(Collector("healthy"))
    variables, spooled = {}, (0, 0)
    if mode in ("full", "drained"):
        spooled = fill_spool(directory)
    if mode == "full":
        variables["OTEL_EXPORTER_OTLP_ENDPOINT"] = f"http://127.0.0.1:{free_port()}"
    elif mode in ("tls", "store", "untrusted"):
        certificate, key, store = certificates(directory)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate, key)
        collector.socket = context.wrap_socket(collector.socket, server_side=True)
        variables["OTEL_EXPORTER_OTLP_ENDPOINT"] = f"https://127.0.0.1:{collector.server_port}"
        if mode == "tls":
            variables["OTEL_EXPORTER_OTLP_CERTIFICATE"] = certificate
        else:
            variables["SSL_CERT_FILE"] = store if mode == "store" else SYSTEM_STORE
    elif mode != "off":
        variables["OTEL_EXPORTER_OTLP_ENDPOINT"] = f"http://127.0.0.1:{collector.server_port}"
    variables["OTEL_EXPORTER_OTLP_COMPRESSION"] = "gzip"
    process, port, url = start(metadata, directory, variables)
    try:
        probe = str(ROOT / "benches/process/probe.py")
        subprocess.run([sys.executable, probe, "scrape", str(SCRAPES), str(port)], check=True)
        deadline = time.monotonic() + POLLS
        while True:
            _, body = scrape(url)
            waiting = total(body, "azure_scheduled_events_spans_spooled")
            if total(body, "azure_scheduled_events_imds_requests_total") >= POLLS and (
                mode != "drained" or waiting < 10
            ):
                break
            if time.monotonic() > deadline:
                sys.exit(f"{mode}: timed out after {POLLS} s")
            time.sleep(1)
        figures = memory(process.pid)
    finally:
        process.kill()
        process.wait()
        collector.stopped.set()
        metadata.shutdown()
        collector.shutdown()
    sent, dropped = (total(body, f"azure_scheduled_events_spans_{what}_total") for what in ("exported", "dropped"))
    peak, resident, anonymous = (f"{figure:.1f} MB" for figure in figures)
    at_start = f"{spooled[0]} batches, {spooled[1] / (1 << 20):.1f} MiB" if spooled[0] else "–"
    print(f"| {mode} | {peak} | {resident} | {anonymous} | {at_start} | {sent} | {dropped} | {waiting} |", flush=True)


def main():
    modes = sys.argv[1:] or MODES
    if unknown := set(modes) - set(MODES):
        sys.exit(f"unknown mode: {', '.join(sorted(unknown))}; use {', '.join(MODES)}")
    if not os.access(EXPORTER, os.X_OK):
        sys.exit(f"{EXPORTER} not found; run: cargo build --release")
    print(
        "| OTLP | peak (VmHWM) | resident (VmRSS) | anonymous (RssAnon) | spool at the start | exported spans | dropped | spooled |"
    )
    print("|---|---|---|---|---|---|---|---|")
    for mode in modes:
        with tempfile.TemporaryDirectory() as directory:
            measure(mode, Path(directory))
    print(f"\n{POLLS} polls and {SCRAPES} scrapes in each mode, {os.cpu_count()} cores.")


if __name__ == "__main__":
    main()
