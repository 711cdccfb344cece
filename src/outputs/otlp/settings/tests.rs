use std::collections::BTreeMap;

use super::*;

const BASE: &str = "OTEL_EXPORTER_OTLP_ENDPOINT";
const TRACES: &str = "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT";
const LOGS: &str = "OTEL_EXPORTER_OTLP_LOGS_ENDPOINT";
const METRICS: &str = "OTEL_EXPORTER_OTLP_METRICS_ENDPOINT";
const NO_TRACES: (&str, &str) = ("OTEL_TRACES_EXPORTER", "none");
const NO_LOGS: (&str, &str) = ("OTEL_LOGS_EXPORTER", "none");
const NO_METRICS: (&str, &str) = ("OTEL_METRICS_EXPORTER", "none");
const PUSH: (&str, &str) = ("OTEL_METRICS_EXPORTER", "otlp");
const PROTOCOL: &str = "OTEL_EXPORTER_OTLP_PROTOCOL";
const TRACES_PROTOCOL: &str = "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL";
const LOGS_PROTOCOL: &str = "OTEL_EXPORTER_OTLP_LOGS_PROTOCOL";
const METRICS_PROTOCOL: &str = "OTEL_EXPORTER_OTLP_METRICS_PROTOCOL";
const GRPC: &str = "grpc";
const GENERAL: (&str, &str) = (BASE, "http://c:4318");
const OWN_TRACES: (&str, &str) = (TRACES, "http://t");
const OWN_LOGS: (&str, &str) = (LOGS, "http://l");
const OWN_METRICS: (&str, &str) = (METRICS, "http://m");

/// Variables, and the URLs of traces, logs and metrics.
type Row = (&'static [(&'static str, &'static str)], [&'static str; 3]);

fn read(environment: &[(&str, &str)]) -> Result<Option<OtlpSettings>, String> {
    let all: BTreeMap<_, _> = environment.iter().copied().collect();
    OtlpSettings::from_env(|name| all.get(name).map(|value| (*value).to_owned()))
}

fn on(environment: &[(&str, &str)]) -> OtlpSettings {
    let with_endpoint: Vec<_> = [GENERAL].iter().chain(environment).copied().collect();
    read(&with_endpoint).unwrap().unwrap()
}

/// The settings of the traces.
fn traces(environment: &[(&str, &str)]) -> ExporterSettings {
    on(environment).exporter(Signal::Traces).unwrap().clone()
}

/// The URLs of traces, logs and metrics; `-` where the signal is not exported, and the message of an error.
fn endpoints(environment: &[(&str, &str)]) -> [String; 3] {
    let settings = match read(environment) {
        Ok(settings) => settings,
        Err(error) => return [error.clone(), String::new(), String::new()],
    };
    Signal::ALL.map(|signal| {
        let exporter = settings.as_ref().and_then(|all| all.exporter(signal));
        exporter.map_or("-".to_owned(), |exporter| exporter.endpoint.to_string())
    })
}

/// Without the metrics, which need [`PUSH`].
const BOTH: [&str; 3] = ["http://c:4318/v1/traces", "http://c:4318/v1/logs", "-"];
const ALL: [&str; 3] = [BOTH[0], BOTH[1], "http://c:4318/v1/metrics"];
const OWN: [&str; 3] = ["http://t/", "http://l/", "http://m/"];
const NONE: [&str; 3] = ["-", "-", "-"];

