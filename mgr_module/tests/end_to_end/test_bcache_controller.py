"""Options of bcache: a period begins when the rate controller has settled where it should."""

from dataclasses import replace

import pytest
from bcache_world import bcache_of
from mgr_fakes import builders as make
from mgr_fakes.module import FakeMgr
from module_world import RealAnalysis, refused, said, until
from wcache.core import codec
from wcache.core.experiment.budget import client_wait_s
from wcache.core.experiment.campaign import CampaignOptions, Candidate
from wcache.core.experiment.period import BCACHES_MAX, DRAIN_SECTORS_S, some_of
from wcache.core.figures import geometry
from wcache.core.hardware import WRITTEN_MAX, BcacheState, Dirty, OptionValue
from wcache.core.model import Arm
from wcache.core.options.entries import DRAINS, parse_trial
from wcache.core.record import Period, Record
from wcache.core.verdict.option_choice import choose
from wcache.engine.storing.archive import RECORD

NAME = "writeback_rate_p_term_inverse"
TRIAL = f"{NAME}=40,4000"
MODE = "writeback"
TARGET_BYTES = 24 * 2**20
OWN_RATE = "16"


class Controlled:
    """A mgr with one OSD on bcache, whose dirty data is what `share` says of the time."""

    def __init__(self, share, bcache=None, own_rate=OWN_RATE):
        bcache = bcache or (bcache_of(0.0),)
        drive = make.drive("sda", 0)
        options = (OptionValue(NAME, "50"), OptionValue(DRAINS, own_rate))
        drive = replace(drive, state=replace(drive.state, options=options), bcache=bcache)
        cache = make.drive("sdz", bcache=(BcacheState("bcache0", True, "none"),))
        self.mgr = FakeMgr(("h0", (drive, cache)), make_analysis=RealAnalysis)
        self.began_s = self.mgr.now_s
        calls = iter(range(10**6))
        self.mgr.loads.latency_ns = lambda osd_id: 5_000_000 + next(calls) % 7 * 5_000
        self.probe = self.mgr.probes["h0"]
        self.probe.bcache = lambda: (
            bcache_of(share(self.passed_s), busy_ms=int(self.passed_s * 500)),
        )
        self.mgr.report_all()

    @property
    def passed_s(self):
        return self.mgr.now_s - self.began_s

    def begin(self, **arguments):
        said(self.mgr, "ab", **{"option": TRIAL, "pairs": 4, **arguments})

    def run(self, **arguments):
        """A campaign to its end."""
        self.begin(**arguments)
        self.finished()

    def shown(self):
        return said(self.mgr, "campaign show", campaign_id="c1")

    def periods(self):
        return [
            period for pair in self.record().pairs
            for period in (pair.a, pair.b)
        ]

    def record(self):
        (record_id,) = self.mgr.inside.analyses.results
        return self.mgr.inside.archive.get(RECORD, record_id)

    def finished(self):
        for _ in range(30_000):
            if not self.mgr.engine.is_active():
                return
            self.mgr.step(1.0)
        raise AssertionError("still under way")


@pytest.mark.slow
def test_a_campaign_waits_until_the_controller_has_settled():
    world = Controlled(lambda at_s: max(1.0, 2.0 - at_s / 200))
    world.run()
    assert len(world.record().pairs) == 4
    # dirty data stood from the 200th second on, and no pair begins while it moves by 5% in 5 s
    for period in world.periods():
        last, *_ = [one for one in reversed(period.bcache) if one.at_s]
        assert last.dirty is Dirty.TARGET or last.dirty is Dirty.BEYOND
        assert len(period.bcache) >= 4  # set, two looks, closed


def test_an_osd_alone_is_watched_for_as_long_as_the_controller_is_waited_for():
    world = Controlled(lambda at_s: 1.0)
    world.begin()
    world.mgr.steps(30, 1.0)  # the option settles for 60 s
    assert world.probe.drives["domain-sda"].state.option(NAME) != "50"
    ((request, _, on_end),) = world.mgr.blocks.waiting.values()
    assert request.treated == (0,)
    on_end("osd.0 is past the limit", True, False)
    world.finished()
    (run,) = world.shown()["run_list"]
    assert (run["reason"], run["restored"]) == ("osd.0 is past the limit", True)
    assert world.probe.drives["domain-sda"].state.option(NAME) == "50"


