"""`wcache watch` follows a campaign while a standby mgr takes over."""

from __future__ import annotations

import subprocess

import pytest
from dashboard import wait_for_pages
from harness.processes import wait_until

pytestmark = [pytest.mark.cluster, pytest.mark.one_release, pytest.mark.long]


def test_a_standby_takes_over_and_whoever_watches_sees_the_end(measurable):
    cluster, wcache = measurable.cluster, measurable.wcache
    campaign_id = wcache.start_campaign(scope="osd.0", loads="depth1", pairs=6, seed=3)
    watch = cluster.popen_inside(
        [cluster.python_inside, "-m", "wcache_cli", "watch", campaign_id, "--interval-s", "0.5"],
        env={"PYTHONPATH": f"{cluster.project}/cli:{cluster.project}/mgr_module"},
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
    )
    try:
        wcache.wait("some periods", lambda: wcache.campaign(campaign_id)["periods_done"] >= 3)
        before = cluster.active_mgr()
        cluster.ceph("mgr", "fail", before)
        assert wait_until(lambda: cluster.active_mgr() not in ("", before), 60)
        shown = wcache.wait_over(campaign_id)
        assert shown["status"] == "done", shown["run_list"]
        told = watch.communicate(timeout=120)[0].decode()
    finally:
        watch.kill()
        wait_for_pages(measurable)
    print(told)
    assert watch.returncode == 0, told
    lines = [line for line in told.splitlines() if line.startswith(f"campaign {campaign_id}: ")]
    assert "periods" in lines[0], told
    assert "left" in lines[0], told
    assert lines[-1].startswith(f"campaign {campaign_id}: done, "), told
    assert "Traceback" not in told
