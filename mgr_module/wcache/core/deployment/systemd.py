"""Probes as systemd services: the unit comes with the package, the key by ssh."""

from __future__ import annotations

from typing import Sequence

from .form import AT_END, AT_START, Script, entity_of, for_each, keyring_of

_HOST = "$host"


def install(hostnames: Sequence[str]) -> Script:
    """Bring each host its key, prepare it, start the probe.

    A host that cannot be prepared gets its probe all the same, which says what it may not
    toggle, and is told of at the end.  The key comes in a new file: one that is there would
    keep its mode, and whoever has it open could read on.
    """
    keyring = keyring_of(_HOST)
    on_host = (
        f"install -d /etc/ceph && (umask 077; rm -f {keyring}.new; cat >{keyring}.new) && "
        f"mv -f {keyring}.new {keyring} && "
        "{ wcache-probe prepare; prepared=\\$?; "
        "systemctl enable --now wcache-probe && exit \\$prepared; }"
    )
    return Script(
        (
            "Run this where `ceph` works as an admin and root has ssh to the hosts.  The hosts",
            "need the package of wcache-probe: its program, and the unit wcache-probe.service.",
        ),
        (
            AT_START,
            *for_each(
                hostnames,
                f'key=$(ceph auth get "{entity_of(_HOST)}") &&',
                f'  printf "%s\\n" "$key" | ssh "root@{_HOST}" "{on_host}"',
            ),
            AT_END,
        ),
    )


def remove(hostname: str) -> Script:
    """Stop the probe, which restores, and take away what was put there."""
    on_host = (
        "systemctl disable --now wcache-probe; wcache-probe unprepare; "
        f"rm -f {keyring_of(hostname)}"
    )
    return Script((), (f'ssh -n "root@{hostname}" "{on_host}"',))
