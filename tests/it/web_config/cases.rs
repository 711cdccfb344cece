//! Files of `--web.config.file`: accepted, or refused with an error.

use super::{SERVER_NAMES, TLS, hash};
use crate::support::Pki;

/// A file, words of its error, and the row of docs/internals/exporter-toolkit.md about a difference.
pub(super) struct Case {
    pub(super) config: String,
    pub(super) error: Option<&'static str>,
    #[cfg_attr(
        not(feature = "real-parts"),
        expect(dead_code, reason = "exporter-toolkit is a real part")
    )]
    pub(super) difference: Option<&'static str>,
}

impl Case {
    /// The file, with the certificate and the key of `pki` where it has them inline.
    pub(super) fn text(&self, pki: &Pki) -> String {
        if self.config != "INLINE" {
            return self.config.clone();
        }
        let indented = |name: &str| {
            let text = std::fs::read_to_string(pki.path(name)).unwrap();
            text.replace('\n', "\n    ")
        };
        let (certificate, key) = (indented("server.pem"), indented("server-key.pem"));
        format!("tls_server_config:\n  cert: |\n    {certificate}\n  key: |\n    {key}")
    }
}

/// Each file with the words of its error after `=>`, separated by ` | `, and the row about a difference after `≠`. `TLS`
/// begins the lines of a `tls_server_config` with certificate and key, `VERIFY` those that verify clients too, `HEADERS` a
/// list of headers, `BOB` the hash of a user. `␤` is the end of a line, `⇥` a tab; `HASH` is salt and hash of a password,
/// `SHORT` lacks the last two characters, and `ODD` has a salt with bits that belong to no byte.
const CASES: &str = r#"
    TLS
    tls_server_config: {min_version: TLS13}
    tls_server_config: {client_allowed_sans: [a]}
    tls_server_config:
    tls_server_config: text => tls_server_config: not a mapping at line 1 column 20
    tls_server_config: {cert_file: '', key_file: ''}
    tls_server_config: {cert_filse: server.pem} => tls_server_config: unknown field `cert_filse`, expected one of `cert`
    tls_server_config: {cert_file: server.pem} => tls_server_config.key_file is missing
    tls_server_config: {key_file: server-key.pem} => tls_server_config.cert_file is missing
    tls_server_config: {cert_file: '', key_file: server-key.pem} => tls_server_config.cert_file is missing
    tls_server_config: {cert_file: gone.pem, key_file: server-key.pem} => tls_server_config.cert_file | gone.pem": cannot be read
    tls_server_config: {cert_file: server.pem, key_file: gone.pem} => tls_server_config.key_file | gone.pem": cannot be read
    tls_server_config: {cert_file: server.pem, key_file: other-key.pem} => tls_server_config.key_file | other-key.pem": does not belong to the certificate
    tls_server_config: {cert_file: server-key.pem, key_file: server-key.pem} => tls_server_config.cert_file | server-key.pem": has no certificate
    tls_server_config: {cert: a, key: b} => tls_server_config.cert cannot be in this file: write it to a file of its own, and set tls_server_config.cert_file
    tls_server_config: {client_auth_type: NoClientCert} => tls_server_config.cert_file is missing
    TLS cert_file: server.pem => tls_server_config: duplicate entry with key "cert_file"
    TLS min_version: TLS12␤max_version: TLS12
    TLS min_version: TLS13
    TLS min_version: ~␤max_version:
    TLS min_version: TLS14 => tls_server_config.min_version: unknown variant `TLS14`, expected `TLS12` or `TLS13` at line 4
    TLS max_version: '' => tls_server_config.max_version: unknown variant ``
    TLS prefer_server_cipher_suites: no
    TLS prefer_server_cipher_suites: 'no' ≠ as `http2` or
    TLS min_version: TLS10 => tls_server_config.min_version: unknown variant `TLS10`, expected `TLS12` or `TLS13` at line 4 ≠ `TLS10`, `TLS11`
    TLS max_version: TLS11 => tls_server_config.max_version: unknown variant `TLS11` ≠ `TLS10`, `TLS11`
    TLS min_version: TLS13␤max_version: TLS12 => tls_server_config.min_version is newer than max_version ≠ `max_version` below `min_version`
    TLS cipher_suites: [TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256]
    TLS cipher_suites: [TLS_AES_128_GCM_SHA256] ≠ suite that HTTP/2 requires
    TLS cipher_suites: [TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA, TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256] => tls_server_config.cipher_suites has "TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA" ≠ cipher suites with CBC
    TLS cipher_suites: [TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA] => tls_server_config.cipher_suites has "TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA" ≠ cipher suites with CBC
    TLS cipher_suites: []
    TLS cipher_suites: [TLS_RSA_WITH_RC4_128_SHA] => tls_server_config.cipher_suites has "TLS_RSA_WITH_RC4_128_SHA": use TLS_AES_256_GCM_SHA384, TLS_
    TLS cipher_suites: [foo] => tls_server_config.cipher_suites has "foo"
    TLS cipher_suites: foo => tls_server_config.cipher_suites: not a sequence
    TLS curve_preferences: [CurveP256, X25519]
    TLS curve_preferences: [CurveP256, X25519, CurveP521] => tls_server_config.curve_preferences has "CurveP521" ≠ `CurveP521`
    TLS curve_preferences: [CurveP257] => tls_server_config.curve_preferences has "CurveP257"
    TLS curve_preferences: [X25519MLKEM768] => tls_server_config.curve_preferences has "X25519MLKEM768"
    TLS curve_preferences: [CurveP521] => tls_server_config.curve_preferences has "CurveP521": use X25519, CurveP256, CurveP384 ≠ `CurveP521`
    TLS client_auth_type: NoClientCert
    TLS client_auth_type: RequestClientCert
    TLS client_auth_type: RequireAnyClientCert
    TLS client_auth_type: RequireClientCert
    TLS client_auth_type: VerifyClientCertIfGiven␤client_ca_file: ca.pem
    VERIFY client_ca_file: ca.pem
    TLS client_auth_type: Foo => tls_server_config.client_auth_type: unknown variant `Foo`, expected one of `NoClientCert`
    TLS client_auth_type: '' => tls_server_config.client_auth_type: unknown variant `` ≠ empty `client_auth_type`
    TLS client_auth_type: requireanyclientcert => tls_server_config.client_auth_type: unknown variant `requireanyclientcert`
    TLS client_ca_file: ca.pem => tls_server_config.client_ca_file has no effect without
    TLS client_auth_type: RequireAnyClientCert␤client_ca_file: gone.pem => tls_server_config.client_ca_file | gone.pem": cannot be read
    VERIFY client_ca_file: ca.pem␤client_allowed_sans: [ours.example.com]
    VERIFY client_ca_file: ca.pem␤client_allowed_sans: [10.9.9.9]
    VERIFY client_ca_file: ca.pem␤client_allowed_sans: ['spiffe://example.com/x']
    VERIFY client_ca_file: ca.pem␤client_allowed_sans: [other.example.com]
    VERIFY client_ca_file: ca.pem␤client_allowed_sans: [] => tls_server_config.client_allowed_sans needs DNS names ≠ empty `client_allowed_sans`
    VERIFY client_ca_file: ca.pem␤client_allowed_sans: [a@b.example] => tls_server_config.client_allowed_sans needs DNS names ≠ e-mail addresses
    TLS client_auth_type: RequestClientCert␤client_allowed_sans: [ours.example.com] ≠ and no certificate
    VERIFY => tls_server_config.client_auth_type needs tls_server_config.client_ca_file ≠ `RequireAndVerifyClientCert` without a client CA
    TLS client_auth_type: VerifyClientCertIfGiven
    VERIFY client_ca_file: empty.pem => tls_server_config.client_ca_file | empty.pem": has no certificate ≠ client CA without a certificate
    INLINE => tls_server_config.cert cannot be in this file ≠ inline `cert`
    TLS cipher_suites: [null] => tls_server_config.cipher_suites has "null" ≠ `null` as an entry
    TLS client_allowed_sans: a => tls_server_config.client_allowed_sans: not a sequence
    TLS client_allowed_sans: [[a]] => tls_server_config.client_allowed_sans[0]: not a string
    tls_server_config: {cert_file: directory, key_file: server-key.pem} => tls_server_config.cert_file | directory": is not a regular file
    tls_server_config: {cert_file: large.pem, key_file: server-key.pem} => tls_server_config.cert_file | large.pem": is larger than
    tls_server_config: {cert_file: empty.pem, key_file: server-key.pem} => tls_server_config.cert_file | empty.pem": has no certificate
    tls_server_config: {cert_file: reversed.pem, key_file: server-key.pem} => tls_server_config.cert_file | reversed.pem": has its certificates in the wrong order
    tls_server_config: {cert_file: server.pem, key_file: server.pem} => tls_server_config.key_file | server.pem": has no private key
    tls_server_config: {cert_file: server.pem, key_file: encrypted.pem} => tls_server_config.key_file | encrypted.pem": is encrypted with a passphrase
    TLS curve_preferences: []␤client_allowed_sans:
    TLS client_auth_type: RequireClientCert␤client_ca_file: ca.pem
    TLS client_auth_type: NoClientCert␤client_ca_file: ca.pem => tls_server_config.client_ca_file has no effect without
    TLS key: [a] => tls_server_config.key cannot be in this file
    TLS client_ca: a => tls_server_config.client_ca cannot be in this file
    tls_server_config: {cert_file: server.pem, key_file: server-key.pem, cipher_suites: [TLS_AES_128_GCM_SHA256]}␤http_server_config: {http2: false}
    tls_server_config: {min_version: TLS13, cert: }
    basic_auth_users:␤⇥bob: secret => found character that cannot start any token at line 2
    basic_auth_users:␤basic_auth_users:␤ => duplicate entry with key "basic_auth_users"
    basic_auth_users: ~
    basic_auth_users: [a] => basic_auth_users: not a map
    BOB $2b$04$HASH
    BOB '$2b$04$HASH'
    BOB $2a$04$HASH
    BOB $2y$04$HASH
    BOB $2x$04$HASH
    BOB $3b$04$HASH => basic_auth_users.bob: the value is not a bcrypt hash
    BOB $2b$03$HASH => basic_auth_users.bob: the cost is 3: use one from 4 to 31
    BOB $2b$32$HASH => basic_auth_users.bob: the cost is 32
    BOB $2b$xx$HASH => basic_auth_users.bob: the value is not a bcrypt hash
    BOB $2b$04$SHORT => basic_auth_users.bob: the value is not a bcrypt hash
    BOB $2b$04$HASH! => basic_auth_users.bob: the value is not a bcrypt hash ≠ hash that is not 60 characters
    BOB $2$04$HASH => basic_auth_users.bob: the value is not a bcrypt hash ≠ version `$2$`
    BOB $2b$04$ODD => basic_auth_users.bob: the value is not a bcrypt hash ≠ whose salt has bits
    BOB $2b$04$HASH␤  7: $2b$04$HASH
    BOB $2b$04$HASH␤tls_server_config: {cert_file: server.pem, key_file: server-key.pem}
    BOB $2b$04$HASH␤http_server_config: {headers: {Strict-Transport-Security: max-age=1, X-Frame-Options: deny}}
    BOB $2b$04$HASH␤  bob: $2b$04$HASH => basic_auth_users: duplicate entry with key "bob"
    BOB secret => basic_auth_users.bob: the value is not a bcrypt hash
    BOB => basic_auth_users.bob: the value is not a bcrypt hash
    BOB yes => basic_auth_users.bob: the value is not a bcrypt hash
    BOB [secret] => basic_auth_users.bob: not a string at line 2 column 8
    http_server_config: {http2: false}
    http_server_config: {http2: yes}
    http_server_config: {http2: 'true'} ≠ as `http2` or
    http_server_config: {http2: 1} ≠ as `http2` or
    http_server_config: {http3: true} => http_server_config: unknown field `http3`
    http_server_config: {headers: {}}
    HEADERS X-Frame-Options: deny
    HEADERS X-Frame-Options: sameorigin, X-XSS-Protection: 1, X-Content-Type-Options: nosniff
    HEADERS X-Frame-Options: DENY => http_server_config.headers.X-Frame-Options is "DENY": use deny or sameorigin
    HEADERS X-Frame-Options: ~ => http_server_config.headers.X-Frame-Options is "": use deny or sameorigin
    HEADERS x-frame-options: deny => http_server_config.headers.x-frame-options is not known
    HEADERS X-Content-Type-Options: sniff => http_server_config.headers.X-Content-Type-Options is "sniff": use nosniff
    HEADERS Content-Type: a => http_server_config.headers.Content-Type is not known: use Content-Security-Policy,
    HEADERS Strict-Transport-Security: max-age=31536000; includeSubDomains
    HEADERS Content-Security-Policy: "default-src 'self' *.example.net"
    HEADERS X-XSS-Protection: yes
    HEADERS X-XSS-Protection: '' ≠ header with an empty value
    HEADERS X-XSS-Protection: "a\nb" => http_server_config.headers.X-XSS-Protection has a character ≠ header with a line break
    http_server_config: {headers: &a {}}␤basic_auth_users: {<<: *a} => basic_auth_users.<<: not a string ≠ YAML merge keys
    http_server_config: ~␤rate_limit: null
    http_server_config: {http2: Off}
    rate_limit: {interval: 0, burst: 0}
    rate_limit: {interval: 1us, burst: 100}
    rate_limit: {interval: 1h, burst: 3}
    rate_limit: {interval: 1h30m, burst: 1} ≠ | `rate_limit` |
    rate_limit: {interval: 1x, burst: 1} ≠ | `rate_limit` |
    rate_limit: {interval: 1 hour, burst: 3} ≠ | `rate_limit` |
    rate_limit: {interval: 1s, burst: many} ≠ | `rate_limit` |
    rate_limit: {interval: 1s, burst: 0} ≠ | `rate_limit` |
    rate_limit: {interval: -1s, burst: 1}
    rate_limit: {interval: 5, burst: 1}
    rate_limit: {burst: 0x10}
    rate_limit: [1s, 1] => rate_limit: not a mapping
    rate_limit: {rate: 1} => rate_limit: unknown field `rate`
    rate_limit: &a {}␤http_server_config: *a
    rate_limit: !!map {}
    {}
    ---␤# nothing␤
    null
    text => not a mapping
    [1, 2] => not a mapping
    a: 'b => found unexpected end of stream at line 1 column 6
    a: 1 => unknown field `a`
    ⇥basic_auth_users: {} => found character that cannot start any token
    {"basic_auth_users": {}}
    {}␤---␤{} => deserializing from YAML containing more than one document ≠ further documents
    [1] => not a mapping
    tls_config: {} => unknown field `tls_config`, expected one of `tls_server_config`,
    BOM{}
    BELL: 1 => control characters are not allowed
