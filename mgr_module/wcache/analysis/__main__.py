"""The analysis child: `python3 -m wcache.analysis`, JSON lines in, JSON lines out.

One request per line, `{"id": int, "record": ...}`, one reply per request,
`{"id", "ok": true, "result"}` or `{"id", "ok": false, "error": one line}`.
It lives until its input ends.  numpy and scipy stay here: inside a mgr they can
deadlock (sub-interpreters) and they would hold the lock all modules share.
"""

from __future__ import annotations

import os
import sys
from typing import Any, BinaryIO, Dict, TextIO

from ..core import codec, versions
from ..core.errors import MalformedError
from ..core.record import RECORD_BYTES_MAX, Record
from .experiment import failure, found_in

LINE_BYTES_MAX = RECORD_BYTES_MAX + 65_536
NO_NUMPY = (
    "numpy and scipy are needed to decide: install python3-numpy and python3-scipy "
    "where the mgr runs"
)


def answer(line: bytes) -> Dict[str, Any]:
    """The reply to one request; never raises but for the end of the process."""
    request_id = None
    try:
        request = codec.parse_json(
            line.decode("utf-8", "replace"), bytes_max=LINE_BYTES_MAX, what="the request"
        )
        if not isinstance(request, dict):
            raise MalformedError("the request must be an object")
        request_id = request.get("id")
        import scipy.special  # noqa: F401  (whatever this raises is not the record's fault)

        record = versions.take(Record, request.get("record"), "record")
        return {"id": request_id, "ok": True, "result": codec.to_plain(found_in(record))}
    except ImportError as error:
        message = f"{NO_NUMPY} ({error})"
    except Exception as error:  # the loop outlives whatever goes wrong
        message = failure(error)
    return {"id": request_id, "ok": False, "error": codec.one_line(message)}


def serve(source: BinaryIO, sink: TextIO) -> None:
    """Answer each line of `source` on `sink` until it ends."""
    for line in source:
        reply = answer(line)
        try:
            text = codec.dumps(reply)
        except ValueError:
            text = codec.dumps(
                {"id": reply["id"], "ok": False, "error": "the figures are out of range"}
            )
        sink.write(text + "\n")
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
