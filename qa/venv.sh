#!/bin/sh
# Print the path of a Python environment holding qa/requirements-check.txt (or, with an argument,
# qa/requirements-ARGUMENT.txt), building it first when it is not cached.  Keyed by recipe and
# interpreter.  cpio, which packs the initramfs images of the probe's tests, is installed where it
# is missing.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
python=${PYTHON:-python3}
wanted=$here/requirements-${1:-check}.txt
home=${HOME:-$(getent passwd "$(id -u)" | cut -d: -f6)}
cache=${XDG_CACHE_HOME:-$home/.cache}/wcache
command -v "$python" >/dev/null 2>&1 || {
    apt-get update >&2
    apt-get -o DPkg::Lock::Timeout=300 install -y --no-install-recommends python3 python3-venv >&2
}
command -v cpio >/dev/null 2>&1 || {
    apt-get update >&2
    apt-get -o DPkg::Lock::Timeout=300 install -y --no-install-recommends cpio >&2
}
version=$("$python" -c 'import sys; print("%d.%d.%d" % sys.version_info[:3], sys.prefix)')
key=$( (cat "$wanted"; echo "$version") | sha256sum | cut -c1-12)
venv=$cache/venv-$key
if [ ! -e "$venv/.complete" ]; then
    mkdir -p "$cache"
    rm -rf "$venv"
    "$python" -c 'import ensurepip, venv' 2>/dev/null || {
        apt-get update >&2
        apt-get -o DPkg::Lock::Timeout=300 install -y --no-install-recommends python3-venv >&2
    }
    echo "building the check environment in $venv" >&2
    "$python" -m venv "$venv" >&2
    "$venv/bin/pip" install --quiet --disable-pip-version-check \
        -r "$wanted" >&2
    touch "$venv/.complete"
fi
echo "$venv"
