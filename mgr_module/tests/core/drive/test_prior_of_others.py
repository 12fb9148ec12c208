"""A prior state is of the drives of one cache domain, all of them and no other."""

from dataclasses import replace

import pytest
from mgr_fakes import builders as make
from wcache.core.drive.journal import JOURNAL_VERSION, EntryKind, JournalEntry, prior_of
from wcache.core.drive.prior import (
    PriorDoubt,
    PriorError,
    prior_from,
    require_entry,
    states_by_id,
)
from wcache.core.errors import StorageError
from wcache.core.hardware import OptionValue
from wcache.core.protocol import StateOutcome


def drive(name, domain_id="d"):
    return make.drive(name, 0, domain_id=domain_id)


def entry_of(*drives):
    return JournalEntry(JOURNAL_VERSION, EntryKind.LEASE, "l", "d", prior_of(drives), 0.0)


@pytest.mark.parametrize("names", [("sda", "sdb", "sdc"), ("sda",), ("sda", "sdc"), ("sdc", "sdd")])
def test_an_entry_of_more_or_other_drives_than_the_mgr_stored_is_not_restored(names):
    known = prior_from("", "d", [drive("sda"), drive("sdb")])
    with pytest.raises(PriorError, match="of another prior state") as refused:
        require_entry(entry_of(*map(drive, names)), known)
    assert refused.value.doubt is PriorDoubt.DISPUTED
    require_entry(entry_of(drive("sdb"), drive("sda")), known)


@pytest.mark.parametrize("others", [0, 1])
def test_nothing_is_stored_as_prior_of_a_domain_that_the_drive_is_not_in(others):
    drives = [*[drive("sda")] * others, drive("sdb", "another")]
    with pytest.raises(StorageError, match="is not of d alone"):
        prior_from("", "d", drives)
    with pytest.raises(StorageError, match="no drive of d"):
        prior_from("", "d", [])


@pytest.mark.parametrize("names", [(), ("scheduler", "nr_requests")])
def test_an_answer_that_what_was_there_is_back_says_so_of_modes_and_of_options(names):
    found = drive("sda")
    options = tuple(OptionValue(name, f"{name} of before") for name in names)
    found = replace(found, state=replace(found.state, options=options))
    known = prior_from("", "d", [found], names)
    answer = StateOutcome.of_prior(known, changed=True)
    assert known.differs(states_by_id(answer.drive_ids, answer.after)) == ""
    assert answer.changed
