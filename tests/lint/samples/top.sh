#!/bin/sh
# Prints one screen of `accel-run top` about a running job, as docs/runs.md shows it.
set -eu
accel-run builtin:readme name=observed train.until='10 epochs' '~expect' >printed.txt 2>&1 &
trap 'kill $! 2>/dev/null' EXIT
until grep -qs '^step 140/' printed.txt; do
  kill -0 $! || { cat printed.txt; exit 1; }
  sleep 0.2
done
accel-run top runs/observed --once
accel-run ctl runs/observed stop >stopped.txt
wait
trap - EXIT
