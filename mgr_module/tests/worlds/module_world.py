"""The whole module on fake ports with three drives on two hosts, and short words for its use."""

import errno
import json
from dataclasses import replace
from functools import cache

from mgr_fakes import builders as make
from mgr_fakes.module import FakeMgr
from wcache.analysis.decision import Materiality
from wcache.analysis.experiment import analyse, analysed
from wcache.core.model import CacheMode
from wcache.core.protocol import ReportOutcome

WB, WT = CacheMode.WRITE_BACK, CacheMode.WRITE_THROUGH


class RealAnalysis:
    """The `Analysis` port with the statistics in this process."""

    error = ""

    def start(self, record, done):
        done(analysed(record, analyse(record, Materiality())), "")


TWO_HOSTS = (
    ("h1", (make.drive("sda", 0), make.drive("sdb", 1))), ("h2", (make.drive("sdc", 2),)),
)


def a_mgr(**options):
    mgr = FakeMgr(*TWO_HOSTS, **options)
    mgr.report_all()
    return mgr


def of_one_model(*, hosts=3, each=3, **options):
    """Hosts with drives of one model, of a mgr that has heard from every PG."""
    mgr = FakeMgr(*(
        (f"h{h}", tuple(
            make.drive(f"sd{chr(97 + n)}", h * each + n, drive_id=f"wwn-{h}-{n}")
            for n in range(each)
        ))
        for h in range(hosts)
    ), **options)
    mgr.now_s += 61.0
    mgr.report_all()
    return mgr


def with_osds_on(mgr, *hostnames):
    """The mgr, with one more OSD on each of these hosts, which have no probe."""
    osds = mgr.view.state.osds
    new = [make.osd(max(osds, default=-1) + 1 + i, name) for i, name in enumerate(hostnames)]
    mgr.view.state = make.cluster([*osds.values(), *new])
    return mgr


class LateAnalysis:
    """Answers once it is told to."""

    def __init__(self, analysis):
        self._analysis = analysis
        self._asked = []

    def start(self, record, done):
        self._asked.append((record, done))

    def answer(self, error=""):
        self._analysis.error = error
        for record, done in self._asked:
            self._analysis.start(record, done)
        self._asked.clear()


def change_osd(mgr, osd_id, **changes):
    """From now on Ceph's maps say this of an OSD."""
    osds = mgr.view.state.osds
    osds = {**osds, osd_id: replace(osds[osd_id], **changes)}
    mgr.view.state = replace(mgr.view.state, osds=osds)


def ok(answer):
    code, out, error = answer
    assert (code, error) == (0, "")
    return out


def unwrapped(text):
    """An answer in one line, with one space between words."""
    return " ".join(text.split())


def has_words(text, phrase):
    """Whether each word of a phrase is in a text, of which columns and lines may be wrapped."""
    return set(phrase.split()) <= set(text.split())


def said(mgr, prefix, **arguments):
    return json.loads(ok(mgr.command(prefix, format="json", **arguments)))


def refused(mgr, prefix, number=None, **arguments):
    """The line of error of a command that fails; by this number, where one is given."""
    code, out, error = mgr.command(prefix, **arguments)
    assert code < 0 if number is None else (code, out) == (-number, ""), error
    assert "\n" not in error
    return error


def unconsented(mgr, prefix, **arguments):
    """What is told where a consent is missing: the error, and the command that gives it.

    It is what --dry-run tells, and nothing is begun.
    """
    dry = mgr.command(prefix, dry_run=True, **arguments)
    code, out, error = mgr.command(prefix, **arguments)
    assert (code, out) == (-errno.EPERM, dry[1] + "\n"), error
    assert "\n" not in error
    assert (dry[0], dry[2]) == (0, "")
    shown = json.loads(mgr.command(prefix, format="json", **arguments)[1])
    assert shown["started"] is False
    assert out.splitlines()[-1] == f"next: {shown['next']}"
    return error, shown["next"]


def codes(mgr):
    """The codes of what `status` has found."""
    return {item["code"] for item in said(mgr, "status")["findings"]}


def findings_of(mgr, code):
    """What `status` has found of one code."""
    return [item for item in said(mgr, "status")["findings"] if item["code"] == code]


def start(mgr, loads="depth1", **arguments):
    return said(mgr, "campaign start", loads=loads, accept_cost=True, **arguments)["campaign_id"]


def report_of(mgr, hostname, *drives):
    """Have a host report these drives; returns the answer."""
    probe = mgr.probes[hostname]
    mgr.now_s += 700.0
    mgr.engine.tick()
    probe.drives = {drive.domain_id: drive for drive in drives}
    task = probe.turn(0).task
    probe.post(task.task_id, ReportOutcome(probe.report()))
    return probe.error


def all_modes(mgr):
    return {mode for probe in mgr.probes.values() for mode in probe.modes().values()}


def fine(mgr):
    """What must hold at every end: no lease, no mode of ours, no exception."""
    assert mgr.exceptions == []
    assert all(probe.leased == {} for probe in mgr.probes.values())
    assert mgr.inside.measuring.under_way == {}


def settled(mgr):
    """Until nothing is under way, and every probe has reported its drives since."""
    mgr.settle()
    mgr.report_all()


def taken_over(mgr):
    """Another mgr starts from what is stored, and every probe reports to it."""
    mgr.restart()
    mgr.report_all()


def until(mgr, holds, steps=4000, seconds=0.5):
    """Steps until something holds."""
    for _ in range(steps):
        if holds():
            return
        mgr.step(seconds)
    raise AssertionError({name: each.rollout.reason for name, each in mgr.inside.rollouts.items()})


def until_benched(mgr):
    """Until a load is measured, which goes on."""
    while not mgr.loads.waiting:
        mgr.now_s += 0.3
        for probe in mgr.probes.values():
            probe.turn()
        mgr.engine.tick()


def measured_anew(**options):
    mgr = a_mgr(**options)
    start(mgr)
    settled(mgr)
    return mgr


@cache
def _kept_of_one_that_measured():
    mgr = measured_anew()
    return mgr.store.kept, mgr.now_s


def measured(**options):
    """A mgr that has taken over from one that measured all drives, which is played once."""
    kept, now_s = _kept_of_one_that_measured()
    mgr = FakeMgr(*TWO_HOSTS, **options)
    mgr.store.kept, mgr.now_s = dict(kept), now_s
    taken_over(mgr)
    return mgr


def apply_plan(mgr, **plan):
    """Make a plan and apply it; returns its id."""
    plan_id = said(mgr, "plan", **plan)["plan_id"]
    ok(mgr.command("apply", plan_id=plan_id))
    return plan_id


def applying(mgr=None):
    """A mgr whose plan p1 was just begun."""
    mgr = mgr or measured()
    assert apply_plan(mgr) == "p1"
    return mgr


def applied(mgr=None):
    """A mgr whose plan p1 has changed every drive."""
    mgr = applying(mgr)
    settled(mgr)
    return mgr


def report_anew(mgr):
    """When the next report of every host is due."""
    mgr.now_s += 700.0
    mgr.engine.tick()
    mgr.report_all()


def go_on(mgr, steps, lost, crashes=(), seconds=0.3):
    """Steps until nothing is under way; the mgr is lost and h1's probe crashes before some."""
    for step in range(steps):
        if not mgr.engine.is_active():
            return
        if step in lost:
            mgr.restart()
        if step in crashes:
            mgr.probes["h1"].crash()
        mgr.step(seconds)


def first_look(mgr):
    """Take the answer of the first look at the cluster, and nothing more."""
    mgr.stops.join()
    mgr.engine.tick()
