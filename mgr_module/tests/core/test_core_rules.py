"""Coins and slots, claims, findings, options and words: the small pure rules."""

import random
from dataclasses import replace

import pytest
from examples import examples
from hypothesis import given
from hypothesis import strategies as st
from mgr_fakes import builders as make
from wcache.commands.findings import HANGS_S, mixed_modes, probes
from wcache.commands.hosts import FleetView, HostViews
from wcache.core.codec import one_line
from wcache.core.drive.safety import may_toggle
from wcache.core.errors import ConflictError, VersionError
from wcache.core.experiment.design import Slot, coin
from wcache.core.experiment.run_state import next_slot
from wcache.core.fleet.agents import SILENT_S, Agents
from wcache.core.fleet.findings import modes_of, of_drive
from wcache.core.host_report import Waiting
from wcache.core.model import Arm, CacheMode, DeviceCache, FindingCode, Severity, Transport
from wcache.core.protocol import PROTOCOL_VERSION, Hello
from wcache.engine.world import World
from wcache.knobs.registry import ADVICE
from wcache.options import DESCRIPTIONS, Options, read_options

WB, WT = CacheMode.WRITE_BACK, CacheMode.WRITE_THROUGH


# ---- experiment


def test_the_coin_is_the_same_in_every_release():
    tossed = "".join("B" if coin(7, pair) is Arm.A else "T" for pair in range(24))
    assert tossed == "BBBTBBBBTBTBTTBBTBBBBBBB"


def test_the_coin_is_fair_and_its_neighbours_do_not_agree():
    tosses = [coin(seed, pair) is Arm.A for seed in range(100) for pair in range(40)]
    same = sum(a is b for a, b in zip(tosses, tosses[1:]))
    # 4,000 tosses: 4 standard deviations are 127
    assert abs(sum(tosses) - 2000) < 127
    assert abs(same - 2000) < 127


@given(st.sets(st.tuples(st.integers(0, 5), st.booleans())))
def test_the_next_slot_is_the_first_without_a_period(done):
    taken = {Slot(*item) for item in done}
    slot = next_slot(taken)
    assert slot not in taken
    before = Slot(0, False)
    while before != slot:
        assert before in taken
        before = before.following


# ---- agents


def hello(probe_id="p1", **changes):
    return replace(Hello(PROTOCOL_VERSION, probe_id, "i1"), **changes)


def told_of(agents, now_s):
    """What is found of probes."""
    return list(probes(World(
        now_s, dict, agents=tuple(agents.all()), blocked=agents.blocked(now_s)
    )))


def test_the_second_probe_of_a_host_is_refused_until_the_first_was_silent_for_its_claim():
    agents = Agents()
    agents.hear("h1", hello(), 0.0)
    with pytest.raises(ConflictError, match="p1 speaks for h1"):
        agents.hear("h1", hello("p2"), SILENT_S - 1)
    assert agents.get("h1").rival_probe_id == "p2"
    assert agents.get("h1").seen_at_s == 0.0
    (finding,) = told_of(agents, SILENT_S - 1)
    assert finding.code is FindingCode.AGENT_CONFLICT
    agents.hear("h1", hello("p2"), SILENT_S)
    with pytest.raises(ConflictError, match="p2 speaks for h1"):
        agents.hear("h1", hello("p1"), SILENT_S + 1)


def test_a_probe_of_another_protocol_is_refused():
    with pytest.raises(VersionError, match="protocol 1"):
        Agents().hear("h1", hello(version=1), 0.0)


def test_a_probe_that_calls_and_hangs_is_told_by_what_it_waits_for_and_not_replaced():
    agents = Agents()
    agents.hear("h1", hello(), 0.0)
    for now_s in range(10, 121, 10):
        agents.hear("h1", hello(waiting=Waiting("fsync of /x", now_s - 10.0)), float(now_s))
    assert agents.get("h1").seen_at_s == 10.0
    assert agents.get("h1").silent(120.0)
    (finding,) = told_of(agents, 120.0)
    assert finding.code is FindingCode.AGENT_SILENT
    assert "has waited for 110 s: fsync of /x" in finding.detail
    with pytest.raises(ConflictError, match="p1 speaks for h1"):
        agents.hear("h1", hello("p2"), 121.0)
    agents.hear("h1", hello("p2"), 120.0 + SILENT_S)  # no call of it for as long as any other
    assert agents.blocked(120.0 + SILENT_S) == {}
    agents.hear("h1", hello("p2", waiting=Waiting("a clock of its own", -1e9)), 300.0)
    assert agents.get("h1").seen_at_s == 300.0
    agents.hear("h1", hello("p2"), 301.0)
    assert agents.blocked(301.0) == {}


def test_a_probe_that_calls_and_hangs_is_told_long_before_a_silent_one():
    agents = Agents()

    def told(seconds: float) -> list:
        agents.hear("h1", hello(waiting=Waiting("fsync of /x", seconds)), 100.0)
        return told_of(agents, 100.0)

    assert told(HANGS_S - 1) == []  # a slow disk
    (finding,) = told(HANGS_S)
    assert finding.code is FindingCode.AGENT_SILENT
    assert "the probe calls, and has waited for 30 s: fsync of /x" in finding.detail
    assert HANGS_S < SILENT_S


