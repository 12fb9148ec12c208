"""What the programs about options promise, whatever a drive, the kernel or the mgr does."""

from dataclasses import replace

import pytest
from option_world import AS_FOUND, OTHER_FSID, Drives, Killed
from wcache.core.drive.journal import EntryKind
from wcache.core.drive.prior import PriorDoubt, PriorError, prior_from
from wcache.core.errors import RefusedError, StorageError
from wcache_probe.switching import options
from wcache_probe.switching.toggle import bring_back


def lease(drives, value="none", entry=None, name="scheduler", prior=None):
    return drives.run(options.lease_set(
        drives.look(), entry, lease_id="l", name=name, value=value, now_s=0.0,
        prior=prior or drives.prior(name),
    ))


def applied(drives, value="none", prior=None):
    return drives.run(options.apply(
        drives.look(), None, action_id="a", name="scheduler", expected="mq-deadline",
        value=value, now_s=0.0, prior=prior or drives.prior(),
    ))


EITHER = pytest.mark.parametrize("program", [lease, applied])


def untouched(drives):
    return all(values == AS_FOUND for values in drives.values.values()) and not drives.journal


@EITHER
def test_each_drive_of_a_domain_is_set_and_read_with_what_was_there_in_the_journal(program):
    drives = Drives("sda", "sdb")
    done = program(drives)
    assert [state.option("scheduler") for state in done.after] == ["none", "none"]
    (entry,) = drives.journal.values()
    assert all(
        {one.name: one.value for one in drive.options} == AS_FOUND for drive in entry.drives
    )
    drives.run(options.restore(entry, drives.look()))
    assert untouched(drives)


@EITHER
def test_of_a_domain_that_others_use_too_nothing_is_set(program):
    drives = Drives("sda", "sdb")
    drives.reports["sdb"] = replace(drives.reports["sdb"], foreign_uses=("swap",))
    with pytest.raises(RefusedError, match="sdb: it is shared with swap, which is not an OSD"):
        program(drives)
    assert (untouched(drives), drives.does) == (True, [])


def ignores(name, value):
    """sdb takes no `none` and says nothing."""
    return "mq-deadline" if (name, value) == ("sdb", "none") else value


def fails(name, value):
    """sdb answers with an error."""
    return StorageError("input/output error") if (name, value) == ("sdb", "none") else value


@EITHER
@pytest.mark.parametrize(("takes", "said"), [
    (ignores, "sdb was given scheduler none and has mq-deadline; the prior state is back"),
    (fails, "input/output error; the prior state is back"),
])
def test_where_one_does_not_take_it_all_go_back_and_it_is_not_called_set(program, takes, said):
    drives = Drives("sda", "sdb", takes=takes)
    with pytest.raises(RefusedError) as refused:
        program(drives)
    assert refused.value.message == said
    assert untouched(drives)


def test_where_it_does_not_take_it_and_does_not_go_back_the_entry_stays():
    drives = Drives("sda", "sdb", takes=lambda name, value: "kyber")
    with pytest.raises(StorageError, match="scheduler of sda is kyber and was mq-deadline"):
        lease(drives)
    assert list(drives.journal) == ["lease/domain"]


@pytest.mark.parametrize(("gone", "said"), [
    ("sdb", "wwn-sdb is not on this host, so its options are not back"),
    ("sda", "wwn-sda is not on this host"),
])
def test_a_way_back_is_not_over_while_a_drive_is_missing(gone, said):
    drives = Drives("sda", "sdb")
    lease(drives)
    (entry,) = drives.journal.values()
    here = [drive for drive in drives.look() if drive.dev_name != gone]
    with pytest.raises(StorageError, match=said):
        drives.run(options.restore(entry, here))
    assert list(drives.journal.values()) == [entry]
    there = {"sda", "sdb"} - {gone}
    assert [drives.values[name] for name in there] == [AS_FOUND], "what is there went back"
    drives.run(options.restore(entry, drives.look()))
    assert untouched(drives)


@pytest.mark.parametrize("bad", ["sda", "sdb"])
def test_what_one_drive_refuses_keeps_no_other_from_its_way_back(bad):
    drives = Drives("sda", "sdb")
    lease(drives)
    (entry,) = drives.journal.values()
    drives.takes = lambda name, value: (
        StorageError("input/output error") if name == bad else value
    )
    with pytest.raises(StorageError, match="input/output error"):
        drives.run(options.restore(entry, drives.look()))
    assert [name for name, has in drives.values.items() if has == AS_FOUND] == [
        name for name in ("sda", "sdb") if name != bad
    ]
    assert list(drives.journal.values()) == [entry]
    drives.takes = lambda name, value: value
    drives.run(options.restore(entry, drives.look()))
    assert untouched(drives)


