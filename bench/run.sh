#!/bin/sh
# What the loop costs beside a bare one.   run.sh BUILD_FOLDER
# The machine should be idle; a ratio near 1 means that the loop costs nothing.
set -e
"$1/bench/loop_overhead" lenet 128 50 5 2 | grep ratio
"$1/bench/loop_overhead" lenet 128 50 5 0 | grep ratio
"$1/bench/loop_overhead" mlp 64 500 5 2 | grep ratio
"$1/bench/loop_overhead" mlp 64 500 5 0 | grep ratio