/// Signal × protocol × form of the endpoint × exporter.
const TABLE: &[Row] = &[
    (&[], NONE),
    (&[(BASE, "")], NONE),
    (&[(BASE, "  ")], NONE),
    (&[GENERAL], BOTH),
    (&[(BASE, "http://c:4318/")], BOTH),
    (
        &[(BASE, "https://g/otlp/"), PUSH],
        [
            "https://g/otlp/v1/traces",
            "https://g/otlp/v1/logs",
            "https://g/otlp/v1/metrics",
        ],
    ),
    (&[OWN_TRACES], [OWN[0], "-", "-"]),
    (&[OWN_LOGS], ["-", OWN[1], "-"]),
    (&[OWN_METRICS], NONE),
    (&[OWN_METRICS, PUSH], ["-", "-", OWN[2]]),
    (&[OWN_TRACES, OWN_LOGS], [OWN[0], OWN[1], "-"]),
    (&[OWN_TRACES, OWN_LOGS, OWN_METRICS, PUSH], OWN),
    (&[GENERAL, OWN_TRACES], [OWN[0], BOTH[1], "-"]),
    (&[GENERAL, OWN_LOGS], [BOTH[0], OWN[1], "-"]),
    (&[GENERAL, OWN_METRICS], BOTH),
    (&[GENERAL, OWN_METRICS, PUSH], [ALL[0], ALL[1], OWN[2]]),
    (&[GENERAL, (LOGS, ""), (METRICS, ""), PUSH], ALL),
    (
        &[GENERAL, (LOGS, "https://l/push")],
        [BOTH[0], "https://l/push", "-"],
    ),
    // The exporter.
    (&[GENERAL, NO_TRACES], ["-", BOTH[1], "-"]),
    (&[GENERAL, NO_LOGS], [BOTH[0], "-", "-"]),
    (&[GENERAL, NO_METRICS], BOTH),
    (&[GENERAL, NO_LOGS, NO_TRACES], NONE),
    (&[GENERAL, NO_LOGS, NO_TRACES, PUSH], ["-", "-", ALL[2]]),
    (
        &[GENERAL, ("OTEL_LOGS_EXPORTER", "NONE")],
        [BOTH[0], "-", "-"],
    ),
    (&[GENERAL, ("OTEL_LOGS_EXPORTER", "otlp")], BOTH),
    (&[GENERAL, ("OTEL_LOGS_EXPORTER", "")], BOTH),
    (&[GENERAL, PUSH], ALL),
    (
        &[GENERAL, ("OTEL_METRICS_EXPORTER", "prometheus, OTLP")],
        ALL,
    ),
    (&[GENERAL, ("OTEL_METRICS_EXPORTER", "prometheus")], BOTH),
    (&[GENERAL, ("OTEL_METRICS_EXPORTER", "None")], BOTH),
    (&[GENERAL, ("OTEL_METRICS_EXPORTER", "")], BOTH),
    (&[OWN_LOGS, NO_LOGS], NONE),
    (&[OWN_METRICS, NO_METRICS], NONE),
    (&[PUSH], NONE),
    (&[GENERAL, PUSH, ("OTEL_SDK_DISABLED", "TRUE")], NONE),
    // The protocol.
    (&[GENERAL, PUSH, (PROTOCOL, "http/protobuf")], ALL),
    (&[GENERAL, PUSH, (PROTOCOL, "HTTP/protobuf")], ALL),
    (&[GENERAL, PUSH, (PROTOCOL, GRPC)], ["http://c:4318/"; 3]),
    (
        &[GENERAL, OWN_LOGS, (PROTOCOL, "GRPC")],
        ["http://c:4318/", OWN[1], "-"],
    ),
    (
        &[GENERAL, (LOGS_PROTOCOL, GRPC)],
        [BOTH[0], "http://c:4318/", "-"],
    ),
    (
        &[
            GENERAL,
            PUSH,
            (PROTOCOL, GRPC),
            (TRACES_PROTOCOL, "http/protobuf"),
            (LOGS_PROTOCOL, "http/protobuf"),
            (METRICS_PROTOCOL, "http/protobuf"),
        ],
        ALL,
    ),
    (
        &[GENERAL, NO_LOGS, (LOGS_PROTOCOL, GRPC)],
        [BOTH[0], "-", "-"],
    ),
    (
        &[GENERAL, NO_TRACES, (TRACES_PROTOCOL, GRPC)],
        ["-", BOTH[1], "-"],
    ),
    (&[GENERAL, (METRICS_PROTOCOL, GRPC)], BOTH),
    (&[GENERAL, NO_METRICS, (METRICS_PROTOCOL, GRPC)], BOTH),
    (&[OWN_TRACES, (LOGS_PROTOCOL, GRPC)], [OWN[0], "-", "-"]),
    // Without an endpoint nothing is exported, by no protocol.
    (&[PUSH, (PROTOCOL, GRPC)], NONE),
    (&[GENERAL, (PROTOCOL, GRPC), NO_LOGS, NO_TRACES], NONE),
    (
        &[
            GENERAL,
            PUSH,
            (PROTOCOL, GRPC),
            ("OTEL_SDK_DISABLED", "true"),
        ],
        NONE,
    ),
];

