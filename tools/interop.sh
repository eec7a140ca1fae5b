#!/bin/sh
# Runs the comparisons with the Python packages.   tools/interop.sh VENV BUILD [bench OPTION...]
# With `bench` it is speed that is compared, by bench/suite.py with these options.
# The packages go into virtual environments of their own (5 GB), those of the trackers into VENV-trackers:
# they do not agree with the others on versions. ACCEL_PYTHON=<python> and
# ACCEL_TRACKERS_PYTHON=<python> use ones that have them already.
set -eu

source=$(cd "$(dirname "$0")/.." && pwd)
venv=$1
build=$2

# make_venv FOLDER REQUIREMENTS WHAT
make_venv() {
  wanted=$source/tests/interop/$2
  if cmp -s "$wanted" "$1/installed.txt"; then return; fi
  echo "interop: installing $3 into $1"
  python3 -m venv "$1"
  "$1/bin/python" -m pip install --quiet --disable-pip-version-check -r "$wanted"
  cp "$wanted" "$1/installed.txt" # last: a venv with it is whole
}

if [ -z "${ACCEL_PYTHON:-}" ]; then
  make_venv "$venv" requirements.txt "torch, accelerate and tensorboard"
  ACCEL_PYTHON=$venv/bin/python
fi
if [ "${3:-}" = bench ]; then
  shift 3
  exec python3 "$source/bench/suite.py" "$build/accel-run" "$build/bench-results" --python "$ACCEL_PYTHON" "$@"
fi
if [ -z "${ACCEL_TRACKERS_PYTHON:-}" ]; then
  make_venv "$venv-trackers" trackers.txt "wandb, mlflow, trackio, comet_ml and dvclive"
  ACCEL_TRACKERS_PYTHON=$venv-trackers/bin/python
fi
export ACCEL_PYTHON ACCEL_TRACKERS_PYTHON
exec "$ACCEL_PYTHON" "$source/tests/interop/run.py" "$build"
