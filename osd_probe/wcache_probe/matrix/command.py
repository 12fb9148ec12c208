"""`wcache-probe matrix`: asks for what it may do, measures, prints a table, writes the file.

Its file takes minutes: it is opened before they begin, put in place after.
    <folder>/.<name>.<random>   while it is measured
    <folder>/<name>             when it is whole
"""

from __future__ import annotations

import argparse
import os
import secrets
import shutil
import time
from contextlib import contextmanager
from statistics import median
from typing import Callable, Dict, Iterator, List, Mapping, Tuple, Union

from wcache.core import versions
from wcache.core.drive.safety import may_toggle
from wcache.core.errors import ConflictError, RefusedError
from wcache.core.experiment.matrix import CELLS, Cell, Matrix
from wcache.core.model import CacheMode, DriveReport
from wcache.core.text import command, table

from ..journal.journal_file import MATRIX
from ..linux.block.host_files import HostFiles
from ..linux.host import LinuxDriveHost
from ..safe_files import failure, folder_of, open_new, remove
from ..stop_signal import StopSignal
from ..switcher import Switcher
from . import sustained
from .measurement import SETTLE_S, MatrixMeasurement, Plan
from .scratch import MIB, Scratch, find


@contextmanager
def result_file(path: str) -> Iterator[Callable[[str], None]]:
    """A new file at `path`, which gets its text and its name by what is yielded; else nothing.

    Raises ConflictError where something is at `path`, StorageError where no file can be made
    beside it.  What is whole and cannot have its name stays under the other one, which is told.
    """
    if os.path.lexists(path):
        raise ConflictError(f"{path} exists", "give another --out")
    folder, name = os.path.split(path)
    partial = os.path.join(folder, f".{name}.{secrets.token_hex(4)}")
    what = f"nothing was measured: cannot write {path}"
    with failure(what, "choose an --out that can be written"):
        fd = open_new(partial, 0o644)
    whole = False

    def put(text: str) -> None:
        nonlocal whole
        with failure(f"cannot write {path}", "choose an --out with free space"):
            with open(fd, "w", encoding="utf-8", closefd=False) as file:
                file.write(text + "\n")
            os.fsync(fd)
        whole = True
        what = f"the result is in {partial}: cannot make {path}"
        todo = "move it to where you want it"
        with failure(what, todo), folder_of(partial) as (folder, old):
            # a rename would replace what somebody else has put there meanwhile
            os.link(old, name, src_dir_fd=folder, dst_dir_fd=folder, follow_symlinks=False)
            os.unlink(old, dir_fd=folder)
            os.fsync(folder)

    try:
        yield put
    finally:
        os.close(fd)
        if not whole:
            remove(partial)


SECONDS_OF_FIO = 0.5  # to start and to end, seen on slow hosts


def matrix(
    options: argparse.Namespace, host: LinuxDriveHost, switcher: Switcher,
    say: Callable[[str], None],
) -> int:
    """Measure the matrix of scratch space, or one long cell in each mode; 0 when all is done."""
    switcher.refuse_owed()
    scratch = find(HostFiles(), host, options.scratch, options.span)
    _refuse(options, scratch, host.domain(scratch.drive.domain_id), host.lost_writes())
    plan = plan_of(options.hostname, options.pairs, options.seconds, options.consent_turn_on)
    deep = None if options.span or options.long else shutil.which("fio")
    each_s = SETTLE_S + sum(
        options.seconds + (SECONDS_OF_FIO if cell.depth > 1 else 0.0)
        for cell in CELLS if deep or cell.depth == 1
    )
    what, forecast = "matrix", (
        f"{plan.pairs} pairs, about {2 * plan.pairs * each_s:.0f} s; overwrites "
        f"{scratch.span // MIB} MiB of {scratch.path}"
    )
    if options.long:
        what, forecast = "long", f"about {3 * options.long:.0f} s"
    name = scratch.device.name
    target = options.out or f"wcache-{what}-{name}-{int(time.time())}.json"
    with result_file(target) as put:
        say(f"{name} on {scratch.drive.dev_name} ({scratch.drive.drive_model}): {forecast}")
        measurement = MatrixMeasurement(
            host=host, switcher=switcher, scratch=scratch, plan=plan, say=say, fio_path=deep,
            stop=StopSignal().install(),
        )
        found: Union[Matrix, sustained.Sustained]
        if options.long:
            cells = measurement.run_long(options.long)
            found, said = sustained.Sustained(
                sustained.SUSTAINED_FORMAT, sustained.SUSTAINED_VERSION, options.hostname, name,
                scratch.drive.drive_id, str(scratch.drive.drive_model), options.long, cells,
            ), sustained.lines(cells)
            done = len(cells) == len(CacheMode)
            then = "it is evidence about a drive, and no verdict"
        else:
            found = measurement.run()
            said, done = lines(found), found.ended == "done"
            then = "next, where numpy and scipy are: " + command("wcache analyze {}", target)
        try:
            print("\n".join(said), flush=True)
        finally:  # neither a closed terminal nor a full disk shall cost both
            put(versions.dumps(found))
    print(f"written to {target}; {then}")
    return int(not done)


