#!/bin/sh
# Prints the output of the ctl commands of docs/run-control.md.
set -eu
accel-run builtin:readme name=controlled train.until='1000 epochs' '~expect' >printed.txt 2>&1 &
trap 'kill $! 2>/dev/null' EXIT
until grep -qs '^step ' printed.txt; do
  kill -0 $! || { cat printed.txt; exit 1; }
  sleep 0.2
done
accel-run ctl runs/controlled save
accel-run ctl runs/controlled lr=1e-4 log.every='5 steps'
accel-run ctl runs/controlled stop
wait
trap - EXIT
