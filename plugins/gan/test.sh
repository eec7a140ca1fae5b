#!/bin/sh
# Builds the plugin, trains with it: four steps at once and in two lives, which must be the same to
# the last bit, then the whole recipe, which must meet what it expects.
set -e
cd "$(dirname "$0")"
accel-run plugin build
accel-run smoke recipe.yaml
accel-run recipe.yaml
