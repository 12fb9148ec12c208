"""The analysis child: `python3 -m wcache.analysis`, JSON lines in, JSON lines out.

A record per line, one reply to each, `{"found": Analysed}` or `{"error": one line}`.  It lives
until its input ends.  numpy and scipy stay here: inside a mgr they can deadlock (sub-interpreters)
and they would hold the lock all modules share.
"""

from __future__ import annotations

import os
import sys
from typing import BinaryIO, TextIO

from ..core import codec, versions
from ..core.record import RECORD_BYTES_MAX, Record
from .experiment import failure, found_in

NO_NUMPY = (
    "numpy and scipy are needed to decide: install python3-numpy and python3-scipy "
    "where the mgr runs"
)


def answer(line: bytes) -> str:
    """The reply to one request; never raises but for the end of the process."""
    try:
        import scipy.special  # noqa: F401  (whatever this raises is not the record's fault)

        text = line.decode("utf-8", "replace")
        record = versions.loads(Record, text, bytes_max=RECORD_BYTES_MAX, what="record")
        return codec.dumps({"found": found_in(record)})
    except ImportError as error:
        message = f"{NO_NUMPY} ({error})"
    except Exception as error:  # the loop outlives whatever goes wrong
        message = failure(error)
    return codec.dumps({"error": codec.one_line(message)})


def serve(source: BinaryIO, sink: TextIO) -> None:
    """Answer each line of `source` on `sink` until it ends."""
    for line in source:
        sink.write(answer(line) + "\n")
        sink.flush()


def main() -> int:
    """Serve stdin and stdout; returns when the parent closes its end."""
    # one thread: a verdict needs no more, and the mgr's host has other work
    for name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ.setdefault(name, "1")
    try:
        serve(sys.stdin.buffer, sys.stdout)
    except (BrokenPipeError, KeyboardInterrupt):
        # the parent is gone; closing stdout at exit would only complain again
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    return 0


if __name__ == "__main__":
    sys.exit(main())