@pytest.mark.slow
def test_what_our_own_bench_fills_the_queue_of_is_not_watched():
    world = Writable()
    world.run(dirty_data="target", accept_cost=True)
    world.run(loads="traffic,depth1", accept_cost=True)
    (watched,) = world.mgr.blocks.requests
    assert watched.treated == (0,)  # of the traffic without a start that is written for


def test_one_that_never_settles_ends_the_experiment_and_says_so():
    world = Controlled(lambda at_s: 1.0 + at_s / 50)
    world.run()
    shown = world.shown()
    (result,) = shown["option_results"]
    assert "bcache did not settle within 300 s" in result["ended"]
    assert result["decided"] is False
    assert shown["run_list"][0]["restored"] is True
    assert world.probe.drives["domain-sda"].state.option(NAME) == "50"


class Writable(Controlled):
    """The same on a cache of 240 MiB, whose dirty data comes and goes as on a real one.

    `kept` of what is benched gets dirty; it is written back at the least rate there is.
    """

    def __init__(
        self, kept=1.0, dirty=0.0, cutoff=0, written_anew=0.0, told_bytes=TARGET_BYTES,
        own_rate=OWN_RATE,
    ):
        self.kept, self.dirty, self.cutoff = kept, dirty, cutoff
        self.written_anew = written_anew  # by clients, in bytes a second
        self.seen_s = self.seen_bytes = 0.0
        super().__init__(
            lambda at_s: 0.0, (replace(bcache_of(0.0), target_bytes=told_bytes),), own_rate
        )
        self.probe.bcache = self.state

    @property
    def rate(self):
        return self.probe.drives["domain-sda"].state.option(DRAINS)

    def state(self):
        passed_s, self.seen_s = self.passed_s - self.seen_s, self.passed_s
        wrote, self.seen_bytes = self.mgr.loads.written_bytes - self.seen_bytes, (
            self.mgr.loads.written_bytes
        )
        self.dirty += self.kept * max(0, wrote) + passed_s * self.written_anew
        self.dirty = max(0.0, self.dirty - passed_s * 512 * int(self.rate))
        return (BcacheState(
            "bcache0", False, MODE, self.cutoff, int(self.dirty), TARGET_BYTES, 4096, True, 0
        ),)

    def ended(self):
        shown = self.shown()
        assert shown["run_list"][0]["restored"] is True
        assert (self.rate, self.probe.leased_options) == (OWN_RATE, {})
        (result,) = shown["option_results"]
        return result["ended"]

    def begins(self):
        """Where each period began: the last reading before it was measured."""
        return [period.bcache[-2].dirty for period in self.periods()]


@pytest.mark.slow
@pytest.mark.parametrize("wanted", [Dirty.TARGET, Dirty.BEYOND])
def test_what_is_not_dirty_yet_is_written_and_counted(wanted):
    world = Writable(kept=0.5)
    cost = said(world.mgr, "ab", option=TRIAL, dry_run=True, pairs=4)["forecast"]
    more = said(
        world.mgr, "ab", option=TRIAL, dry_run=True, pairs=4, dirty_data=wanted.value
    )["forecast"]
    assert more["bytes_written"] == cost["bytes_written"] + WRITTEN_MAX * TARGET_BYTES
    world.run(dirty_data=wanted.value, accept_cost=True)
    assert set(world.begins()) == {wanted}
    periods = world.periods()[:2]
    assert sum(p.bytes_written for p in periods) > 1.8 * TARGET_BYTES  # half of it got dirty
    if wanted is Dirty.TARGET:  # where it is to stand as well
        assert all(p.waited_s >= 5 for p in periods)
        assert all(p.loaded_s < p.seconds - p.settle_s for p in periods)


def test_a_stream_that_bcache_passes_by_is_written_no_longer_than_was_consented_to():
    world = Writable(kept=0.0, cutoff=4 * 2**20)
    cost = said(world.mgr, "ab", option=TRIAL, dry_run=True, pairs=4, dirty_data="target")
    world.run(dirty_data="target", accept_cost=True)
    assert "bcache passes by what is beyond its sequential_cutoff" in world.ended()
    assert 0 < world.mgr.loads.written_bytes <= cost["forecast"]["bytes_written"]


