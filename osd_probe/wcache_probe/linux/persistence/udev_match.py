"""How a udev rule names a drive: its `wwid`, as text that udev matches and cannot misread.

systemd strips white space at the end of an attribute before it compares (udev-rules.c,
token_match_attr()), and so do we; blanks inside, as in the `t10.` names that libata makes
of model and serial, are matched as they are.  In a match `*?[|` are patterns and a quote
or backslash ends or bends the text, so each of these is written as `?`: any one character.
"""

from __future__ import annotations

import fnmatch
import re

from wcache.core.errors import RefusedError

_KINDS = ("naa.", "eui.", "uuid.", "nvme.", "t10.")
_LENGTH_MAX = 250
# printable ASCII: what the kernel's "%pE" leaves as it is (scsi_vpd_lun_id())
_WWID = re.compile(r"[a-z0-9]+\.[\x20-\x7e]{4,}")
_ZEROS = re.compile(r"[a-z0-9]+\.[0-]+")
_SPECIAL = re.compile(r"[^A-Za-z0-9 ._:+@-]")


def pattern(wwid: str) -> str:
    """What stands between the quotes of a match; RefusedError where nothing safe can."""
    usable = _WWID.fullmatch(wwid) and wwid.startswith(_KINDS) and wwid == wwid.strip()
    if not usable or len(wwid) > _LENGTH_MAX:
        raise RefusedError("the drive has no wwid that a udev rule can match")
    if _ZEROS.fullmatch(wwid):
        raise RefusedError("the drive's wwid is zeros, which other drives may have as well")
    return _SPECIAL.sub("?", wwid)


def matches(wanted: str, wwid: str) -> bool:
    """Whether udev would take a drive with `wwid` for the one that `wanted` names."""
    return fnmatch.fnmatchcase(wwid, wanted)
