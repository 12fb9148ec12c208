"""What is done again and again goes on after an error, at once where asked, and ends."""

import threading

from wcache.engine.config_watch import Repeating

PATIENCE_S = 60.0
NEVER_S = 3600.0


class Turns:
    """Counts turns, each of which says that it was begun; the second one raises."""

    def __init__(self):
        self.begun, self.errors = threading.Semaphore(0), []
        self.count = 0
        self.repeating = Repeating("turns", self.turn, self.failed, self.wait_s)

    def turn(self):
        self.count += 1
        self.begun.release()
        if self.count == 2:
            raise ValueError("the second")

    def failed(self, error):
        self.errors.append(str(error))

    def wait_s(self):
        return 0.0 if self.count == 2 else NEVER_S


def test_it_begins_at_once_goes_on_after_an_error_and_ends():
    turns = Turns()
    turns.repeating.start()
    assert turns.begun.acquire(timeout=PATIENCE_S)
    turns.repeating.soon()
    # the turn that was asked for, and the one after its error
    assert turns.begun.acquire(timeout=PATIENCE_S)
    assert turns.begun.acquire(timeout=PATIENCE_S)
    assert turns.errors == ["the second"]
    turns.repeating.close()
    turns.repeating.soon()
    assert not turns.begun.acquire(timeout=0.05)
    assert turns.repeating.stopped
    assert not [t for t in threading.enumerate() if t.name == "turns"]


def test_what_is_asked_for_within_a_turn_follows_it():
    begun = threading.Semaphore(0)
    calls = []

    def turn():
        calls.append("turn")
        if len(calls) == 1:
            again.soon()
        begun.release()

    again = Repeating("again", turn, lambda error: None, lambda: NEVER_S)
    again.start()
    assert begun.acquire(timeout=PATIENCE_S)
    assert begun.acquire(timeout=PATIENCE_S)
    again.close()
    assert calls == ["turn", "turn"]
