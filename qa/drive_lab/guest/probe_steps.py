"""Runs in the guest: the probe's own changes on its real drives, with no mgr, and its death.

    look
    toggle DEV MODE [--die-after N] [--consent]
    apply DEV MODE [--persist] [--action ID]
    rollback [--action ID]
    restore                         `wcache-probe restore --all`

Serves one command at a time, a line of JSON words on one FIFO, its exit code and output
on another: Python starts slowly here, so each command is a fork of this process.  That
child is a probe of its own, and `--die-after N` kills it with SIGKILL after step N.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import os
import signal
import sys
import time

sys.path[:0] = ["/wcache/mgr_module", "/wcache/osd_probe"]

from wcache.core import codec, switching  # noqa: E402
from wcache.core.errors import WcacheError  # noqa: E402
from wcache.core.journal import EntryKind  # noqa: E402
from wcache.core.model import CacheMode  # noqa: E402
from wcache_probe.host import LinuxDriveHost  # noqa: E402
from wcache_probe.journal_file import StateFolder  # noqa: E402
from wcache_probe.main import main as probe_main  # noqa: E402
from wcache_probe.switcher import Switcher  # noqa: E402

WORDS, ANSWERS = "/run/probe_steps.words", "/run/probe_steps.answers"


def serve() -> None:
    """Answer for ever: {"code": ..., "out": ..., "err": ...}."""
    for path in (WORDS, ANSWERS):
        os.mkfifo(path)
    while True:
        with open(WORDS, encoding="utf-8") as asked:
            words = json.loads(asked.read())
        answer = _in_a_child(words)
        with open(ANSWERS, "w", encoding="utf-8") as told:
            json.dump(answer, told)


def _in_a_child(words: list[str]) -> dict[str, object]:
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reading)
        out, err = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            code = _command(words)
        with open(writing, "w", encoding="utf-8") as pipe:
            json.dump({"code": code, "out": out.getvalue(), "err": err.getvalue()}, pipe)
        os._exit(0)
    os.close(writing)
    with open(reading, encoding="utf-8") as pipe:
        told = pipe.read()
    _, status = os.waitpid(child, 0)
    if os.WIFSIGNALED(status):
        return {"code": 128 + os.WTERMSIG(status), "out": "", "err": ""}
    answer: dict[str, object] = json.loads(told)
    return answer


def _command(words: list[str]) -> int:
    if words == ["restore"]:
        return probe_main(["restore", "--all", "--osd-data", "/root/osds/*"])
    options = _parse(words)
    host = LinuxDriveHost(osd_data_globs=["/root/osds/*"])
    if options.command == "look":
        print(json.dumps(codec.to_plain(host.look())))
        return 0
    state = StateFolder("/var/lib/wcache", "/run/wcache")
    steps: list[str] = []

    def after_step(number: int, step: object) -> None:
        steps.append(type(step).__name__)
        if number == options.die_after:
            os.kill(os.getpid(), signal.SIGKILL)

    switcher = Switcher(host, state.journal, after_step)
    try:
        done = switcher.run(_program(options, host, switcher))
    except WcacheError as error:
        print(json.dumps({"refused": error.line(), "steps": steps}))
        return 3
    print(json.dumps({"steps": steps, "changed": done.changed}))
    return 0


def _program(
    options: argparse.Namespace, host: LinuxDriveHost, switcher: Switcher
) -> switching.Program:
    if options.command == "rollback":
        entry = switcher.entry(EntryKind.ACTION, options.action)
        assert entry is not None, "there is nothing to roll back"
        return switching.restore(entry, switcher.drives(entry.domain_id))
    mode = CacheMode(options.mode)
    drives = [drive for drive in host.look() if drive.dev_name == options.device]
    if options.command == "apply":
        return switching.apply(
            drives, switcher.entry(EntryKind.ACTION, options.action), action_id=options.action,
            expected=mode.other, mode=mode, now_s=time.time(), throwaway=False,
            consent_turn_on=True, persist=options.persist,
        )
    return switching.lease_set(
        drives, switcher.entry(EntryKind.LEASE, drives[0].domain_id), lease_id="lab", mode=mode,
        now_s=time.time(), throwaway=False, consent_turn_on=options.consent,
    )


def _parse(words: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    parser.add_argument("command", choices=("look", "toggle", "apply", "rollback"))
    parser.add_argument("device", nargs="?", default="")
    parser.add_argument("mode", nargs="?", default="")
    parser.add_argument("--die-after", type=int, default=0)
    parser.add_argument("--consent", action="store_true")
    parser.add_argument("--action", default="lab-action")
    parser.add_argument("--persist", action="store_true")
    return parser.parse_args(words)


if __name__ == "__main__":
    serve()