@pytest.mark.parametrize("stuck", ["scheduler", "nr_requests"])
def test_a_way_back_is_not_over_while_an_option_is_not_read_as_it_was(stuck):
    drives = Drives("sda")
    lease(drives)
    (entry,) = drives.journal.values()
    drives.takes = lambda name, value: "5" if value == AS_FOUND[stuck] else value
    with pytest.raises(StorageError, match=f"{stuck} of sda is 5 and was"):
        drives.run(options.restore(entry, drives.look()))
    assert list(drives.journal.values()) == [entry]


@EITHER
@pytest.mark.parametrize("names", [("scheduler",), ("scheduler", "nr_requests")])
def test_what_is_journalled_is_what_the_mgr_has_stored_too(program, names):
    """Else a mgr that takes over alone would leave what the kernel has reset."""
    drives = Drives("sda")
    with pytest.raises(PriorError) as doubted:
        program(drives, prior=drives.prior(names=names))
    assert doubted.value.doubt is PriorDoubt.OTHER_STATE
    assert (untouched(drives), drives.does) == (True, [])


@EITHER
def test_another_value_than_the_mgr_has_stored_is_not_taken_for_the_prior_one(program):
    drives = Drives("sda")
    stored = drives.prior()
    drives.values["sda"]["nr_requests"] = "64"
    with pytest.raises(PriorError, match="nr_requests of sda is 64 and was 128"):
        program(drives, prior=stored)
    assert drives.does == []


def brought_back(drives, prior, kind=EntryKind.LEASE):
    return drives.run(bring_back(
        prior, drives.look(), owner_id="l", now_s=0.0, kind=kind
    ))


@pytest.mark.parametrize("kind", EntryKind)
@pytest.mark.parametrize("killed_after", [1, 2, 3, 4])
def test_a_way_back_by_the_mgrs_word_alone_is_journalled_before_anything_is_set(
    kind, killed_after
):
    drives = Drives("sda", "sdb")
    prior = drives.prior()
    for values in drives.values.values():
        values.update({"scheduler": "none", "nr_requests": "256", "wbt_lat_usec": "75000"})
    drives.kill_after = killed_after
    with pytest.raises(Killed):
        brought_back(drives, prior, kind)
    assert drives.does[0] == "WriteJournal"
    (entry,) = drives.journal.values()
    drives.kill_after = None
    drives.run(options.restore(entry, drives.look()))
    assert untouched(drives)


def test_what_is_as_the_mgr_says_is_left_and_journalled_nowhere():
    drives = Drives("sda")
    assert brought_back(drives, drives.prior()).changed is False
    assert drives.does == []


@pytest.mark.parametrize("program", [
    lambda drives, entry: lease(drives, "kyber", entry),
    lambda drives, entry: drives.run(options.apply(
        drives.look(), entry, action_id="l", name="scheduler", expected="mq-deadline",
        value="kyber", now_s=0.0, prior=drives.prior(),
    )),
    lambda drives, entry: drives.run(options.restore(entry, drives.look(), drives.prior())),
], ids=["lease", "apply", "restore"])
def test_an_entry_of_another_cluster_is_obeyed_by_nobody(program):
    drives = Drives("sda")
    entry = drives.entry(fsid=OTHER_FSID)
    drives.journal[entry.key] = entry
    with pytest.raises(PriorError) as disputed:
        program(drives, entry)
    assert disputed.value.doubt is PriorDoubt.DISPUTED
    assert OTHER_FSID in disputed.value.message
    assert (drives.does, drives.values["sda"]) == ([], AS_FOUND)


def applied_again(drives, value, entry, prior):
    return drives.run(options.apply(
        drives.look(), entry, action_id="l", name="scheduler", expected="mq-deadline",
        value=value, now_s=0.0, prior=prior,
    ))


@pytest.mark.parametrize("program", [
    lambda drives, entry, prior: lease(drives, "kyber", entry, prior=prior),
    lambda drives, entry, prior: applied_again(drives, "kyber", entry, prior),
], ids=["lease", "apply"])
def test_a_drive_that_the_entry_does_not_have_is_given_no_option(program):
    drives = Drives("sda", "sdb")
    newcomer = drives.reports.pop("sdb")
    prior, entry = drives.prior(), drives.entry()
    drives.journal[entry.key] = entry
    drives.reports["sdb"] = newcomer
    with pytest.raises(RefusedError, match="sdb shares the cache since, and the journal does not"):
        program(drives, entry, prior)
    assert (drives.does, drives.values["sdb"]) == ([], AS_FOUND)


def test_a_lease_about_one_option_sets_no_other():
    drives = Drives("sda")
    lease(drives)
    (entry,) = drives.journal.values()
    drives.values["sda"]["writeback_percent"] = "10"
    prior = prior_from("", "domain", drives.look(), ("scheduler", "nr_requests", "wbt_lat_usec"))
    stored = replace(prior, drives=entry.drives)
    with pytest.raises(RefusedError, match="is not about writeback_percent"):
        lease(drives, "20", entry, name="writeback_percent", prior=stored)
    assert drives.values["sda"]["writeback_percent"] == "10"
