"""A cluster whose OSDs have caches: hosts of 16 GiB with two OSDs of each of two classes."""

from dataclasses import replace

from mgr_fakes import builders as make
from mgr_fakes.memory import LruOsd, uniform
from mgr_fakes.module import FakeMgr
from module_world import said, taken_over
from wcache.core.hardware import HostMemory
from wcache.knobs.memory.trial_result import TrialResult, TrialVerdict

GIB = 2**30
TARGET = "osd_memory_target"


def a_mgr(hosts=2, ram_bytes=16 * GIB, classes=("hdd", "ssd"), each=1, **options):
    """Hosts alike; class hdd misses much, class ssd is idle."""
    drives = {}
    number = 0
    for index in range(hosts):
        mine = []
        for name in classes:
            for _ in range(each):
                mine.append((number, name))
                number += 1
        drives[f"h{index}"] = mine
    mgr = FakeMgr(
        *((host, tuple(make.drive(f"sd{chr(97 + i)}", osd_id) for i, (osd_id, _) in
                       enumerate(mine))) for host, mine in drives.items()),
        **options,
    )
    osds = {}
    for host, mine in drives.items():
        for osd_id, name in mine:
            osds[osd_id] = replace(
                make.osd(osd_id, host), device_class=name,
                location=(("host", host), ("root", "default")),
            )
            busy = name == "hdd"
            mgr.osd_memory.osds[osd_id] = LruOsd(
                uniform(6 * GIB if busy else 0.01 * GIB, 40e6 if busy else 1e4)
            )
    mgr.view.state = replace(mgr.view.state, osds=osds)
    mgr.osd_memory.hosts = {host: {"osd": len(mine)} for host, mine in drives.items()}
    for probe in mgr.probes.values():
        probe.memory = HostMemory(ram_bytes)
    taken_over(mgr)
    mgr.step()
    return mgr


def watch(mgr, seconds=120.0):
    """Two readings of all OSDs, so far apart."""
    mgr.memory.watch.read()
    mgr.now_s += seconds
    mgr.memory.watch.read()
    mgr.step()


def settled_caches(mgr):
    """Readings after all that was counted before the caches settled."""
    watch(mgr, 1000.0)
    watch(mgr)


# What they use fits into no target that is tried, or into all of them.
BUSY, IDLE = (6 * GIB, 40e6), (0.01 * GIB, 1e4)


def one_host(*loads, told=None, at_s=1_000_000.0, **options):
    """One host whose OSDs of class hdd have these loads and 4 GiB each.

    `told` is what a trial said of 6 GiB: its verdict, and the share of misses that is left.
    """
    mgr = a_mgr(hosts=1, classes=("hdd",), each=len(loads), **{"ram_bytes": 32 * GIB, **options})
    for osd_id, load in enumerate(loads):
        mgr.osd_memory.osds[osd_id] = LruOsd(uniform(*load))
    if told is not None:
        verdict, share = told
        mgr.memory.facts.results = (TrialResult(
            "t1", "hdd", at_s, 4 * GIB, 6 * GIB, (0,), 100.0, share, share, share,
            TrialVerdict(verdict)),)
    watch(mgr)
    return mgr


def begun(mgr, **arguments):
    """A trial of the starved class, of OSDs that were watched for a while."""
    watch(mgr)
    said(mgr, "memory trial start", scope="class:hdd", accept_cost=True,
         **{"target_bytes": 6 * GIB, **arguments})
    return mgr


def leased(mgr):
    """The larger targets that OSDs have."""
    return {osd_id: osd.leased for osd_id, osd in mgr.osd_memory.osds.items() if osd.leased}


def raised(mgr):
    """Until the larger target is in force."""
    while not leased(mgr):
        mgr.step(30.0)
    return mgr


def shown(mgr):
    """The last trial as it is printed."""
    return said(mgr, "memory trial show")["trial"]


def a_trial(mgr):
    """The machine of the last trial."""
    (machine,) = mgr.inside.trials.values()
    return machine


def to_its_end(mgr, seconds=30.0):
    """Whatever runs, within 3000 steps."""
    for _ in range(3000):
        if not mgr.engine.is_active():
            break
        mgr.step(seconds)
