#!/bin/sh
# Runs the comparisons with the Python packages.   tools/interop.sh VENV BUILD
# The packages go into a virtual environment of their own (5 GB); ACCEL_PYTHON=<python> uses one
# that has them already.
set -eu

source=$(cd "$(dirname "$0")/.." && pwd)
venv=$1
build=$2

make_venv() {
  wanted=$source/tests/interop/requirements.txt
  if cmp -s "$wanted" "$venv/installed.txt"; then return; fi
  echo "interop: installing torch, accelerate and tensorboard into $venv"
  python3 -m venv "$venv"
  "$venv/bin/python" -m pip install --quiet --disable-pip-version-check -r "$wanted"
  cp "$wanted" "$venv/installed.txt" # last: a venv with it is whole
}

if [ -z "${ACCEL_PYTHON:-}" ]; then
  make_venv
  ACCEL_PYTHON=$venv/bin/python
fi
export ACCEL_PYTHON
exec "$ACCEL_PYTHON" "$source/tests/interop/run.py" "$build"
