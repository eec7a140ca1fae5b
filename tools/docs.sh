#!/bin/sh
# Builds the documentation site from docs/ into build/docs/site.   tools/docs.sh
# The generator goes into a separate virtual environment; nothing else needs it.
# ACCEL_DOCS_PYTHON=<python> uses one that has it.
set -eu

source=$(cd "$(dirname "$0")/.." && pwd)
out=$source/build/docs
wanted=$source/tools/docs/requirements.txt

python=${ACCEL_DOCS_PYTHON:-}
if [ -z "$python" ]; then
  python=$out/venv/bin/python
  if ! cmp -s "$wanted" "$out/venv/installed.txt"; then
    if ! python3 -c 'import ensurepip, sys, venv; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
      echo "docs: error: this needs Python 3.11 or newer with venv: apt-get install python3-venv" >&2
      exit 1
    fi
    echo "docs: installing the generator into build/docs/venv"
    python3 -m venv "$out/venv"
    "$python" -m pip install --quiet --disable-pip-version-check --no-deps -r "$wanted"
    cp "$wanted" "$out/venv/installed.txt" # last: a venv with it is complete
  fi
fi
rm -rf "$out/site"
"$python" -m sphinx -q -W --keep-going -b html -c "$source/tools/docs" -d "$out/doctrees" "$source" "$out/site"
echo "docs: open build/docs/site/index.html"
