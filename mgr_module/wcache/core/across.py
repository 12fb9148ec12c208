"""What a probe still says to a module of another protocol, or hears from it.  It never changes.

Four messages, of which every version ever made reads and writes these bytes and means the same:
*hello* (who asks: the first fields of what a probe of any protocol sends), *nothing* (call again
later), *restore* (bring back what these entries of your journal say) and *report* (the keys of
the journal, what was brought back, and what could not be).  With them a lease is released and a
change is rolled back; nothing is measured or changed.  They are spelled out here, apart from the
types of the protocol, since those change; a test holds their bytes.

No two protocols agree on a state of a drive.  So the probe goes by its own journal alone, and an
entry is gone only once the prior state was read: that is what *restored* says.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, Dict, Mapping, Optional, Tuple, Union

from .codec import one_line
from .drive.journal import EntryKind
from .errors import MalformedError

TAG = "across"  # the word that none of the protocol's own messages has
VERSION_MAX = 1_000_000
KEYS_MAX = 1024
KEY_CHARS_MAX = 400
ID_CHARS_MAX = 64
WHY_CHARS_MAX = 300
POLL_MIN_S, POLL_MAX_S = 0.01, 600.0


@dataclass(frozen=True)
class Caller:
    """What is read of any protocol's hello or post."""

    version: int
    probe_id: str
    instance_id: str


@dataclass(frozen=True)
class Order:
    """The mgr's answer; nothing is to be done where `keys` is empty."""

    version: int
    next_poll_s: float
    keys: Tuple[str, ...] = ()

    def plain(self) -> Dict[str, Any]:
        """JSON-ready."""
        told = {"version": self.version, TAG: "nothing", "next_poll_s": self.next_poll_s}
        return {**told, TAG: "restore", "keys": list(self.keys)} if self.keys else told


@dataclass(frozen=True)
class Report:
    """What a probe's journal holds, and what became of what it was asked for."""

    version: int
    hostname: str
    probe_id: str
    instance_id: str
    keys: Tuple[str, ...] = ()
    restored: Tuple[str, ...] = ()
    failed: Tuple[Tuple[str, str], ...] = ()  # key, why

    def may_hold(self, key: str) -> bool:
        """Whether the journal has an entry: of a list at its limit changes were left out."""
        full = len(self.keys) >= KEYS_MAX and not key.startswith(f"{EntryKind.LEASE.value}/")
        return full or key in self.keys

    def plain(self) -> Dict[str, Any]:
        """JSON-ready."""
        return {
            "version": self.version, TAG: "report", "hostname": self.hostname,
            "probe_id": self.probe_id, "instance_id": self.instance_id,
            "keys": list(self.keys[:KEYS_MAX]), "restored": list(self.restored[:KEYS_MAX]),
            "failed": {key: one_line(why, WHY_CHARS_MAX) for key, why in self.failed[:KEYS_MAX]},
        }


def encode(message: Union[Order, Report]) -> str:
    """The bytes of a message."""
    return json.dumps(message.plain(), allow_nan=False, separators=(",", ":"))


def is_across(plain: Any) -> bool:
    """Whether it is one of these messages, and not one of a protocol."""
    return isinstance(plain, dict) and TAG in plain


def hello_in(plain: Mapping[str, Any]) -> Caller:
    """Who speaks, whatever else a message of another protocol has."""
    return Caller(
        _version(plain), _word(plain, "probe_id", ID_CHARS_MAX),
        _word(plain, "instance_id", ID_CHARS_MAX),
    )


def order_in(plain: Mapping[str, Any]) -> Order:
    """The mgr's answer; MalformedError where it makes no sense."""
    wait_s = plain.get("next_poll_s")
    if isinstance(wait_s, bool) or not isinstance(wait_s, (int, float)):
        raise MalformedError("next_poll_s must be a number")
    if not POLL_MIN_S <= wait_s <= POLL_MAX_S:
        raise MalformedError(f"the mgr wants the next call in {wait_s:g} s")
    keys = _keys(plain, "keys") if plain.get(TAG) == "restore" else ()
    return Order(_version(plain), float(wait_s), keys)


def report_in(plain: Mapping[str, Any]) -> Report:
    """A probe's report; MalformedError where it makes no sense."""
    if plain.get(TAG) != "report":
        raise MalformedError(f"{TAG} must be report")
    failed = plain.get("failed")
    if not isinstance(failed, dict) or len(failed) > KEYS_MAX:
        raise MalformedError(f"failed must be an object of at most {KEYS_MAX} keys")
    hello = hello_in(plain)
    return Report(
        hello.version, _word(plain, "hostname", KEY_CHARS_MAX), hello.probe_id, hello.instance_id,
        _keys(plain, "keys"), _keys(plain, "restored"),
        tuple(
            (_text(key, KEY_CHARS_MAX), _text(why, WHY_CHARS_MAX)) for key, why in failed.items()
        ),
    )


def is_key(text: str) -> bool:
    """Whether a journal's key can be told."""
    return 0 < len(text) <= KEY_CHARS_MAX and text.isprintable()


def _version(plain: Mapping[str, Any]) -> int:
    version = plain.get("version")
    if isinstance(version, bool) or not isinstance(version, int):
        raise MalformedError("version must be a whole number")
    return max(0, min(version, VERSION_MAX))


def _word(plain: Mapping[str, Any], name: str, chars_max: int) -> str:
    return _text(plain.get(name, ""), chars_max, name)


def _text(value: Any, chars_max: int, name: str = "a key") -> str:
    if not isinstance(value, str) or len(value) > chars_max or not value.isprintable():
        raise MalformedError(f"{name} must be at most {chars_max} printable characters")
    return value


def _keys(plain: Mapping[str, Any], name: str) -> Tuple[str, ...]:
    value: Optional[Any] = plain.get(name)
    if not isinstance(value, list) or len(value) > KEYS_MAX:
        raise MalformedError(f"{name} must be a list of at most {KEYS_MAX} keys")
    return tuple(_text(key, KEY_CHARS_MAX) for key in value)
