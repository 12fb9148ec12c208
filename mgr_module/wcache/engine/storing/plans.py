"""Plans in the store: each a head with its parts, which hold what was planned.

A plan is stored after each step, and a step moves few of its changes, of which there may be
thousands.  So a part, which has the changes as they were, is left as it is while only some of its
changes have moved: the head has those, and where the plan stands.  A part is named after what is
in it, and a head names its parts: whenever the mgr is lost, the next one reads the plan as it was,
or as it became.

What is stored is read back first: a value that the next mgr cannot read is not stored.
"""

from __future__ import annotations

import hashlib
import json
import threading
from dataclasses import dataclass, field, replace
from operator import attrgetter
from typing import Any, ClassVar, Dict, List, Mapping, Optional, Sequence, Set, Tuple, Type

from ...core import codec, versions
from ...core.change.change import Change
from ...core.change.gate.blocks import BLOCKS_MAX
from ...core.change.rollout_state import CHANGES_MAX, Rollout, Wave
from ...core.errors import StorageError, WcacheError
from ...core.loads import Block
from ...core.ports import Done, Store, Write
from ...core.record import RECORD_BYTES_MAX
from ...core.versions import Numbered

# What is larger is not put.
VALUE_BYTES_MAX = RECORD_BYTES_MAX


def readable(key: str, value: Numbered) -> str:
    """The text of a value; StorageError where `Archive` would not read it again."""
    text = versions.dumps(value)
    prove(type(value), key, text)
    return text


def own_name(value: object) -> Optional[str]:
    """Return the name that a value says it is stored by (`STORED_BY`); None where it says none."""
    field = getattr(type(value), "STORED_BY", "")
    return str(attrgetter(field)(value)) if field else None


def require_key(key: str, value: object) -> None:
    """Raise StorageError for a value that names another key as its own."""
    own = own_name(value)
    if own is not None and own != key.partition("/")[2]:
        raise StorageError(f"{key} has the value of {codec.one_line(own, 80)!r}")


def joined(head: Dict[str, Any], name: str, items: List[str]) -> str:
    """The text of a value; `head` is all of it but one field, which is a list."""
    return f'{json.dumps(head, allow_nan=False)[:-1]}, "{name}": [{", ".join(items)}]}}'


def prove(cls: Type[Numbered], key: str, text: str) -> None:
    """Raise StorageError where a text would not be read again."""
    try:
        versions.loads(cls, text, bytes_max=VALUE_BYTES_MAX, what=key)
    except WcacheError as error:
        raise StorageError(
            f"{error.message}, so it is not stored",
            "a host may report drives with names or texts that are too long",
        ) from None


# Of so many changes is a part, each of at most CHANGE_BYTES_MAX.
PART_CHANGES = 250
# With more changes that have moved, a head has new parts made.
NEWER_MAX = 64

PLAN, PART = "rollout", "rollout-part"
ROLLOUT_VERSION = 15


@dataclass(frozen=True)
class Newer:
    """A change that is not as its part has it."""

    index: int
    change: Change


@dataclass(frozen=True)
class Head:
    """A plan without what its parts have, which are `waves`, `before` and `changes`."""

    VERSION: ClassVar[int] = ROLLOUT_VERSION
    plan: Rollout
    waves: str
    before: str
    changes: Tuple[str, ...]
    newer: Tuple[Newer, ...]


@dataclass(frozen=True)
class Part:
    """What a head names: the waves, the blocks before the step under way, or some changes."""

    VERSION: ClassVar[int] = 16
    waves: Tuple[Wave, ...] = field(default=(), metadata={"max_items": CHANGES_MAX})
    blocks: Tuple[Block, ...] = field(default=(), metadata={"max_items": BLOCKS_MAX})
    changes: Tuple[Change, ...] = ()


@dataclass
class _Kept:
    """What is known of a plan in the store.

    `changes` are as the parts have them.  Things are known again by `is`: all are immutable.
    """

    changes: Tuple[Change, ...] = ()
    parts: Tuple[str, ...] = ()
    waves: Tuple[Tuple[Wave, ...], str] = ((), "")
    before: Tuple[Tuple[Block, ...], str] = ((), "")
    newer: Dict[int, Tuple[Change, str]] = field(default_factory=dict)
    stored: Set[str] = field(default_factory=set)  # names of parts that the mons have
    named: Set[str] = field(default_factory=set)  # those that the newest head names
    texts: Dict[str, str] = field(default_factory=dict)  # of parts that they may not have


