"""The ways to run a probe on a host, and which names of hosts, images and namespaces are taken."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum
from typing import ClassVar, Dict

from ..core.errors import MalformedError

HOSTNAME_CHARS_MAX = 253
IMAGE_CHARS_MAX = 512
# "rook-ceph-client-wcache." goes before it in the name of a secret, of at most 253 characters.
NODE_CHARS_MAX = 229
# Also a part of a key in the store, of file names, caps and scripts: "/" and "#" have a meaning.
is_name = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*").fullmatch
# As container runtimes have it (distribution/reference): registry, path, tag, digest.
_IMAGE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:/@-]*").fullmatch
# What a host of an orchestrator's spec may be called (python-common, assert_valid_host).
_SPEC_HOST = re.compile(r"[a-z0-9-]+(\.[a-z0-9-]+)*").fullmatch
# An RFC 1123 label, which every name of Kubernetes' namespaces is, and a subdomain, as of nodes.
_LABEL = re.compile(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?").fullmatch
_SUBDOMAIN = re.compile(r"[a-z0-9]([a-z0-9.-]*[a-z0-9])?").fullmatch


class Form(str, Enum):
    """Who runs the probe on a host."""

    CEPHADM = "cephadm"
    ROOK = "rook"
    SYSTEMD = "systemd"


@dataclass(frozen=True)
class Deployment:
    """That a host was added: in which form, from which image, in which namespace of Rook."""

    VERSION: ClassVar[int] = 2
    STORED_BY: ClassVar[str] = "hostname"
    hostname: str
    form: Form
    added_at_s: float
    image: str = ""
    namespace: str = ""


def entity_of(hostname: str) -> str:
    """The cephx name of a host's probe."""
    return f"client.wcache.{hostname}"


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


def checked_hostname(name: object) -> str:
    """The name; raises MalformedError where it could mean something to a shell or to YAML."""
    if not isinstance(name, str) or not 0 < len(name) <= HOSTNAME_CHARS_MAX:
        raise MalformedError(f"hostname must be 1 to {HOSTNAME_CHARS_MAX} characters long")
    if not is_name(name):
        raise MalformedError("hostname may have letters, digits, dots, dashes and underscores")
    return name


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
