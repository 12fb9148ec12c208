"""Mgrs for tests: one that answers from a script in memory, one that lives in a folder."""

from __future__ import annotations

import contextlib
import json
import os
import time
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Callable, Collection, Dict, List, Optional, Sequence

from wcache.core import across, codec
from wcache.core.drive.prior import UNKNOWN, Prior, prior_from
from wcache.core.errors import NotReadyError, WcacheError
from wcache.core.model import DeviceCache, DriveReport
from wcache.core.ports import DriveHost
from wcache.core.protocol import (
    PROTOCOL_VERSION,
    ApplyRequest,
    Hello,
    Lease,
    PollReply,
    Post,
    ReleaseRequest,
    Request,
    RollbackRequest,
    SetModeRequest,
    Task,
)
from wcache_probe.journal.journal_file import entry_file_name
from wcache_probe.mgr_link import decode_reply

FSID = "00000000-0000-4000-8000-000000000001"


@dataclass
class ScriptedMgr:
    """A MgrLink that answers as a mgr with one lease and a queue of tasks would.

    `during` is called at every call, before the answer: time passes there.
    """

    tasks: List[Task] = field(default_factory=list)
    lease: Optional[Lease] = None
    frozen: bool = False
    throwaway: bool = False
    next_poll_s: float = 0.05
    error: Optional[Exception] = None
    during: Callable[[], None] = lambda: None
    raw_reply: Optional[str] = None
    lose_next_post: bool = False
    hellos: List[Hello] = field(default_factory=list)
    posts: List[Post] = field(default_factory=list)
    timeouts_s: List[float] = field(default_factory=list)
    host: Optional[DriveHost] = None  # where it looks before it lets anything be touched
    priors: Dict[str, Prior] = field(default_factory=dict)

    def ask(self, task_id: str, request: Request) -> None:
        """Queue a task, with the prior state that was stored before the first of its kind."""
        self.tasks.append(Task(task_id, self._witnessed(request)))

    def _witnessed(self, request: Request) -> Request:
        changes = (SetModeRequest, ApplyRequest, ReleaseRequest, RollbackRequest)
        if self.host is None or not isinstance(request, changes) or request.prior.known:
            return request
        key = getattr(request, "action_id", request.domain_id)
        if isinstance(request, (SetModeRequest, ApplyRequest)) and key not in self.priors:
            with contextlib.suppress(WcacheError):
                drives = self.host.domain(request.domain_id)
                self.priors[key] = prior_from(FSID, request.domain_id, drives)
        if isinstance(request, ReleaseRequest):
            self.priors.setdefault(key, UNKNOWN)
            return replace(
                request, prior=self.priors.pop(key),
                lease_id=self.lease.lease_id if self.lease else "",
            )
        return replace(request, prior=self.priors.get(key, UNKNOWN))

    def poll(self, hello_json: str, timeout_s: float) -> PollReply:
        self.timeouts_s.append(timeout_s)
        self.hellos.append(codec.loads(Hello, hello_json, bytes_max=4096, what="hello"))
        return self._reply()

    def post(self, post_json: str, timeout_s: float) -> PollReply:
        self.timeouts_s.append(timeout_s)
        self.during()
        if self.error is not None:
            raise self.error
        post = codec.loads(Post, post_json, bytes_max=1_000_000, what="post")
        if self.lose_next_post and post.task_id:
            self.lose_next_post = False
            raise NotReadyError("the mgr restarts")
        self.posts.append(post)
        if self.tasks and self.tasks[0].task_id == post.task_id:
            del self.tasks[0]
        return self._reply(quiet=True)

    def _reply(self, quiet: bool = False) -> PollReply:
        if not quiet:
            self.during()
        if self.error is not None:
            raise self.error
        if self.raw_reply is not None:
            return decode_reply(self.raw_reply)
        task = self.tasks[0] if self.tasks else None
        return PollReply(
            PROTOCOL_VERSION, self.next_poll_s, task, self.lease, self.frozen, self.throwaway
        )

    def outcome(self, task_id: str):
        """The outcome that was posted last for a task."""
        return next(p.outcome for p in reversed(self.posts) if p.task_id == task_id)

    def notices(self) -> str:
        """All that the probe did by itself."""
        return "\n".join(notice.text for post in self.posts for notice in post.notices)


