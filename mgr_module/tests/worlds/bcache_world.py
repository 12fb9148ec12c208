"""Hosts of two OSDs each, whose backing drives share one cache device."""

from dataclasses import replace

from mgr_fakes import builders as make
from mgr_fakes.module import FakeMgr
from module_world import ok, said
from wcache.core.hardware import BcacheState, OptionValue
from wcache.core.model import DriveModel

HOSTS = ("h0", "h1")
RATE = 4096


def backing(name, osd_id, device, mode, dirty="0"):
    drive = make.drive(name, osd_id, bcache=(BcacheState(device, False, mode),))
    options = (OptionValue("cache_mode", mode), OptionValue("dirty_data", dirty))
    return replace(drive, state=replace(drive.state, options=options))


def bcache_of(share, mode="writeback", is_cache=False, busy_ms=None):
    """A bcache device with so much dirty data for its target of 10 GiB."""
    target = 10 * 2**30
    return BcacheState(
        "bcache0", is_cache, mode, 0, int(share * target), target, 4096, True, busy_ms
    )


def a_host(host, mode):
    """sda behind bcache0 and sdb behind bcache1, both with nvme0n1 as their cache."""
    names = (("sda", "bcache0"), ("sdb", "bcache1"))
    cache = make.drive(
        "nvme0n1", 2 * host, 2 * host + 1, serial=f"SN{host}", rotational=False,
        drive_model=DriveModel("ACME", "Cache", "1.0"),
        bcache=tuple(BcacheState(device, True, mode) for _, device in names),
    )
    drives = tuple(
        backing(name, 2 * host + i, device, mode) for i, (name, device) in enumerate(names)
    )
    return f"h{host}", (*drives, cache)


def a_mgr(mode="writethrough", kind=FakeMgr, **options):
    mgr = kind(*(a_host(host, mode) for host in range(len(HOSTS))), **options)
    for probe in mgr.probes.values():
        probe.bcache = lambda: (BcacheState("bcache0", False, "writethrough", rate_bytes_s=RATE),)
    mgr.report_all()
    mgr.step()
    return mgr


def values(mgr, name="cache_mode"):
    """What each backing drive has, h0's first."""
    return [
        mgr.probes[host].drives[f"domain-{name_}"].state.option(name)
        for host in HOSTS for name_ in ("sda", "sdb")
    ]


def make_dirty(mgr, host, drive, count):
    """As clients' writes do in writeback; or nothing is left (0)."""
    mgr.probes[host].set_options(f"domain-{drive}", (OptionValue("dirty_data", str(count)),))


def planned(mgr, mode, **arguments):
    return said(mgr, "plan", knob="options", option=f"cache_mode={mode}", **arguments)


def plan_now(mgr, plan_id="p1"):
    return said(mgr, "plan show", plan_id=plan_id)


def retold(mgr):
    """Probes have told anew what is on their hosts."""
    mgr.step(700.0)
    mgr.report_all()


def begun(mgr, mode, **arguments):
    """A plan that is being applied, with the consent that it may need."""
    plan_id = planned(mgr, mode, **arguments)["plan_id"]
    ok(mgr.command("apply", plan_id=plan_id, consent_turn_on=True))
    return plan_id
