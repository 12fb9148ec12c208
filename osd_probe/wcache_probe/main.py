"""`wcache-probe`: what each command does, put together from its parts.

Exit codes: 0 done, 1 something is not as it should be, 2 it could not even start.
"""

from __future__ import annotations

import os
import sys
import time
import uuid
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Callable, Optional, Sequence, Tuple

from wcache.core.config_database import CLUSTER, conf_places
from wcache.core.drive.journal import EntryKind
from wcache.core.errors import NotFoundError, RefusedError, WcacheError
from wcache.core.model import CacheMode
from wcache.core.ports import DriveHost, MgrLink

from .arguments import RESTORE_ONE, parse
from .journal.host_lock import HostLock
from .journal.journal_file import MATRIX, LeaseMarker, NoJournal, StateFolder
from .switcher import AfterStep, Switcher, nothing, read_journal
from .switching.lease import LeaseKeeper

if TYPE_CHECKING:
    import argparse

    from .changes import HostWatch
    from .linux.host import LinuxDriveHost
    from .linux.transports.classify import Switches
    from .rados_link import RadosLink
    from .restoring.restorer import Start
    from .stop_signal import StopSignal


def linux_host(
    options: argparse.Namespace, fsid: Optional[str] = None, switches: Optional[Switches] = None
) -> LinuxDriveHost:
    """Make the host of the drives that Linux has, as the options describe it."""
    from .evidence import EvidenceFolder
    from .linux.block.host_files import HostFiles
    from .linux.block.osds import DEFAULT_DATA_GLOBS
    from .linux.host import LinuxDriveHost
    from .linux.persistence import foreign_rules
    from .linux.persistence.preparation import RULES_FOLDER, Preparation
    from .linux.persistence.udev_rule import RuleFolder
    from .linux.transports.classify import Switches
    from .linux.vendor.controllers import ControllerReader
    from .linux.vendor.tool import WearReader, dm_caches

    root, evidence = options.host_root, EvidenceFolder(options.state_dir)
    return LinuxDriveHost(
        files=HostFiles(etc=os.path.join(root, "etc")),
        osd_data_globs=options.osd_data or DEFAULT_DATA_GLOBS, cluster_fsid=fsid,
        rules=RuleFolder(
            os.path.join(root, RULES_FOLDER), options.run_dir, state_dir=options.state_dir
        ),
        switches=switches or Switches(proofs=evidence.proofs),
        boot_pins=Preparation(root, options.state_dir).look,
        find_foreign_rules=partial(foreign_rules.find, root), wear=WearReader(),
        controllers=ControllerReader().read, dm_caches=dm_caches, evidence=evidence,
    )


def linux_changes(options: argparse.Namespace) -> HostWatch:
    """Listen for events of the kernel, and glance at what no event tells."""
    from .changes import HostWatch
    from .linux.block.host_files import HostFiles
    from .linux.block.osds import RunningOsds
    from .linux.glance import Uevents, glance
    from .linux.persistence.preparation import RECORD_NAME, RULES_FOLDER

    state_dir, root = options.state_dir, options.host_root
    paths = [os.path.join(state_dir, name) for name in ("journal", RECORD_NAME, "evidence")]
    paths.append(os.path.join(root, RULES_FOLDER))
    events = Uevents()
    running = RunningOsds(HostFiles(etc=os.path.join(root, "etc")))
    return HostWatch(
        events.fd, events.drain, lambda: (glance("/sys", root, paths), running.now())
    )


@dataclass(frozen=True)
class Drives:
    """The drives that commands work on: this host's, or those that test equipment puts there."""

    host: Callable[[argparse.Namespace, Optional[str]], DriveHost] = linux_host
    changes: Callable[[argparse.Namespace], HostWatch] = linux_changes
    simulated: bool = False  # the mgr is told


REAL = Drives()