#[test]
fn signals_are_exported_where_their_variables_say() {
    for (environment, expected) in TABLE {
        assert_eq!(endpoints(environment), *expected, "{environment:?}");
    }
}

#[test]
fn a_value_without_which_the_export_could_not_work_is_an_error_that_names_variable_value_and_remedy()
 {
    const HEADERS: &str = "OTEL_EXPORTER_OTLP_HEADERS";
    const CERTIFICATE: &str = "OTEL_EXPORTER_OTLP_CLIENT_CERTIFICATE";
    const LOGS_KEY: &str = "OTEL_EXPORTER_OTLP_LOGS_CLIENT_KEY";
    const TEMPORALITY: &str = "OTEL_EXPORTER_OTLP_METRICS_TEMPORALITY_PREFERENCE";
    let protocols = "is not supported; set it to http/protobuf or grpc";
    let header = "is not NAME=VALUE with a percent-encoded value; write, for example, api-key=secret,x-scope-orgid=team%201";
    let own_header = |name: &str| format!("{name:?} cannot be set: it belongs to the transport");
    for (variable, value, problem) in [
        (PROTOCOL, "http/json", format!("\"http/json\" {protocols}")),
        (LOGS_PROTOCOL, "grpcs", format!("\"grpcs\" {protocols}")),
        (METRICS_PROTOCOL, "http", format!("\"http\" {protocols}")),
        (
            TEMPORALITY,
            "deltas",
            "\"deltas\" is not supported; set it to cumulative or delta or lowmemory".to_owned(),
        ),
        (HEADERS, "authorization: Bearer abcdef", format!("\"authorization:xxxxx\" {header}")),
        (HEADERS, "a=b,topsecret", format!("\"xxxxx\" {header}")),
        (HEADERS, "%zz=1", format!("\"%zz=xxxxx\" {header}")),
        (HEADERS, "x=a%0Ab", format!("\"x=xxxxx\" {header}")),
        (HEADERS, "a=b,Content-Length=5", own_header("content-length")),
        (HEADERS, "host=x", own_header("host")),
        (HEADERS, "te=gzip", own_header("te")),
        (HEADERS, "content-type=x", own_header("content-type")),
        (HEADERS, "content-encoding=x", own_header("content-encoding")),
        (HEADERS, "transfer-encoding=x", own_header("transfer-encoding")),
        (HEADERS, "grpc-timeout=1S", own_header("grpc-timeout")),
        (
            CERTIFICATE,
            "/c.pem",
            "\"/c.pem\" is used only together with OTEL_EXPORTER_OTLP_CLIENT_KEY: set both, or neither".to_owned(),
        ),
        (
            LOGS_KEY,
            "/k.pem",
            "\"/k.pem\" is used only together with OTEL_EXPORTER_OTLP_LOGS_CLIENT_CERTIFICATE: set both, or neither".to_owned(),
        ),
    ] {
        let environment = [GENERAL, PUSH, (variable, value)];
        assert_eq!(endpoints(&environment)[0], format!("{variable}: {problem}"));
        // Nothing is wrong with what is not used.
        assert_eq!(endpoints(&environment[1..]), NONE, "{variable}");
    }
    assert_eq!(endpoints(&[GENERAL, (TEMPORALITY, "deltas")]), BOTH);
    assert_eq!(
        endpoints(&[GENERAL, NO_LOGS, (LOGS_KEY, "/k.pem")]),
        [BOTH[0], "-", "-"]
    );
}

