"""`wcache-probe witness`: what was acknowledged and is gone is found, by number."""

import os
import queue
import signal
import socket
import struct
import subprocess
import threading
import time
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from loop_devices import loop_on
from matrix_bench import Bench
from mgr_fakes import builders as make
from wcache.core import codec
from wcache.core.drive.manual import pin
from wcache.core.errors import MalformedError, RefusalKind, RefusedError, WcacheError
from wcache.core.model import CacheMode, DriveModel, KernelView, Layer, LayerKind, Transport
from wcache_probe.arguments import parse
from wcache_probe.evidence import EvidenceFolder
from wcache_probe.linux.block.host_files import read_text
from wcache_probe.matrix.scratch import MIB
from wcache_probe.witness import wire
from wcache_probe.witness.disk import refuse_dropping, refuse_shared
from wcache_probe.witness.wire import (
    BATCH_MAX,
    BLOCK_BYTES,
    LogFile,
    Written,
    decode,
    encode,
    judge,
    listen,
    place_of,
    read_log,
)

RUN = b"r" * 16
BLOCKS = 64
START = MIB  # of the scratch space


def medium_after(kept):
    """Blocks by place, after these numbers were written in order."""
    medium = {}
    for number in kept:
        place = place_of(number, BLOCKS)
        medium[place] = encode(Written(RUN, number, place))
    return lambda place: medium.get(place, bytes(BLOCK_BYTES))


@pytest.mark.parametrize(("verb", "overwritten"), [("write", True), ("check", False)])
def test_only_the_drive_of_a_write_is_said_to_be_overwritten(verb, overwritten, capsys):
    with pytest.raises(SystemExit):
        parse(["witness", verb, "--help"])
    said = " ".join(capsys.readouterr().out.split())
    assert ("OVERWRITTEN" in said) is overwritten
    assert ("it is only read" in said) is not overwritten


@given(st.integers(1, 4 * BLOCKS), st.integers(0, BATCH_MAX))
def test_a_drive_that_keeps_what_it_acknowledged_loses_nothing(acknowledged, in_flight):
    checked, lost = judge(
        RUN, acknowledged, BLOCKS, medium_after(range(acknowledged + in_flight))
    )
    assert lost == ()
    assert checked >= min(acknowledged, BLOCKS) - BATCH_MAX


@given(st.integers(1, 4 * BLOCKS), st.data())
def test_each_acknowledged_write_that_was_never_made_is_named(acknowledged, data):
    gone = data.draw(st.integers(max(0, acknowledged - BLOCKS), acknowledged - 1))
    kept = [number for number in range(acknowledged) if number != gone]
    _, lost = judge(RUN, acknowledged, BLOCKS, medium_after(kept))
    overwritten = {place_of(acknowledged + ahead, BLOCKS) for ahead in range(BATCH_MAX)}
    assert lost == (() if place_of(gone, BLOCKS) in overwritten else (gone,))


@given(st.integers(0, BLOCK_BYTES - 1), st.integers(1, 255))
def test_a_block_of_which_any_byte_is_another_is_no_block_of_ours(place, change):
    data = bytearray(encode(Written(RUN, 7, 9)))
    data[place] ^= change
    assert decode(bytes(data)) is None


def test_every_number_of_a_round_has_a_place_of_its_own():
    assert len({place_of(number, 4096) for number in range(4096)}) == 4096


# ---- the listener and whoever calls it


class Listener:
    """`witness listen` in a thread, and what it says."""

    def __init__(self, log):
        self.said = queue.Queue()
        self.code = None
        self.thread = threading.Thread(target=self.run, args=(str(log),), daemon=True)
        self.thread.start()
        self.said.get(timeout=10)
        words = self.said.get(timeout=10).split()
        self.to = words[words.index("--to") + 1]
        self.token = words[words.index("--token") + 1]

    def run(self, log):
        self.code = listen("127.0.0.1:0", log, 5.0, self.said.put)

    def connect(self):
        return socket.create_connection(wire.parse_address(self.to), timeout=10)

    def end(self):
        self.thread.join(timeout=20)
        assert not self.thread.is_alive()
        return self.code


def a_run():
    return wire.WitnessRun(
        RUN.hex(), "h1", "boot", "naa.1", DriveModel("ATA", "M", "1"), CacheMode.WRITE_BACK,
        BLOCKS, 1.0,
    )


def begun(listener, connection, token=None):
    channel = wire.Channel(connection, wire.parse_token(token or listener.token))
    channel.wait_at_most(10)
    channel.send_run(a_run())
    return channel