# ---- findings


def test_volatile_and_not_flushing_is_an_error_except_on_a_throwaway_loop_device():
    (found,) = of_drive(make.unsafe_drive(), throwaway=True, leased=True)
    assert (found.code, found.severity) == (FindingCode.UNSAFE, Severity.ERROR)
    loop = make.unsafe_drive(transport=Transport.LOOP)
    (found,) = of_drive(loop, throwaway=True, leased=True)
    assert (found.code, found.severity) == (FindingCode.UNSAFE_THROWAWAY, Severity.INFO)
    (found,) = of_drive(loop, throwaway=False, leased=False)
    assert found.code is FindingCode.UNSAFE


def test_mixed_modes_do_not_count_what_an_experiment_holds():
    report = make.report("h1", make.drive("sda", 0), make.drive("sdb", 1, mode=WT))
    (found,) = mixed_modes(modes_of(report, frozenset()))
    assert found.detail == "1 in write back, 1 in write through"
    assert mixed_modes(modes_of(report, {"domain-sdb"})) == []


def test_every_finding_has_advice():
    assert set(ADVICE) == set(FindingCode)
    assert all(summary and advice for summary, advice in ADVICE.values())


def test_a_host_is_looked_at_again_only_when_something_changed():
    views = HostViews()
    reports = {"h1": make.report("h1", make.drive("sda", 0)), "h2": make.report("h2")}

    def take(**changes):
        arguments = {"throwaway": False, "leased": (), "changing": (), **changes}
        return views.take(reports, **arguments).views

    first = take()
    assert take() is first
    held = take(leased=[("h1", "domain-sda")])
    assert held["h1"] is not first["h1"]
    assert held["h2"] is first["h2"]
    reports["h2"] = make.report("h2", make.drive("sdb", 1))
    changed = take(leased=[("h1", "domain-sda")])
    assert changed["h1"] is held["h1"]
    assert changed["h2"] is not held["h2"]
    del reports["h1"]
    assert [*take()] == ["h2"]


def test_what_hosts_make_up_together_is_that_of_a_first_look_whatever_came_before():
    dice, views, reports = random.Random(5), HostViews(), {}
    for _ in range(200):
        name = f"h{dice.randrange(6)}"
        reports.pop(name, None)
        if dice.random() < 0.8:
            reports[name] = make.report(name, *(
                make.drive(f"sd{letter}", at, mode=dice.choice([WB, WT]))
                for at, letter in enumerate("abc") if dice.random() < 0.7
            ))
        given = {
            "throwaway": dice.random() < 0.2,
            **{what: [(name, "domain-sda") for name in reports if dice.random() < 0.3]
               for what in ("leased", "changing", "touched")},
        }
        now, anew = views.take(reports, **given), HostViews().take(reports, **given)
        assert [*now.views.items()] == [*anew.views.items()]
        assert (now.models, now.modes, now.told) == (anew.models, anew.modes, anew.told)
        of = {name for name in ("h1", "h2", "h3", "h4", "h9") if dice.random() < 0.5}
        alone = HostViews().take({k: v for k, v in reports.items() if k in of}, **given)
        assert now.modes_of(of) == anew.modes_of(of) == alone.modes
        assert sum(now.models.values()) == sum(len(r.drives) for r in reports.values())


def test_a_look_returns_its_own_hosts_whatever_another_thread_keeps_meanwhile():
    class Raced(HostViews):
        def __setattr__(self, name, value):
            super().__setattr__(name, FleetView())  # the other thread knew of no host yet

    reports = {"h1": make.report("h1", make.drive("sda", 0))}
    fleet = Raced().take(reports, throwaway=False, leased=(), changing=())
    assert [*fleet.views] == ["h1"]


# ---- options and words


@examples(60)
@given(st.dictionaries(
    st.sampled_from([*DESCRIPTIONS, "other"]),
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=5)),
))
def test_options_outside_their_bounds_keep_their_defaults(values):
    found = read_options(values)
    for name, (_, low, high) in DESCRIPTIONS.items():
        value = getattr(found, name)
        assert type(value) is type(getattr(Options(), name))
        assert low is None or low <= value <= high


@given(st.text(), st.integers(4, 50))
def test_one_line_is_one_printable_line_of_bounded_length(text, chars_max):
    line = one_line(text, chars_max)
    assert len(line) <= chars_max
    assert line.isprintable()


def test_off_is_refused_for_sharing_identity_and_journal_and_for_nothing_else():
    unsafe = make.unsafe_drive()

    def decided(drive, mode=CacheMode.WRITE_THROUGH):
        return may_toggle(
            [drive], mode, throwaway=False, consent_turn_on=True, experiment=False
        )

    assert decided(unsafe) is None
    assert may_toggle(
        [unsafe], CacheMode.WRITE_THROUGH, throwaway=False, consent_turn_on=True
    ) is not None
    assert decided(replace(unsafe, foreign_uses=("a file system",))) is not None
    assert decided(replace(unsafe, refusals=make.refused("it has no name"))) is not None
    unknown = replace(unsafe.state, device_cache=DeviceCache.UNKNOWN)
    assert decided(replace(unsafe, state=unknown)) is not None
    assert decided(unsafe, CacheMode.WRITE_BACK) is not None