#[test]
fn invalid_endpoint_is_reported_with_a_remedy() {
    let http = "write a URL such as http://localhost:4318";
    let grpc = "write a URL such as http://localhost:4317, or https:// for TLS";
    let other = "write http:// or https://, and set OTEL_EXPORTER_OTLP_PROTOCOL=grpc";
    let scheme = "is neither http nor https";
    for (value, protocol, problem, remedy) in [
        ("collector:4318", "", scheme, http),
        ("collector:4317", GRPC, scheme, grpc),
        ("grpc://collector:4317", GRPC, scheme, grpc),
        ("grpcs://collector:4317", "http/protobuf", scheme, other),
        ("http://", "", "is not a URL (empty host)", http),
        (
            "collector",
            GRPC,
            "is not a URL (relative URL without a base)",
            grpc,
        ),
    ] {
        let wrong =
            read(&[("OTEL_EXPORTER_OTLP_ENDPOINT", value), (PROTOCOL, protocol)]).unwrap_err();
        let line = format!("OTEL_EXPORTER_OTLP_ENDPOINT: {value:?} {problem}; {remedy}");
        assert_eq!(wrong, line);
    }
}

#[test]
fn variable_of_a_signal_overrides_the_general_one_unless_it_is_empty() {
    let general = ("OTEL_EXPORTER_OTLP_TIMEOUT", "2500");
    let own = |value| ("OTEL_EXPORTER_OTLP_TRACES_TIMEOUT", value);
    let of_logs = ("OTEL_EXPORTER_OTLP_LOGS_TIMEOUT", "300");
    for (environment, expected, variable) in [
        (&[][..], 10_000, general.0),
        (&[general], 2_500, general.0),
        (&[general, own("300")], 300, own("").0),
        (&[general, own("")], 2_500, general.0),
        (&[general, of_logs], 2_500, general.0),
    ] {
        let traces = traces(environment);
        assert_eq!(traces.timeout.as_millis(), expected);
        assert_eq!(traces.timeout_variable, variable);
    }
}

#[test]
fn headers_are_decoded_and_do_not_appear_in_the_log() {
    let given = "api-key=a%2Cb%20c%3D,Authorization=Bearer%20x=y, x-scope = tenant ,,";
    let settings = on(&[("OTEL_EXPORTER_OTLP_HEADERS", given)]);
    let headers = &settings.exporters[0].headers;
    let get = |name: &str| headers.get(name).map(|value| value.to_str().unwrap());
    assert_eq!(get("api-key"), Some("a,b c="));
    assert_eq!(get("authorization"), Some("Bearer x=y"));
    assert_eq!(get("x-scope"), Some("tenant"));
    assert_eq!(headers.len(), 3);
    let accented = traces(&[("OTEL_EXPORTER_OTLP_HEADERS", "x-team=Z%C3%BCrich")]);
    assert_eq!(accented.headers["x-team"], "Zürich");
    let shown = format!("{settings:?}");
    assert!(
        !shown.contains("Bearer") && !shown.contains("a,b c"),
        "{shown}"
    );
}

#[test]
fn certificates_and_compression_are_read_for_each_signal() {
    for signal in Signal::ALL {
        let own = |what: &str| format!("OTEL_EXPORTER_OTLP_{}_{what}", signal.variable());
        let settings = on(&[
            PUSH,
            (&own("COMPRESSION"), "GZIP"),
            ("OTEL_EXPORTER_OTLP_CERTIFICATE", "/etc/ca.pem"),
            (&own("CLIENT_CERTIFICATE"), "/etc/cert.pem"),
            ("OTEL_EXPORTER_OTLP_CLIENT_CERTIFICATE", "/etc/other.pem"),
            ("OTEL_EXPORTER_OTLP_CLIENT_KEY", "/etc/key.pem"),
            (&own("HEADERS"), "x-signal=own"),
            ("OTEL_EXPORTER_OTLP_HEADERS", "x-signal=general,x-other=1"),
        ]);
        assert!(settings.ignored.is_empty());
        assert_eq!(settings.exporters.len(), 3);
        for exporter in &settings.exporters {
            let is_own = exporter.signal == signal;
            assert_eq!(exporter.gzip, is_own);
            assert_eq!(exporter.files.ca, Some("/etc/ca.pem".into()));
            let client = exporter.files.client.as_ref().unwrap();
            let expected = if is_own {
                "/etc/cert.pem"
            } else {
                "/etc/other.pem"
            };
            assert_eq!(client.certificate, std::path::PathBuf::from(expected));
            assert_eq!(client.key, std::path::PathBuf::from("/etc/key.pem"));
            assert_eq!(exporter.headers.len(), if is_own { 1 } else { 2 });
        }
    }
}

