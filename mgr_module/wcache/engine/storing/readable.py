"""What is stored is read back first: a value that the next mgr cannot read is not stored."""

from __future__ import annotations

import json
from dataclasses import replace
from operator import attrgetter
from typing import Any, Dict, List, Optional, Tuple, Type

from ...core import codec, versions
from ...core.change.change import Change
from ...core.change.rollout_state import UNDER_WAY, Rollout
from ...core.errors import StorageError, WcacheError
from ...core.record import RECORD_BYTES_MAX
from ...core.versions import Numbered

# What is larger is not put.
VALUE_BYTES_MAX = RECORD_BYTES_MAX


def readable(key: str, value: Numbered) -> str:
    """The text of a value; StorageError where `Archive` would not read it again."""
    text = versions.dumps(value)
    prove(type(value), key, text)
    return text


def own_name(value: Numbered) -> Optional[str]:
    """Return the name that a value says it is stored by (`STORED_BY`); None where it says none."""
    field = getattr(type(value), "STORED_BY", "")
    return str(attrgetter(field)(value)) if field else None


def require_key(key: str, value: Numbered) -> None:
    """Raise StorageError for a value that names another key as its own."""
    own = own_name(value)
    if own is not None and own != key.partition("/")[2]:
        raise StorageError(f"{key} has the value of {codec.one_line(own, 80)!r}")


class PlanTexts:
    """The texts of plans.

    A plan is stored after each step, and a step moves few of its changes.  Only those that are
    new since then are encoded and read back.
    """

    def __init__(self) -> None:
        # by plan, then by id(), which is a change's own as long as it is kept here; only of plans
        # that are under way
        self._known: Dict[str, Dict[int, Tuple[Change, str]]] = {}

    def readable(self, key: str, rollout: Rollout) -> str:
        """As `readable` says of any value."""
        known = self._known.get(rollout.plan_id, {})
        if len(known) != len(rollout.changes):
            known = {}  # with all of them it is proven that they are not too many
        new = [change for change in rollout.changes if id(change) not in known]
        now = {**known, **{id(change): (change, codec.dumps(change)) for change in new}}
        head = versions.to_plain(replace(rollout, changes=()))
        del head["changes"]
        prove(Rollout, key, joined(head, "changes", [now[id(change)][1] for change in new]))
        text = joined(head, "changes", [now[id(change)][1] for change in rollout.changes])
        if len(text) > VALUE_BYTES_MAX:  # it is ASCII
            raise _not_stored(f"{key} is longer than {VALUE_BYTES_MAX} bytes")
        self._known.pop(rollout.plan_id, None)
        if rollout.status in UNDER_WAY:
            kept = {id(change): now[id(change)] for change in rollout.changes}
            self._known[rollout.plan_id] = kept
        return text


def joined(head: Dict[str, Any], name: str, items: List[str]) -> str:
    """The text of a value; `head` is all of it but one field, which is a list."""
    return f'{json.dumps(head, allow_nan=False)[:-1]}, "{name}": [{", ".join(items)}]}}'


def prove(cls: Type[Numbered], key: str, text: str) -> None:
    """Raise StorageError where a text would not be read again."""
    try:
        versions.loads(cls, text, bytes_max=VALUE_BYTES_MAX, what=key)
    except WcacheError as error:
        raise _not_stored(error.message) from None


def _not_stored(why: str) -> StorageError:
    return StorageError(
        f"{why}, so it is not stored",
        "a host may report drives with names or texts that are too long",
    )
