"""Each cache domain of a plan's scope is changed, left alone with a reason, or in place."""

import re
from dataclasses import replace

import pytest
from examples import examples
from hypothesis import given
from hypothesis import strategies as st
from mgr_fakes import builders as make
from wcache.core.fleet.disputes import Dispute
from wcache.core.fleet.findings import of_drive
from wcache.core.model import CacheMode, DeviceCache, DriveModel, KernelView, Verdict
from wcache.core.scope import Scope
from wcache.core.verdict.recommend import Recommendation
from wcache.engine.world import World
from wcache.knobs.cache_mode.mgr.room import CacheModePlanner
from wcache.knobs.knob import Asked, Fate, by_fate, in_order

BACK, THROUGH = CacheMode.WRITE_BACK, CacheMode.WRITE_THROUGH
OPEN, UNKNOWN = DriveModel("ACME", "OPEN", "1.0"), DriveModel("ACME", "NEW", "1.0")
DRIVES = (
    "to change", "there", "refused", "disputed", "unsafe", "in error", "down", "undecided",
    "unknown", "not in the map", "not in its report", "another host's", "of another class",
    "mode unknown", "unsafe and unknown",
)
CHANGED = ("to change", "unsafe")
HOSTS = ("reported", "stale", "silent")


def advice(model, mode):
    verdict = Verdict.B if mode else Verdict.INSUFFICIENT
    return Recommendation("hdd", model, verdict, mode, "as measured", (), (), ())


class Fleet:
    """Hosts with drives as a test wants them, and what a plan of it takes and says."""

    def __init__(self, hosts):
        self.reports, self.fresh, self.disputes, osds = {}, {}, [], []
        self.kinds = {}
        for number, (state, kinds) in enumerate(hosts):
            name, drives = f"h{number}", []
            for index, kind in enumerate(kinds):
                osd_id = 10 * number + index
                self.kinds[osd_id] = (name, state, kind)
                osd = make.osd(osd_id, name, up=kind != "down")
                if kind == "of another class":
                    osd = replace(osd, device_class="ssd")
                if kind == "another host's":
                    osd = replace(osd, hostname="elsewhere")
                if kind != "not in the map":
                    osds.append(osd)
                if kind != "not in its report":
                    drives.append(self._drive(name, f"{name}d{index}", osd_id, kind))
            if state != "silent":
                self.reports[name] = make.report(name, *drives)
            if state == "reported":
                self.fresh[name] = 1.0
        self.cluster = make.cluster([*osds, make.osd(999, "")])

    def _drive(self, host, name, osd_id, kind):
        found = make.drive(name, osd_id, mode=THROUGH if kind == "there" else BACK)
        if kind == "disputed":
            self.disputes.append(Dispute(host, found.domain_id, "owed", False))
        wrong = make.state(BACK, kernel_view=KernelView.WRITE_THROUGH)
        changed = {
            "refused": {"refusals": make.refused("left alone")}, "unsafe": {"state": wrong},
            "unsafe and unknown": {"state": wrong, "drive_model": UNKNOWN},
            "in error": {"findings": of_drive(
                make.unsafe_drive(), throwaway=False, leased=False)[:1]},
            "undecided": {"drive_model": OPEN}, "unknown": {"drive_model": UNKNOWN},
            "mode unknown": {"state": replace(make.state(BACK), device_cache=DeviceCache.UNKNOWN)},
        }
        return replace(found, **changed.get(kind, {}))

    def planned(self, scope):
        world = World(
            0.0, lambda: self.cluster, reports=self.reports, reported_at_s=self.fresh
        )
        vars(world).update(
            _recommendations=[advice(make.MODEL, THROUGH), advice(OPEN, None)],
            disputes=self.disputes,
        )
        return CacheModePlanner().plan(Asked("p1", "n", scope), world)

    def scoped(self, scope):
        """The OSDs of the drives that a scope asks for, each with what it is like."""
        models = {"undecided": OPEN, "unknown": UNKNOWN, "unsafe and unknown": UNKNOWN}
        return {
            osd_id: (host, state, kind) for osd_id, (host, state, kind) in self.kinds.items()
            if scope.hostname in ("", host) and scope.osd_id in (None, osd_id)
            and (not scope.device_class or kind != "of another class")
            and scope.drive_model in str(models.get(kind, make.MODEL))
            # of another host's OSD its drive alone is told of, in no class and by no OSD
            and not (kind == "another host's" and scope.osd_id is not None)
        }


