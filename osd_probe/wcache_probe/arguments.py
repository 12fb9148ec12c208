"""The command line of `wcache-probe`."""

from __future__ import annotations

import argparse
import os
import socket
from typing import Callable, List, Union

from wcache.core import VERSION
from wcache.core.config_database import CLUSTER
from wcache.core.experiment.matrix import PAIRS_MAX, PAIRS_MIN
from wcache.core.model import CacheMode

STATE_DIR = "/var/lib/wcache"
RUN_DIR = "/run/wcache"
HOSTNAME = socket.gethostname()
RESTORE_ONE = "restore-one"
BLANK = "a blank drive, partition or LV that nothing uses; it is OVERWRITTEN"
COMMANDS = (
    "run", "look", "inspect", "bench", "restore", RESTORE_ONE, "status", "prepare", "unprepare",
    "matrix", "appear", "accept", "removable", "witness", "prove", "time",
)


def parse(words: List[str]) -> argparse.Namespace:
    """Parse the command line; `wcache-probe --hostname H ...` means `run`."""
    if words and words[0] not in (*COMMANDS, "-h", "--help", "--version"):
        words = ["run", *words]
    options = make_parser().parse_args(words)
    options.osd_data = options.osd_data or [] if hasattr(options, "osd_data") else []
    return options


def make_parser() -> argparse.ArgumentParser:
    """All there is to say; the manual page is made of it."""
    parser = argparse.ArgumentParser(
        prog="wcache-probe",
        description="Reads and toggles the write caches of this host's OSD drives, under leases "
        "of the ceph-mgr module wcache.",
    )
    parser.add_argument("--version", action="version", version=f"wcache-probe {VERSION}")
    verbs = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")

    def verb(name: str, what: str) -> argparse.ArgumentParser:
        return verbs.add_parser(name, help=what, description=what[:1].upper() + what[1:])

    run = verb("run", "serve the mgr until stopped")
    _host(run)
    run.add_argument(
        "--conf", default="", metavar="FILE",
        help="default: as for Ceph's own programs: what CEPH_CONF names, or CLUSTER.conf in "
        "/etc/ceph, in .ceph of your home folder, or in this folder",
    )
    run.add_argument("--cluster", default="", help=f"the cluster's name; default: {CLUSTER}")
    run.add_argument("--keyring", default="", help="default: what the configuration says")
    run.add_argument(
        "--textfile", default="", metavar="DIR",
        help="write wcache.prom there at each report, for node_exporter's textfile collector",
    )
    who = run.add_mutually_exclusive_group()
    who.add_argument("--id", default="", help="cephx id; default: wcache.HOSTNAME")
    who.add_argument("--name", default="", help="cephx name; default: client.wcache.HOSTNAME")
    _only_reads(verb("look", "show the drives, changing nothing; needs no mgr"))
    _only_reads(verb(
        "inspect", "score the drives with reasons, and say what to do next; only reads"
    ))
    _bench(verb(
        "bench", "score a device by timing its flushes; only reads, unless --consent is given"
    ))
    restore = verb("restore", "bring back prior cache states; needs no mgr")
    _host(restore)
    what = restore.add_mutually_exclusive_group(required=True)
    what.add_argument(
        "--all", action="store_true", help="everything that leases left behind"
    )
    what.add_argument("--action", default="", help="one applied change, by its action id")
    restore.add_argument(
        "--stop", action="store_true", help="stop a running probe first (it restores too)"
    )
    # what the probe and `restore` start for each entry; not for people
    one = verbs.add_parser(RESTORE_ONE)
    _restore_one(one)
    _accept(verb(
        "accept", "give up what the journal says of a cache domain; changes no drive"
    ))
    status = verb("status", "show the probe of this host and its journal")
    _folders(status)
    status.add_argument("--format", choices=("plain", "json"), default="plain")
    prepare = verb("prepare", "on the host itself: have drives pinned whenever they appear")
    _osd_data(prepare)
    _folders(prepare)
    prepare.set_defaults(host_root="/")
    prepare.add_argument(
        "--scratch", action="append", default=[], metavar="DEVICE",
        help="also the drive of this scratch device, for `matrix`; may be repeated",
    )
    prepare.add_argument(
        "--image-elsewhere", action="store_true",
        help="you put the rule into an image elsewhere, which this host boots; a boot proves it",
    )
    prepare.add_argument("--dry-run", action="store_true", help="print what would be done")
    prepare.add_argument(
        "--drive", action="append", default=[], metavar="DISK",
        help="also this drive of an OSD, which is off and saves that; may be repeated; each of its "
        "commits pays for a flush then",
    )
    unprepare = verb("unprepare", "take back what `prepare` did")
    _folders(unprepare)
    unprepare.set_defaults(host_root="/", osd_data=())
    unprepare.add_argument(
        "--drive", action="append", default=[], metavar="DISK",
        help="only this drive, which is off, saves that, and is in no journal; may be repeated",
    )
    unprepare.add_argument(
        "--gone", action="store_true",
        help="drives that the boot rule names and that are not here now are gone for good",
    )
    removable = verb(
        "removable", "for packages: fails while an applied change stands on this host"
    )
    _folders(removable)
    removable.add_argument(
        "--idle", action="store_true",
        help="fail as well while a probe runs with the state folder, or a lease stands",
    )
    _matrix(verb(
        "matrix", "measure the write+sync matrix of scratch space, in both cache modes"
    ))
    _time(verb("time", "time flushes of a device as it is; changes and writes nothing"))
    _prove(verb(
        "prove", "on a SATA drive behind an HBA: does its toggle take and come back?"
    ))
    _witness(verb(
        "witness", "on a blank drive whose plug is pulled: does it lose acknowledged writes?"
    ))
    appear = verb("appear", "for udev rules: keep a drive in its mode")
    appear.add_argument("--mode", required=True, choices=[mode.value for mode in CacheMode],
                        type=lambda word: word.replace("-", " "))
    name = appear.add_mutually_exclusive_group(required=True)
    name.add_argument("--wwid")
    name.add_argument("--wwid-hex", dest="wwid", type=lambda word: bytes.fromhex(word).decode())
    _folders(appear)
    appear.add_argument("device", help="kernel name of the disk")
    return parser


