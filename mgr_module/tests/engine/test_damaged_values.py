"""No stored value keeps the module from starting: it is left out, listed, and stays."""

import json
from functools import cache

import pytest
from memory_world import GIB, to_its_end, watch
from memory_world import a_mgr as a_mgr_with_memory
from module_world import a_mgr, measured, ok, said, start
from wcache.core.verdict.result import TrustedModels
from wcache.engine.storing.archive import ASIDE, PROFILE, RECORD, TRUSTED

# What has no key of its own to be wrong: one value of a kind, or a name that is only a number.
BY_NAME_ALONE = ("audit", "changes", "history", "period", "profile", "rollout-part")


def taken_up(store, memory=False):
    """A mgr that starts with these stored texts and works on; what it could not read."""
    mgr = a_mgr_with_memory(hosts=3, ram_bytes=32 * GIB) if memory else a_mgr()
    mgr.store.kept.clear()
    mgr.store.kept.update(store)
    mgr.restart()
    mgr.step()
    assert mgr.exceptions == []
    return mgr, dict(mgr.inside.archive.unreadable)


def with_a_rollout():
    """A plan rolled back, one under way, and a campaign that an admin has stopped."""
    mgr = measured()
    ok(mgr.command("plan"))
    ok(mgr.command("apply", plan_id="p1"))
    mgr.settle()
    ok(mgr.command("rollback"))
    mgr.settle()
    mgr.report_all()
    campaign_id = start(mgr)
    for _ in range(20):
        mgr.step()
    ok(mgr.command("campaign stop", campaign_id=campaign_id))
    mgr.settle()
    mgr.report_all()
    ok(mgr.command("auto", mode="recommend"))
    ok(mgr.command("plan"))
    ok(mgr.command("apply", plan_id="p2"))
    mgr.step()
    return mgr


def with_memory():
    """A trial that is over, and its plan, which is being carried out."""
    mgr = a_mgr_with_memory(hosts=3, ram_bytes=32 * GIB)
    watch(mgr)
    wanted = {"scope": "class:hdd", "target_bytes": 6 * GIB, "accept_cost": True}
    ok(mgr.command("memory trial start", **wanted))
    to_its_end(mgr)
    watch(mgr)
    ok(mgr.command("plan", knob="memory"))
    ok(mgr.command("apply", plan_id="p1"))
    mgr.step()
    return mgr


def with_capacities():
    """Capacities that were measured and set."""
    mgr = a_mgr()
    mgr.step()
    ok(mgr.command("campaign start", loads="capacity", accept_cost=True))
    mgr.settle()
    ok(mgr.command("plan", knob="mclock"))
    ok(mgr.command("apply", plan_id="p1"))
    mgr.settle()
    return mgr


STATES = {"rollout": with_a_rollout, "memory": with_memory, "mclock": with_capacities}
NAMES = tuple(STATES)


@cache
def texts(name):
    """What such a mgr has stored, in its present shape."""
    return dict(STATES[name]().store.kept)


def stored(name):
    return dict(texts(name))


def kinds(store):
    """A key of each kind."""
    return {key.partition("/")[0]: key for key in sorted(store, reverse=True)}


