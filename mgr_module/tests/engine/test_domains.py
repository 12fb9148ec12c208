"""What a report says of cache domains is worked out once, and never of an older report."""

from __future__ import annotations

from dataclasses import replace

from mgr_fakes import builders as make
from wcache.core.model import CacheMode
from wcache.engine.auto_look import Domains

WB, WT = CacheMode.WRITE_BACK, CacheMode.WRITE_THROUGH


def test_a_new_report_of_a_host_is_read_anew():
    domains = Domains()
    old = make.report("h1", make.drive("sda", 0))
    new = make.report("h1", make.drive("sda", 0, mode=WT), make.drive("sdb", 1))
    assert [item.first.mode for item in domains.of(old, throwaway=False)] == [WB]
    assert [item.first.mode for item in domains.of(new, throwaway=False)] == [WT, WB]
    assert [item.first.mode for item in domains.of(old, throwaway=False)] == [WB]


def test_an_osd_that_is_made_anew_gives_its_drive_another_token():
    domains, report = Domains(), make.report("h1", make.drive("sda", 0))
    before = make.cluster([make.osd(0, "h1", uuid="u1")])
    after = make.cluster([make.osd(0, "h1", uuid="u2")])
    first, again, anew = (
        domains.of(report, throwaway=False)[0].token(cluster)
        for cluster in (before, before, after)
    )
    assert first == again
    assert anew != first


def test_whether_the_cluster_is_thrown_away_decides_what_a_loop_device_may_do():
    domains = Domains()
    loop = replace(make.drive("loop0", 0), transport=make.Transport.LOOP)
    report = make.report("h1", loop)
    assert not domains.of(report, throwaway=True)[0].refusal
    assert "loop device" in domains.of(report, throwaway=False)[0].refusal
