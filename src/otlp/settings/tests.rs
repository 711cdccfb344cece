use std::collections::BTreeMap;

use super::*;

const ENDPOINT: (&str, &str) = ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://collector:4318");

fn read(environment: &[(&str, &str)]) -> Result<Option<OtlpSettings>, OtlpConfigError> {
    let all: BTreeMap<_, _> = environment.iter().copied().collect();
    OtlpSettings::from_env(|name| all.get(name).map(|value| (*value).to_owned()))
}

fn on(environment: &[(&str, &str)]) -> OtlpSettings {
    let with_endpoint: Vec<_> = [ENDPOINT].iter().chain(environment).copied().collect();
    read(&with_endpoint).unwrap().unwrap()
}

#[test]
fn export_is_disabled_without_an_endpoint_and_by_the_switches() {
    for off in [
        &[][..],
        &[("OTEL_EXPORTER_OTLP_ENDPOINT", "")],
        &[("OTEL_EXPORTER_OTLP_ENDPOINT", "  ")],
        &[ENDPOINT, ("OTEL_SDK_DISABLED", "TRUE")],
        &[ENDPOINT, ("OTEL_TRACES_EXPORTER", "none")],
    ] {
        assert!(read(off).unwrap().is_none(), "{off:?}");
    }
}

#[test]
fn invalid_values_of_the_switches_are_reported() {
    for valid in ["false", "FALSE", ""] {
        assert_eq!(on(&[("OTEL_SDK_DISABLED", valid)]).ignored, [""; 0]);
    }
    for valid in ["otlp", "OTLP", "console, otlp", ""] {
        assert_eq!(on(&[("OTEL_TRACES_EXPORTER", valid)]).ignored, [""; 0]);
    }
    let given = on(&[
        ("OTEL_SDK_DISABLED", "1"),
        ("OTEL_TRACES_EXPORTER", "jaeger"),
    ]);
    assert_eq!(
        given.ignored,
        [
            "OTEL_SDK_DISABLED is ignored: \"1\" is neither true nor false, false is used",
            "OTEL_TRACES_EXPORTER is ignored: \"jaeger\" is neither otlp nor none, otlp is used",
        ]
    );
}