DAMAGES = {
    "no JSON": lambda text: text[: len(text) // 2],
    "empty": lambda text: "",
    "a list": lambda text: "[]",
    "a version to come": lambda text: '{"version": 999, "of": "another shape"}',
    "a field more": lambda text: '{"nobody_knows": 1}',
    "packed": lambda text: "wcache-packed:!",
    "parts": lambda text: "wcache-parts:3:0",
}


@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize("name", NAMES)
def test_a_damaged_value_of_each_kind_is_left_out_and_listed(name, damage):
    store = stored(name)
    damaged = {key: DAMAGES[damage](store[key]) for key in kinds(store).values()}
    mgr, unreadable = taken_up({**store, **damaged}, name == "memory")
    for key, text in damaged.items():
        if key in ("version", "frozen") or key.startswith(("rollout-part/", "period/")):
            continue  # see below; a part is named with its plan, a period of a run that is over
        place = key if key in unreadable else ASIDE + key
        assert place in unreadable, key
        if damage not in ("packed", "parts"):
            assert mgr.store.kept[place] == text


def other_ids(store):
    """For a key of each kind with more than one value: the text of another one."""
    found = {}
    for kind, key in kinds(store).items():
        others = [k for k in store if k.startswith(kind + "/") and k != key]
        if others and kind not in BY_NAME_ALONE and store[others[0]] != store[key]:
            found[key] = store[others[0]]
    return found


@pytest.mark.parametrize("name", NAMES)
def test_a_value_under_the_key_of_another_one_is_left_out_and_listed(name):
    store = stored(name)
    wrong = other_ids(store)
    assert {key.partition("/")[0] for key in wrong} >= {"agent", "report"}
    mgr, unreadable = taken_up({**store, **wrong}, name == "memory")
    for key, text in wrong.items():
        place = key if key in unreadable else ASIDE + key
        assert place in unreadable, key
        assert mgr.store.kept[place] == text


@pytest.mark.slow
def test_each_kind_of_result_and_record_goes_by_its_own_key():
    mgr = measured()
    kept = mgr.store.kept
    for kind, field in (
        ("result", "record_id"), ("record", "record_id"), ("campaign", "campaign_id"),
        ("report", "hostname"), ("agent", "hostname"),
    ):
        key = next(k for k in kept if k.startswith(kind + "/"))
        before, text = dict(kept), mgr.store.get(key)
        kept[key] = json.dumps({**json.loads(text), field: "c9.9.9"})
        again, _ = taken_up(kept)
        assert kind != "record" or again.inside.archive.get(RECORD, key.partition("/")[2]) is None
        unreadable = again.inside.archive.unreadable
        assert "has the value of" in unreadable.get(key, unreadable.get(ASIDE + key, "")), key
        assert said(again, "status")["unreadable"]
        kept.clear()
        kept.update(before)


def test_a_word_of_an_admin_that_cannot_be_read_is_not_lost_to_the_next_one():
    mgr, unreadable = taken_up({"plp-trust": "oops", "version": "1"})
    assert "plp-trust" in unreadable
    mgr.report_all()
    archive = mgr.inside.archive
    archive.put(TRUSTED, archive.get(TRUSTED) or TrustedModels(), lambda error: None)
    mgr.step()
    assert mgr.store.kept[f"{ASIDE}plp-trust"] == "oops"
    _, unreadable = taken_up(mgr.store.kept)
    assert f"{ASIDE}plp-trust" in unreadable


@pytest.mark.parametrize(("text", "frozen"), [
    ("0", False), ("1", True), ("yes", True), ("", True), ("wcache-packed:!", True),
])
def test_a_freeze_that_cannot_be_read_is_one(text, frozen):
    mgr, unreadable = taken_up({"version": "1", "frozen": text})
    assert mgr.inside.frozen is frozen
    assert ("frozen" in unreadable) is (text not in ("0", "1"))


@pytest.mark.parametrize("text", ["", "one", "1.0", "wcache-parts:1:0", "9" * 5000])
def test_a_number_of_the_store_that_is_none_is_listed_and_stays(text):
    mgr, unreadable = taken_up({"version": text})
    assert "version" in unreadable
    assert mgr.store.kept["version"] == text


@pytest.mark.parametrize(
    "name", ["history/x", "history/" + "9" * 5000, "profile/-1", "capacity/a"],
    ids=["letters", "endless", "negative", "of a knob"],
)
def test_a_name_that_is_no_number_is_listed(name):
    kind = name.partition("/")[0]
    text = {
        "history": '{"at_s":1.0,"who":"a","what":"b","text":"c"}', "profile": "{}",
    }.get(kind, '{"version": 999}')
    mgr, _ = taken_up({"version": "1", name: text})
    mgr.inside.archive.numbered(PROFILE)
    assert name in mgr.inside.archive.unreadable
