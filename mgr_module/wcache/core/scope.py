"""The scope of a command: the part of the cluster that it is about."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import Dict, FrozenSet, Iterable, Optional, Tuple

from .cluster import ClusterState
from .errors import MalformedError
from .host_report import HostReport
from .model import DriveModel, DriveReport

WHOLE = "cluster"
# What a term of a scope may name, by its kind, as it is typed.
FORMS = {
    WHOLE: WHOLE, "class": "class:NAME", "host": "host:NAME", "osd": "osd.N", "model": "model:PART",
}
_NAME_MAX = 253
# A drive model's name may have commas.
_COMMA = re.compile(r",(?=class:|host:|osd\.|model:)")
_TERMS = "or several of them with commas between, where all must fit"


@dataclass(frozen=True)
class Scope:
    """What is empty is any, and all that is named must fit.

    `drive_model` is a part of vendor, model or firmware.
    """

    device_class: str = ""
    hostname: str = ""
    osd_id: Optional[int] = None
    drive_model: str = ""

    def __str__(self) -> str:
        """Spell it as it is typed, each scope in one way."""
        named = {
            "class:": self.device_class, "host:": self.hostname,
            "osd.": "" if self.osd_id is None else str(self.osd_id), "model:": self.drive_model,
        }
        return ",".join(prefix + name for prefix, name in named.items() if name) or WHOLE

    def has_class(self, device_class: str) -> bool:
        """Whether OSDs of a device class may be in it."""
        return self.device_class in ("", device_class)

    def has_host(self, hostname: str) -> bool:
        """Whether OSDs of a host may be in it."""
        return self.hostname in ("", hostname)

    def has_osd(self, *osd_ids: int) -> bool:
        """Whether one of these OSDs may be in it."""
        return self.osd_id is None or self.osd_id in osd_ids

    def has_model(self, drive_model: Optional[DriveModel]) -> bool:
        """Whether drives of a model may be in it."""
        return self.drive_model.lower() in str(drive_model or "").lower()

    def covers(self, report: HostReport, drive: DriveReport, cluster: ClusterState) -> bool:
        """Whether a drive that a host has reported is in it."""
        some = self.device_class or self.osd_id is not None
        return (
            (not some or any(self.has_one(use.osd_id, cluster) for use in drive.uses))
            and self.has_host(report.hostname) and self.has_model(drive.drive_model)
        )

    def has_one(self, osd_id: int, cluster: ClusterState) -> bool:
        """Whether an OSD fits by its number and its class, whatever others its drive has."""
        osd = cluster.osds.get(osd_id)
        fits = not self.device_class or (osd is not None and osd.device_class == self.device_class)
        return fits and self.has_osd(osd_id)

    def osds(self, reports: Iterable[HostReport], cluster: ClusterState) -> FrozenSet[int]:
        """The OSDs of the cluster that are in it: drive models are as reported, hosts too."""
        where = replace(self, device_class="", osd_id=None)
        reported = {
            use.osd_id for report in reports for drive in report.drives
            if where.covers(report, drive, cluster) for use in drive.uses
        } if where != Scope() else set()
        return frozenset(
            osd_id for osd_id, osd in cluster.osds.items()
            if self.has_class(osd.device_class) and self.has_osd(osd_id)
            and (osd_id in reported or (not self.drive_model and self.has_host(osd.hostname)))
        )


def parse_scope(text: Optional[str], takes: Tuple[str, ...] = tuple(FORMS)) -> Scope:
    """Read a scope as it is typed; None is the whole cluster.

    `takes` are the kinds of terms that the command can go by, WHOLE one of them.
    Raises MalformedError that says which these are.
    """
    if text is None or (text == WHOLE and WHOLE in takes):
        return Scope()
    found: Dict[str, str] = {}
    for term in _COMMA.split(str(text)):
        kind, name = _term(term)
        if kind not in takes or kind in (*found, WHOLE) or not 0 < len(name) <= _NAME_MAX:
            *others, last = [form for kind, form in FORMS.items() if kind in takes]
            use = "use " + ", ".join(others) + (" or " if others else "") + last
            raise MalformedError(
                f"scope {str(text)[:60]!r} is not known here",
                f"{use}, {_TERMS}" if len({*takes} - {WHOLE}) > 1 else use,
            )
        found[kind] = name
    return Scope(
        found.get("class", ""), found.get("host", ""),
        int(found["osd"]) if "osd" in found else None, found.get("model", ""),
    )


def _term(term: str) -> Tuple[str, str]:
    """The kind of a term and what it names; no kind where it is none."""
    if term.startswith("osd."):
        number = term[len("osd."):]
        return "osd", number if number.isdecimal() and len(number) <= 8 else ""
    kind, _, name = term.partition(":")
    return kind, name if name.isprintable() and kind != "osd" else ""