#[test]
fn interval_and_timeout_of_the_metrics_are_read_where_they_are_exported() {
    let read = |environment: &[(&str, &str)]| {
        let settings = on(&[&[PUSH], environment].concat());
        let exporter = settings.exporter(Signal::Metrics).unwrap();
        let millis = [settings.metric_interval, exporter.timeout].map(|it| it.as_millis());
        let is_of_export = exporter.timeout_variable == "OTEL_METRIC_EXPORT_TIMEOUT";
        (millis, is_of_export, settings.ignored)
    };
    let interval = |value| ("OTEL_METRIC_EXPORT_INTERVAL", value);
    let timeout = |value| ("OTEL_METRIC_EXPORT_TIMEOUT", value);
    let request = |value| ("OTEL_EXPORTER_OTLP_METRICS_TIMEOUT", value);
    for (environment, millis, is_of_export) in [
        (&[][..], [60_000, 10_000], false),
        (&[interval("5000"), timeout("2500")], [5_000, 2_500], true),
        (&[timeout("2500"), request("700")], [60_000, 700], false),
        // The default of the export's timeout is 30 s.
        (&[request("40000")], [60_000, 30_000], true),
        (
            &[timeout("50000"), request("40000")],
            [60_000, 40_000],
            false,
        ),
    ] {
        let expected = (millis, is_of_export, vec![]);
        assert_eq!(read(environment), expected, "{environment:?}");
    }
    let not_exported = on(&[interval("0"), timeout("-1")]);
    assert_eq!(not_exported.ignored, [""; 0]);
}

#[test]
fn temporality_is_read_and_only_explicit_buckets_are_supported() {
    let histograms = "OTEL_EXPORTER_OTLP_METRICS_DEFAULT_HISTOGRAM_AGGREGATION";
    for (value, expected) in [
        ("", Temporality::Cumulative),
        ("Cumulative", Temporality::Cumulative),
        ("DELTA", Temporality::Delta),
        ("LowMemory", Temporality::Delta),
    ] {
        let preference = ("OTEL_EXPORTER_OTLP_METRICS_TEMPORALITY_PREFERENCE", value);
        let explicit = (histograms, "explicit_bucket_histogram");
        let settings = on(&[PUSH, preference, explicit]);
        assert_eq!(settings.temporality, expected);
        assert_eq!(settings.ignored, [""; 0]);
    }
}