@pytest.mark.parametrize(
    "hostile",
    [
        b"", b"GET / HTTP/1.1\r\n\r\n" * 10, b"WCW1\xff\xff" + b"x" * 70_000,
        b"WCW1\x02\x00{}" + b"m" * 16, bytes(4096),
    ],
    ids=["nothing", "http", "too long", "no seal", "zeros"],
)
def test_whoever_is_no_writer_is_refused_and_the_writer_heard_after_him(tmp_path, hostile):
    listener = Listener(tmp_path / "log")
    with listener.connect() as stranger:
        try:
            stranger.sendall(hostile)
            stranger.shutdown(socket.SHUT_WR)
            assert stranger.recv(100) == b""
        except OSError:
            pass  # it had hung up before all was sent
    assert "refused 127.0.0.1" in listener.said.get(timeout=20)
    with listener.connect() as connection:
        channel = begun(listener, connection)
        assert channel.receive_number(b"kept") == 0
        channel.send_number(b"acknowledged", 3)
        assert channel.receive_number(b"kept") == 3
    assert listener.end() == 0
    assert read_log(str(tmp_path / "log")) == (a_run(), 3)


def test_without_the_token_nobody_can_say_that_a_write_was_acknowledged(tmp_path):
    listener = Listener(tmp_path / "log")
    with listener.connect() as connection:
        begun(listener, connection, token="00" * 16)
        assert "seal" in listener.said.get(timeout=20)
    with listener.connect() as connection:
        channel = begun(listener, connection)
        channel.receive_number(b"kept")
        connection.sendall(struct.pack("<Q", 5) + b"0" * 16)
    assert listener.end() == 1
    assert read_log(str(tmp_path / "log")) == (a_run(), 0)


@pytest.mark.parametrize("number", [0, BATCH_MAX + 1, 2**63])
def test_numbers_that_do_not_follow_each_other_end_the_run(tmp_path, number):
    listener = Listener(tmp_path / "log")
    with listener.connect() as connection:
        channel = begun(listener, connection)
        channel.receive_number(b"kept")
        channel.send_number(b"acknowledged", number)
        with pytest.raises(WcacheError):
            channel.receive_number(b"kept")
    listener.end()
    assert read_log(str(tmp_path / "log"))[1] == 0


@pytest.mark.parametrize(
    "tail", [b"3\n2\n", b"-1\n", b"1e9\n", b"9" * 40 + b"\n", b"\xff\n", b"\n"]
)
def test_a_damaged_log_is_refused(tmp_path, tail):
    log = tmp_path / "log"
    LogFile(str(log), a_run()).close()
    with open(log, "ab") as file:
        file.write(tail)
    with pytest.raises(MalformedError):
        read_log(str(log))


def test_a_log_that_was_cut_off_counts_as_far_as_its_last_whole_line(tmp_path):
    log = tmp_path / "log"
    file = LogFile(str(log), a_run())
    file.acknowledged(3)
    file.acknowledged(7)
    file.close()
    log.write_bytes(log.read_bytes()[:-1])
    assert read_log(str(log)) == (a_run(), 3)


@pytest.mark.parametrize("address", ["", "host", ":1", "h:70000", "h:-1", "h:x"])
def test_what_is_no_address_is_refused(address):
    with pytest.raises(MalformedError):
        wire.parse_address(address)


# ---- on a real loop device


@pytest.fixture
def bench(tmp_path):
    with loop_on(tmp_path / "scratch.img", 24 * MIB) as name:
        yield Bench(tmp_path, name)


def witness(bench, verb, *more):
    words = bench.words("witness")
    options = words[words.index("--state-dir") :]
    command = [*words[: words.index("--state-dir")], verb, *options, *more]
    return subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        env=bench.environment(),
    )


def written(bench, log, seconds=1.0):
    """Have a run witnessed and its writer killed, as a power cut does; the acknowledged."""
    listener = Listener(log)
    writer = witness(bench, "write", bench.path, "--to", listener.to, "--token", listener.token)
    deadline = time.monotonic() + 60
    while not (log.exists() and log.read_text().count("\n") > 50):
        assert writer.poll() is None, writer.communicate()
        assert time.monotonic() < deadline
        time.sleep(0.02)
    writer.send_signal(signal.SIGKILL)
    writer.communicate()
    assert listener.end() == 0
    return read_log(str(log))[1]


def checked(bench, log):
    process = witness(bench, "check", bench.path, "--log", str(log))
    out, error = process.communicate(timeout=60)
    return process.returncode, out, error