class StoredPlans:
    """The plans, each by its id.

    Guarded by the engine's lock, but for the store's answers, which come from another thread.
    """

    def __init__(self, store: Store, unreadable: Dict[str, str]) -> None:
        self._store = store
        self._unreadable = unreadable
        self._kept: Dict[str, _Kept] = {}
        self._lock = threading.Lock()  # of what answers change: `stored` and `texts`

    def ids(self) -> List[str]:
        """The ids of all plans, those that cannot be read included."""
        return [key[len(PLAN) + 1:] for key in self._store.keys(PLAN + "/")]

    def all(self) -> Dict[str, Rollout]:
        """Return all plans by id; what cannot be read is in `unreadable`."""
        found: Dict[str, Rollout] = {}
        for plan_id in self.ids():
            key = f"{PLAN}/{plan_id}"
            try:
                plan = self.load(plan_id)
                if plan is not None:
                    require_key(key, plan)
                    found[plan_id] = plan
            except WcacheError as error:
                self._unreadable[key] = error.message
        self._sweep()
        return found

    def load(self, plan_id: str) -> Optional[Rollout]:
        """One plan, whatever version has stored it; raises WcacheError where it is damaged."""
        key = f"{PLAN}/{plan_id}"
        text = self._store.get(key)
        if text is None:
            return None
        head = versions.loads(Head, text, bytes_max=VALUE_BYTES_MAX, what=key)
        parts = [self._part(plan_id, name) for name in head.changes]
        base = tuple(item for part in parts for item in part.changes)
        waves = self._part(plan_id, head.waves).waves
        before = self._part(plan_id, head.before).blocks
        changes = [*base]
        if sum(wave.size for wave in waves) != len(changes):
            raise StorageError(f"{key} has {len(changes)} changes, and its waves have others")
        for item in head.newer:
            if item.index >= len(changes):
                raise StorageError(f"{key} has a change beyond its parts")
            changes[item.index] = item.change
        kept = self._kept_of(plan_id)
        if {len(part.changes) for part in parts[:-1]} <= {PART_CHANGES}:
            kept.changes, kept.parts = base, head.changes
            kept.waves, kept.before = (waves, head.waves), (before, head.before)
        return replace(
            head.plan, changes=tuple(changes), waves=waves,
            step=replace(head.plan.step, before=before),
        )

    def _part(self, plan_id: str, name: str) -> Part:
        key = f"{PART}/{plan_id}/{name}"
        text = self._store.get(key)
        if text is None:
            raise StorageError(f"{key} is missing")
        return versions.loads(Part, text, bytes_max=VALUE_BYTES_MAX, what=key)

    def _kept_of(self, plan_id: str) -> _Kept:
        kept = self._kept.get(plan_id)
        if kept is None:
            prefix = f"{PART}/{plan_id}/"
            there = {key[len(prefix):] for key in self._store.keys(prefix)}
            kept = self._kept[plan_id] = _Kept(stored=there)
        return kept

    def put(self, rollout: Rollout, done: Done) -> None:
        """Store a plan that will be read again, else tell `done` why it would not be."""
        try:
            self._put(f"{PLAN}/{rollout.plan_id}", rollout, done)
        except StorageError as error:
            done(error)

    def _put(self, key: str, rollout: Rollout, done: Done) -> None:
        if len(rollout.changes) > CHANGES_MAX:
            raise StorageError(f"{key} has more than {CHANGES_MAX} changes: it is not stored")
        plan_id, kept, made = rollout.plan_id, self._kept_of(rollout.plan_id), _Parts(key)
        waves, before = kept.waves, kept.before
        if waves[0] is not rollout.waves or not waves[1]:
            waves = rollout.waves, made.name("waves", Part(rollout.waves))
        if before[0] is not rollout.step.before or not before[1]:
            before = rollout.step.before, made.name("before", Part(blocks=rollout.step.before))
        base, parts, moved = kept.changes, kept.parts, _moved(kept.changes, rollout.changes)
        if moved is None or len(moved) > NEWER_MAX:
            base, parts = rollout.changes, made.parts(rollout.changes, kept.parts, moved)
            moved = []
        newer, new = {}, []
        for index in moved:
            change, known = rollout.changes[index], kept.newer.get(index)
            if known is None or known[0] is not change:
                known = change, codec.dumps(Newer(index, change))
                new.append(known[1])
            newer[index] = known
        plan = replace(rollout, changes=(), waves=(), step=replace(rollout.step, before=()))
        plain = versions.to_plain(Head(plan, waves[1], before[1], parts, ()))
        del plain["newer"]
        prove(Head, key, joined(plain, "newer", new))
        head = joined(plain, "newer", [each for _, each in newer.values()])
        if len(head) > VALUE_BYTES_MAX:  # it is ASCII
            raise StorageError(f"{key} is longer than {VALUE_BYTES_MAX} bytes")
        kept.changes, kept.parts, kept.waves, kept.before = base, parts, waves, before
        kept.newer = newer
        self._write(plan_id, head, {waves[1], before[1], *parts}, made.texts, done)

    def _write(
        self, plan_id: str, head: str, names: Set[str], made: Mapping[str, str], done: Done
    ) -> None:
        """The parts that the mons may not have, then the head that names them."""
        kept, prefix = self._kept_of(plan_id), f"{PART}/{plan_id}/"
        with self._lock:
            kept.texts.update(made)
            kept.named = names
            missing = sorted(names - kept.stored)
            writes = [Write(prefix + name, kept.texts[name]) for name in missing]

        def answered(error: Optional[StorageError]) -> None:
            if error is None:
                with self._lock:
                    kept.stored |= names
                    gone = kept.stored - names - kept.named
                    kept.stored -= gone
                    for name in [*names, *gone]:
                        kept.texts.pop(name, None)
                # a head that names them may be queued no more
                for name in sorted(gone):
                    self._store.write_later(prefix + name, None)
            done(error)

        self._store.write((*writes, Write(f"{PLAN}/{plan_id}", head)), answered)

    def drop(self, plan_id: str) -> None:
        """Remove a plan, its head first: parts without one are nothing."""
        self._kept.pop(plan_id, None)
        self._store.write_later(f"{PLAN}/{plan_id}", None)
        for key in self._store.keys(f"{PART}/{plan_id}/"):
            self._store.write_later(key, None)

    def _sweep(self) -> None:
        """Remove parts of plans that are gone: a mgr was lost while it dropped them."""
        there = {*self.ids()}
        for key in self._store.keys(PART + "/"):
            if key.split("/")[1] not in there:
                self._store.write_later(key, None)


