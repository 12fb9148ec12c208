"""Where probes run: in which form, on whose word.

Whoever has an OSD's key can write what its metadata says, and move it in CRUSH (MonCap.cc,
profile osd).  So neither makes a host that nobody has read: the hosts are the orchestrator's,
or an admin's who has named them or has read the list.

The ways to run a probe on a host, and which names of hosts, images and namespaces are taken.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, ClassVar, Dict, List, Mapping, Optional, Sequence, Tuple

from ..core.cluster import OsdInfo
from ..core.errors import (
    ConsentError,
    MalformedError,
    NotFoundError,
    NotReadyError,
    RefusedError,
)
from ..core.text import grouped, named

HOSTNAME_CHARS_MAX = 253
IMAGE_CHARS_MAX = 512
# "rook-ceph-client-wcache." goes before it in the name of a secret, of at most 253 characters.
NODE_CHARS_MAX = 229
NAMES_CHARS_MAX = 1000  # of all hosts that were removed
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


@dataclass(frozen=True)
class RemovedHosts:
    """Hosts that were removed, each with the instance of its probe, the newest last.

    A session outlives its key, so that instance goes on calling, and is refused.  Another one has
    shown a key that is there.  The oldest are forgotten where all take more than 1 kB.
    """

    VERSION: ClassVar[int] = 2
    items: Tuple[str, ...] = field(default=(), metadata={"max_items": NAMES_CHARS_MAX})

    def has(self, hostname: str, instance_id: str) -> bool:
        return f"{hostname} {instance_id}" in self.items

    def but(self, hostname: str) -> RemovedHosts:
        """Return them without one."""
        return RemovedHosts(tuple(
            item for item in self.items if item.partition(" ")[0] != hostname
        ))

    def and_too(self, hostname: str, instance_id: str) -> RemovedHosts:
        """Return them with one more."""
        items = (*self.but(hostname).items, f"{hostname} {instance_id}")
        while len("".join(items)) > NAMES_CHARS_MAX:
            items = items[1:]
        return RemovedHosts(items)


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


HOSTS_MAX = 2000
LEFT_OUT_MAX = 50
NAMED_MAX = 40  # hosts in a refusal
SAID_CHARS_MAX = 60


@dataclass(frozen=True)
class OsdPlace:
    """What an OSD tells of where it runs; empty where it tells nothing.

    It is compared with what others tell, and goes into no script.
    """

    image: str = ""
    namespace: str = ""


class Places:
    """The OSDs by the host that each names, and by the CRUSH host that it is under."""

    def __init__(self, osds: Mapping[int, OsdInfo], told: Mapping[int, OsdPlace]) -> None:
        self._told = told
        told_of = [osd for _, osd in sorted(osds.items()) if osd.hostname]
        self._of_host = grouped((osd.hostname, osd) for osd in told_of)
        self._under = grouped((osd.failure_domain, osd) for osd in told_of)

    @property
    def hostnames(self) -> List[str]:
        """Every host that an OSD names."""
        return sorted(self._of_host)

    def osd_ids(self, hostname: str) -> List[int]:
        """The OSDs that name this host."""
        return [osd.osd_id for osd in self._of_host.get(hostname, ())]

    def disagreement(self, hostname: str) -> str:
        """How the OSDs of a host contradict each other, with their names; "" where none does."""
        osds = self._of_host.get(hostname, [])
        # what an OSD that is down has said is from before, of another image for example
        told = {osd.osd_id: self._told.get(osd.osd_id, OsdPlace()) for osd in osds if osd.up}
        whose = f"the OSDs of {hostname} differ in their"
        compared = [
            (f"{whose} image", {osd_id: place.image for osd_id, place in told.items()}),
            (f"{whose} namespace", {osd_id: place.namespace for osd_id, place in told.items()}),
        ]
        for crush_host in sorted({osd.failure_domain for osd in osds} - {""}):
            compared.append((
                f"the OSDs under the CRUSH host {crush_host[:SAID_CHARS_MAX]} differ in the host "
                "that they run on",
                {osd.osd_id: osd.hostname for osd in self._under[crush_host]},
            ))
        return next((
            f"{what}: {_by_what_is_said(said)}" for what, said in compared
            if len(set(said.values())) > 1
        ), "")


def _by_what_is_said(said: Mapping[int, str]) -> str:
    """Each thing that is said, by whom; what most say comes first."""
    groups = grouped((text, f"osd.{osd_id}") for osd_id, text in sorted(said.items()))
    ordered = sorted(groups.items(), key=lambda group: -len(group[1]))
    lines = [
        f"{named(osds)} {'says' if len(osds) == 1 else 'say'} {text[:SAID_CHARS_MAX]!r}"
        for text, osds in ordered
    ]
    return "; ".join(lines[:4]) + (" ..." if len(lines) > 4 else "")


def require_one_or_all(arguments: Mapping[str, Any]) -> None:
    """`agent add` is of one host or of all, and an image is of what runs in a container."""
    if bool(arguments.get("all")) == ("hostname" in arguments):
        raise MalformedError("name one host, or add --all", "see `ceph wcache agent add -h`")
    if "image" in arguments and arguments.get("run_by") == Form.SYSTEMD.value:
        raise MalformedError("a program of the host has no image", "leave out --image")


def chosen(
    hostname: Optional[str], places: Places, *, listed: Optional[Sequence[str]], hosts_read: bool,
) -> Tuple[List[str], List[str]]:
    """The hosts that are meant, and why others are left out.

    `listed` are the orchestrator's hosts.  Without it, all hosts are refused until an admin
    says that their names were read (`hosts_read`).
    """
    if hostname is not None:
        return [_one(hostname, places, listed, hosts_read)], []
    if not places.hostnames:
        raise NotReadyError("no OSD has named its host yet", "see `ceph osd metadata`")
    hostnames, left_out, known = [], [], frozenset(listed or ())
    for name in places.hostnames:
        try:
            checked_hostname(name)
        except MalformedError as error:
            left_out.append(f"{name[:SAID_CHARS_MAX]!r}: {error.message}")
            continue
        if listed is not None and name not in known:
            left_out.append(f"{name}: `ceph orch host ls` does not have it")
        else:
            hostnames.append(name)
    if len(hostnames) > HOSTS_MAX:
        raise MalformedError(
            f"these are {len(hostnames)} hosts, {HOSTS_MAX} are the most at once",
            "add them one by one",
        )
    found = list(filter(None, map(places.disagreement, hostnames)))
    if found:
        more = f" (and {len(found) - 1} more)" if len(found) > 1 else ""
        raise RefusedError(found[0] + more, "find out which of them is wrong before you go on")
    if listed is None and not hosts_read:
        raise ConsentError(
            f"only the OSDs say that the hosts are {named(hostnames, NAMED_MAX)} (there is no "
            "orchestrator to say it): see that each is yours", "hosts_read",
            {"hostnames": hostnames},
        )
    return hostnames, left_out[:LEFT_OUT_MAX]


def _one(
    hostname: str, places: Places, listed: Optional[Sequence[str]], hosts_read: bool
) -> str:
    checked_hostname(hostname)
    if hostname not in places.hostnames:
        few = named(places.hostnames)
        raise NotFoundError(
            f"no OSD runs on host {hostname[:SAID_CHARS_MAX]!r}",
            f"its OSDs' hosts are {few or 'none'}",
        )
    if listed is not None and hostname not in listed:
        raise NotFoundError(
            f"the orchestrator has no host {hostname}",
            "see `ceph orch host ls`; --run-by systemd needs none",
        )
    found = places.disagreement(hostname)
    if found and not hosts_read:
        raise ConsentError(
            f"{found}: see that {hostname} is the host you mean", "hosts_read",
            {"hostnames": [hostname]},
        )
    return hostname


def named_for(
    form: Form, asked: Sequence[str], left_out: List[str], *, every: bool
) -> List[str]:
    """Those that whoever runs the probe can have; others are refused, or left out of all."""
    hostnames = []
    for name in asked:
        try:
            require_name(form, name)
        except MalformedError as error:
            if not every:
                raise
            left_out.append(error.message)
        else:
            hostnames.append(name)
    if not hostnames:
        raise MalformedError(f"no host can be added ({left_out[0]})", "choose another --run-by")
    return hostnames
