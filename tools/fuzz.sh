#!/bin/sh
# Runs each fuzz target for a while.   tools/fuzz.sh BUILD SECONDS
# Inputs that break a target are left in BUILD/findings; add them to tests/fuzz/corpus/<target>.
set -eu

source=$(cd "$(dirname "$0")/.." && pwd)
build=$1
seconds=$2
findings=$build/findings
mkdir -p "$findings"
failed=0
for target in "$build"/fuzzers/*; do
  [ -x "$target" ] || continue
  name=$(basename "$target")
  found=$build/corpus/$name # what this machine has found so far; the next run starts from it
  mkdir -p "$found"
  set -- "$found"
  [ ! -d "$source/tests/fuzz/corpus/$name" ] || set -- "$found" "$source/tests/fuzz/corpus/$name"
  if "$target" -max_total_time="$seconds" -rss_limit_mb=512 -timeout=10 -print_final_stats=1 \
    -artifact_prefix="$findings/$name-" "$@" >"$build/$name.log" 2>&1; then
    echo "fuzz: $name: $(grep -o 'number_of_executed_units: *[0-9]*' "$build/$name.log" | grep -o '[0-9]*$') inputs, clean"
  else
    echo "fuzz: $name: FAILED, see $build/$name.log and $findings"
    tail -n 20 "$build/$name.log"
    failed=1
  fi
done
exit $failed