"#;

pub(super) fn cases() -> Vec<Case> {
    let hash = hash(4, "a").replacen("$2b$04$", "", 1);
    let mut odd = hash.clone();
    odd.replace_range(21..22, "/");
    let short = hash.split_at(51).0;
    let case = |row: &'static str| {
        let (row, difference) = split(row, " ≠ ");
        let (config, error) = split(row, " => ");
        let config = config.replace('␤', "\n").replace('⇥', "\t");
        let config = config
            .replace("BELL", "\u{7}\u{202e}")
            .replace("BOM", "\u{feff}");
        let config = config.replace("HASH", &hash).replace("SHORT", short);
        let config = config.replace("ODD", &odd);
        let config = match config.split_once(' ').unwrap_or((&config, "")) {
            ("TLS", lines) => tls(lines),
            ("VERIFY", lines) => tls(&format!(
                "client_auth_type: RequireAndVerifyClientCert\n{lines}"
            )),
            ("HEADERS", lines) => headers(lines),
            ("BOB", hash) => users(hash),
            _ => config,
        };
        Case {
            config,
            error,
            difference,
        }
    };
    let cases = CASES.lines().map(str::trim_start).map(case);
    cases.chain(expansions()).collect()
}

fn split(row: &'static str, separator: &str) -> (&'static str, Option<&'static str>) {
    row.split_once(separator)
        .map_or((row, None), |(row, rest)| (row, Some(rest)))
}