def _refuse(
    options: argparse.Namespace, scratch: Scratch, drives: Tuple[DriveReport, ...],
    lost: Mapping[str, str],
) -> None:
    """Raise RefusedError where nobody has consented to what it would do."""
    if options.span and not scratch.whole:
        raise RefusedError(f"{scratch.device.name} is too small for --span", "leave it away")
    osds = sorted({use.osd_id for drive in drives for use in drive.uses})
    if osds and not options.beside_osds:
        names = ", ".join(f"osd.{osd}" for osd in osds)
        raise RefusedError(
            f"{scratch.drive.dev_name} also serves {names}, which would wait and be toggled too",
            "name an unused drive, or consent with --beside-osds",
        )
    reason = why_not_toggled(
        drives, scratch, lost, consent_turn_on=options.consent_turn_on
    )
    if reason:
        raise RefusedError(
            f"{reason}; nothing was written",
            "see `wcache-probe look`; a cache is turned on only with --consent-turn-on",
        )


def why_not_toggled(
    drives: Tuple[DriveReport, ...], scratch: Scratch, lost: Mapping[str, str], *,
    consent_turn_on: bool = False,
) -> str:
    """Say why a drive may not be put into one of the modes; empty where it may."""
    return next(filter(None, (
        may_toggle(
            drives, mode, throwaway=scratch.is_loop, consent_turn_on=consent_turn_on, lost=lost
        ) for mode in CacheMode
    )), "")


def plan_of(hostname: str, pairs: int, seconds: float, consent_turn_on: bool) -> Plan:
    """Make the plan of a new matrix, with a seed of its own."""
    return Plan(
        f"{MATRIX}.{secrets.token_hex(4)}", hostname, pairs, seconds, secrets.randbits(32),
        consent_turn_on,
    )


def lines(found: Matrix) -> List[str]:
    """The medians of each cell in each mode, over all pairs, and what was not measured."""
    rows = []
    for cell in CELLS:
        of_pairs = medians(found, cell)
        if not of_pairs:
            continue
        back, through = (median(values) for values in zip(*of_pairs))
        rows.append((
            cell.pattern.value, cell.sync.value, cell.depth, f"{back / 1e3:.4g}",
            f"{through / 1e3:.4g}", f"{back / through:.3g}",
        ))
    heads = ("PATTERN", "SYNC", "DEPTH", "WRITE BACK us", "WRITE THROUGH us", "RATIO")
    said = [table(heads, rows)] if rows else []
    said += [
        f"not measured: {item.cell.pattern.value}, {item.cell.sync.value}, depth "
        f"{item.cell.depth}: {item.why}" for item in found.skipped
    ]
    if found.ended != "done":
        said.append(f"ended after {len(found.pairs)} of {found.pairs_max} pairs: {found.ended}")
    return said


def medians(found: Matrix, cell: Cell) -> List[Tuple[float, float]]:
    """ns in write back and in write through of each pair that has the cell in both."""
    of_pairs = []
    for pair in found.pairs:
        both: Dict[CacheMode, float] = {}
        for period in (pair.write_back, pair.write_through):
            for item in period.cells:
                if item.cell == cell:
                    both[period.mode] = median(item.samples_ns)
        if len(both) == len(CacheMode):
            of_pairs.append((both[CacheMode.WRITE_BACK], both[CacheMode.WRITE_THROUGH]))
    return of_pairs
