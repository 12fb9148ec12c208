"""An adapter counts as one that swallows flushes until a timed proof has shown otherwise."""

from dataclasses import replace

import pytest
from mgr_fakes import builders as make
from switching_scripts import keep_each
from translations import Translation, host_with, proof
from wcache.core.drive.safety import flush_unproven, may_rest_on, writeback_refusal
from wcache.core.errors import RefusedError
from wcache.core.hardware import BcacheState
from wcache.core.host_report import HostReport
from wcache.core.model import CacheMode
from wcache_probe.journal.journal_file import NoJournal
from wcache_probe.switcher import Switcher

BACK = CacheMode.WRITE_BACK
SWALLOWED = proof(disagreed=("a flush of written data takes 60 us: the flush is swallowed",))
IN_PLACE = replace(proof(), write_back_us=(), write_through_us=())
NOT_SHOWN = pytest.mark.parametrize(
    "proofs", [(), (SWALLOWED,), (IN_PLACE,), (IN_PLACE, SWALLOWED)],
    ids=["no proof", "swallowed", "in place", "in place, and swallowed"],
)


def kept(host):
    # as `appear` reads them, which does not ask whether the translation is proven
    drives = [replace(drive, refusals=()) for drive in host.look()]
    return Switcher(host, NoJournal()).run(drives[0].domain_id, keep_each(drives, BACK))


@NOT_SHOWN
def test_no_rule_turns_a_cache_on_where_flushes_were_not_timed(fake_host, proofs):
    translation = Translation(enabled=False)
    with pytest.raises(RefusedError, match="mpt3sas may not pass flushes on"):
        kept(host_with(fake_host, translation, proofs))
    assert not translation.drive.enabled


@NOT_SHOWN
def test_nothing_acknowledged_rests_on_a_cache_device_whose_flushes_were_not_timed(
    fake_host, proofs
):
    (drive,) = host_with(fake_host, Translation(), proofs).look()
    assert "may not pass flushes on" in may_rest_on(drive, {})
    cache = replace(drive, bcache=(BcacheState("bcache0", True, "unknown"),))
    backing = replace(
        make.drive("sdb", 1), bcache=(BcacheState("bcache0", False, "writethrough"),)
    )
    report = HostReport("h", "1", (backing, cache))
    assert "may not pass flushes on" in writeback_refusal(report, [backing], {})


def test_a_timed_proof_is_enough(fake_host):
    translation = Translation(enabled=False)
    host = host_with(fake_host, translation, (proof(),))
    assert not flush_unproven(host.look()[0])
    assert kept(host).changed
    assert translation.drive.enabled
