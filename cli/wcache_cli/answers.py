"""Where the answers of `ceph wcache ...` come from: a live cluster, or saved files."""

from __future__ import annotations

import argparse
import errno
import os
import re
import subprocess
from pathlib import Path
from typing import Any, Dict, List, Optional, Protocol, Sequence, Tuple

from wcache.core import codec
from wcache.core.config_database import conf_places, looked_in
from wcache.core.errors import MalformedError, NotFoundError, NotReadyError
from wcache.core.text import CommandLine, arguments, chained, command, ticked

from .files import read_text

ANSWER_BYTES_MAX = 64 * 1024 * 1024
CONNECT_TIMEOUT_S = 20
COMMAND_TIMEOUT_S = 60.0
# What the ceph tool says where it finds no configuration.
NO_CONF = "calling conf_read_file"
_SAFE_WORD = re.compile(r"[A-Za-z0-9._-]{1,80}")


class Answers(Protocol):
    """Port: answers the read-only commands of the module."""

    def ask(self, *words: str) -> Dict[str, Any]:
        """The JSON answer of `ceph wcache WORDS`.

        Raises NotFoundError where the command names something that is not there, and
        another WcacheError where no answer can be had.
        """


class CephTool:
    """Asks a live cluster through the `ceph` tool, as whoever the caller is there."""

    def __init__(
        self, program: str = "ceph", options: Sequence[str] = (), places: Tuple[str, ...] = ()
    ) -> None:
        self._argv = [program, "--connect-timeout", str(CONNECT_TIMEOUT_S), *options]
        self._places = places

    def ask(self, *words: str) -> Dict[str, Any]:
        """See Answers."""
        argv = [*self._argv, "wcache", *words, "--format", "json"]
        try:
            done = subprocess.run(
                argv, stdin=subprocess.DEVNULL, capture_output=True,
                timeout=COMMAND_TIMEOUT_S, check=False,
            )
        except FileNotFoundError:
            raise NotFoundError(
                f"there is no program {argv[0]!r} here",
                "install ceph-common, or name it with --ceph",
            ) from None
        except subprocess.TimeoutExpired:
            raise NotReadyError(
                f"{ticked(_asked(words))} did not end in {COMMAND_TIMEOUT_S:.0f} s",
                "is the cluster reachable? see `ceph status`",
            ) from None
        text = done.stdout.decode("utf-8", "replace")
        if done.returncode != 0:
            said = _last_line(done.stderr.decode("utf-8", "replace"))
            if NO_CONF in said:
                raise NotReadyError(looked_in(self._places), "name it with --conf or CEPH_CONF")
            if done.returncode == errno.ENOENT:
                raise NotFoundError(said)
            raise NotReadyError(f"{ticked(_asked(words))} failed: {said}")
        return _object(text, f"the answer of {ticked(_asked(words))}")


class SavedAnswers:
    """Answers that were saved in a folder, one file per command (`campaign-show-c1.json`)."""

    def __init__(self, folder: Path) -> None:
        if not folder.is_dir():
            raise NotFoundError(f"there is no folder {folder}", "save one with `--save DIR`")
        self._folder = folder

    def ask(self, *words: str) -> Dict[str, Any]:
        """See Answers."""
        path = self._folder / file_name(words)
        if not path.exists():
            raise NotFoundError(
                f"{path} is missing",
                "save it: " + chained(
                    [_asked(words), command("--format json > {}", path.name)], " "
                ),
            )
        return _object(read_text(str(path), ANSWER_BYTES_MAX), str(path))


class SavingAnswers:
    """Passes answers on and saves each, so that a report can be made again without a cluster."""

    def __init__(self, answers: Answers, folder: Path) -> None:
        self._answers, self._folder = answers, folder
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise NotReadyError(f"{folder} cannot be made: {error.strerror}") from None

    def ask(self, *words: str) -> Dict[str, Any]:
        """See Answers."""
        answer = self._answers.ask(*words)
        write_text(self._folder / file_name(words), codec.dumps(answer) + "\n")
        return answer


def add_cluster_arguments(parser: argparse.ArgumentParser) -> None:
    """The options that say which cluster, and as whom; they are the `ceph` tool's own."""
    group = parser.add_argument_group("the cluster (as for the ceph tool)")
    group.add_argument("--ceph", default="ceph", metavar="PROGRAM", help="the ceph tool")
    group.add_argument("--conf", metavar="FILE", help="ceph.conf")
    group.add_argument("--cluster", metavar="NAME", help="the cluster's name")
    group.add_argument("--keyring", metavar="FILE", help="keyring")
    group.add_argument("--name", metavar="TYPE.ID", help="whose key, such as client.admin")


def ceph_tool(options: argparse.Namespace) -> CephTool:
    """The live cluster that those options name."""
    words: List[str] = []
    for name in ("conf", "cluster", "keyring", "name"):
        value: Optional[str] = getattr(options, name)
        if value:
            words += [f"--{name}", value]
    places = conf_places(options.conf or "", options.cluster or "", os.environ)
    return CephTool(options.ceph, words, places)


def _asked(words: Sequence[str]) -> CommandLine:
    return arguments(("ceph", "wcache", *words))


def file_name(words: Sequence[str]) -> str:
    """The file of a saved answer; raises MalformedError for an id that is no file name."""
    if not all(_SAFE_WORD.fullmatch(word) for word in words):
        raise MalformedError(f"{' '.join(words)[:100]!r} cannot be a file name")
    return "-".join(words) + ".json"


def write_text(path: Path, text: str) -> None:
    """Write a file whole or not at all; raises NotReadyError with the reason."""
    partial = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        # "x": a link that somebody put there is not followed
        with partial.open("x", encoding="utf-8") as file:
            file.write(text)
        os.replace(partial, path)
    except FileExistsError:
        raise NotReadyError(f"{partial} is in the way", "remove it") from None
    except OSError as error:
        partial.unlink(missing_ok=True)
        raise NotReadyError(f"{path} cannot be written: {error.strerror}") from None


def _last_line(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return "".join(c for c in lines[-1] if c.isprintable())[:500] if lines else "it said nothing"


def _object(text: str, what: str) -> Dict[str, Any]:
    plain = codec.parse_json(text, bytes_max=ANSWER_BYTES_MAX, what=what)
    if not isinstance(plain, dict):
        raise MalformedError(f"{what} is not a JSON object")
    return plain
