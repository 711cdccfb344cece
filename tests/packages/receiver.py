"""Accepts POSTs over TLS and prints their paths: a collector and an Alertmanager.

Usage: receiver.py PORT CERTIFICATE KEY
"""

import signal
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "rulers"))

import parts

port, *files = sys.argv[1:]
parts.receive(lambda path, _body: print(path, flush=True), int(port), (Path(files[0]), Path(files[1])))
signal.pause()
