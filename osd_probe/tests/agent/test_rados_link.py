"""A call that librados never ends is left behind with its connection, and a new one is made."""

import gc
import os
import threading
import time

import pytest
from wcache.core import codec
from wcache.core.errors import NotReadyError
from wcache.core.protocol import PROTOCOL_VERSION, PollReply
from wcache_probe import rados_link
from wcache_probe.rados_link import RadosLink

REPLY = codec.dumps(PollReply(PROTOCOL_VERSION, 0.5)).encode()


class Bindings:
    """As much of python3-rados as the link uses; the first connections hang for ever."""

    class Error(Exception):
        pass

    class PermissionDeniedError(Error):
        pass

    class PermissionError(Error):
        pass

    class ObjectNotFound(Error):
        pass

    def __init__(self, hanging):
        self.hanging = hanging
        self.made = self.shut = 0
        self.never = threading.Event()

    def Rados(self, **_options):
        self.made += 1
        return Connection(self, hangs=self.made <= self.hanging)


class Connection:
    def __init__(self, bindings, hangs):
        self.bindings, self.hangs = bindings, hangs

    def connect(self):
        pass

    def shutdown(self):
        self.bindings.shut += 1

    def mgr_command(self, _argument, _body):
        if self.hangs:
            self.bindings.never.wait()
        return 0, REPLY, ""


@pytest.fixture
def link_to():
    read_fd, write_fd = os.pipe()
    made = []

    def make(hanging):
        bindings = Bindings(hanging)
        made.append(bindings)
        return bindings, RadosLink(
            hostname="h1", places=("/dev/null",), cluster="", keyring="", name="client.x",
            interrupt_fd=read_fd, bindings=bindings, stuck_s=0.1,
        )

    yield make
    for bindings in made:
        bindings.never.set()
    os.close(read_fd)
    os.close(write_fd)


def test_a_link_that_works_is_kept(link_to):
    bindings, link = link_to(hanging=0)
    for _ in range(3):
        assert link.poll("{}", 5.0).next_poll_s == 0.5
    assert bindings.made == 1
    assert link.close()


@pytest.mark.slow
def test_after_a_call_that_hangs_a_new_connection_answers(link_to):
    bindings, link = link_to(hanging=2)
    for _ in range(2):
        with pytest.raises(NotReadyError):
            link.poll("{}", 0.15)
    assert link.poll("{}", 5.0).next_poll_s == 0.5
    assert bindings.made == 3
    assert not link.close()  # the end of the process must not wait for the hanging ones


@pytest.mark.slow
def test_what_is_left_behind_is_bounded_and_said(link_to):
    bindings, link = link_to(hanging=10**6)
    for _ in range(rados_link.LEFT_BEHIND_MAX + 3):
        with pytest.raises(NotReadyError) as caught:
            link.poll("{}", 0.11)
    assert "restart wcache-probe" in caught.value.line()
    assert bindings.made == rados_link.LEFT_BEHIND_MAX + 1


@pytest.mark.slow
def test_what_was_left_behind_ends_with_its_call_and_counts_no_more(link_to):
    bindings, link = link_to(hanging=10**6)
    gc.collect()  # what earlier tests left open may be closed meanwhile, and counts for nothing
    open_before = len(os.listdir("/proc/self/fd"))
    for outage in range(1, 4):
        for _ in range(rados_link.LEFT_BEHIND_MAX):
            with pytest.raises(NotReadyError) as caught:
                link.poll("{}", 0.11)
            assert "restart" not in caught.value.line()
        bindings.never.set()  # the mgr is back, and answers all of them
        assert link.poll("{}", 5.0).next_poll_s == 0.5
        end_s = time.monotonic() + 60.0
        while bindings.shut < outage * rados_link.LEFT_BEHIND_MAX and time.monotonic() < end_s:
            time.sleep(0.01)
        assert bindings.shut == outage * rados_link.LEFT_BEHIND_MAX
        bindings.never.clear()
    while any(line.alive for line in link._left) and time.monotonic() < end_s:
        time.sleep(0.01)  # a thread closes what is its own after it has shut down
    assert link.close()
    assert len(os.listdir("/proc/self/fd")) <= open_before - len(("done_fd", "done_w"))
