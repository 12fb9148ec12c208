"""Parsers of the probe and of the `wcache` tool: what tools, drives, files and the mgr say."""

from __future__ import annotations

import contextlib
import io
import json
import re
import socket
import tempfile
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Callable, List
from unittest import mock

from wcache.core import codec
from wcache.core.errors import WcacheError
from wcache.core.experiment.matrix import CELLS, MATRIX_FORMAT, Matrix
from wcache.core.protocol import PollReply
from wcache.core.record import RECORD_FORMAT, Record
from wcache_cli import main as cli
from wcache_cli.compare import fio_json
from wcache_probe import arguments, mgr_link
from wcache_probe.linux.glance import is_of_drives
from wcache_probe.linux.persistence import images
from wcache_probe.linux.transports import nvme, sata, sg_io
from wcache_probe.linux.vendor import controllers
from wcache_probe.linux.vendor.tool import caches_in, wear_in
from wcache_probe.matrix import cells
from wcache_probe.restoring import restorer
from wcache_probe.witness import wire
from wcache_sim.drive_schema import load_drive_file

from . import host_world
from .target import Target, again, examples, one_line, text_of, words_of

DRIVE_MODELS = Path(__file__).resolve().parents[1] / "drive_models"


@cache
def folder() -> Path:
    """For inputs that are read from files."""
    return Path(tempfile.mkdtemp(prefix="fuzz-files-", dir=host_world.host().root))


def file_of(data: bytes, name: str = "it") -> str:
    """A file with this in it."""
    path = folder() / name
    path.write_bytes(data)
    return str(path)


# ---- tools


def smartctl(data: bytes) -> Any:
    """Wear of a drive."""
    return wear_in(text_of(data), 1.0)


def storcli_json(data: bytes) -> Any:
    """storcli, perccli and their second versions: controllers, volumes, drives."""
    said = text_of(data)
    found = controllers.storcli("perccli64", said)
    volumes, drives = controllers.volumes_told("x", said), controllers.drives_told("x", said)
    return [controllers.merged(one, volumes, [drives, drives]) for one in found]


def ssacli(data: bytes) -> Any:
    """Its text."""
    return controllers.ssacli("ssacli", text_of(data))


def arcconf(data: bytes) -> Any:
    """Its list of controllers, and what one is."""
    said = text_of(data)
    return [*controllers.arcconf_numbers(said), *controllers.arcconf("arcconf", "1", said)]


def dmsetup(data: bytes) -> Any:
    """Its status."""
    return caches_in(text_of(data))


def fio_of_matrix(data: bytes) -> Any:
    """What fio prints to `wcache-probe matrix`."""
    scratch: Any = SimpleNamespace(path="/dev/x", start=0, span=2**20)
    with mock.patch.object(cells, "_run", return_value=text_of(data)):
        return cells.measure_deep("fio", scratch, CELLS[0], 1.0, 1, mock.Mock())


# ---- drives


def drive_data(data: bytes) -> Any:
    """Bytes of SCSI, ATA and NVMe drives, and what the kernel tells of them."""
    sense = sg_io.parse_sense(data)
    str(sense)
    pages = [sg_io.parse_mode_sense(data, ten) for ten in (False, True)]
    return [
        found for found in (
            sg_io.parse_inquiry(data), sg_io.parse_serial(data),
            sg_io.designators(data), sg_io.nonvolatile_cache(data),
            sg_io.shingled(data), *((page.wce, page.with_wce(True)) for page in pages if page),
            sata.parse_identify(data[:512].ljust(512, b"\0")), sata.returned_state(data),
            nvme.parse_identify(data[:4096].ljust(4096, b"\0")), is_of_drives(data),
            wire.decode(data[:4096].ljust(4096, b"\0")),
        ) if found
    ]


def image(data: bytes) -> Any:
    """An initramfs image."""
    with mock.patch.object(images, "_PROGRAMS", ()):
        return images.files_in(file_of(data), ".rules")


# ---- what others send


def reply(data: bytes) -> Any:
    """What the mgr answers."""
    return again(PollReply, mgr_link.decode_reply(text_of(data)))


def reply_seeds() -> List[bytes]:
    """Every kind of task."""
    return [
        json.dumps({**one, "next_poll_s": 1.0}).encode() for one in examples(PollReply)
    ]


