"""`auto apply` on a small cluster that grows, step by step, with a fault at any of its states."""

from dataclasses import replace
from functools import cache

from mgr_fakes import builders as make
from mgr_fakes.module import FakeMgr
from mgr_fakes.probe import FakeProbe
from module_world import WB, WT, ok, taken_over
from wcache.core.change.rollout_state import RolloutStatus
from wcache.core.model import DriveModel
from wcache.core.record import Precondition

OTHER = DriveModel("ACME", "HD2", "1.0")
GROWS_AT = 210  # step
BUSY_STEP_S, IDLE_STEP_S = 0.3, 30.0
STEPS_MAX = 1500
FAULT_STEPS = 40  # how long a fault lasts that does not end by itself
NEVER = "03:00-03:01"
FAULTS = (
    "failover", "kill -9", "probe silent", "store refuses", "unclean", "window closes",
    "expansion", "drift", "off and on", "pause", "abort", "stop", "freeze",
)
# After these the standing mode is reached all the same; the others are an admin's word.
GOES_ON = FAULTS[:9]


def expand(mgr, hostname, *drives):
    """OSDs that come to the cluster, on a host of their own that reports them."""
    new = {use.osd_id for drive in drives for use in drive.uses}
    mgr.view.state = replace(mgr.view.state, osds={
        **mgr.view.state.osds,
        **{osd_id: make.osd(osd_id, hostname, uuid=f"u{osd_id}") for osd_id in new},
    })
    mgr.probes[hostname] = FakeProbe(mgr.send, hostname, drives)
    mgr.probes[hostname].turn(2)


