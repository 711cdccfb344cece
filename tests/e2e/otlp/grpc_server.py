"""OTLP over gRPC by grpcio, with mutual TLS: prints what it gets.

python grpc_server.py FOLDER CODE    FOLDER has ca.pem, server.pem and server-key.pem; CODE ends each call, such as OK
"""

import sys
from concurrent import futures
from pathlib import Path

import grpc
from opentelemetry.proto.collector.logs.v1 import logs_service_pb2 as logs
from opentelemetry.proto.collector.logs.v1 import logs_service_pb2_grpc as logs_grpc
from opentelemetry.proto.collector.metrics.v1 import metrics_service_pb2 as metrics
from opentelemetry.proto.collector.metrics.v1 import metrics_service_pb2_grpc as metrics_grpc
from opentelemetry.proto.collector.trace.v1 import trace_service_pb2 as traces
from opentelemetry.proto.collector.trace.v1 import trace_service_pb2_grpc as traces_grpc

folder, code = Path(sys.argv[1]), grpc.StatusCode[sys.argv[2]]


def end(context, response):
    headers = dict(context.invocation_metadata())
    print("call", code.name, headers.get("x-team"), flush=True)
    if code is not grpc.StatusCode.OK:
        context.abort(code, "as asked for")
    return response


class Traces(traces_grpc.TraceServiceServicer):
    def Export(self, request, context):
        for span in (s for r in request.resource_spans for c in r.scope_spans for s in c.spans):
            print("span", span.trace_id.hex(), span.name, flush=True)
        return end(context, traces.ExportTraceServiceResponse())


class Logs(logs_grpc.LogsServiceServicer):
    def Export(self, request, context):
        for record in (x for r in request.resource_logs for c in r.scope_logs for x in c.log_records):
            print("log", record.event_name, flush=True)
        return end(context, logs.ExportLogsServiceResponse())


class Metrics(metrics_grpc.MetricsServiceServicer):
    def Export(self, request, context):
        for metric in (x for r in request.resource_metrics for c in r.scope_metrics for x in c.metrics):
            print("metric", metric.name, metric.sum.aggregation_temporality, flush=True)
        return end(context, metrics.ExportMetricsServiceResponse())


read = {name: (folder / f"{name}.pem").read_bytes() for name in ("ca", "server", "server-key")}
server = grpc.server(futures.ThreadPoolExecutor(4))
traces_grpc.add_TraceServiceServicer_to_server(Traces(), server)
logs_grpc.add_LogsServiceServicer_to_server(Logs(), server)
metrics_grpc.add_MetricsServiceServicer_to_server(Metrics(), server)
credentials = grpc.ssl_server_credentials([(read["server-key"], read["server"])], read["ca"], True)
port = server.add_secure_port("127.0.0.2:0", credentials)
server.start()
print("listening", port, flush=True)
server.wait_for_termination()