def witness(data: bytes) -> Any:
    """A log of acknowledged writes, the same bytes over the network, and both words for them."""
    for parse in (wire.parse_address, wire.parse_token):
        with contextlib.suppress(WcacheError):
            parse(text_of(data))
    here, there = socket.socketpair()
    with here, there, contextlib.suppress(WcacheError):
        there.sendall(data[:4096])
        there.close()
        channel = wire.Channel(here, b"x")
        channel.wait_at_most(1.0)
        with mock.patch.object(channel, "_prove"):
            channel.receive_run()
            channel.receive_number(b"x")
    return wire.read_log(file_of(data))


def child(data: bytes) -> Any:
    """What a child that restores says at its end."""
    found = restorer.verdict(1, data)
    assert found is not None
    one_line(found.line())
    return found


# ---- files and words of an admin


def drive_file(data: bytes) -> Any:
    """A TOML file of drive models."""
    return load_drive_file(file_of(data))


def drive_files() -> List[bytes]:
    """Those of the project."""
    return [path.read_bytes() for path in sorted(DRIVE_MODELS.glob("*.toml"))]


def tool(*words: str) -> bool:
    """Whether `wcache` does it; Broken where it says other than one clear line."""
    with contextlib.redirect_stderr(io.StringIO()) as errors, contextlib.redirect_stdout(
        io.StringIO()
    ):
        code = cli.main(words)
    if code:
        one_line(errors.getvalue().rstrip("\n"))
    return code == 0


def latencies(data: bytes) -> Any:
    """Files, between zeros: fio's JSON, logs, or plain text; the last against the others."""
    *logs, last = data.split(b"\0\0")
    paths = [file_of(one, f"a_lat.{n}.log") for n, one in enumerate(logs or [last])]
    with mock.patch.multiple(fio_json, SUM_POINTS=16, DRAWN_MIN=64, DRAWN_MAX=64):
        return tool("compare", "--write-back", *paths, "--write-through", file_of(last, "b"))


def before_and_after(data: bytes) -> Any:
    """Files of two times: the same one, or those of a list."""
    found = codec.parse_json(text_of(data), bytes_max=2**24, what="it")
    both = [*found, {}, {}][:2] if isinstance(found, list) else [found, found]
    before, after = (file_of(json.dumps(one).encode(), str(n)) for n, one in enumerate(both))
    return tool("compare", "--before", before, "--after", after)


def records(data: bytes) -> Any:
    """A file of records and matrices, decided anew."""
    return tool("analyze", file_of(data))


def report(data: bytes) -> Any:
    """Saved answers of a module, each in its file, made a page of."""
    found = codec.parse_json(text_of(data), bytes_max=2**24, what="it")
    with tempfile.TemporaryDirectory(dir=folder()) as saved:
        for name, answer in found.items() if isinstance(found, dict) else ():
            if re.fullmatch(r"\w[\w.-]{1,100}", name, re.ASCII):
                Path(saved, f"{name}.json").write_text(json.dumps(answer))
        return tool("report", "--from", saved, "--out", f"{saved}/out.html")


def arguments_of(parse: Callable[[List[str]], Any]) -> Callable[[bytes], Any]:
    """A command line, its words between zeros."""

    def take(data: bytes) -> Any:
        with contextlib.redirect_stderr(io.StringIO()), contextlib.redirect_stdout(io.StringIO()):
            return parse(words_of(data))

    return take


TARGETS = (
    Target("smartctl", smartctl),
    Target("storcli", storcli_json),
    Target("ssacli", ssacli),
    Target("arcconf", arcconf),
    Target("dmsetup", dmsetup),
    Target("fio", fio_of_matrix),
    Target("drive", drive_data),
    Target("image", image),
    Target("host", host_world.look, seeds=lambda: host_world.host().seeds()),
    Target("reply", reply, seeds=reply_seeds),
    Target("witness", witness),
    Target("child", child),
    Target("toml", drive_file, seeds=drive_files),
    Target("latencies", latencies),
    Target("times", before_and_after),
    Target("records", records, seeds=lambda: [
        json.dumps({**one, "format": name}).encode()
        for cls, name in ((Record, RECORD_FORMAT), (Matrix, MATRIX_FORMAT)) for one in examples(cls)
    ]),
    Target("report", report),
    Target("probe-words", arguments_of(arguments.parse), (WcacheError, SystemExit)),
    Target("tool-words", arguments_of(lambda words: cli.make_parser().parse_args(words)),
           (WcacheError, SystemExit)),
)
