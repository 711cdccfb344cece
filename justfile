# https://just.systems; each recipe is one command that also runs without just.

_default:
    @just --list

# run the exporter against a simulated Azure, on http://127.0.0.1:10169/
demo *flags:
    cargo run --release --locked -- demo {{ flags }}

# run the checks that need nothing but the Rust toolchain
quick:
    tests/run --quick

# run all checks; installs missing tools on Debian 12
test:
    tests/run

# run all checks, and those that take too long for every change
full:
    tests/run --full

# format Rust and Python
fmt:
    cargo fmt
    tests/python/run --fix

# lint Rust and Python
lint:
    cargo clippy --all-targets --all-features --locked -- -D warnings
    tests/python/run

# build the crate documentation
doc *flags:
    RUSTDOCFLAGS="-D warnings" cargo doc --no-deps --document-private-items --locked {{ flags }}

# rewrite golden files; read the difference before you commit it
goldens:
    UPDATE_GOLDENS=1 cargo test --locked

# run the micro-benchmarks
bench *filter:
    cargo bench --locked --bench core -- {{ filter }}

# compare CPU time, memory and scrapes with node_exporter and a C program, about eight minutes on an idle machine
footprint: release
    benches/footprint.py

# build the release binary
release:
    cargo build --release --locked

# check the rules in alerts/
rules:
    tests/rules/run

# check the dashboards
dashboards *flags:
    tests/dashboards/run {{ flags }}

# build the dashboards from their generator
generate-dashboards:
    python3 dashboards/generator

# build the Windows executable with Debian's rustc and mingw
windows:
    tests/tools/windows-exe

# check the crate with the oldest supported toolchain
msrv:
    cargo +$(sed -n 's/^rust-version = "\(.*\)"/\1/p' Cargo.toml) check --all-targets --all-features --locked

# fuzz the parsers; needs cargo-fuzz: tests/tools/install fuzz
fuzz seconds="60":
    fuzz/run --seconds={{ seconds }}

# check licences, sources and duplicate versions of dependencies; needs cargo-deny
deny *checks="licenses bans sources":
    cargo deny check {{ checks }}
