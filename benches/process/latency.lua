-- Sends the request headers of Prometheus 3 and prints one line: p50 us, p99 us, requests per second, errors.
wrk.headers["Accept"] =
	"application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.6,application/openmetrics-text;version=0.0.1;q=0.5,text/plain;version=1.0.0;escaping=allow-utf-8;q=0.4,text/plain;version=0.0.4;q=0.3,*/*;q=0.2"
wrk.headers["Accept-Encoding"] = "gzip"

function done(summary, latency)
	local bad = summary.errors.connect + summary.errors.read + summary.errors.write + summary.errors.status + summary.errors.timeout
	io.write(string.format(
		"RESULT %.0f %.0f %.0f %d\n",
		latency:percentile(50),
		latency:percentile(99),
		summary.requests / summary.duration * 1e6,
		bad
	))
end