#[test]
fn values_that_are_invalid_or_have_no_effect_are_reported_and_ignored() {
    let millis = "is ignored: the value is not a number of milliseconds above 0";
    for (environment, expected) in [
        (&[GENERAL, ("OTEL_SDK_DISABLED", "FALSE")][..], vec![]),
        (&[GENERAL, ("OTEL_TRACES_EXPORTER", "console, OTLP")], vec![]),
        (
            &[GENERAL, ("OTEL_SDK_DISABLED", "1"), ("OTEL_TRACES_EXPORTER", "jaeger")],
            vec![
                "OTEL_SDK_DISABLED is ignored: the value is neither true nor false, false is used".to_owned(),
                "OTEL_TRACES_EXPORTER is ignored: the value is neither otlp nor none, otlp is used".to_owned(),
            ],
        ),
        (
            &[
                GENERAL,
                ("OTEL_EXPORTER_OTLP_COMPRESSION", "zstd"),
                ("OTEL_EXPORTER_OTLP_TIMEOUT", "10s"),
                ("OTEL_RESOURCE_ATTRIBUTES", "team=sre,half"),
            ],
            vec![
                format!("OTEL_EXPORTER_OTLP_TIMEOUT {millis}, 10000 is used"),
                "OTEL_EXPORTER_OTLP_COMPRESSION is ignored: the value is neither gzip nor none, none is used".to_owned(),
                "OTEL_RESOURCE_ATTRIBUTES is ignored: the value is not a list of name=value pairs with percent-encoded values".to_owned(),
            ],
        ),
        (
            &[PUSH],
            vec!["OTEL_METRICS_EXPORTER is ignored: set OTEL_EXPORTER_OTLP_ENDPOINT or OTEL_EXPORTER_OTLP_METRICS_ENDPOINT too".to_owned()],
        ),
        (
            &[OWN_METRICS],
            vec!["OTEL_EXPORTER_OTLP_METRICS_ENDPOINT is ignored: metrics are exported only with OTEL_METRICS_EXPORTER=otlp".to_owned()],
        ),
        (
            &[GENERAL, ("OTEL_METRICS_EXPORTER", "prometheus")],
            vec!["OTEL_METRICS_EXPORTER is ignored: the value is neither otlp nor none, none is used".to_owned()],
        ),
        (
            &[GENERAL, PUSH, ("OTEL_METRIC_EXPORT_INTERVAL", "0"), ("OTEL_METRIC_EXPORT_TIMEOUT", "-1")],
            vec![
                format!("OTEL_METRIC_EXPORT_TIMEOUT {millis}, 30000 is used"),
                format!("OTEL_METRIC_EXPORT_INTERVAL {millis}, 60000 is used"),
            ],
        ),
        (
            &[GENERAL, PUSH, ("OTEL_EXPORTER_OTLP_METRICS_DEFAULT_HISTOGRAM_AGGREGATION", "base2_exponential_bucket_histogram")],
            vec!["OTEL_EXPORTER_OTLP_METRICS_DEFAULT_HISTOGRAM_AGGREGATION is ignored: the value is not supported, explicit_bucket_histogram is used".to_owned()],
        ),
    ] {
        let settings = read(environment).unwrap().unwrap();
        assert_eq!(settings.ignored, expected, "{environment:?}");
        assert!(settings.resource_attributes.is_empty());
        assert_eq!(settings.metric_interval, Duration::from_mins(1));
        for exporter in &settings.exporters {
            assert!(!exporter.gzip);
            assert_eq!(exporter.timeout, Duration::from_secs(10));
        }
    }
    assert!(read(&[OWN_METRICS, NO_METRICS]).unwrap().is_none());
}

#[test]
fn variables_without_effect_and_milliseconds_that_may_be_meant_as_seconds_are_reported() {
    let settings = on(&[
        PUSH,
        ("OTEL_TRACES_SAMPLER", "always_off"),
        ("OTEL_BSP_SCHEDULE_DELAY", "100"),
        ("OTEL_BLRP_MAX_QUEUE_SIZE", "7"),
        ("OTEL_EXPORTER_OTLP_LOGS_INSECURE", "true"),
        ("OTEL_EXPORTER_OTLP_TIMEOUT", "10"),
        ("OTEL_METRIC_EXPORT_INTERVAL", "60"),
    ]);
    let expected = [
        "OTEL_EXPORTER_OTLP_TIMEOUT=10 is in milliseconds: for 10 seconds, write 10000",
        "OTEL_EXPORTER_OTLP_LOGS_INSECURE is ignored: the scheme of the endpoint decides about TLS",
        "OTEL_METRIC_EXPORT_INTERVAL=60 is in milliseconds: for 60 seconds, write 60000",
        "OTEL_TRACES_SAMPLER is ignored: all spans are sent, at once",
        "OTEL_BSP_SCHEDULE_DELAY is ignored: all spans are sent, at once",
        "OTEL_BLRP_MAX_QUEUE_SIZE is ignored: all log records are sent, at once",
    ];
    assert_eq!(settings.ignored, expected);
    let sampler = |value| ("OTEL_TRACES_SAMPLER", value);
    assert!(read(&[sampler("always_off")]).unwrap().is_none());
    for unaffected in [
        [PUSH, sampler("parentbased_always_on")],
        [("OTEL_TRACES_EXPORTER", "none"), sampler("always_off")],
    ] {
        assert!(on(&unaffected).ignored.is_empty(), "{unaffected:?}");
    }
}
