#!/bin/sh
# Runs each fuzz target for a while, two at once.   tools/fuzz.sh BUILD SECONDS [SEED]
# Inputs made to grow in memory come first.
# SEED 0, the default, is another one each time; any other repeats a run in a fresh BUILD.
# Inputs that break a target are left in BUILD/findings; add them to tests/fuzz/corpus/<target>.
set -eu

# one TARGET: runs it, starting from what it and earlier runs on this machine have found.
if [ "$1" = one ]; then
  name=$(basename "$2")
  found=$BUILD/corpus/$name
  mkdir -p "$found"
  set -- "$2" "$found"
  [ ! -d "$SOURCE/tests/fuzz/corpus/$name" ] || set -- "$@" "$SOURCE/tests/fuzz/corpus/$name"
  target=$1
  shift
  if "$target" -max_total_time="$SECONDS_EACH" -seed="$SEED" -rss_limit_mb=512 -timeout=10 \
    -print_final_stats=1 \
    -artifact_prefix="$BUILD/findings/$name-" "$@" >"$BUILD/$name.log" 2>&1; then
    echo "fuzz: $name: $(sed -n 's/.*number_of_executed_units: *//p' "$BUILD/$name.log") inputs, clean"
  else
    echo "fuzz: $name: FAILED, see $BUILD/$name.log and $BUILD/findings"
    tail -n 20 "$BUILD/$name.log"
    exit 1
  fi
  exit 0
fi

# Freed memory is kept aside for a while, by default as much as half of the limit above.
export ASAN_OPTIONS="${ASAN_OPTIONS:-quarantine_size_mb=64}"
SOURCE=$(cd "$(dirname "$0")/.." && pwd)
BUILD=$(cd "$1" && pwd)
SECONDS_EACH=$2
SEED=${3:-0}
export SOURCE BUILD SECONDS_EACH SEED
mkdir -p "$BUILD/findings"
python3 "$SOURCE/tests/fuzz/bombs.py" "$BUILD"
find "$BUILD/fuzzers" -type f -perm -u+x -print0 | sort -z |
  xargs -0 -n 1 -P 2 "$SOURCE/tools/fuzz.sh" one
