#!/usr/bin/env bash
# Commands of `ceph wcache` that only look answer, in each format; errors are one line.
set -e

function refused() {
    local wanted=$1
    shift
    local said
    if said=$("$@" 2>&1); then
        echo "accepted: $*" >&2
        exit 1
    fi
    grep -q -- "$wanted" <<< "$said" || { echo "$* said: $said" >&2; exit 1; }
    if grep -q Traceback <<< "$said"; then
        echo "$* gave a traceback" >&2
        exit 1
    fi
}

ceph mgr module enable wcache
for _ in $(seq 60); do
    if ceph wcache status > /dev/null 2>&1; then
        break
    fi
    sleep 1
done

for command in status "drive ls" "controller ls" "drive-model ls" "agent ls" "campaign ls" \
    recommend "load ls" "plan ls" "mclock show" "memory status" \
    "memory recommend" "memory trial show" "auto status" "evidence ls" history; do
    # shellcheck disable=SC2086
    ceph wcache $command > /dev/null
    # shellcheck disable=SC2086
    ceph wcache $command --format json | python3 -c \
        'import json, sys; assert json.load(sys.stdin)["format_version"] >= 1'
    # shellcheck disable=SC2086
    ceph wcache $command --format yaml | grep -q format_version
done

refused "there is no campaign" ceph wcache campaign show nope
refused "there is no plan" ceph wcache apply p99
refused "moon" ceph wcache campaign start moon

ceph wcache freeze
ceph wcache status --format json | grep -q '"frozen": true'
refused "frozen" ceph wcache campaign start --accept-cost
ceph wcache freeze --thaw
ceph mgr module disable wcache
echo OK
