"""The analysis child: `python3 -m wcache.analysis`, JSON lines in, JSON lines out.

One request per line, `{"id": int, "record": ...}`, one reply per request,
`{"id", "ok": true, "result"}` or `{"id", "ok": false, "error": one line}`, with `"of_record": true`
where it is the record that cannot be analysed, now or later.
It lives until its input ends.  numpy and scipy stay here: inside a mgr they can
deadlock (sub-interpreters) and they would hold the lock all modules share.
"""

from __future__ import annotations

import os
import sys
from typing import Any, BinaryIO, Dict, TextIO

from ..core import codec, versions
from ..core.errors import MalformedError, WcacheError
from ..core.record import RECORD_BYTES_MAX, Record

LINE_BYTES_MAX = RECORD_BYTES_MAX + 65_536
REPLY_ERROR_CHARS_MAX = 500
NO_NUMPY = (
    "numpy and scipy are needed to decide: install python3-numpy and python3-scipy "
    "where the mgr runs"
)


def answer(line: bytes) -> Dict[str, Any]:
    """The reply to one request; never raises but for the end of the process."""
    request_id, of_record = None, False
    try:
        request = codec.parse_json(
            line.decode("utf-8", "replace"), bytes_max=LINE_BYTES_MAX, what="the request"
        )
        if not isinstance(request, dict):
            raise MalformedError("the request must be an object")
        given = request.get("id")
        if isinstance(given, bool) or not isinstance(given, int):
            raise MalformedError("the request needs a whole number as its id")
        request_id = given
        import scipy.special  # noqa: F401  (whatever this raises is not the record's fault)

        from . import experiment
        from .decision import Materiality

        of_record = True
        record = versions.take(Record, request.get("record"), "record")
        found = experiment.analysed(record, experiment.analyse(record, Materiality()))
        return {"id": request_id, "ok": True, "result": codec.to_plain(found)}
    except WcacheError as error:
        message = error.line()
    except ImportError as error:
        message, of_record = f"{NO_NUMPY} ({error})", False
    except MemoryError as error:
        message, of_record = f"analysis failed: out of memory {error}", False
    except Exception as error:  # the loop outlives whatever a record makes go wrong
        message = f"analysis failed: {type(error).__name__}: {error}"
    message = " ".join(message.split())[:REPLY_ERROR_CHARS_MAX]
    reply = {"id": request_id, "ok": False, "error": message}
    return {**reply, "of_record": True} if of_record else reply


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
