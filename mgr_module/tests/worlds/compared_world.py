"""Mgrs that compare two values of an option of drives or of OSDs, of which one is slower."""

from dataclasses import replace

from mgr_fakes import builders as make
from mgr_fakes.module import FakeMgr
from mgr_fakes.osd_options import MgrLost
from module_world import RealAnalysis, said, settled, until
from wcache.core.hardware import OptionValue
from wcache.core.model import DriveModel

MODEL = DriveModel("ACME", "HD1", "1.0")
HDD = "bluestore_prefer_deferred_size_hdd"
PROFILE = "osd_mclock_profile"
SLOW, FAST = "0", "65536"
TRIAL = f"{HDD}={SLOW},{FAST}"
CONFIGURED = {
    HDD: "65536", "bluestore_prefer_deferred_size": "0", PROFILE: "balanced",
    "osd_op_queue": "mclock_scheduler", "bluefs_buffered_io": "true",
}


def slower(mgr, is_slow, factor=1.5):
    """Commits take so much longer on an OSD that is slow; each time a little different."""
    calls = iter(range(10**6))
    mgr.loads.latency_ns = lambda osd_id: int(
        5_000_000 * (factor if is_slow(osd_id) else 1.0) * (1 + next(calls) % 7 / 1000)
    )


def the_run(mgr):
    (run,) = said(mgr, "campaign show", campaign_id="c1")["run_list"]
    return run


def decided(mgr):
    """The verdict of the one comparison there was."""
    (verdict,) = said(mgr, "option ls")["verdicts"]
    return verdict["verdict"]


def stop(mgr):
    said(mgr, "campaign stop", campaign_id="c1")
    mgr.settle()


# ---- options of drives


def options_before(scheduler="mq-deadline"):
    return (
        OptionValue("scheduler", scheduler), OptionValue("nr_requests", "128"),
        OptionValue("wbt_lat_usec", "0"),
    )


def tunable(osd_id, scheduler="mq-deadline"):
    drive = make.drive("sda", osd_id, drive_model=MODEL)
    return replace(drive, state=replace(drive.state, options=options_before(scheduler)))


def options_of(mgr, hostname="h0"):
    (drive,) = mgr.probes[hostname].drives.values()
    return drive.state.options


def slow_with(mgr, slow="none", factor=1.5):
    """Commits take longer while a scheduler is set."""
    slower(mgr, lambda osd_id: options_of(mgr, f"h{osd_id}")[0].value == slow, factor)


def with_drives(slow="none", factor=1.5, hosts=1, scheduler="mq-deadline"):
    mgr = FakeMgr(
        *((f"h{i}", (tunable(i, scheduler),)) for i in range(hosts)), make_analysis=RealAnalysis
    )
    slow_with(mgr, slow, factor)
    mgr.report_all()
    return mgr


# ---- options of OSDs


def with_osds(hosts=1, factor=1.5, **more):
    """A cluster whose commits take longer while writes are not deferred."""
    drives = [make.drive("sda", i, drive_model=MODEL, rotational=True) for i in range(hosts)]
    mgr = FakeMgr(
        *((f"h{i}", (drive,)) for i, drive in enumerate(drives)), make_analysis=RealAnalysis,
        **more,
    )
    turning(mgr)
    for osd_id in range(hosts):
        for name, value in CONFIGURED.items():
            mgr.osd_options.configured[osd_id, name] = value
    wire(mgr, factor)
    mgr.report_all()
    return mgr


def turning(mgr, rotational=True):
    osds = {i: replace(osd, rotational=rotational) for i, osd in mgr.view.state.osds.items()}
    mgr.view.state = replace(mgr.view.state, osds=osds)


def wire(mgr, factor=1.5):
    slower(mgr, lambda osd_id: mgr.osd_options.value(osd_id, HDD) == SLOW, factor)


def start(mgr, option=TRIAL, **arguments):
    return said(mgr, "ab", option=option, **arguments)["campaign_id"]


def until_set(mgr, value=SLOW, name=HDD):
    until(mgr, lambda: mgr.osd_options.at_run_time.get((0, name)) == value, seconds=0.3)


def with_value_set():
    """A mgr whose campaign has given an OSD the slow value."""
    mgr = with_osds()
    start(mgr)
    until_set(mgr)
    return mgr


def lost(mgr, steps=400):
    """Whether the mgr is lost within so many steps."""
    try:
        mgr.steps(steps)
    except MgrLost:
        return True
    return False


def planned(mgr):
    """A plan about OSDs that write by the slow value."""
    start(mgr)
    settled(mgr)
    stored = mgr.config.kept
    mgr.config.osd_values = lambda osd_id, name: stored.get((f"osd.{osd_id}", name), SLOW)
    stored["osd.1", HDD] = SLOW
    mgr.restart()
    wire(mgr)
    mgr.step(30.0)
    return said(mgr, "plan", knob="options")
