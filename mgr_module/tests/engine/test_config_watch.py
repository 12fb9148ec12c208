"""What a rollout asks of the config database: unanswered writes, and what replaces a request."""

from mgr_fakes.mclock import FakeConfig
from wcache.core import events
from wcache.core.config_database import ConfigEdit, ConfigRequest
from wcache.core.errors import NotReadyError
from wcache.engine.config_watch import RETRY_S, ConfigWatch

EDIT = ConfigEdit("osd.0", "osd_memory_target", "2", "1")
OTHER = ConfigEdit("osd.1", "osd_memory_target", "2", None)
NO_ANSWER = "the mons gave no answer to `config set` within 30 s"


class Watch:
    """A config watch whose clock and thread are the test's; mons that answer late, or never."""

    def __init__(self):
        self.now_s, self.answers, self.notes = 0.0, [], []
        self.database = FakeConfig()
        self.database.kept[EDIT.key] = "1"
        self.write, self.database.write = self.database.write, self.late
        self.unanswered, self.done_late = 0, []
        self.watch = ConfigWatch(
            database=self.database, clock=lambda: self.now_s,
            post_event=lambda owner, event: self.answers.append(event),
            note=lambda owner, text: self.notes.append(text),
        )

    def late(self, edit):
        if not self.unanswered:
            # the mons do one after the other
            late, self.done_late = self.done_late, []
            for item in (*late, edit):
                self.write(item)
            return
        self.unanswered -= 1
        self.done_late.append(edit)
        raise NotReadyError(NO_ANSWER)

    def ask(self, *edits, back=False):
        request = ConfigRequest(edits, others_stay=back)
        self.watch.ask("p1", events.AskConfig(f"t{len(self.answers)}", request))

    def go(self, seconds=0.0):
        self.now_s += seconds
        while self.watch.turn():
            pass


def test_what_the_mons_do_after_the_time_out_counts_as_written():
    mons = Watch()
    mons.unanswered = 1
    mons.ask(EDIT)
    mons.go()
    assert not mons.answers
    mons.write(mons.done_late.pop())  # before it is read again
    mons.go(RETRY_S)
    assert mons.answers[0].answer.written == 1
    assert mons.notes == [f"{NO_ANSWER}: it is written again", f"{EDIT.command} (was 1)"]


def test_what_was_not_answered_is_written_again_with_what_comes_after_it():
    mons = Watch()
    mons.unanswered = 2
    mons.ask(EDIT, OTHER)
    for _ in range(2):
        mons.go()
        assert not mons.answers
        mons.go(RETRY_S)
    state = mons.answers[0].answer
    assert (state.values, state.written, state.error) == (("2.000000", "2.000000"), 2, "")
    assert len(mons.notes) == 3  # that it gave no answer, once


def test_what_comes_late_does_not_outlast_the_way_back():
    mons = Watch()
    mons.unanswered = 1
    mons.ask(EDIT)
    mons.go()
    # the prior value stands there still, and is written after the one that may come yet
    mons.ask(EDIT.inverse, back=True)
    mons.go()
    assert mons.done_late == []
    assert mons.database.kept == {EDIT.key: "1.000000"}
    assert mons.answers[0].answer.written == 1


def test_what_others_have_set_meanwhile_is_left_alone():
    mons = Watch()
    mons.unanswered = 1
    mons.ask(EDIT)
    mons.go()
    mons.database.kept[EDIT.key] = "7"
    mons.go(RETRY_S)
    assert mons.answers[0].answer.values == ("7",)
    assert mons.database.kept == {EDIT.key: "7"}


def test_what_is_refused_is_answered():
    mons = Watch()
    mons.unanswered = 1
    mons.ask(EDIT)
    mons.go()
    mons.database.fails = lambda who: True
    mons.go(RETRY_S)
    state = mons.answers[0].answer
    refused = "the mons refused `config set` of osd.0"
    assert (state.values, state.written, state.error) == (("1",), 0, refused)
    mons.ask(EDIT.inverse, back=True)
    mons.go()
    assert mons.answers[1].answer.error == ""  # nothing is written, as nothing may come late


def test_what_replaces_a_request_that_is_just_answered_is_done():
    mons = Watch()
    lock = mons.watch._lock

    class Late:
        """An admin's rollback comes in just before the thread has the lock to answer."""

        turns = 0

        def __enter__(self):
            self.turns += 1
            if self.turns == 2:
                mons.watch._lock = lock
                mons.ask(EDIT.inverse, back=True)
            return lock.__enter__()

        def __exit__(self, *raised):
            return lock.__exit__(*raised)

    mons.ask(EDIT)
    mons.watch._lock = Late()
    mons.go()
    mons.go()
    assert [one.answer.request.others_stay for one in mons.answers] == [True]
    assert mons.database.kept == {EDIT.key: "1.000000"}
