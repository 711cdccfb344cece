"""Accepts POSTs over TLS and prints their paths: a collector and an Alertmanager.

Usage: receiver.py PORT CERTIFICATE KEY
"""

import http.server
import ssl
import sys


class Receiver(http.server.BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(200)
        self.send_header("Content-Length", "0")
        self.end_headers()
        print(self.path, flush=True)

    def log_message(self, *_: object) -> None:
        pass


port, certificate, key = sys.argv[1:]
context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
context.load_cert_chain(certificate, key)
server = http.server.HTTPServer(("127.0.0.1", int(port)), Receiver)
server.socket = context.wrap_socket(server.socket, server_side=True)
server.serve_forever()
