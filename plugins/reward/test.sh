#!/bin/sh
# Builds the plugin, trains with it: four steps at once and in two lives, which must be the same to
# the last bit, then the whole recipe, which must meet what it expects. ACCEL_RUN names another
# accel-run than the one behind ":-".
set -e
accel_run="${ACCEL_RUN:-accel-run}"
echo "with $accel_run"
cd "$(dirname "$0")"
"$accel_run" plugin build
"$accel_run" smoke recipe.yaml
"$accel_run" recipe.yaml
