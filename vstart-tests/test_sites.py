"""Sites as they are, on a real cluster: looks that toggle nothing, and columns that are honest."""

from __future__ import annotations

from typing import Any, List

import pytest
from harness import ClusterAccess, CommandError
from probes import Probe, Wcache, all_views

pytestmark = [pytest.mark.cluster, pytest.mark.one_release]

LOADS = "traffic,timer,batch"


def test_observe_prints_full_tables_toggles_nothing_and_decides_nothing(
    wcache: Wcache, probe: Probe, steady: ClusterAccess
):
    before = all_views(steady)
    known = decided(wcache)
    with pytest.raises(CommandError, match="--accept-cost"):
        wcache("campaign start", scope="osd.0", observe=True, loads=LOADS)
    cost = wcache(
        "campaign start", dry_run=True, scope="osd.0", observe=True, loads=LOADS
    )["forecast"]
    campaign_id = wcache.start_campaign(scope="osd.0", observe=True, loads=LOADS)
    seen = []
    wcache.wait("the end", lambda: (
        seen.append(all_views(steady)) or wcache.campaign(campaign_id)["status"] != "running"
    ), 200)
    shown = wcache.campaign(campaign_id)
    assert shown["status"] == "done", shown["run_list"]
    assert all(views == before for views in seen)
    assert (shown["observes"], shown["results"]) == (True, [])
    assert 0 < shown["bytes_written"] <= cost["bytes_written"]
    assert decided(wcache) == known

    by_load = {(one["load_point"], one["beside"]): one for one in shown["observed"]}
    assert set(by_load) == {
        ("osd_traffic", None), ("osd_bench_batch", None), ("fdatasync_timer", None),
        ("fdatasync_timer", "osd_bench_batch"),
    }
    for (load, beside), one in by_load.items():
        assert one["mode"] == "write back", one
        table = one["table"]
        if load == "osd_traffic" and not table["n"]:
            continue  # nobody wrote: said so below
        assert table["n"] > 0, (load, beside, one["note"])
        cells = [table[name] for name in ("min", "p25", "p50", "p75", "p90", "max")]
        assert cells == sorted(cells)
        assert cells[0] > 0
    # a full queue beside it: the drive wrote, and the kernel's own count says so
    assert by_load[("fdatasync_timer", "osd_bench_batch")]["writes_per_s"] > 5
    plain = steady.ceph("wcache", "campaign", "show", campaign_id).stdout
    print(plain)
    told = plain.split()  # cells of a wide table are wrapped
    for word in ("P99", "timer,", "beside", "batch", "touched", "WRITES/S"):
        assert word in told
    assert "lease" not in wcache.history_text().split(campaign_id)[-1]


def decided(wcache: Wcache) -> List[Any]:
    """What was measured so far, by class and load.

    Hosts and classes that other tests made are going meanwhile, and who has a drive model is part
    of what is recommended; what its drives were measured to do is not.
    """
    return [
        (each["device_class"], load["load_point"], load["verdict"], load["drives"], load["ratio"])
        for each in wcache("recommend")["recommendations"] for load in each["loads"]
        if not each["device_class"].startswith("own-")
    ]


def test_what_a_loop_device_does_not_tell_is_shown_as_unknown(
    wcache: Wcache, probe: Probe, steady: ClusterAccess, own_class: str
):
    rows = wcache("drive ls")["drives"]
    assert rows
    for row in rows:
        assert (row["plp"], row["plp_hints"]) == ("unknown", [])
        assert row["wear"] is None
        assert row["bcache"] == []
    assert wcache("controller ls")["controllers"] == []
    for model in wcache("drive-model ls")["drive_models"]:
        assert (model["plp"], model["plp_trusted"]) == ("unknown", None)
    listed = steady.ceph("wcache", "drive", "ls").stdout
    told = steady.ceph("wcache", "controller", "ls").stdout
    assert "PLP" in listed
    assert "no probe reported a controller" in told

    wcache.decide(own_class, scope="osd.0", loads="depth1")
    advice = wcache.advice(own_class)
    plain = steady.ceph("wcache", "explain", f"class:{own_class}").stdout
    print(listed, told, plain, sep="\n")
    flash = {row["rotational"] for row in rows if 0 in row["osds"]} == {False}
    through = advice["mode"] == "write through"
    # a loop device is not pinned, so nothing is claimed of a pin's price; flash wears, disks do not
    assert "with the pin the kernel still flushes" not in plain
    assert ("endurance" in plain) == (through and flash)
    plan_id = wcache("plan", scope=f"class:{own_class}")["plan_id"]
    assert all(row["written_since"] == [] for row in wcache(
        "plan show", plan_id=plan_id)["changes"])
    # what is not known is said as that, and no figure is made up
    assert "None" not in listed + told + plain
    assert "nan" not in plain.split()
