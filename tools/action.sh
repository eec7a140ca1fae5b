#!/bin/sh
# What action.yml runs: installs a release of accel-run, then smoke-tests recipes of the working folder.
#   ACCEL_VERSION   the release, such as 0.1.0
#   ACCEL_RELEASES  the URL of the folder with its archive and SHA256SUMS
#   ACCEL_RECIPES   patterns of recipes, separated by blanks or line ends
#   RUNNER_TEMP, GITHUB_PATH  are set by GitHub
set -eu

archive=accel-run-$ACCEL_VERSION-linux-$(uname -m).tar.xz
folder=$RUNNER_TEMP/accel-run
program=$folder/accel-run-$ACCEL_VERSION/bin/accel-run

if [ ! -x "$program" ]; then
  mkdir -p "$folder"
  for file in "$archive" SHA256SUMS; do
    curl --fail --silent --show-error --location --retry 3 --output "$folder/$file" "$ACCEL_RELEASES/$file"
  done
  (cd "$folder" && grep -F "  $archive" SHA256SUMS | sha256sum --check -)
  tar --extract --file "$folder/$archive" --directory "$folder"
  rm "$folder/$archive"
fi
"$program" --version
dirname "$program" >>"$GITHUB_PATH"

count=0
failed=
for pattern in $ACCEL_RECIPES; do
  for recipe in $pattern; do # the pattern itself where nothing matches
    if [ ! -e "$recipe" ]; then
      echo "::error::no file matches '$pattern'"
      exit 1
    fi
    count=$((count + 1))
    echo "::group::accel-run smoke $recipe"
    "$program" smoke "$recipe" || {
      failed="$failed $recipe"
      echo "::error file=$recipe::accel-run smoke failed"
    }
    echo "::endgroup::"
  done
done
if [ -n "$failed" ]; then
  # shellcheck disable=SC2086 # one word per recipe
  echo "$(echo $failed | wc -w) of $count recipes failed:$failed"
  exit 1
fi
echo "$count recipes passed"