def _only_reads(parser: argparse.ArgumentParser) -> None:
    _host(parser)
    parser.add_argument("--format", choices=("plain", "json"), default="plain")


def _restore_one(parser: argparse.ArgumentParser) -> None:
    _host(parser)
    parser.add_argument("--hold", action="store_true", help="only pin its drives")
    parser.add_argument("--fsid", default="", help="refuse entries of another cluster")
    parser.add_argument("key")


def _accept(parser: argparse.ArgumentParser) -> None:
    _folders(parser)
    parser.add_argument("--yes", action="store_true", help="the drive was looked at: do it")
    parser.add_argument(
        "--disobeyed", action="store_true",
        help="in place of the journal: that its drives refused a change; it is tried again",
    )
    parser.add_argument("domain", help="cache domain, or the key of a damaged entry")


def _matrix(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--scratch", required=True, metavar="DEVICE", help=BLANK)
    parser.add_argument(
        "--pairs", type=_pairs, default=8, metavar="N",
        help="pairs of periods, one in each mode; default: %(default)s",
    )
    parser.add_argument(
        "--seconds", type=_seconds, default=0.5, help="for each cell; default: %(default)s"
    )
    parser.add_argument(
        "--span", action="store_true", help="write in pieces over the whole (large) device"
    )
    parser.add_argument(
        "--long", type=_long_seconds, default=0.0, metavar="SECONDS",
        help="in place of the matrix: write for so long in each mode, and show the rate over time",
    )
    parser.add_argument("--out", default="", metavar="FILE", help="default: in this folder")
    parser.add_argument(
        "--beside-osds", action="store_true",
        help="consent to toggle and load a drive that OSDs use as well",
    )
    parser.add_argument(
        "--consent-turn-on", action="store_true", help="consent to turn on a cache that is off"
    )
    _host(parser, "for the file")


def _time(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("device", help="any block device: a drive, an OSD's LV, an array")
    parser.add_argument(
        "--count", type=_flushes, default=300, metavar="N",
        help="flushes, at most; default: %(default)s",
    )
    parser.add_argument(
        "--seconds", type=_seconds, default=10.0, help="at most; default: %(default)s"
    )
    parser.add_argument("--format", choices=("plain", "json"), default="plain")


def _bench(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("device", help="a drive, or a partition or LV on one; also an OSD's")
    parser.add_argument(
        "--consent", action="store_true",
        help="write to it, in both cache modes where it may be toggled: " + BLANK,
    )
    parser.add_argument("--format", choices=("plain", "json"), default="plain")
    _host(parser, "for the answer")


def _prove(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "device",
        help="a blank drive that nothing uses; it is OVERWRITTEN, unless --in-place is given",
    )
    parser.add_argument(
        "--consent", action="store_true", help="toggle it, though nobody has proven that it obeys"
    )
    parser.add_argument(
        "--in-place", action="store_true",
        help="on a drive as it is used, also by an OSD: write nothing and time no flush",
    )
    _host(parser)


def _witness(parser: argparse.ArgumentParser) -> None:
    verbs = parser.add_subparsers(dest="verb", required=True, metavar="VERB")
    listen = verbs.add_parser("listen", help="on another machine: keep what is acknowledged")
    listen.add_argument("--at", required=True, metavar="HOST:PORT", help="port 0 takes a free one")
    listen.add_argument(
        "--idle", type=_seconds, default=60.0,
        help="end when the writer has sent nothing for so long; default: %(default)s",
    )
    write = verbs.add_parser("write", help="on the drive's host: write until the power is gone")
    write.add_argument("--to", required=True, metavar="HOST:PORT", help="where it listens")
    write.add_argument("--token", required=True, help="what `witness listen` printed")
    check = verbs.add_parser("check", help="after the power cut: say which writes are lost")
    for verb in (listen, check):
        verb.add_argument("--log", required=True, metavar="FILE", help="the listener's file")
    write.add_argument("device", help=BLANK)
    check.add_argument("device", help="what was given to `witness write`; it is only read")
    for verb in (write, check):
        _host(verb)


def _within(
    kind: Callable[[str], Union[int, float]], low: float, high: float, unit: str = ""
) -> Callable[[str], Union[int, float]]:
    """A type for argparse: a number within bounds, which a refusal names in one line."""

    def read(word: str) -> Union[int, float]:
        try:
            number = kind(word)
        except (ValueError, OverflowError):
            number = low - 1
        if not low <= number <= high:  # nor where it is no number at all
            raise argparse.ArgumentTypeError(f"give a number from {low:g} to {high:g}{unit}")
        return number

    return read


_seconds = _within(float, 0.1, 60.0, " (seconds)")
_long_seconds = _within(float, 5.0, 7200.0, " (seconds)")
_pairs = _within(int, PAIRS_MIN, PAIRS_MAX)
_flushes = _within(int, 1, 10_000)


def _host(parser: argparse.ArgumentParser, of_name: str = "as Ceph knows it") -> None:
    """Add what says which host, which of its OSDs, and which folders of the probe."""
    parser.add_argument("--hostname", default=HOSTNAME, help=f"{of_name}; default: %(default)s")
    _osd_data(parser)
    _folders(parser)
    parser.add_argument(
        "--host-root", default="/", type=os.path.abspath, metavar="DIR",
        help="in a container: where the host's /etc and /boot are; default: %(default)s",
    )


def _osd_data(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--osd-data", action="append", metavar="GLOB",
        help="data folders of OSDs; may be repeated; default: where Ceph puts them",
    )


def _folders(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--state-dir", default=STATE_DIR, type=os.path.abspath, help="default: %(default)s"
    )
    parser.add_argument(
        "--run-dir", default=RUN_DIR, type=os.path.abspath,
        help="where lease marker and lock are; default: %(default)s",
    )
