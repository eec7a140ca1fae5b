#!/bin/sh
# The gallery of bad recipes: `BIN validate` must refuse each file of DIR with exit code 2 and
# exactly the text of NAME.expect on stderr (NAME.json.expect: with --error-format json).
# NAME.args holds overrides, one per line.
#   gallery.sh BIN DIR [--update]     --update writes what BIN prints as what is expected
set -u
bin=$(realpath "$1") || exit 1
cd "$2" || exit 1
update=${3:-}
actual=$(mktemp)
trap 'rm -f "$actual"' EXIT
count=0
failed=0

# check EXPECTED-FILE ARGUMENT...: runs the binary and compares.
check() {
  expected=$1
  shift
  count=$((count + 1))
  "$bin" "$@" >/dev/null 2>"$actual" </dev/null
  code=$?
  if [ "$update" = --update ]; then
    cp "$actual" "$expected"
    chmod 644 "$expected"
  fi
  if [ $code -ne 2 ]; then
    echo "$expected: exit code $code, expected 2"
    failed=$((failed + 1))
  elif ! diff -u "$expected" "$actual"; then
    failed=$((failed + 1))
  fi
}

for recipe in *.yaml *.toml; do
  [ -f "$recipe" ] || continue
  name=${recipe%.*}
  set --
  if [ -f "$name.args" ]; then
    while IFS= read -r line; do set -- "$@" "$line"; done <"$name.args"
  fi
  if [ -f "$name.expect" ] || [ "$update" = --update ]; then
    check "$name.expect" validate "$recipe" "$@"
  else
    echo "$recipe: has no $name.expect"
    failed=$((failed + 1))
  fi
  if [ -f "$name.json.expect" ]; then
    check "$name.json.expect" --error-format json validate "$recipe" "$@"
  fi
done

echo "$count checks, $failed failed"
[ $failed -eq 0 ] && [ $count -gt 0 ]
