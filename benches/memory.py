#!/usr/bin/env python3
"""How much memory the exporter takes with OTLP off, on, over TLS, and with a spool as full as it gets.

    benches/memory.py                     all modes, one after the other: about 10 minutes
    benches/memory.py off full            these modes only
    POLLS=3600 SCRAPES=10000 benches/memory.py      an hour's worth of polls: about an hour
    EXPORTER=PATH benches/memory.py       another build than target/release

Each mode has a new exporter with a state directory of its own. It polls five times a second (the fastest that is
allowed), and its metadata service, which is this script, shows an event that another takes the place of every 30 s:
spans are due again and again, and yet what is shown of ended events, for ten minutes, is not what is measured. The
collector is this script too:

    off       no endpoint is set
    on        takes everything, over http, gzip on
    tls       the same over https, the collector's authority in a file (OTEL_EXPORTER_OTLP_CERTIFICATE)
    store     the same, the authority in the system's store, which the exporter reads as a whole
    untrusted has a certificate that the exporter does not accept: the store is read anew for each attempt
    full      refuses connections; the spool is filled beforehand to 4,096 batches or 16 MiB, whichever is less
    drained   the same spool, and a collector that takes it all

After POLLS polls and SCRAPES scrapes (OpenMetrics, gzip, as Prometheus 3 asks), in mode `drained` also once nothing
waits any more, VmHWM (the peak), VmRSS and RssAnon of /proc/PID/status are read. MB are 1,000 kB of that file, as in
benches/process.sh. Everything is on loopback. Prints a Markdown table. Needs Python 3, Linux, and openssl.
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
MOST_BATCHES, MOST_BYTES = 4096, 16 << 20
SYSTEM_STORE = "/etc/ssl/certs/ca-certificates.crt"
# The replaced event's spans are three of the four of a batch: with so much of a description a batch has about 4 KiB.
DESCRIPTION = "Virtual machine is being paused because of a memory-preserving Live Migration operation. " * 7


class LongWinded(Metadata):
    """The metadata service, with an event that has something to say."""

    turn = 30

    def document(self):
        document = super().document()
        document["Events"][0]["Description"] = DESCRIPTION
        return document


def serving(server):
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return server


def certificates(folder):
    """A certificate that signs itself, its key, and the system's store with that certificate in it."""
    certificate, key, store = (str(folder / name) for name in ("cert.pem", "key.pem", "store.pem"))
    command = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
    subject = ["-subj", "/CN=collector", "-addext", "subjectAltName=IP:127.0.0.1", "-days", "2"]
    # By itself openssl makes an authority of it, which must not be a collector too.
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


def filled(directory):
    """A spool at its bounds, of copies of a batch that the exporter itself has written."""
    metadata = LongWinded()
    metadata.turn = 1
    serving(metadata)
    spool = directory / "spool"
    nobody = {"OTEL_EXPORTER_OTLP_ENDPOINT": f"http://127.0.0.1:{free_port()}"}
    process, _, _ = start(metadata, directory, nobody)
    deadline = time.monotonic() + 30
    # The first one has the announcement alone, the second is what all others are like.
    while len(found := sorted(spool.glob("*.json"))) < 2:
        if time.monotonic() > deadline:
            sys.exit("nothing comes into the spool")
        time.sleep(0.05)
    process.kill()
    process.wait()
    metadata.shutdown()
    model = found[1].read_bytes()
    rest = found[1].name.split("-", 1)[1]
    count = min(MOST_BATCHES, MOST_BYTES // len(model))
    shutil.rmtree(spool)
    spool.mkdir()
    for sequence in range(1, count + 1):
        (spool / f"{sequence:020}-{rest}").write_bytes(model)
    (directory / "state.json").unlink()
    return count, count * len(model)


def memory(pid):
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    fields = dict(line.split(":", 1) for line in lines)
    return [int(fields[name].split()[0]) / 1000 for name in ("VmHWM", "VmRSS", "RssAnon")]


def measure(mode, directory):
    metadata = serving(LongWinded())
    collector = serving(Collector("healthy"))
    variables, spooled = {}, (0, 0)
    if mode in ("full", "drained"):
        spooled = filled(directory)
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
                sys.exit(f"{mode}: not within {POLLS} s")
            time.sleep(1)
        figures = memory(process.pid)
    finally:
        process.kill()
        process.wait()
        collector.over.set()
        metadata.shutdown()
        collector.shutdown()
    sent, dropped = (total(body, f"azure_scheduled_events_spans_{what}_total") for what in ("exported", "dropped"))
    peak, resident, anonymous = (f"{figure:.1f} MB" for figure in figures)
    at_start = f"{spooled[0]} batches, {spooled[1] / (1 << 20):.1f} MiB" if spooled[0] else "–"
    print(f"| {mode} | {peak} | {resident} | {anonymous} | {at_start} | {sent} | {dropped} | {waiting} |", flush=True)


def main():
    modes = sys.argv[1:] or MODES
    if unknown := set(modes) - set(MODES):
        sys.exit(f"no such mode: {', '.join(sorted(unknown))}; there are {', '.join(MODES)}")
    if not os.access(EXPORTER, os.X_OK):
        sys.exit(f"{EXPORTER} is missing: cargo build --release")
    print("| OTLP | peak (VmHWM) | resident | of it anonymous | spool at the start | spans sent | dropped | waiting |")
    print("|---|---|---|---|---|---|---|---|")
    for mode in modes:
        with tempfile.TemporaryDirectory() as directory:
            measure(mode, Path(directory))
    print(f"\n{POLLS} polls and {SCRAPES} scrapes in each mode, {os.cpu_count()} cores.")


if __name__ == "__main__":
    main()
