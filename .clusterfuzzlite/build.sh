#!/usr/bin/env bash
# Builds the fuzz targets for ClusterFuzzLite, with AddressSanitizer. fuzz/run does without both.
#
#     SRC=FOLDER OUT=FOLDER .clusterfuzzlite/build.sh     the checkout is SRC/azure-scheduled-events-exporter
set -euo pipefail
cd "$SRC/azure-scheduled-events-exporter"
cargo fuzz build --release --debug-assertions
for file in fuzz/fuzz_targets/*.rs; do
  target=$(basename "$file" .rs)
  cp fuzz/target/x86_64-unknown-linux-gnu/release/"$target" "$OUT/"
  printf '[libfuzzer]\nmax_len = 4096\n' >"$OUT/$target.options"
  zip --quiet --recurse-paths "$OUT/${target}_seed_corpus.zip" "$(fuzz/run --seeds "$target")"
done
