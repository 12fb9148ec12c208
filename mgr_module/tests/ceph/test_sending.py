"""Commands are sent by one thread that outlives every answer."""

import threading

import pytest
from wcache.ceph.command import CommandFailed, ask_mon


class Mgr:
    """Answers at once; notes which thread has sent."""

    def __init__(self):
        self.sent_by = []

    def send_command(self, result, _kind, _who, command, _tag):
        self.sent_by.append(threading.current_thread())
        if "bad" in command:
            raise ValueError("no such command")
        result.complete(0, "{}", "")


def test_a_thread_that_ends_after_its_answer_has_sent_nothing_itself():
    mgr = Mgr()
    threads = [
        threading.Thread(target=ask_mon, args=(mgr, {"prefix": "config dump"})) for _ in range(3)
    ]
    for thread in threads:
        thread.start()
        thread.join()
    (sender,) = set(mgr.sent_by)
    assert sender.is_alive()
    assert sender not in threads


def test_what_sending_raises_is_the_answer_and_the_next_command_is_sent():
    mgr = Mgr()
    with pytest.raises(CommandFailed, match="no such command"):
        ask_mon(mgr, {"prefix": "auth rm", "entity": "bad"})
    assert ask_mon(mgr, {"prefix": "config dump"}) == "{}"