@pytest.mark.slow
def test_an_honest_device_has_lost_nothing_and_a_liar_is_told_what_it_lost(bench, tmp_path):
    log = tmp_path / "log"
    acknowledged = written(bench, log)
    code, out, error = checked(bench, log)
    assert (code, error) == (0, "")
    assert f"{acknowledged} writes acknowledged" in out
    assert "none lost" in out
    assert "the host was not booted since" in out
    # what was still in the cache of a liar is gone
    gone = [acknowledged - 3, acknowledged - 2]
    blocks = read_log(str(log))[0].blocks
    with open(bench.path, "r+b") as device:
        for number in gone:
            device.seek(START + place_of(number, blocks) * BLOCK_BYTES)
            device.write(os.urandom(BLOCK_BYTES) if number % 2 else bytes(BLOCK_BYTES))
    code, out, _ = checked(bench, log)
    assert code == 1
    assert "2 LOST" in out
    assert f"lost numbers: {gone[0]}, {gone[1]}\n" in out
    (cut,) = EvidenceFolder(str(bench.root / "state")).power_cuts()
    assert (cut.lost, cut.acknowledged) == (2, acknowledged)
    assert not cut.host_booted


@pytest.mark.slow
def test_what_is_not_blank_or_is_in_use_is_never_written_to(bench, tmp_path):
    with open(bench.path, "r+b") as device:
        device.seek(2 * MIB)
        device.write(b"somebody's data")
    before = bench.backing.read_bytes()
    words = ("write", bench.path, "--to", "127.0.0.1:1", "--token", "00" * 16)
    process = witness(bench, *words)
    assert "is not blank" in process.communicate(timeout=60)[1]
    fd = os.open(bench.path, os.O_RDONLY | os.O_EXCL)
    try:
        process = witness(bench, *words)
        assert "is in use" in process.communicate(timeout=60)[1]
    finally:
        os.close(fd)
    assert bench.backing.read_bytes() == before


@pytest.mark.slow
def test_a_device_that_another_program_holds_open_is_refused_before_it_is_marked(bench):
    """An exclusive open does not keep out who is there already, and did not ask for that."""
    before = bench.backing.read_bytes()
    words = ("write", bench.path, "--to", "127.0.0.1:1", "--token", "00" * 16)
    with open(bench.path, "r+b"):
        process = witness(bench, *words)
        error = process.communicate(timeout=60)[1]
    assert process.returncode == 2
    assert f"open for writing in {read_text('/proc/self/comm')}" in error
    assert "nothing was written" in error
    assert bench.backing.read_bytes() == before


@pytest.mark.parametrize(
    ("changes", "unseen", "said"),
    [
        ({"foreign_uses": ("sda open for writing in tgtd (pid 3)",)}, False, "tgtd"),
        ({}, True, "cannot be seen"),
        ({"transport": Transport.LOOP}, True, ""),
        ({}, False, ""),
    ],
    ids=["another program", "cannot be seen", "loop device", "nobody"],
)
def test_a_drive_that_is_shared_or_may_be_is_not_written_to(changes, unseen, said):
    blind = make.refused("they cannot be seen", RefusalKind.UNSEEN) if unseen else ()
    drive = make.drive(
        "sda", refusals=(*make.refused("its cache cannot be changed"), *blind), **changes
    )
    if not said:
        refuse_shared(drive)
        return
    with pytest.raises(RefusedError, match=said):
        refuse_shared(drive)


@pytest.mark.parametrize(("changes", "cure"), [
    ({}, f"pin the drive first: `{pin('sda')}`"),
    ({"layers": (Layer("dm-0", LayerKind.LVM, KernelView.WRITE_THROUGH),)},
     f"pin the drive first: `{pin('sda')}`, then load the layers above it anew"),
])
def test_a_drive_that_flushes_do_not_reach_is_not_written_to_and_the_cure_is_told(changes, cure):
    drive = make.unsafe_drive()
    drive = replace(drive, state=replace(drive.state, **changes))
    with pytest.raises(RefusedError) as refused:
        refuse_dropping(drive)
    assert refused.value.advice == cure
    refuse_dropping(make.drive("sda"))


@pytest.mark.slow
def test_a_device_that_somebody_else_took_since_tells_nothing(bench, tmp_path):
    log = tmp_path / "log"
    written(bench, log)
    with open(bench.path, "r+b") as device:
        device.write(b"somebody's label")
    code, _, error = checked(bench, log)
    assert code == 2
    assert "somebody else has written" in error
    assert "pull the plug in a new test" in error


def test_evidence_that_is_damaged_is_left_out_and_said(tmp_path):
    said = []
    folder = EvidenceFolder(str(tmp_path), said.append)
    assert folder.power_cuts() == ()
    (tmp_path / "evidence").mkdir()
    (tmp_path / "evidence/power-cut-x.json").write_text('{"run_id": 1}')
    assert folder.power_cuts() == ()
    assert "power-cut-x.json" in said[0]
    assert codec.one_line(said[0]) == said[0]