@pytest.mark.parametrize(("mode", "option", "words"), [
    ("writethrough", TRIAL, "bcache is in mode writethrough, and keeps dirty data in writeback"),
    ("unknown", TRIAL, "bcache is in mode unknown, and keeps dirty data in writeback"),
    (MODE, "scheduler=none,bfq", "this is no option of bcache"),
])
def test_a_starting_state_that_cannot_be_is_refused(mode, option, words):
    world = Controlled(lambda at_s: 0.0, (bcache_of(0.0, mode=mode),))
    assert words in refused(world.mgr, "ab", option=option, dirty_data="clean")


@pytest.mark.parametrize(("how", "wanted", "words"), [
    # the forecast counted nothing
    ({"told_bytes": 0}, "target", "bcache told no target when it was planned"),
    ({"dirty": 2.0 * TARGET_BYTES, "written_anew": 1_500_000}, "clean",
     "after it was written back: its dirty data is"),
])
def test_where_a_start_cannot_be_had_nothing_is_measured_or_written(how, wanted, words):
    world = Writable(**how)
    world.run(dirty_data=wanted)
    assert words in world.ended()
    assert world.mgr.loads.written_bytes == 0


@pytest.mark.slow
def test_a_mgr_that_takes_over_knows_what_the_last_one_has_written():
    world = Writable(kept=0.0, cutoff=4 * 2**20)
    world.begin(dirty_data="target", accept_cost=True)
    written = 0
    for _ in range(8):
        for _ in range(300):
            world.mgr.step(1.0)
            if world.mgr.loads.written_bytes or not world.mgr.engine.is_active():
                break
        written += world.mgr.loads.written_bytes
        world.mgr.restart()
        world.seen_bytes = world.mgr.loads.written_bytes = 0
    world.finished()
    written += world.mgr.loads.written_bytes
    assert "bcache passes by what is beyond its sequential_cutoff" in world.ended()
    assert written <= WRITTEN_MAX * TARGET_BYTES
    (result,) = world.shown()["option_results"]
    assert result["bytes_written"] >= written


def test_what_a_bench_writes_for_a_start_is_time_that_clients_wait():
    world = Writable(kept=0.1)
    world.mgr.options = replace(world.mgr.options, experiment_client_wait_max_s=60.0)
    run, calls = world.mgr.loads.run, iter(range(10**6))
    world.mgr.loads.run = lambda: None if next(calls) % 40 else run()
    world.run(dirty_data="target", accept_cost=True)
    assert "the budget of client waiting was spent by writing" in world.ended()
    written = Period(Arm.A, 0.0, 0.0, 50.0, written_s=40.0)
    assert client_wait_s(world.record().setup, [written]) == 40.0


@pytest.mark.slow
@pytest.mark.parametrize("trial", [TRIAL, f"{DRAINS}=8,64"])
def test_what_is_dirty_is_written_back_for_a_clean_start_at_a_rate_that_goes_back(trial):
    world = Writable(dirty=2.0 * TARGET_BYTES)
    world.begin(dirty_data="clean", option=trial)
    rates = set()
    while not world.mgr.engine.is_active():
        world.mgr.step(1.0)
    for _ in range(3000):
        if not world.mgr.engine.is_active():
            break
        world.mgr.step(1.0)
        rates.add(world.rate)
    assert DRAIN_SECTORS_S in rates
    assert set(world.begins()) == {Dirty.CLEAN}
    assert (world.rate, world.probe.leased_options) == (OWN_RATE, {})
    wanted = {"8", "64"} if DRAINS in trial else {OWN_RATE}
    pairs = world.record().pairs
    if DRAINS in trial:
        assert {s.option(DRAINS) for p in pairs for s in p.a.state_after} == {"8"}
        assert {s.option(DRAINS) for p in pairs for s in p.b.state_after} == {"64"}
    assert wanted <= rates


@pytest.mark.slow
def test_a_mgr_that_takes_over_while_bcache_is_written_back_puts_the_rate_back():
    world = Writable(dirty=8.0 * TARGET_BYTES)
    world.begin(dirty_data="clean")
    until(world.mgr, lambda: world.rate == DRAIN_SECTORS_S, seconds=1.0)
    world.mgr.restart()
    world.mgr.loads.latency_ns = lambda osd_id: 5_000_000
    world.seen_bytes = 0
    world.finished()
    world.ended()
    assert set(world.begins()) == {Dirty.CLEAN}


