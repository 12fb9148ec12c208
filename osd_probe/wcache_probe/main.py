"""`wcache-probe`: what each command does, put together from its parts.

Exit codes: 0 done, 1 something is not as it should be, 2 it could not even start.
"""

from __future__ import annotations

import os
import signal
import sys
import time
import uuid
from typing import TYPE_CHECKING, Callable, List, Optional, Sequence

from wcache.core import switching
from wcache.core.errors import ConflictError, NotFoundError, WcacheError
from wcache.core.journal import EntryKind, JournalEntry
from wcache.core.lease import LeaseKeeper
from wcache.core.model import CacheMode
from wcache.core.ports import DriveHost, MgrLink

from .arguments import parse
from .host_lock import HostLock
from .journal_file import LeaseMarker, NoJournal, StateFolder
from .stop_signal import StopSignal
from .switcher import AfterStep, Switcher, nothing, read_journal

if TYPE_CHECKING:
    import argparse

    from .rados_link import RadosLink

STOP_S = 60.0
STOP_STEP_S = 0.1


def main(
    words: Optional[Sequence[str]] = None,
    *,
    link: Optional[MgrLink] = None,
    after_step: AfterStep = nothing,
) -> int:
    """Run one command; returns the exit code.

    `link` takes the place of librados and `after_step` is called after each step of a
    change: how tests reach into a real process.
    """
    options = parse(list(sys.argv[1:] if words is None else words))
    try:
        if options.command == "run":
            return _run(options, link, after_step)
        if options.command == "restore":
            return _restore(options, after_step)
        if options.command == "matrix":
            return _matrix(options, after_step)
        if options.command == "appear":
            return _appear(options)
        if options.command in ("prepare", "unprepare"):
            from .preparing import prepare, preparer_of, unprepare

            command = prepare if options.command == "prepare" else unprepare
            return command(options, preparer_of(options))
        from . import views

        if options.command == "look":
            return views.look(_make_host(options, None), options.hostname, options.format)
        if not os.path.isdir(options.state_dir):
            raise NotFoundError(
                f"there is no folder {options.state_dir}",
                "no probe ran here, or it was given another --state-dir",
            )
        return views.status(StateFolder(options.state_dir, options.run_dir), options.format)
    except WcacheError as error:
        print(f"wcache-probe: {error.line()}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:
        # the reader has gone; Python would complain about it once more at exit
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 141


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def _make_host(options: argparse.Namespace, fsid: Optional[str]) -> DriveHost:
    if options.sim:
        from .sim.drive_schema import load_drive_file
        from .sim_host import SimulatedHost

        return SimulatedHost(
            load_drive_file(options.sim), options.hostname,
            state_path=os.path.join(options.state_dir, "sim-drives.json"),
        )
    from .real_host import linux_host

    return linux_host(options, fsid)


# ---- run


def _run(
    options: argparse.Namespace, link: Optional[MgrLink], after_step: AfterStep
) -> int:
    from .agent import Agent
    from .tasks import Identity, TaskRunner

    stop = StopSignal()
    stop.install()
    state = StateFolder(options.state_dir, options.run_dir)
    state.lock()
    _pin_journalled(options, state)
    rados = None if link is not None else _rados_link(options, stop)
    host = _make_host(options, rados.fsid() if rados else None)
    switcher = Switcher(host, state.journal, after_step, HostLock(options.run_dir).held)
    state.journal.sync_marker()
    sound, damaged = switcher.read_journal()
    for line in damaged.values():
        _say(f"wcache-probe: {line}")
    keeper = LeaseKeeper(
        {e.domain_id: e.owner_id for e in sound.values() if e.kind is EntryKind.LEASE}
    )
    identity = Identity(
        options.hostname, state.probe_id(), uuid.uuid4().hex, bool(options.sim)
    )
    runner = TaskRunner(host=host, switcher=switcher, keeper=keeper, identity=identity)
    way = link if link is not None else rados
    assert way is not None  # one of the two was made  # noqa: S101
    _say(f"wcache-probe {identity.probe_id} speaks for {options.hostname}")
    Agent(
        identity=identity, link=way, keeper=keeper, switcher=switcher, runner=runner,
        stop=stop, say=_say,
    ).run()
    code = 1 if keeper.held else 0
    if rados is not None and not rados.close():
        # a call that hangs in librados would hang the end of the process with it
        sys.stderr.flush()
        os._exit(code)
    return code


def _pin_journalled(options: argparse.Namespace, state: StateFolder) -> None:
    """Pin what the journal names: a lease that was cut off, and what was applied."""
    sound, _ = read_journal(state.journal)
    if not sound:
        return
    host = _make_host(options, None)
    # with nothing stored, since nothing is changed that would have to be taken back
    switcher = Switcher(host, NoJournal())
    for domain_id in sorted({entry.domain_id for entry in sound.values()}):
        try:
            switcher.run(switching.hold(switcher.drives(domain_id)))
        except WcacheError as error:
            _say(f"wcache-probe: {domain_id} cannot be pinned now: {error.line()}")


def _rados_link(options: argparse.Namespace, stop: StopSignal) -> RadosLink:
    from .rados_link import RadosLink

    name = options.name or f"client.{options.id or 'wcache.' + options.hostname}"
    return RadosLink(
        hostname=options.hostname, conf=options.conf, keyring=options.keyring, name=name,
        interrupt_fd=stop.fd,
    )


# ---- matrix


def _matrix(options: argparse.Namespace, after_step: AfterStep) -> int:
    """Measure scratch space; no probe may run meanwhile, since it restores what it finds."""
    from .matrix.command import matrix
    from .real_host import linux_host

    state = StateFolder(options.state_dir, options.run_dir)
    state.lock()
    host = linux_host(options)
    switcher = Switcher(host, state.journal, after_step, HostLock(options.run_dir).held)
    return matrix(options, host, switcher, _say)


# ---- appear: what our udev rules call


def _appear(options: argparse.Namespace) -> int:
    """Put a drive that just appeared into its persisted mode, unless a lease holds it."""
    from .host import LinuxDriveHost
    from .persistence.appearance import appear
    from .persistence.rule_folder import RuleFolder

    host = LinuxDriveHost()
    program = appear(
        host, RuleFolder(run_dir=options.run_dir), LeaseMarker(options.run_dir),
        dev_name=options.device, wwid=options.wwid, mode=CacheMode(options.mode),
    )
    Switcher(host, NoJournal(), lock=HostLock(options.run_dir).held).run(program)
    return 0


# ---- restore


def _restore(options: argparse.Namespace, after_step: AfterStep) -> int:
    state = StateFolder(options.state_dir, options.run_dir)
    _lock(state, stop=options.stop)
    lock = HostLock(options.run_dir).held
    switcher = Switcher(_make_host(options, None), state.journal, after_step, lock)
    sound, damaged = switcher.read_journal()
    chosen: List[JournalEntry]
    if options.action:
        key = f"{EntryKind.ACTION.value}/{options.action}"
        if key in damaged:
            raise NotFoundError(damaged[key])
        if key not in sound:
            raise NotFoundError(
                f"no change with the action id {options.action} is in the journal",
                "see `wcache-probe status`",
            )
        chosen, damaged = [sound[key]], {}
    else:
        chosen = [entry for entry in sound.values() if entry.kind is EntryKind.LEASE]
        damaged = {k: v for k, v in damaged.items() if k.startswith(EntryKind.LEASE.value)}
    failed = [_restore_one(switcher, entry) for entry in chosen].count(False)
    for line in damaged.values():
        print(f"not restored: {line}", file=sys.stderr)
    state.journal.sync_marker()
    if not chosen and not damaged:
        print("nothing to restore")
    return 1 if failed or damaged else 0


def _restore_one(switcher: Switcher, entry: JournalEntry) -> bool:
    names = ", ".join(f"{drive.dev_name} to {drive.mode.value}" for drive in entry.drives)
    try:
        switcher.restore(entry)
    except WcacheError as error:
        print(f"not restored: {names}: {error.line()}", file=sys.stderr)
        return False
    print(f"restored {names} (domain {entry.domain_id})")
    return True


def _lock(state: StateFolder, *, stop: bool, sleep: Callable[[float], None] = time.sleep) -> None:
    """Lock the folder, after stopping the probe that holds it where that was asked for."""
    try:
        state.lock()
        return
    except ConflictError as error:
        pid = state.holder()
        if not stop or not pid:
            raise ConflictError(
                f"{error.message}; it restores by itself when its lease ends",
                "stop it and try again, or add --stop",
            ) from None
    print(f"stopping the probe with pid {pid}")
    try:
        os.kill(pid, signal.SIGTERM)
    except ProcessLookupError:
        pass
    except PermissionError:
        raise ConflictError(f"the probe with pid {pid} is not ours to stop") from None
    for _ in range(int(STOP_S / STOP_STEP_S)):
        try:
            state.lock()
            return
        except ConflictError:
            sleep(STOP_STEP_S)
    state.lock()