def main(
    words: Optional[Sequence[str]] = None,
    *,
    link: Optional[MgrLink] = None,
    after_step: AfterStep = nothing,
    start: Optional[Start] = None,
    drives: Drives = REAL,
) -> int:
    """Run one command; returns the exit code.

    `link` takes the place of librados, `after_step` is called after each step of a change,
    `start` starts this program again, and `drives` are what `run`, `look`, `inspect` and `restore`
    work on: how test equipment reaches into real processes.

    What a command does not need it does not import: udev may start sixty at once.
    """
    options = parse(list(sys.argv[1:] if words is None else words))
    try:
        if options.command == "run":
            from .rados_link import share_one_heap

            share_one_heap()  # before the first thread
            return _run(options, link, after_step, start, drives)
        if options.command == "restore":
            from .commands.restore import restore
            from .restoring.restorer import start_again

            return restore(options, start or start_again)
        if options.command == RESTORE_ONE:
            return _restore_one(options, after_step, drives)
        if options.command in ("matrix", "bench", "prove"):
            return _measure(options, after_step)
        if options.command == "appear":
            return _appear(options)
        if options.command in ("prepare", "unprepare"):
            from .commands.prepare import prepare, preparer_of, unprepare

            command = prepare if options.command == "prepare" else unprepare
            return command(options, preparer_of(options), linux_host(options))
        return _look_and_say(options, drives)
    except WcacheError as error:
        print(f"wcache-probe: {error.line()}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:
        # the reader has gone; Python would complain about it once more at exit
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 141


def _look_and_say(options: argparse.Namespace, drives: Drives) -> int:
    """What changes no drive."""
    if options.command == "accept":
        from .commands.journal import accept

        return accept(options)
    if options.command == "time":
        from .commands.bench import time_device
        from .linux.block.host_files import HostFiles

        return time_device(options, HostFiles())
    if options.command == "witness":
        from .witness.disk import witness

        return witness(options, linux_host, _say)
    if options.command == "removable":
        from .commands.journal import removable
        from .linux.persistence.udev_rule import RuleFolder

        return removable(options, RuleFolder())
    if options.command in ("inspect", "look"):
        from .commands.inspect import inspect, look

        show = look if options.command == "look" else inspect
        return show(drives.host(options, None), options.hostname, options.format)
    from .commands.journal import status

    if not os.path.isdir(options.state_dir):
        raise NotFoundError(
            f"there is no folder {options.state_dir}",
            "no probe ran here, or it was given another --state-dir",
        )
    return status(StateFolder(options.state_dir, options.run_dir), options.format)


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


# ---- run


def _run(
    options: argparse.Namespace, link: Optional[MgrLink], after_step: AfterStep,
    start: Optional[Start], drives: Drives,
) -> int:
    from .agent import ProbeLoop
    from .commands.restore import SIGNAL, AskedToRestore, RestoreRequests, child_words
    from .evidence import EvidenceFolder
    from .journal.journal_words import JournalBack
    from .linux.persistence.appearing import Appearing, Missed
    from .mgr_link import Identity
    from .rados_link import find_conf, fsid_in
    from .restoring.owed import Holds, Restoring, guard
    from .restoring.restorer import Pins, RestoreApart, start_again
    from .stop_signal import Heartbeat, StopSignal
    from .tasks import TaskRunner
    from .textfile import Textfile
    from .worker import Worker

    start = start or start_again
    places = conf_places(options.conf, options.cluster, os.environ)

    def of_cluster() -> Sequence[str]:
        return child_words(options, identity.cluster_fsid)

    worker = Worker()
    heartbeat = Heartbeat(os.environ)
    stop = StopSignal(heartbeat.beat, heartbeat.every_s).install()
    stop.wake_on(SIGNAL)
    state = StateFolder(options.state_dir, options.run_dir, worker.fsync)
    state.lock()
    state.journal.sync_marks()
    sound, damaged = read_journal(state.journal)
    for line in damaged.values():
        _say(f"wcache-probe: {line}")
    keeper = LeaseKeeper(
        {e.domain_id: e.owner_id for e in sound.values() if e.kind is EntryKind.LEASE}
    )
    # what librados would say is not known yet, and may never be
    identity = Identity(
        options.hostname, state.probe_id(), uuid.uuid4().hex, drives.simulated,
        "" if link is not None else fsid_in(find_conf(places) or ""),
    )
    holds = Holds(keeper, lambda: read_journal(state.journal))
    switcher: Optional[Switcher] = None  # what is owed is restored before there is one
    restoring = Restoring(
        keeper=keeper, holds=holds, instance_id=identity.instance_id, say=_say,
        restorer=RestoreApart(start, of_cluster),
        works_on=lambda: switcher.works_on if switcher is not None else "",
    )
    pins = Pins(
        RestoreApart(start, lambda: [*child_words(options), "--hold"]),
        lambda: read_journal(state.journal), _say,
    )
    # before anything that may fail or wait: it needs neither librados nor another drive; the
    # children that restore leases pin their drives themselves
    pins.pin([*(k for k, e in sound.items() if e.kind is EntryKind.ACTION), *damaged])
    restoring.restore_owed()
    rados = None if link is not None else _rados_link(options, places, stop)
    fsid = rados.fsid() if rados else None
    identity = replace(identity, cluster_fsid=fsid or identity.cluster_fsid)
    host = drives.host(options, fsid)
    switcher = Switcher(
        host, state.journal, after_step, HostLock(options.run_dir).held,
        lambda: keeper.may_not_go_on(time.monotonic()), worker.at,
    )
    host.watched_by(worker.at, switcher.require_to_go_on)
    runner = TaskRunner(
        host=host, switcher=switcher, keeper=keeper, holds=holds, identity=identity,
        evidence=EvidenceFolder(state.path, _say), not_pinned=pins.findings,
        reported=Textfile(options.textfile, _say).write,
    )
    asked = AskedToRestore(
        requests=RestoreRequests(state.path), keeper=keeper,
        restoring=restoring, journal=state.journal, say=_say,
    )
    way = link if link is not None else rados
    assert way is not None  # one of the two was made  # noqa: S101
    changes = stop.watch = drives.changes(options)
    missed = Missed(Appearing(options.run_dir), options.run_dir, state.path, start, _say)

    def at_turn() -> None:
        asked.look()
        missed.look()
        pins.look()

    guard(restoring, worker.busy_s, asked.look)
    _say(f"wcache-probe {identity.probe_id} speaks for {options.hostname}")
    agent = ProbeLoop(
        identity=identity, link=way, keeper=keeper, restoring=restoring, runner=runner,
        worker=worker, stop=stop, say=_say, at_turn=at_turn, changes=changes,
        heard=lambda reply: state.note_frozen(reply.frozen),
        journal=JournalBack(
            lambda: tuple(state.journal.read()), RestoreApart(start, of_cluster).restore
        ),
    )
    stop.tend = agent.tend
    agent.run()
    code = 1 if keeper.held or agent.lost or worker.busy else 0
    if worker.busy or (rados is not None and not rados.close()):
        # what hangs in librados or in the kernel would hang the end of the process with it; a
        # thread that the kernel lets go of later ends there, before it does anything more
        sys.stderr.flush()
        os._exit(code)
    return code


def _rados_link(
    options: argparse.Namespace, places: Tuple[str, ...], stop: StopSignal
) -> RadosLink:
    from .rados_link import RadosLink

    name = options.name or f"client.{options.id or 'wcache.' + options.hostname}"
    return RadosLink(
        hostname=options.hostname, places=places,
        # librados takes the name from the file's where --conf gave it, and only there
        cluster=options.cluster or ("" if options.conf else CLUSTER),
        keyring=options.keyring, name=name, interrupt_fd=stop.fd,
    )


# ---- with no probe beside it, which restores what it finds


def _measure(options: argparse.Namespace, after_step: AfterStep) -> int:
    """Measure scratch space, or try a drive; what is written or toggled is journalled."""
    if options.command == "bench" and not options.consent:
        from .commands.bench import bench

        return bench(options, linux_host(options))
    state = StateFolder(options.state_dir, options.run_dir)
    state.lock(MATRIX)
    if options.command == "prove" and options.in_place and state.frozen():
        raise RefusedError(
            "the cluster is frozen, as the probe of this host heard last",
            "thaw it with `ceph wcache freeze --thaw`, and let the probe run for a minute",
        )
    if options.command == "matrix":
        from .matrix.command import matrix as command
    elif options.command == "prove":
        from .prove import prove as command
    else:
        from .commands.bench import bench_blank as command
    host = linux_host(options)
    switcher = Switcher(host, state.journal, after_step, HostLock(options.run_dir).held)
    return command(options, host, switcher, _say)


# ---- appear: what our udev rules call


def _appear(options: argparse.Namespace) -> int:
    """Put a drive that just appeared into its persisted mode, unless a lease holds it."""
    from .evidence import EvidenceFolder
    from .linux.host import LinuxDriveHost
    from .linux.persistence.appearing import Appearing, appear, try_until_done
    from .linux.persistence.udev_rule import RuleFolder
    from .linux.transports.classify import Switches

    evidence = EvidenceFolder(options.state_dir)
    host = LinuxDriveHost(switches=Switches(proofs=evidence.proofs), evidence=evidence)
    mode = CacheMode(options.mode)
    switcher = Switcher(host, NoJournal(), lock=HostLock(options.run_dir).held)

    def keep() -> None:
        program = appear(
            host, RuleFolder(run_dir=options.run_dir), LeaseMarker(options.run_dir),
            dev_name=options.device, wwid=options.wwid, mode=mode,
        )
        switcher.run(host.appeared(options.device, options.wwid)[0].domain_id, program)

    try_until_done(keep, Appearing(options.run_dir), options.device, options.wwid, mode)
    return 0


# ---- restore


def _restore_one(options: argparse.Namespace, after_step: AfterStep, drives: Drives) -> int:
    from .commands.restore import restore_one

    state = StateFolder(options.state_dir, options.run_dir)
    host = drives.host(options, None)
    lock = HostLock(options.run_dir).held
    switcher = Switcher(host, state.journal, after_step, lock)
    return restore_one(
        switcher, options.key, hold=options.hold, cluster_fsid=options.fsid
    )