/// Files that are too deep or too large.
fn expansions() -> impl Iterator<Item = Case> {
    let nested = "[".repeat(1_000);
    let aliases = (1..10).map(|level| {
        let list = vec![format!("*a{}", level - 1); 9].join(", ");
        format!("a{level}: &a{level} [{list}]\n")
    });
    let laughs = format!("a0: &a0 x\n{}", aliases.collect::<String>());
    let case = |(config, error)| Case {
        config,
        error: Some(error),
        difference: None,
    };
    let refused = [
        (nested, "recursion limit exceeded"),
        (laughs, "repetition limit exceeded"),
    ];
    refused.into_iter().map(case)
}

/// `tls_server_config` with these lines.
fn tls(lines: &str) -> String {
    let lines: Vec<_> = lines.lines().map(|line| format!("  {line}\n")).collect();
    let lines = lines.concat();
    format!("{TLS}{lines}")
}

pub(super) fn headers(lines: &str) -> String {
    format!("http_server_config: {{headers: {{{lines}}}}}\n")
}

pub(super) fn users(hash: &str) -> String {
    format!("basic_auth_users:\n  bob: {hash}\n")
}

/// The files that the cases name.
pub(super) fn files() -> Pki {
    let pki = Pki::new();
    pki.write_certificate("server", &SERVER_NAMES);
    pki.write_certificate("other", &SERVER_NAMES);
    pki.write_certificate(
        "ours",
        &["ours.example.com", "10.9.9.9", "spiffe://example.com/x"],
    );
    let server = std::fs::read_to_string(pki.path("server.pem")).unwrap();
    let encrypted =
        "-----BEGIN ENCRYPTED PRIVATE KEY-----\nAAAA\n-----END ENCRYPTED PRIVATE KEY-----\n";
    for (name, content) in [
        ("empty.pem", ""),
        ("encrypted.pem", encrypted),
        ("reversed.pem", &format!("{}{server}", pki.authority())),
        ("large.pem", &"x".repeat(1024 * 1024 + 1)),
    ] {
        pki.write(name, content);
    }
    std::fs::create_dir(pki.path("directory")).unwrap();
    pki
}
