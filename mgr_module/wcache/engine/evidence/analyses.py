"""Results of records, as the analysis child finds them."""

from __future__ import annotations

import logging
import queue
from typing import Callable, Dict, Optional, Protocol, Set, Tuple

from ...core import events
from ...core.codec import one_line
from ...core.drive.proofs import AcceptedProof, AcceptedProofs
from ...core.options.entries import arms_of
from ...core.record import Record
from ...core.verdict.foreign import Evidence
from ...core.verdict.result import (
    BEING_ANALYSED,
    Analysed,
    Result,
    TrustedModel,
    TrustedModels,
    not_analysed,
)
from ..storing.archive import ACCEPTED_PROOFS, FOREIGN, RECORD, RESULT, TRUSTED, Archive

# How often a record that could not be analysed is tried again.
RETRY_S = 10.0

_Found = Optional[Analysed]
Done = Callable[[_Found, str], None]


class Analysis(Protocol):
    """Port: the statistics, in a child process."""

    def start(self, record: Record, done: Done) -> None:
        """Analyse; calls `done(found, error)` once, from another thread."""


class Analyses:
    """The results of all records; `error` says why nobody can analyse at the moment.

    Guarded by the engine's lock; `wake` is called when there is something new to look at.
    """

    def __init__(
        self, *, analysis: Analysis, archive: Archive, wake: Callable[[], None],
        log: logging.Logger,
    ) -> None:
        self._analysis = analysis
        self._archive = archive
        self._wake = wake
        self._log = log
        # what admins vouch for: drive models, and what a host has shown of one
        self.trusted: Tuple[TrustedModel, ...] = ()
        self.accepted: Tuple[AcceptedProof, ...] = ()
        self._retry_at_s = 0.0
        self._retries = 0
        self.asked: Set[str] = set()  # ids of records that are with the child
        self._answers: queue.SimpleQueue[Tuple[Record, _Found, str]] = queue.SimpleQueue()
        self.results: Dict[str, Result] = {}
        # the newest file of each other cluster, by its fsid
        self.foreign: Dict[str, Evidence] = {}
        self.error = ""

    def load(self) -> None:
        """Take up the stored results, and what was imported."""
        self.results.update(self._archive.all(RESULT))
        self.foreign = self._archive.all(FOREIGN)
        self.trusted = (self._archive.get(TRUSTED) or TrustedModels()).items
        self.accepted = (self._archive.get(ACCEPTED_PROOFS) or AcceptedProofs()).items

    def catch_up(self) -> None:
        """Have every stored record analysed that has no result yet."""
        for record_id in self._archive.names(RECORD):
            known = self.results.get(record_id)
            if known is None or not known.analysed:
                record = self._archive.get(RECORD, record_id)
                if record is not None:
                    self.final(record)

    def tick(self, now_s: float) -> None:
        """Hear what was analysed, and try again what could not be."""
        self.hear()
        if now_s >= self._retry_at_s:
            self._retry(now_s)

    def look(self, action: events.AskAnalysis, decided: Callable[[events.Decided], None]) -> None:
        """Look at an experiment under way; `decided` is called from another thread."""

        def done(found: _Found, error: str) -> None:
            self.error = error
            stop, same = (found.stop, found.seems_same) if found is not None else (False, False)
            decided(events.Decided(action.token, stop, error, same))

        self._analysis.start(action.record, done)

    def final(self, record: Record) -> None:
        """Have a finished record analysed."""
        self._keep(not_analysed(record, BEING_ANALYSED))
        self.asked.add(record.record_id)

        def done(found: _Found, error: str) -> None:
            self._answers.put((record, found, error))
            self._wake()

        self._analysis.start(record, done)

    def hear(self) -> None:
        """Keep what the child has answered since; one that is lost is analysed again."""
        while True:
            try:
                record, found, error = self._answers.get_nowait()
            except queue.Empty:
                return
            self.error = error
            self.asked.discard(record.record_id)
            self._keep(not_analysed(record, error) if found is None else found.result)

    def _keep(self, result: Result) -> None:
        self.results[result.record_id] = result
        if result.why != BEING_ANALYSED:
            said = arms_of(result.option).said(result.verdict)
            self._log.info(
                "mgr: %s: %s: %s [%s osd.%d]", result.record_id, said, one_line(result.why),
                result.hostname, result.osd_id,
            )
        self._wake()
        self._archive.put_later(RESULT, result)

    def _retry(self, now_s: float) -> None:
        """Try a record again that nobody could analyse: numpy may have been installed."""
        self._retry_at_s = now_s + RETRY_S
        waiting = sorted(
            key for key, result in self.results.items()
            if not result.analysed and key not in self.asked
        )
        self._retries += 1
        for offset in range(len(waiting)):
            # a record that fails for a reason of its own must not hold up the others
            record_id = waiting[(self._retries + offset) % len(waiting)]
            record = self._archive.get(RECORD, record_id)
            if record is not None:
                self.final(record)
                return
        if not self.asked:
            self.error = ""  # nothing waits for it any more
