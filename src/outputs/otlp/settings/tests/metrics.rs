use super::*;

#[test]
fn metrics_that_are_not_exported_although_a_variable_asks_for_it_are_reported() {
    for (environment, expected) in [
        (
            &[PUSH][..],
            "OTEL_METRICS_EXPORTER is ignored: set OTEL_EXPORTER_OTLP_ENDPOINT or OTEL_EXPORTER_OTLP_METRICS_ENDPOINT too",
        ),
        (
            &[OWN_METRICS],
            "OTEL_EXPORTER_OTLP_METRICS_ENDPOINT is ignored: metrics are exported only with OTEL_METRICS_EXPORTER=otlp",
        ),
        (
            &[GENERAL, ("OTEL_METRICS_EXPORTER", "prometheus")],
            "OTEL_METRICS_EXPORTER is ignored: the value is neither otlp nor none, none is used",
        ),
    ] {
        let settings = read(environment).unwrap().unwrap();
        assert_eq!(settings.ignored, [expected]);
        assert!(settings.exporter(Signal::Metrics).is_none());
    }
    assert!(read(&[OWN_METRICS, NO_METRICS]).unwrap().is_none());
}

#[test]
fn interval_and_timeout_of_the_metrics_are_read_where_they_are_exported() {
    let read = |environment: &[(&str, &str)]| {
        let settings = on(&[&[PUSH], environment].concat());
        let timeout = settings.exporter(Signal::Metrics).unwrap().timeout;
        let millis = [settings.metric_interval, timeout].map(|it| it.as_millis());
        (millis, settings.ignored)
    };
    let interval = |value| ("OTEL_METRIC_EXPORT_INTERVAL", value);
    let timeout = |value| ("OTEL_METRIC_EXPORT_TIMEOUT", value);
    let request = |value| ("OTEL_EXPORTER_OTLP_METRICS_TIMEOUT", value);
    for (environment, expected) in [
        (&[][..], [60_000, 10_000]),
        (&[interval("5000"), timeout("2500")], [5_000, 2_500]),
        (&[timeout("2500"), request("700")], [60_000, 700]),
        // The default of the export's timeout is 30 s.
        (&[request("40000")], [60_000, 30_000]),
        (&[timeout("50000"), request("40000")], [60_000, 40_000]),
    ] {
        assert_eq!(read(environment), (expected, vec![]), "{environment:?}");
    }
    let invalid = |name: &str, default: u32| {
        format!(
            "{name} is ignored: the value is not a number of milliseconds above 0, {default} is used"
        )
    };
    let messages = vec![
        invalid("OTEL_METRIC_EXPORT_TIMEOUT", 30_000),
        invalid("OTEL_METRIC_EXPORT_INTERVAL", 60_000),
    ];
    assert_eq!(
        read(&[interval("0"), timeout("-1")]),
        ([60_000, 10_000], messages)
    );
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
    assert_eq!(
        on(&[PUSH, (histograms, "base2_exponential_bucket_histogram")]).ignored,
        [
            "OTEL_EXPORTER_OTLP_METRICS_DEFAULT_HISTOGRAM_AGGREGATION is ignored: the value is not supported, explicit_bucket_histogram is used"
        ]
    );
}