class AutoWorld:
    """One run of it; `state` is where the automation and what it has begun stand."""

    def __init__(self):
        self.mgr = FakeMgr(
            ("h1", (make.drive("sda", 0),)), ("h2", (make.drive("sdb", 1),)),
            auto_quiet_s=0.0, canary_wait_s=1.0, pairs_max=4, pause_max_h=0.5, lease_ttl_s=5.0,
        )
        self.mgr.report_all()
        ok(self.mgr.command("auto", mode="apply"))
        self.steps = 0
        self.off = False
        self.heals_at = None
        self.added = 2

    @property
    def state(self):
        """By the machines' own words: what is pending and why, its status, its phase."""
        engine, pending = self.mgr.engine, self.mgr.service.auto.state.pending
        found = ["" if pending is None else pending.purpose.value]
        for machine in engine.inside.runs.values():
            if not machine.over:
                lease = "lease" if machine.holds_lease else "no lease"
                found.append(f"{machine.state.status.value}, {lease}")
        for machine in engine.inside.rollouts.values():
            if not machine.over:
                rollout = machine.rollout
                found.append(f"{rollout.status.value}, {machine.phase.value}, "
                             f"{rollout.current_index}")
        new = "new drives" if self.mgr.service.auto.state.fresh else ""
        return (*found, new)

    def step(self):
        mgr, engine = self.mgr, self.mgr.engine
        self.steps += 1
        if self.steps == GROWS_AT:
            self.grow()
        if self.heals_at is not None and self.steps >= self.heals_at:
            self.heal()
        if engine.is_active() and self.steps % 10:
            self.step_of(self.where())
        else:
            mgr.step(BUSY_STEP_S if engine.is_active() else IDLE_STEP_S)
        if not engine.is_active() and self.steps % 5 == 0:
            engine.inside.hosts.reported_at_s.clear()
            mgr.report_all()
        self.check()

    def step_of(self, hostname):
        """As FakeMgr.step, where one host has something to do."""
        mgr = self.mgr
        mgr.now_s += BUSY_STEP_S
        mgr.probes[hostname].turn()
        mgr.loads.run()
        mgr.engine.tick()
        mgr.service.auto.tick(mgr.engine.world())

    def check(self):
        """What must hold at every moment."""
        mgr = self.mgr
        touched = {name for name, probe in mgr.probes.items() if probe.leased}
        for machine in mgr.inside.rollouts.values():
            change = machine.current if machine.under_way else None
            if change is not None and change.status.value in ("applying", "rolling back"):
                touched.add(change.hostname)
        assert len(touched) <= 1, f"{sorted(touched)} at once"
        assert mgr.exceptions == []

    def grow(self):
        """Two OSDs come: one of the known drive model, one of another."""
        self.expand(make.drive("sdc", 2))
        self.expand(make.drive("sdd", 3, drive_model=OTHER))

    def expand(self, drive):
        self.added += 1
        expand(self.mgr, f"h{self.added}", drive)

    def where(self):
        """The host where something is under way, else the first."""
        for machine in self.mgr.inside.runs.values():
            if not machine.over:
                return machine.spec.hostname
        for machine in self.mgr.inside.rollouts.values():
            if machine.under_way and machine.current is not None:
                return machine.current.hostname
        return "h1"

    def fault(self, name):  # noqa: C901  one line each
        mgr = self.mgr
        self.heals_at = self.steps + FAULT_STEPS
        if name == "failover":
            taken_over(mgr)
        elif name == "kill -9":
            mgr.probes[self.where()].crash()
        elif name == "probe silent":
            mgr.probes[self.where()].muted = True
        elif name == "store refuses":
            mgr.store.fails = lambda key: True
        elif name == "unclean":
            mgr.view.state = replace(mgr.view.state, missed=(Precondition.CLUSTER_HEALTHY,))
        elif name == "window closes":
            mgr.options = replace(mgr.options, auto_windows=NEVER)
        elif name == "expansion":
            self.expand(make.drive("sdx", 8))
        elif name == "drift":
            probe = mgr.probes["h1"]
            if not probe.leased:
                probe.switch(next(iter(probe.drives)), WB)
        elif name == "off and on":
            ok(mgr.command("auto", mode="off"))
            self.off = True
        elif name in ("pause", "abort"):
            for plan_id in mgr.inside.rollouts:
                mgr.command(f"rollout {name}", plan_id=plan_id)
        elif name == "stop":
            for campaign_id in list(mgr.inside.campaigns):
                mgr.command("campaign stop", campaign_id=campaign_id)
        elif name == "freeze":
            ok(mgr.command("freeze"))

    def heal(self):
        """Whatever it was, it is over."""
        mgr = self.mgr
        self.heals_at = None
        mgr.store.fails = lambda key: False
        for probe in mgr.probes.values():
            probe.muted = False
        mgr.view.state = replace(mgr.view.state, missed=())
        mgr.options = replace(mgr.options, auto_windows="")
        if self.off:
            ok(mgr.command("auto", mode="apply"))
        self.off = False
        if mgr.inside.frozen:
            ok(mgr.command("freeze", thaw=True))

    @property
    def modes(self):
        return {mode for probe in self.mgr.probes.values() for mode in probe.modes().values()}

    @property
    def quiet(self):
        """Whether it has grown, nothing is under way, and no fault lasts."""
        waits = any(m.paused for m in self.mgr.inside.rollouts.values())
        state = self.mgr.service.auto.state
        return (self.steps > GROWS_AT + 10 and self.heals_at is None and state.pending is None
                and not waits and not self.mgr.engine.is_active())

    def to_the_end(self):
        """Until it is quiet: all in the standing mode, or nothing more is tried for hours."""
        quiet = 0
        for _ in range(STEPS_MAX):
            self.step()
            quiet = quiet + 1 if self.quiet else 0
            if quiet > 12 and (self.modes == {WT} or quiet > 150):
                return
        raise AssertionError(f"never ends: {self.state} {self.mgr.service.auto.waiting}")

    def all_back(self):
        """The automation off, every plan rolled back; returns the modes."""
        ok(self.mgr.command("auto", mode="off"))
        for _ in range(len(self.mgr.inside.rollouts) + 1):
            if self.mgr.command("rollback")[0]:
                break
            for _ in range(STEPS_MAX):
                if not self.mgr.engine.is_active():
                    break
                self.mgr.step(BUSY_STEP_S)
        return self.modes


@cache
def states():
    """The step at which each state of an undisturbed run is met first."""
    world, found = AutoWorld(), {}
    world.mgr.step()
    while world.steps < GROWS_AT + 10 or world.modes != {WT} or not world.quiet:
        found.setdefault(world.state, world.steps)
        world.step()
        assert world.steps < STEPS_MAX
    assert world.modes == {WT}
    done = [m.rollout for m in world.mgr.inside.rollouts.values()]
    assert all(rollout.status is RolloutStatus.DONE for rollout in done)
    return found


def at(step):
    """The world as it is at a step: the same each time."""
    world = AutoWorld()
    world.mgr.step()
    while world.steps < step:
        world.step()
    return world
