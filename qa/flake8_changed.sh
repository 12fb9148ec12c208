#!/bin/sh
# flake8 as Ceph has it (qa/flake8_changed.sh OPTION ... -- FOLDER ...), on the files whose content
# has not passed before: flake8 judges each file by itself, and reading all of them takes 5 s.
# What passed is kept by content, options and pinned versions.
set -eu
venv=$(qa/venv.sh)
options=
while [ "$1" != -- ]; do options="$options $1"; shift; done
shift
home=${HOME:-$(getent passwd "$(id -u)" | cut -d: -f6)}
cache=${XDG_CACHE_HOME:-$home/.cache}/wcache/flake8
key=$(echo "$venv $options" | sha256sum | cut -c1-12)
mkdir -p "$cache"
touch "$cache/passed-$key"
seen=$(mktemp)
trap 'rm -f "$seen"' EXIT
find "$@" -name '*.py' -type f -exec sha256sum {} + > "$seen"
changed=$(grep -vxFf "$cache/passed-$key" "$seen" | cut -c67-)
[ -n "$changed" ] || exit 0  # without a name flake8 takes the whole folder
# shellcheck disable=SC2086  # options and names without blanks
"$venv/bin/flake8" $options $changed
cp "$seen" "$cache/passed-$key.$$"
mv "$cache/passed-$key.$$" "$cache/passed-$key"
