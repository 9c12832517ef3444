#!/usr/bin/env bash
# Fuzzes what strangers send. `scripts/fuzz.sh --seeds` runs every target over its seeds, as the full test does, and
# without `--seeds` over a few thousand new inputs as well. The full test runs no new inputs: they are drawn by chance, so
# that a test would fail for a fault that the change in hand did not make, and pass when it runs again;
# `scripts/fuzz.sh TARGET [SECONDS]` builds one target optimized and runs it for longer, an hour unless told otherwise.
# Seeds are in fuzz/corpus/. What a run finds worth keeping goes to target/fuzz-corpus/, inputs that fail to
# target/fuzz-failed/. HELVE_FUZZ_SANITIZER=address builds with AddressSanitizer.
set -euo pipefail
cd "$(dirname "$0")/.."
export PATH="${XDG_CACHE_HOME:-$HOME/.cache}/helve/test-tools/bin:$PATH"
sanitizer="${HELVE_FUZZ_SANITIZER:-none}"
runs_each=2000
if [ "${1:-}" = --seeds ]; then
  runs_each=0
  shift
fi

features=all
folder="$PWD/target/fuzz-$sanitizer"
if [ $# -gt 0 ]; then
  features="$1"
  folder="$folder-optimized"
  export CARGO_PROFILE_RELEASE_OPT_LEVEL=2
fi
# Coverage takes unstable flags, which a stable compiler has only when it is told to.
export RUSTC_BOOTSTRAP=1
host=$(rustc -vV | sed -n 's/^host: //p')
cargo fetch --locked --quiet --manifest-path fuzz/Cargo.toml
cargo fuzz build --sanitizer "$sanitizer" --codegen-units 16 --target-dir "$folder" --features "$features" ${1:+"$1"}

# fuzz TARGET FOUND OPTIONS…: no input may take 10 s or 1 GB. What is worth keeping goes to FOUND.
fuzz() {
  mkdir -p "$2" "target/fuzz-failed/$1"
  "$folder/$host/release/$1" "$2" "fuzz/corpus/$1" "${@:3}" -timeout=10 -rss_limit_mb=1024 -max_len=4096 \
    -artifact_prefix="target/fuzz-failed/$1/" -print_final_stats=1
}

# briefly TARGET: runs it for a moment, and says how many inputs that were or how it failed.
briefly() {
  local log found
  log=$(mktemp) found=$(mktemp -d)
  if fuzz "$1" "$found" -seed=1 -runs="$runs_each" -max_total_time=20 >"$log" 2>&1; then
    echo "$1: $(sed -n 's/^stat::number_of_executed_units: *//p' "$log") inputs"
    rm -rf "$log" "$found"
  else
    echo "$1 failed; the input is in target/fuzz-failed/$1/" >&2
    tail -n 40 "$log" >&2
    return 1
  fi
}

if [ $# -gt 0 ]; then
  fuzz "$1" "target/fuzz-corpus/$1" -max_total_time="${2:-3600}"
else
  export -f fuzz briefly
  export folder host runs_each
  # Two at a time: each has one thread.
  for target in fuzz/fuzz_targets/*.rs; do basename "$target" .rs; done | xargs -P 2 -I{} bash -c 'briefly {}'
fi