@pytest.mark.slow
def test_a_settling_check_has_the_drives_own_rate_whatever_was_cut_off_before():
    world = Writable(dirty=0.0)
    rates, latency_ns = [], world.mgr.loads.latency_ns

    def measure(osd_id):
        rates.append(world.rate)
        drive = world.probe.drives["domain-sda"]
        if len(rates) == 1:  # as a period leaves it that the budget ends while it is written back
            high = (*drive.state.options[:1], OptionValue(DRAINS, DRAIN_SECTORS_S))
            world.probe.drives[drive.domain_id] = replace(
                drive, state=replace(drive.state, options=high)
            )
        return latency_ns(osd_id)

    world.mgr.loads.latency_ns = measure
    world.run(loads="depth1", dirty_data="clean", accept_cost=True)
    assert len(world.record().watches) >= 2
    assert set(rates) == {OWN_RATE}


@pytest.mark.slow
def test_a_rate_that_is_higher_than_ours_is_not_lowered():
    world = Writable(dirty=100.0 * TARGET_BYTES, own_rate="20480")
    world.begin(dirty_data="clean")
    rates = set()
    for _ in range(3000):
        world.mgr.step(1.0)
        rates.add(world.rate)
    assert rates == {"20480"}
    assert set(world.begins()) == {Dirty.CLEAN}


def test_a_larger_target_of_a_compared_value_is_what_may_be_written_for():
    world = Writable()
    drive = world.probe.drives["domain-sda"]
    options = (OptionValue("writeback_percent", "10"), OptionValue(DRAINS, OWN_RATE))
    candidate = Candidate(
        "h0", drive.domain_id, (replace(drive, state=replace(drive.state, options=options)),), False
    )
    for values, times in (("5,10", 1), ("10,40", 4), ("20,1", 2)):
        trial = parse_trial(f"writeback_percent={values}")
        asked = CampaignOptions(
            "cluster", (), 4, 1, 1.0, 1.0, 1.0, 1.0, 0, option=trial, dirty=Dirty.TARGET
        )
        assert candidate.starting_bytes(asked) == WRITTEN_MAX * times * TARGET_BYTES
        assert candidate.starting_bytes(replace(asked, dirty=Dirty.CLEAN)) == 0


@pytest.mark.slow
def test_each_starting_state_has_a_verdict_of_its_own_though_the_target_is_crossed():
    world = Writable()
    calls, slower = iter(range(10**6)), {"beyond": "4000", "clean": "40"}
    for wanted, slow in slower.items():
        world.mgr.loads.latency_ns = lambda osd_id, slow=slow: next(calls) % 7 * 5_000 + (
            9 if world.probe.drives["domain-sda"].state.option(NAME) == slow else 5
        ) * 1_000_000
        said(world.mgr, "ab", option=TRIAL, pairs=8, loads="depth1", dirty_data=wanted, seed=1,
             accept_cost=True)
        world.finished()
        world.mgr.step(60.0)
    found = {one["option"]["dirty"]: one for one in said(world.mgr, "option ls")["verdicts"]}
    assert {state_: (one["decided"], one["drives"]) for state_, one in found.items()} == {
        "beyond": (True, 1), "clean": (True, 1),
    }
    assert (found["beyond"]["verdict"], found["clean"]["verdict"]) == (f"{NAME} 40", f"{NAME} 4000")
    _, table, _ = world.mgr.command("option ls")
    assert f"{TRIAL} --dirty-data=beyond" in table
    why = choose("40", world.mgr.engine.world().option_verdicts).why_not
    assert "from one starting state, and worse at another" in why


@pytest.mark.slow
def test_dirty_data_rate_and_the_backing_disk_are_kept_over_time_and_plotted():
    world = Controlled(lambda at_s: 1.0)
    world.run()
    plain = said(world.mgr, "campaign record", record_id=world.record().record_id)
    record = codec.decode(Record, plain, "record")
    assert all(one.at_s > 0 for period in world.periods() for one in period.bcache)
    dirty, rate = geometry.bcache(record)
    assert "dirty data, in percent of its target: 100% first, 100% last" in dirty.said
    assert "how busy the backing disk was: 50% first, 50% last" in dirty.said
    assert "4.0 KiB/s first" in rate.said
    for plot in (dirty, rate):
        assert plot.lines
    assert geometry.bcache(replace(record, pairs=())) == []


def test_so_many_readings_are_kept_and_no_more():
    many = [bcache_of(share / 100) for share in range(100)]
    kept = some_of(many)
    assert len(kept) == BCACHES_MAX
    assert (kept[0], kept[-2:]) == (many[0], tuple(many[-2:]))
    assert some_of(many[:3]) == tuple(many[:3])