#[test]
fn general_endpoint_is_a_base_and_traces_endpoint_is_used_as_it_is() {
    let endpoint =
        |environment: &[(&str, &str)]| read(environment).unwrap().unwrap().endpoint.to_string();
    for (given, used) in [
        ("http://collector:4318", "http://collector:4318/v1/traces"),
        ("http://collector:4318/", "http://collector:4318/v1/traces"),
        ("https://gateway/otlp", "https://gateway/otlp/v1/traces"),
        ("https://gateway/otlp/", "https://gateway/otlp/v1/traces"),
    ] {
        assert_eq!(endpoint(&[("OTEL_EXPORTER_OTLP_ENDPOINT", given)]), used);
    }
    let traces = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "https://tempo/push");
    assert_eq!(endpoint(&[ENDPOINT, traces]), "https://tempo/push");
    assert_eq!(
        endpoint(&[("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "http://tempo")]),
        "http://tempo/"
    );
}

#[test]
fn invalid_endpoint_is_reported_with_a_remedy() {
    for (value, problem) in [
        ("collector:4318", "is neither http nor https"),
        ("http://", "is not a URL (empty host)"),
        ("collector", "is not a URL (relative URL without a base)"),
    ] {
        let wrong = read(&[("OTEL_EXPORTER_OTLP_ENDPOINT", value)]).unwrap_err();
        let line = format!(
            "OTEL_EXPORTER_OTLP_ENDPOINT: {value:?} {problem}; write a URL such as http://localhost:4318"
        );
        assert_eq!(wrong.to_string(), line);
    }
}

#[test]
fn traces_variable_overrides_the_general_one_unless_it_is_empty() {
    let timeout = |environment: &[(&str, &str)]| on(environment).timeout;
    let general = ("OTEL_EXPORTER_OTLP_TIMEOUT", "2500");
    assert_eq!(timeout(&[]), Duration::from_secs(10));
    assert_eq!(timeout(&[general]), Duration::from_millis(2_500));
    let traces = ("OTEL_EXPORTER_OTLP_TRACES_TIMEOUT", "300");
    assert_eq!(timeout(&[general, traces]), Duration::from_millis(300));
    let empty = ("OTEL_EXPORTER_OTLP_TRACES_TIMEOUT", "");
    assert_eq!(timeout(&[general, empty]), Duration::from_millis(2_500));
}

#[test]
fn headers_are_decoded_and_do_not_appear_in_the_log() {
    let given = "api-key=a%2Cb%20c%3D,Authorization=Bearer%20x=y, x-scope = tenant ,,broken,%zz=1";
    let settings = on(&[("OTEL_EXPORTER_OTLP_HEADERS", given)]);
    let get = |name: &str| {
        settings
            .headers
            .get(name)
            .map(|value| value.to_str().unwrap())
    };
    assert_eq!(get("api-key"), Some("a,b c="));
    assert_eq!(get("authorization"), Some("Bearer x=y"));
    assert_eq!(get("x-scope"), Some("tenant"));
    assert_eq!(settings.headers.len(), 3);
    assert_eq!(settings.ignored.len(), 2);
    let broken = ("OTEL_EXPORTER_OTLP_HEADERS", "x=a%0Ab");
    assert!(
        on(&[broken]).headers.is_empty(),
        "a header cannot contain a line break"
    );
    let accented = on(&[("OTEL_EXPORTER_OTLP_HEADERS", "x-team=Z%C3%BCrich")]);
    assert_eq!(accented.headers["x-team"], "Zürich");
    let shown = format!("{settings:?}");
    assert!(
        !shown.contains("Bearer") && !shown.contains("a,b c"),
        "{shown}"
    );
}

#[test]
fn invalid_values_are_reported_and_ignored() {
    let settings = on(&[
        ("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc"),
        ("OTEL_EXPORTER_OTLP_COMPRESSION", "zstd"),
        ("OTEL_EXPORTER_OTLP_TIMEOUT", "10s"),
        ("OTEL_EXPORTER_OTLP_CLIENT_KEY", "/etc/key.pem"),
        ("OTEL_RESOURCE_ATTRIBUTES", "team=sre,half"),
    ]);
    assert!(!settings.gzip && settings.client.is_none() && settings.resource_attributes.is_empty());
    assert_eq!(settings.timeout, DEFAULT_TIMEOUT);
    assert_eq!(
        settings.ignored,
        [
            "OTEL_EXPORTER_OTLP_PROTOCOL is ignored: \"grpc\" is not supported, http/protobuf is used, for which collectors listen on port 4318",
            "OTEL_EXPORTER_OTLP_TIMEOUT is ignored: \"10s\" is not a number of milliseconds above 0, 10000 is used",
            "OTEL_EXPORTER_OTLP_COMPRESSION is ignored: \"zstd\" is neither gzip nor none",
            "OTEL_EXPORTER_OTLP_CLIENT_KEY is ignored: a client certificate and its key are used only together",
            "OTEL_RESOURCE_ATTRIBUTES is ignored: the value is not a list of name=value pairs with percent-encoded values",
        ]
    );
}

#[test]
fn certificates_and_compression_are_read() {
    let settings = on(&[
        ("OTEL_EXPORTER_OTLP_TRACES_COMPRESSION", "GZIP"),
        ("OTEL_EXPORTER_OTLP_CERTIFICATE", "/etc/ca.pem"),
        ("OTEL_EXPORTER_OTLP_CLIENT_CERTIFICATE", "/etc/cert.pem"),
        ("OTEL_EXPORTER_OTLP_TRACES_CLIENT_KEY", "/etc/key.pem"),
        ("OTEL_EXPORTER_OTLP_PROTOCOL", "http/protobuf"),
    ]);
    assert!(settings.gzip && settings.ignored.is_empty());
    assert_eq!(settings.certificate, Some("/etc/ca.pem".into()));
    let client = settings.client.unwrap();
    assert_eq!(
        (client.certificate, client.key),
        ("/etc/cert.pem".into(), "/etc/key.pem".into())
    );
}

#[test]
fn redacted_endpoint_has_no_credentials() {
    let settings = read(&[(
        "OTEL_EXPORTER_OTLP_ENDPOINT",
        "https://me:secret@collector/x",
    )]);
    let shown = settings.unwrap().unwrap().redacted_endpoint();
    assert_eq!(shown, "https://xxxxx@collector/x/v1/traces");
}
