"""`wcache-probe witness write|listen|check`."""

from __future__ import annotations

import argparse
from typing import Callable

from ..evidence.folder import EvidenceFolder
from ..linux.block.host_files import HostFiles
from ..linux.real_host import linux_host
from ..matrix.scratch import find
from ..stop_signal import StopSignal
from .blocks import BLOCK_BYTES, BLOCKS_MAX

Say = Callable[[str], None]


def witness(options: argparse.Namespace, say: Say) -> int:
    """0 where a run was witnessed or nothing is lost, 1 where not."""
    if options.verb == "listen":
        from .listen import listen

        return listen(options.at, options.log, options.idle, say)
    # a mode is not changed, so no boot pin and no rule is asked for
    host = linux_host(options)
    scratch = find(HostFiles(), host, options.device, span_max=BLOCKS_MAX * BLOCK_BYTES)
    if options.verb == "write":
        from .write import refuse_shared, write

        refuse_shared(scratch.drive)
        return write(
            scratch, to=options.to, token=options.token, hostname=options.hostname,
            stop=StopSignal().install(), say=say,
        )
    from . import check as checking

    cut, found = checking.check(scratch, options.log)
    checking.say(cut, found, print)
    path = EvidenceFolder(options.state_dir).put_power_cut(cut)
    print(f"kept in {path}; the probe of this host reports it to the mgr")
    return 1 if cut.lost else 0
