#!/bin/sh
# Compiles through ccache: ccache.sh CCACHE COMPILER ARGUMENT...
# ccache counts an older precompiled header, in the place of the one to be written, among the inputs:
# it would answer in a clean build folder only, and with other bytes than after that every other file
# is compiled again.
for argument; do
  case $argument in *.gch) rm -f "$argument" ;; esac
done
# Without the sloppiness it never answers for a file that has a precompiled header. By preprocessed text
# it would answer with a precompiled header of another comment, which GCC refuses later: depend mode
# compares the included files.
export CCACHE_SLOPPINESS=pch_defines,time_macros CCACHE_DEPEND=1
exec "$@"
