"""The queue to the mons: in order, told what came of it, and never in anybody's way."""

import json
import threading

import pytest
from mgr_fakes.store import MonLikeKv
from wcache.ceph.store import ANSWER_S, CephKeys, KvStore
from wcache.ceph.store_queue import LATER_EVERY_S, RETRY_S, SLOW_S, StoreQueue
from wcache.core.errors import StorageError
from wcache.core.ports import Write


class Clock:
    def __init__(self):
        self.now_s = 100.0

    def __call__(self):
        return self.now_s


class Told:
    """What a writer heard."""

    def __init__(self):
        self.answers = []

    def __call__(self, error):
        self.answers.append(None if error is None else error.message)


def a_queue():
    kv, clock = MonLikeKv(), Clock()
    return StoreQueue(KvStore(kv), clock), kv, clock


def work_off(queue):
    while queue.turn() == 0.0:
        pass


def test_nothing_counts_as_stored_before_the_mons_have_it_though_readers_see_it_at_once():
    queue, kv, _ = a_queue()
    told = Told()
    queue.write((Write("run/1", "a"), Write("run/2", "b")), told)
    assert (queue.get("run/1"), queue.keys("run/")) == ("a", ["run/1", "run/2"])
    assert (kv.kept, told.answers) == ({}, [])
    work_off(queue)
    assert (kv.kept, told.answers) == ({"run/1": "a", "run/2": "b"}, [None])


def test_the_end_removes_all_keys_and_nothing_is_written_after_it():
    queue, kv, _ = a_queue()
    ended, late = Told(), Told()
    queue.write((Write("run/1", "a"),), Told())
    queue.write_later("report/h1", "b")
    queue.end(ended)
    queue.write((Write("run/2", "c"),), late)
    queue.write_later("report/h1", "d")
    work_off(queue)
    assert (kv.kept, ended.answers) == ({}, [None])
    assert "nothing is stored any more" in late.answers[0]
    assert (queue.keys(""), queue.get("report/h1")) == ([], None)


def test_the_end_removes_parts_whose_whole_value_was_never_stored():
    queue, kv, _ = a_queue()
    kv.kept = kv.copy = {"record/c1.0.0#0123456789abcdef.0": "a", "version": "1"}
    ended = Told()
    queue.end(ended)
    work_off(queue)
    assert (kv.kept, ended.answers) == ({}, [None])


def test_a_write_that_may_wait_and_fails_as_the_end_is_ordered_is_not_tried_again():
    queue, kv, clock = a_queue()
    ended = Told()

    def ordered_meanwhile(key):
        if not queue._ended:
            queue.end(ended)
            return True
        return False

    kv.fails = ordered_meanwhile
    queue.write_later("report/h1", "a")
    work_off(queue)
    clock.now_s += RETRY_S
    work_off(queue)
    assert (kv.kept, ended.answers) == ({}, [None])


def test_where_the_end_fails_the_queue_goes_on_to_write():
    queue, kv, _ = a_queue()
    kv.kept = kv.copy = {"run/1": "a"}
    kv.fails = lambda key: key == "run/1"
    ended, later = Told(), Told()
    queue.end(ended)
    work_off(queue)
    assert ended.answers == ["run/1 is not stored"]
    queue.write((Write("run/2", "c"),), later)
    work_off(queue)
    assert (kv.kept, later.answers) == ({"run/1": "a", "run/2": "c"}, [None])


def test_the_first_write_that_fails_ends_its_batch_and_no_other():
    queue, kv, _ = a_queue()
    kv.fails = lambda key: key == "run/1"
    first, second = Told(), Told()
    queue.write((Write("run/1", "a"), Write("campaign/1", "b")), first)
    queue.write((Write("run/2", "c"),), second)
    work_off(queue)
    assert kv.kept == {"run/2": "c"}
    assert first.answers == ["run/1 is not stored"]
    assert second.answers == [None]
    assert (queue.get("run/1"), queue.get("campaign/1")) == (None, None)


def test_writes_of_one_key_are_made_in_the_order_in_which_they_were_asked_for():
    queue, kv, _ = a_queue()
    for number in range(5):
        queue.write((Write("run/1", str(number)),), Told())
        assert queue.get("run/1") == str(number)
    work_off(queue)
    assert (kv.kept, kv.writes) == ({"run/1": "4"}, ["run/1"] * 5)


def test_what_may_wait_goes_after_the_rest_and_only_its_newest_value():
    queue, kv, _ = a_queue()
    for number in range(5):
        queue.write_later("report/h1", str(number))
    queue.write((Write("run/1", "a"),), Told())
    work_off(queue)
    assert kv.writes == ["run/1", "report/h1"]
    assert kv.kept["report/h1"] == "4"


