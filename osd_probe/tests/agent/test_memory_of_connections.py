"""What connections to Ceph leave with the process: one heap for all, given back after each."""

import ctypes
import os
import subprocess
import sys
from pathlib import Path

import pytest
from wcache.core import codec
from wcache.core.protocol import PROTOCOL_VERSION, PollReply
from wcache_probe.rados_link import RadosLink

LIBC = ctypes.CDLL(None)
# A connection whose threads live at once, as librados has them; it tells how many heaps there are.
BINDINGS = """
import ctypes, os, threading
libc = ctypes.CDLL(None)
libc.fopen.restype = ctypes.c_void_p
class Error(Exception): pass
class Rados:
    def __init__(self, **_options):
        together = threading.Barrier(13)
        def allocate():
            libc.malloc(5000)
            together.wait()
        for _ in range(12):
            threading.Thread(target=allocate).start()
        together.wait()
        file = ctypes.c_void_p(libc.fopen(os.environ["HEAPS"].encode(), b"w"))
        libc.malloc_info(0, file)
        libc.fclose(file)
        os._exit(7)
"""
PIECES, PIECE_BYTES = 10_000, 2000

pytestmark = pytest.mark.skipif(not hasattr(LIBC, "mallopt"), reason="it is glibc that keeps")


@pytest.mark.parametrize(("program", "heaps"), [
    ("import rados; rados.Rados()", range(8, 20)),  # what it would be
    ("import sys; from wcache_probe.main import main; main(sys.argv[1:])", (1,)),
])
def test_the_threads_of_a_connection_have_one_heap(tmp_path, program, heaps):
    (tmp_path / "rados.py").write_text(BINDINGS)
    (tmp_path / "ceph.conf").write_text("")
    path = os.pathsep.join([str(tmp_path), *sys.path])
    words = ["run", "--conf", f"{tmp_path}/ceph.conf", "--hostname", "h1"]
    folders = ["--state-dir", f"{tmp_path}/state", "--run-dir", f"{tmp_path}/run"]
    done = subprocess.run(
        [sys.executable, "-c", program, *words, *folders], timeout=60, check=False,
        env={**os.environ, "PYTHONPATH": path, "HEAPS": f"{tmp_path}/heaps"},
    )
    assert done.returncode == 7
    assert (tmp_path / "heaps").read_text().count("<heap nr=") in heaps


class Large:
    """A connection with 20 MB, whose last piece stays, so that glibc keeps the others too."""

    Error = PermissionDeniedError = PermissionError = ObjectNotFound = ValueError

    def Rados(self, **_options):
        return self

    def connect(self):
        LIBC.malloc.restype = ctypes.c_void_p
        self.pieces = [LIBC.malloc(PIECE_BYTES) for _ in range(PIECES)]
        for piece in self.pieces:
            ctypes.memset(piece, 1, PIECE_BYTES)

    def mgr_command(self, _argument, _body):
        return 0, codec.dumps(PollReply(PROTOCOL_VERSION, 0.5)).encode(), ""

    def shutdown(self):
        for piece in self.pieces[:-1]:
            LIBC.free(ctypes.c_void_p(piece))


def anonymous_kib():
    status = Path("/proc/self/status").read_text(encoding="ascii")
    return next(int(x.split()[1]) for x in status.splitlines() if x.startswith("RssAnon:"))


def test_what_a_connection_had_goes_back_when_it_ends():
    read_fd, write_fd = os.pipe()
    link = RadosLink(
        hostname="h1", places=("/dev/null",), cluster="", keyring="", name="client.x",
        interrupt_fd=read_fd, bindings=Large(),
    )
    link.poll("{}", 30.0)
    before_kib = anonymous_kib()
    assert link.close()
    assert before_kib - anonymous_kib() > 0.8 * PIECES * PIECE_BYTES / 1024
    os.close(read_fd)
    os.close(write_fd)
