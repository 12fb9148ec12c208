"""What a cache domain was like before a change, as the mgr keeps it: the second witness.

The first is the probe's journal.  The mgr stores a `Prior` before it lets anything be
touched and sends it with each request; the probe holds it against what it reads and
against its journal.  That a prior state is back is concluded from a reading that equals
it, and from nothing else: current mode, saved page, and the udev rule that stands in for
a page which cannot be saved (both are `page.saved`).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum
from typing import Dict, Mapping, Optional, Sequence, Tuple

from .. import codec
from ..errors import RefusedError, StorageError
from ..hardware import OptionValue
from ..model import CacheMode, DriveReport, DriveState, KernelView, mode_of
from .journal import JournalEntry, PriorDrive, prior_of

# It is sent with each request (REPLY_BYTES_MAX) and stored with each change of a plan;
# a drive takes some 600 bytes.
PRIOR_BYTES_MAX = 16_000

ACCEPT = (
    "look at the drive, then accept it as it is: `ceph wcache drive accept HOST DOMAIN "
    "--accept-cost`"
)


class PriorDoubt(str, Enum):
    """Why a prior state cannot be relied on."""

    NONE = ""
    OTHER_STATE = "other state"  # the drive is not as the mgr knows it; nothing was touched
    DISPUTED = "disputed"  # the journal and the mgr say different things
    LOST = "lost"  # nobody knows it any more


class PriorError(RefusedError):
    """The witnesses of a prior state do not agree, or there is none."""

    def __init__(self, doubt: PriorDoubt, message: str, advice: str = "") -> None:
        super().__init__(message, advice)
        self.doubt = doubt


@dataclass(frozen=True)
class Prior:
    """A cache domain before a change; `drives` is empty where nobody knows."""

    domain_id: str = ""
    cluster_fsid: str = ""
    drives: Tuple[PriorDrive, ...] = ()

    @property
    def known(self) -> bool:
        """Whether it says anything."""
        return bool(self.drives)

    def differs(self, read: Mapping[str, DriveState]) -> str:
        """How a reading, by drive id, differs from it; what is not known equals nothing."""
        return not_back(self.drives, read) if self.known else "the prior state is not known"

    @property
    def of_options(self) -> bool:
        """Whether it is about options, and the cache mode is not touched."""
        return any(drive.options for drive in self.drives)


UNKNOWN = Prior()


def prior_from(
    cluster_fsid: str, domain_id: str, drives: Sequence[DriveReport],
    option_names: Sequence[str] = (),
) -> Prior:
    """The prior state of a domain whose drives were just read, with these options.

    Raises StorageError where a mode or an option is unknown, no drive is there, one of another
    domain, or it is too large to be stored.
    """
    if not drives:
        raise StorageError(f"no drive of {domain_id} is on the host any more")
    if any(drive.domain_id != domain_id for drive in drives):
        raise StorageError(f"what was read is not of {domain_id} alone")
    found = tuple(
        replace(item, state=replace(item.state, layers=(), options=()))  # these are not restored
        for item in with_options(drives, option_names)
    )
    prior = Prior(domain_id, cluster_fsid, found)
    size = len(codec.dumps(prior))
    if size > PRIOR_BYTES_MAX:
        raise StorageError(
            f"the prior state of {domain_id[:60]} has {size} bytes, {PRIOR_BYTES_MAX} is the limit"
        )
    return prior


def with_options(drives: Sequence[DriveReport], names: Sequence[str]) -> Tuple[PriorDrive, ...]:
    """Drives as they were found, with these options in order; those that a drive lacks left out.

    Raises StorageError where one lacks the first of them: that is the one to be changed.
    """
    found = []
    for drive, prior in zip(drives, prior_of(tuple(drives))):
        if names and drive.state.option(names[0]) is None:
            raise StorageError(f"{drive.dev_name} has no {names[0]} that could be read")
        values = [(name, drive.state.option(name)) for name in names]
        options = tuple(OptionValue(name, value) for name, value in values if value is not None)
        found.append(replace(prior, options=options))
    return tuple(found)


def not_back(prior: Sequence[PriorDrive], read: Mapping[str, DriveState]) -> str:
    """How a reading, by drive id, differs from the prior state; empty where it equals it."""
    found = []
    for item in prior:
        state = read.get(item.drive_id)
        if state is None:
            found.append(f"{item.dev_name} was not read")
            continue
        mode = mode_of(item.transport, state)
        if mode is not item.mode:
            found.append(f"{item.dev_name} is in {_word(mode)} and was in {item.mode.value}")
        if state.page.saved is not item.state.page.saved:
            found.append(
                f"what {item.dev_name} keeps over a power cycle is {_word(state.page.saved)} "
                f"and was {_word(item.state.page.saved)}"
            )
        for one in item.options:
            value = state.option(one.name)
            if value != one.value:
                found.append(
                    f"{one.name} of {item.dev_name} is {value or 'unknown'} and was {one.value}"
                )
    return "; ".join(found)


def require_first_touch(prior: Optional[Prior], drives: Sequence[DriveReport]) -> None:
    """Raise PriorError where drives that nothing has touched yet are not as the mgr knows them.

    A kernel view that is at write back now and was not is what earlier changes of ours
    leave behind: it is only ever raised.
    """
    if prior is None:
        return
    read = {drive.drive_id: drive.state for drive in drives}
    differs = not_back(prior.drives, read)
    strangers = sorted(set(read) - {item.drive_id for item in prior.drives})
    if not differs and strangers:
        differs = f"{strangers[0]} was not there"
    for item in () if differs else prior.drives:
        now, was = read[item.drive_id].kernel_view, item.state.kernel_view
        if now not in (was, KernelView.WRITE_BACK):
            differs = f"the kernel view of {item.dev_name} is {now.value} and was {was.value}"
    if differs:
        raise PriorError(
            PriorDoubt.OTHER_STATE, f"not in the state that the mgr recorded: {differs}",
            "something else changed it; check the drive",
        )


def require_entry(entry: JournalEntry, prior: Optional[Prior]) -> None:
    """Raise PriorError where a journal entry is of another cluster or of another prior state."""
    if prior is None:
        return
    theirs, ours = entry.cluster_fsid, prior.cluster_fsid
    if theirs and ours and theirs != ours:
        raise PriorError(
            PriorDoubt.DISPUTED,
            f"journal entry {entry.key} is of cluster {theirs}, and this is cluster {ours}",
            ACCEPT,
        )
    if not prior.known:
        return
    wrong = entry_differs(entry.drives, prior)
    if wrong:
        raise PriorError(
            PriorDoubt.DISPUTED,
            f"journal entry {entry.key} is of another prior state: {wrong}", ACCEPT,
        )


def entry_differs(drives: Sequence[PriorDrive], prior: Prior) -> str:
    """How the drives of a journal entry differ from what the mgr knows; empty where equal."""
    told = {item.drive_id: replace(item.state, options=item.options) for item in drives}
    if set(told) != {item.drive_id for item in prior.drives}:
        return f"it is of {', '.join(sorted(told))}"
    return not_back(prior.drives, told)


def lost(what: str) -> PriorError:
    """Neither witness knows."""
    return PriorError(
        PriorDoubt.LOST, f"the prior state of {what} is lost", ACCEPT
    )


def states_by_id(drive_ids: Sequence[str], states: Sequence[DriveState]) -> Dict[str, DriveState]:
    """Readings by drive; none where they do not belong together."""
    return dict(zip(drive_ids, states)) if len(drive_ids) == len(states) else {}


def _word(mode: Optional[CacheMode]) -> str:
    return "nothing" if mode is None else mode.value
