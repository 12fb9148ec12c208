"""The ways to run a probe, and what each needs to know of a host."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum
from typing import ClassVar, Dict, Sequence, Tuple

from ..errors import MalformedError

# The probe as the packages and the zipapp install it.
PROGRAM = "/usr/bin/wcache-probe"
# Ends what a script hands on to a command.
END = "END_OF_WCACHE"
# SIGTERM makes the probe restore; the service manager waits this long before it kills it.
STOP_TIMEOUT_S = 90
IMAGE_CHARS_MAX = 512
# As container runtimes have it (distribution/reference): registry, path, tag, digest.
_IMAGE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:/@-]*").fullmatch
# What a host of an orchestrator's spec may be called (python-common, assert_valid_host).
_SPEC_HOST = re.compile(r"[a-z0-9-]+(\.[a-z0-9-]+)*").fullmatch
# An RFC 1123 label, which every name of Kubernetes' namespaces is.
_LABEL = re.compile(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?").fullmatch
# An RFC 1123 subdomain, which the name of every node is; "rook-ceph-client-wcache." goes
# before it in the name of a secret, which has at most 253 characters.
NODE_CHARS_MAX = 229
_SUBDOMAIN = re.compile(r"[a-z0-9]([a-z0-9.-]*[a-z0-9])?").fullmatch


class Form(str, Enum):
    """Who runs the probe on a host."""

    CEPHADM = "cephadm"
    ROOK = "rook"
    SYSTEMD = "systemd"
    VSTART = "vstart"


@dataclass(frozen=True)
class Deployment:
    """That a host was added: in which form, from which image, in which namespace of Rook."""

    VERSION: ClassVar[int] = 1
    STORED_BY: ClassVar[str] = "hostname"
    hostname: str
    form: Form
    added_at_s: float
    image: str = ""
    namespace: str = ""


@dataclass(frozen=True)
class Script:
    """What an admin pastes: a POSIX shell script, and what is good to know about it."""

    notes: Tuple[str, ...]
    lines: Tuple[str, ...]

    @property
    def text(self) -> str:
        """Comments first."""
        return "\n".join([*(f"# {note}" if note else "#" for note in self.notes), *self.lines])


def entity_of(hostname: str) -> str:
    """The cephx name of a host's probe."""
    return f"client.wcache.{hostname}"


def keyring_of(hostname: str) -> str:
    """Where the probe finds its key on the host."""
    return f"/etc/ceph/ceph.{entity_of(hostname)}.keyring"


def caps_of(hostname: str) -> Dict[str, str]:
    """What a probe's key allows: its two commands, under its own host name.

    `profile crash` lets it find the mgr, and reads what is of `mon` (MonCap.cc), the config
    database too; `allow r` would let it read the maps of OSDs and all else as well.
    The name is matched exactly (MgrCap.cc).
    """
    mgr = ", ".join(
        f'allow command "wcache agent {verb}" with hostname={hostname}'
        for verb in ("poll", "post")
    )
    return {"mon": "profile crash", "mgr": mgr}


def checked_image(image: str) -> str:
    """A container image's name; raises MalformedError."""
    if len(image) > IMAGE_CHARS_MAX or not _IMAGE(image):
        raise MalformedError(
            f"image {image[:60]!r} is not the name of a container image",
            "give it as registry/path:tag",
        )
    return image


def checked_namespace(namespace: str) -> str:
    """A Kubernetes namespace; raises MalformedError."""
    if not _LABEL(namespace):
        raise MalformedError(f"{namespace[:60]!r} is not the name of a Kubernetes namespace")
    return namespace


def require_name(form: Form, hostname: str) -> None:
    """MalformedError where whoever runs the probe cannot have a host of that name."""
    if form is Form.CEPHADM and not _SPEC_HOST(hostname):
        raise MalformedError(
            f"{hostname[:60]} is not the name of a host of cephadm: small letters, digits and "
            "dashes between dots", "choose another --run-by",
        )
    node = len(hostname) <= NODE_CHARS_MAX and _SUBDOMAIN(hostname)
    if form is Form.ROOK and not node:
        raise MalformedError(
            f"{hostname[:60]} is not the name of a Kubernetes node: small letters, digits, dots "
            f"and dashes, at most {NODE_CHARS_MAX}", "choose another --run-by",
        )


def for_each(hostnames: Sequence[str], *body: str) -> Tuple[str, ...]:
    """A loop over hosts; every name was checked, so none means anything to a shell.

    What fails on a host is kept for `AT_END`, and the others go on.
    """
    return (
        f"for host in {' '.join(hostnames)}; do", "  {",
        *(f"    {line}" for line in body), '  } || failed="$failed $host"', "done",
    )


# The first line and the last: no `exit`, which would close the shell that it is pasted into.
AT_START = "failed="
AT_END = 'if [ -n "$failed" ]; then echo "NOT done on:$failed" >&2; false; fi'