def test_a_value_that_changes_all_the_time_is_stored_seldom():
    queue, kv, clock = a_queue()
    for number in range(600):
        queue.write_later("report/h1", str(number))
        work_off(queue)
        clock.now_s += 0.1
    assert len(kv.writes) <= 60 / LATER_EVERY_S + 1
    clock.now_s += LATER_EVERY_S
    work_off(queue)
    assert kv.kept["report/h1"] == "599"


def test_a_line_that_came_and_went_is_never_written():
    queue, kv, _ = a_queue()
    queue.write_later("history/1", "a")
    queue.write_later("history/1", None)
    queue.write_later("history/2", None)
    work_off(queue)
    assert kv.kept == {}
    assert "history/1" not in kv.writes


def test_what_may_wait_and_is_refused_is_tried_again_first_and_told_meanwhile():
    queue, kv, clock = a_queue()
    kv.fails = lambda key: True
    queue.write_later("report/h1", "a")
    queue.write_later("report/h2", "b")
    work_off(queue)
    assert "report/h1 is not stored" in queue.trouble()
    assert queue.get("report/h1") == "a"
    kv.fails = lambda key: False
    work_off(queue)
    assert kv.kept == {}, "not at once"
    clock.now_s += RETRY_S
    work_off(queue)
    assert kv.kept == {"report/h1": "a", "report/h2": "b"}
    assert queue.trouble() == ""


def test_mons_that_do_not_answer_are_told_of():
    queue, _, clock = a_queue()
    queue.write((Write("run/1", "a"),), Told())
    assert queue.trouble() == ""
    clock.now_s += SLOW_S + 1
    assert "have not stored run/1 for 6 s" in queue.trouble()
    work_off(queue)
    assert queue.trouble() == ""


def test_what_the_mons_have_is_read_back_though_the_mgrs_copy_is_late():
    queue, kv, _ = a_queue()
    kv.late = True
    told = Told()
    queue.write((Write("run/1", "a"),), told)
    work_off(queue)
    assert told.answers == [None]
    assert (kv.get_store("run/1"), queue.get("run/1")) == (None, "a")
    kv.follow()
    work_off(queue)
    kv.copy["run/1"] = "somebody else's"
    assert queue.get("run/1") == "somebody else's"


def test_the_thread_writes_while_others_go_on_and_ends_with_what_was_queued():
    kv, hold = MonLikeKv(), threading.Event()
    put_key = kv.put_key

    def slow(key, val):
        assert hold.wait(10)
        put_key(key, val)

    kv.put_key = slow
    queue = StoreQueue(KvStore(kv))
    queue.start()
    done = threading.Event()
    queue.write((Write("run/1", "a"),), lambda error: done.set())
    queue.write_later("report/h1", "b")
    assert queue.keys("") == ["report/h1", "run/1"]
    assert not done.is_set()
    hold.set()
    assert done.wait(10)
    queue.close()
    assert kv.kept == {"run/1": "a", "report/h1": "b"}


def test_an_error_that_nobody_thought_of_is_told_and_the_queue_goes_on():
    queue, kv, _ = a_queue()

    def odd(key):
        raise ValueError("odd")

    kv.fails = odd
    told = Told()
    queue.write((Write("run/1", "a"),), told)
    work_off(queue)
    kv.fails = lambda key: False
    queue.write((Write("run/1", "b"),), told)
    work_off(queue)
    assert told.answers == ["run/1 is not stored: ValueError('odd')", None]


class Mgr:
    """send_command as a mgr has it; answers with `code`."""

    module_name = "wcache"

    def __init__(self, code):
        self.code = code
        self.asked = []

    def send_command(self, result, svc_type, svc_id, command, tag):
        self.asked.append((svc_type, json.loads(command)))
        result.complete(self.code, "", "no quorum" if self.code else "")


def test_a_key_is_set_under_the_name_that_set_store_gives_it_and_the_mons_code_decides():
    mgr = Mgr(0)
    CephKeys(mgr).put_key("run/1", "a")
    CephKeys(mgr).put_key("run/1", None)
    keys = [("mon", command["prefix"], command["key"]) for _, command in mgr.asked]
    assert keys == [
        ("mon", "config-key set", "mgr/wcache/run/1"), ("mon", "config-key rm", "mgr/wcache/run/1"),
    ]
    assert mgr.asked[0][1]["val"] == "a"
    with pytest.raises(StorageError, match=r"run/1 is not stored.*no quorum"):
        CephKeys(Mgr(-11)).put_key("run/1", "a")


def test_an_answer_is_waited_for_longer_than_any_lease_lasts():
    assert ANSWER_S > 600.0