class StoredPriors:
    """What a mgr has stored of drives before a change, for tests of a probe process.

    `drives` reads those of a cache domain.  `entries` names the files of the probe's journal:
    while the entry of a change stands, what was stored before that change is sent again.
    """

    def __init__(
        self,
        drives: Callable[[str], Sequence[DriveReport]],
        entries: Callable[[], Collection[str]],
    ) -> None:
        self._drives = drives
        self._entries = entries
        self._priors: Dict[str, Prior] = {}

    def sent_with(self, request: Request) -> Request:
        """The request as the mgr sends it: a change with the prior state."""
        if not isinstance(request, (SetModeRequest, ApplyRequest)) or request.prior.known:
            return request
        if isinstance(request, SetModeRequest):
            key = f"lease/{request.domain_id}"
        else:
            key = f"action/{request.action_id}"
        if key not in self._priors or entry_file_name(key) not in self._entries():
            drives = [_readable(drive) for drive in self._drives(request.domain_id)]
            self._priors[key] = prior_from("", request.domain_id, drives)
        return replace(request, prior=self._priors[key])


def _readable(drive: DriveReport) -> DriveReport:
    """The drive with a cache mode: of one that can't be read a mgr stores nothing, and it asks
    for nothing.  A test asks all the same, to hear what the probe itself says.
    """
    if drive.mode is not None:
        return drive
    return replace(drive, state=replace(drive.state, device_cache=DeviceCache.WRITE_BACK))


class FolderMgr:
    """The same over a folder, for a probe in a process of its own.

    `reply.json` is what the mgr says; without it there is no mgr.  A task in it is left
    out once it was answered.  Posts are appended to `posts.jsonl`.  `priors` adds what it
    has stored to what a test asks for.  `version` is the protocol that it speaks.
    """

    def __init__(
        self, folder: Path, priors: Optional[StoredPriors] = None, version: int = PROTOCOL_VERSION
    ) -> None:
        self.folder = folder
        self.priors = priors
        self.version = version

    # the probe's side

    def poll(self, hello_json: str, timeout_s: float) -> PollReply:
        with open(self.folder / "hellos.jsonl", "a", encoding="utf-8") as file:
            file.write(hello_json + "\n")
        return self._reply()

    def post(self, post_json: str, timeout_s: float) -> PollReply:
        if not (self.folder / "reply.json").exists():
            raise NotReadyError("there is no mgr")
        with open(self.folder / "posts.jsonl", "a", encoding="utf-8") as file:
            file.write(post_json + "\n")
        return self._reply()

    def _reply(self) -> PollReply:
        try:
            reply = decode_reply((self.folder / "reply.json").read_text())
        except FileNotFoundError:
            raise NotReadyError("there is no mgr") from None
        if reply.task is not None and reply.task.task_id in {p["task_id"] for p in self.posts()}:
            reply = PollReply(
                reply.version, reply.next_poll_s, None, reply.lease, reply.frozen, reply.throwaway
            )
        return reply

    # the test's side

    def say(
        self, request: Optional[Request] = None, task_id: str = "", lease: Optional[Lease] = None,
        frozen: bool = False, next_poll_s: float = 0.02,
    ) -> None:
        """What the mgr answers from now on."""
        if request is not None and self.priors is not None:
            request = self.priors.sent_with(request)
        task = Task(task_id, request) if request else None
        reply = PollReply(self.version, next_poll_s, task, lease, frozen, True)
        self._answer(codec.dumps(reply))

    def say_across(self, *keys: str, next_poll_s: float = 0.02) -> None:
        """What it answers to a probe of another protocol: these changes are to go back."""
        self._answer(across.encode(across.Order(self.version, next_poll_s, keys)))

    def _answer(self, text: str) -> None:
        temporary = self.folder / "reply.new"
        temporary.write_text(text)
        os.rename(temporary, self.folder / "reply.json")

    def fall_silent(self) -> None:
        """The mgr is gone."""
        (self.folder / "reply.json").unlink()

    def posts(self) -> List[dict]:
        """Every post so far."""
        return self._lines("posts.jsonl")

    def hellos(self) -> List[dict]:
        """Every poll so far."""
        return self._lines("hellos.jsonl")

    def instances(self) -> int:
        """How many starts of the probe have called so far."""
        calls = (*self.hellos(), *self.posts())
        return len({call["instance_id"] for call in calls})

    def _lines(self, name: str) -> List[dict]:
        try:
            lines = (self.folder / name).read_text().split("\n")
        except FileNotFoundError:
            return []
        return [json.loads(line) for line in lines[:-1]]

    def wait_for(self, what: Callable[[], object], seconds: float = 20.0) -> object:
        """Wait until something is so; returns it."""
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            found = what()
            if found:
                return found
            time.sleep(0.01)
        raise AssertionError(f"not within {seconds} s; posts: {self.posts()[-3:]}")

    def answer_to(self, task_id: str) -> dict:
        """The outcome of a task, when it comes."""
        found = self.wait_for(
            lambda: [p for p in self.posts() if p["task_id"] == task_id]
        )
        return found[-1]["outcome"]
