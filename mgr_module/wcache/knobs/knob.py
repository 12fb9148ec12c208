"""What a knob is to the rest: its name, the options it goes by, and what a plan is asked for."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Callable, FrozenSet, Iterable, Mapping, Optional, Sequence, Tuple

from ..core.change.change import Change
from ..core.change.rollout_state import Rollout
from ..core.model import FindingCode
from ..core.scope import Scope

# Changes of one plan: as many as a large cluster has drives.
CHANGES_MAX = 12_000


@dataclass(frozen=True)
class Knob:
    """Something that wcache observes, tries, recommends and changes.

    `options` are those of the config database that it reads or sets; the cache mode has none.
    `advice` says of each finding code of its own what is wrong, for `ceph health`, and what to do.
    `together`: `plan --knob=all` has it.  `assigns`: `plan --option` may name
    what it changes.
    """

    name: str
    options: Tuple[str, ...] = ()
    advice: Tuple[Tuple[FindingCode, str, str], ...] = ()
    together: bool = True
    assigns: bool = False


@dataclass(frozen=True)
class Asked:
    """What a plan is asked for.

    `nonce` is random and makes the ids of actions unique for ever: a journal may still have
    an entry of a plan that had the same number.  `take_over` are hosts of which somebody else
    sets the values by itself, and is to leave them.  `by_itself`: no admin asks for it.
    `option`: OPTION=VALUE, where an admin names what is to be changed.
    """

    plan_id: str
    nonce: str
    scope: Scope = Scope()  # noqa: RUF009  frozen
    consent_turn_on: bool = False
    persist: bool = False
    only: Optional[FrozenSet[Tuple[str, str]]] = None  # these hosts and cache domains
    take_over: Tuple[str, ...] = ()
    by_itself: bool = False
    option: str = ""
    # by host and cache domain, why an admin has them left out
    without: Mapping[Tuple[str, str], str] = field(default_factory=dict)
    first: int = 0  # how many changes the plan has before those that are asked for

    def wants(self, host: str, device_class: str) -> bool:
        """Whether a device class of a host is asked for, with any of its cache domains."""
        named = self.only is None or any(name == host for name, _ in self.only)
        return named and self.scope.has_class(device_class)

    def action_id(self, index: int) -> str:
        """The id of a change by its place among those that are asked for."""
        return f"{self.plan_id}.{self.first + index}.{self.nonce}"


def _nothing(changes: Sequence[Change]) -> None:
    """Most knobs keep nothing beside a plan."""


@dataclass(frozen=True)
class Wanted:
    """Changes in the order they will be made, the canary first; what is left alone, a line each.

    `remember` keeps what a knob wants kept beside the plan.  It is called with the changes that
    the plan has, none where there is no plan, and not at all by a dry run.  `drives_in_place` are
    as they should be; None where a knob does not go drive by drive.
    """

    changes: Tuple[Change, ...]
    left_alone: Tuple[str, ...] = ()
    remember: Callable[[Sequence[Change]], None] = _nothing
    drives_in_place: Optional[int] = None


def option_names(knobs: Iterable[Knob]) -> Tuple[str, ...]:
    """All options of the config database that some knob goes by."""
    return tuple(dict.fromkeys(name for knob in knobs for name in knob.options))


def knobs_of(rollout: Rollout) -> Tuple[str, ...]:
    """The names of the knobs that a plan changes."""
    return tuple(dict.fromkeys(change.knob for change in rollout.changes))