def counted(lines):
    """The cache domains that lines count, and those that each name one."""
    many = [re.match(r"(\d+) cache domains? of ", line) for line in lines]
    return sum(int(found[1]) for found in many if found), [
        line.partition(":")[0] for line, found in zip(lines, many)
        if not found and re.match(r"h\d+ h\d+d\d+: ", line)
    ]


SCOPES = st.builds(
    Scope, st.sampled_from(("", "hdd")), st.sampled_from(("", "h0", "h1")),
    st.sampled_from((None, None, 0, 1, 10)), st.sampled_from(("", "ACME", "OPEN")),
)
HOST = st.tuples(
    st.sampled_from(HOSTS), st.lists(st.sampled_from(DRIVES), min_size=1, max_size=5)
)


@examples()
@given(st.lists(HOST, min_size=1, max_size=3), SCOPES)
def test_every_drive_of_a_scope_is_told_of_once(hosts, scope):
    fleet = Fleet(hosts)
    wanted, asked = fleet.planned(scope), fleet.scoped(scope)
    told = [item for item in asked.values()
            if item[1] != "silent" and item[2] != "not in its report"]
    together, alone = counted(wanted.left_alone)
    changed = [f"{change.hostname} {change.domain.dev_names[0]}" for change in wanted.changes]
    assert len({*changed, *alone}) == len(changed) + len(alone)
    assert len(changed) + together + len(alone) + wanted.drives_in_place == len(told)
    assert wanted.drives_in_place == sum(
        state == "reported" and kind == "there" for _, state, kind in told
    )
    assert len(changed) == sum(kind in CHANGED for _, _, kind in told)
    # of the drives that no report tells of, the OSDs or their hosts are named
    lines = " ".join(wanted.left_alone)
    for osd_id, (host, state, kind) in asked.items():
        if kind in ("not in the map", "another host's"):
            continue
        if state == "silent":
            assert re.search(rf"\b{host}\b[^:]*: no probe has reported it", lines)
        elif kind == "not in its report":
            lacks = rf"\b{host}: its probe tells of no drive of [^:]*osd\.{osd_id}\b"
            assert re.search(lacks, lines)


@pytest.mark.parametrize("kind", DRIVES)
@pytest.mark.parametrize("state", HOSTS)
def test_what_a_plan_neither_changes_nor_finds_in_place_has_a_line(state, kind):
    wanted = Fleet([(state, [kind])]).planned(Scope())
    lines = [line for line in wanted.left_alone if "osd.999" not in line]
    if state == "silent" and kind in ("not in the map", "another host's"):
        return  # nobody has ever said that h0 is
    assert bool(lines) is not bool(wanted.changes or wanted.drives_in_place)
    assert wanted.drives_in_place == int((state, kind) == ("reported", "there"))
    assert "osd.999: Ceph does not know on which host" in wanted.left_alone


def test_what_is_left_of_a_plan_that_is_full_is_counted(monkeypatch):
    monkeypatch.setattr("wcache.knobs.knob.CHANGES_MAX", 2)
    reports, cluster = make.fleet(1, 4)
    domains = in_order(reports, cluster)
    wanted = by_fate(domains, lambda domain, before: Fate(change=domain))
    assert len(wanted.changes) == 2
    assert wanted.left_alone == ("2 more cache domains: plan again when this plan is done",)