def require_readable(rollout: Rollout) -> None:
    """Raise StorageError where a plan would not be read again."""
    made = _Parts(f"plan {rollout.plan_id}")
    made.name("waves", Part(rollout.waves))
    made.parts(rollout.changes, (), None)
    head = Head(replace(rollout, changes=(), waves=()), "", "", (), ())
    readable(f"plan {rollout.plan_id}", head)


class _Parts:
    """Parts that are made for a head: their texts by name, proven to be read again."""

    def __init__(self, key: str) -> None:
        self._key = key
        self.texts: Dict[str, str] = {}

    def name(self, stem: str, part: Part) -> str:
        """Make one part."""
        text = readable(f"{self._key}, part {stem}", part)
        name = f"{stem}.{hashlib.sha256(text.encode('utf-8')).hexdigest()[:24]}"
        self.texts[name] = text
        return name

    def parts(
        self, changes: Sequence[Change], known: Sequence[str], moved: Optional[Sequence[int]]
    ) -> Tuple[str, ...]:
        """The names of all parts; those in which something has moved, or all, are made."""
        numbers = None if moved is None else {index // PART_CHANGES for index in moved}
        return tuple(
            known[number] if numbers is not None and number not in numbers
            else self.name(str(number), Part(changes=tuple(changes[at:at + PART_CHANGES])))
            for number, at in enumerate(range(0, len(changes), PART_CHANGES))
        )


def _moved(base: Sequence[Change], changes: Sequence[Change]) -> Optional[List[int]]:
    """Which changes are not as the parts have them; None where these are of another plan."""
    if len(base) != len(changes):
        return None
    return [at for at, (old, new) in enumerate(zip(base, changes)) if old is not new]
