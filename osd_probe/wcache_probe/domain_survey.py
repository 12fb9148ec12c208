"""The drives that a change is about: surveyed before their lock is taken, read anew under it.

A survey asks every disk of the host, and one that hangs must not keep this domain from being
restored: whoever restores waits for its lock.  So no survey goes on under a lock.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, Optional, Tuple, Union

from wcache.core.drive.journal import EntryKind
from wcache.core.errors import NotReadyError, RefusedError
from wcache.core.model import DriveReport, DriveState, Role
from wcache.core.ports import DriveHost
from wcache.core.protocol import (
    APPLIED,
    LEASED,
    AcceptRequest,
    ApplyOptionRequest,
    ApplyRequest,
    ReleaseRequest,
    RollbackRequest,
    SetModeRequest,
    SetOptionRequest,
)

from .switcher import Switcher

WAYS_BACK = (ReleaseRequest, RollbackRequest)
# what these find before their first step must still hold then
Change = Union[
    SetModeRequest, SetOptionRequest, ReleaseRequest, ApplyRequest, ApplyOptionRequest,
    RollbackRequest, AcceptRequest,
]
CHANGES = (*LEASED, *APPLIED, *WAYS_BACK, AcceptRequest)


@dataclass
class DomainSurvey:
    """`take` before the lock of a change's domain, `drives` under it."""

    host: DriveHost
    switcher: Switcher
    _surveyed: Optional[Tuple[DriveReport, ...]] = field(default=None)

    def take(self, request: Change) -> None:
        """Survey the host for the drives of a change's domain.

        None are needed where it goes by its journal entry, or by nothing.
        """
        by_entry = isinstance(request, WAYS_BACK) and self.switcher.entry(*entry_of(request))
        none = by_entry or isinstance(request, AcceptRequest)
        self._surveyed = None if none else self.host.domain(request.domain_id)

    def drives(self) -> Tuple[DriveReport, ...]:
        """The drives that were surveyed, as they are under the lock.

        `unprepare`, or an image that was made, may have come in between the two.
        NotReadyError where the survey found that none were needed.
        """
        if self._surveyed is None:
            raise NotReadyError("the journal has changed meanwhile", "try again")
        return self.host.anew(self._surveyed)

    def now(self, domain_id: str) -> Tuple[Tuple[str, ...], Tuple[DriveState, ...]]:
        """Ids and states of a domain's drives with their options, by a survey: not under a lock."""
        drives = self.host.domain(domain_id)
        states = tuple(
            replace(self.host.state(drive), options=drive.state.options) for drive in drives
        )
        return tuple(drive.drive_id for drive in drives), states


def entry_of(request: Any) -> Tuple[EntryKind, str]:
    """Return kind and name of the journal entry by which a request's drives go back."""
    if isinstance(request, (*APPLIED, RollbackRequest)):
        return EntryKind.ACTION, request.action_id
    return EntryKind.LEASE, request.domain_id


def used_by(
    drives: Tuple[DriveReport, ...], osd_id: int, role: Optional[Role]
) -> DriveReport:
    """The drive of a domain that an OSD uses, in `role` if one is given.

    RefusedError where there is none.
    """
    for drive in drives:
        for use in drive.uses:
            if use.osd_id == osd_id and role in (None, use.role):
                return drive
    what = f"the {role.value} device of " if role else ""
    raise RefusedError(f"no drive of this cache domain is {what}osd.{osd_id}")
