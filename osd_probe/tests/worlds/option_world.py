"""Drives with options, a journal, and what runs the programs about them; nothing else is known."""

from dataclasses import replace

from mgr_fakes import builders as make
from wcache.core.drive.journal import EntryKind, JournalEntry
from wcache.core.drive.prior import prior_from
from wcache.core.errors import StorageError
from wcache.core.hardware import OptionValue
from wcache.core.options.entries import names_of
from wcache_probe.switching import steps

FSID = "00000000-0000-4000-8000-000000000001"
OTHER_FSID = "00000000-0000-4000-8000-000000000002"
AS_FOUND = {"scheduler": "mq-deadline", "nr_requests": "128", "wbt_lat_usec": "0"}


class Killed(Exception):
    """The probe died after a step."""


class Drives:
    """The drives of one cache domain.

    `takes` says of a drive and a value what it has after it was set: another one, or an error.
    `does` has the names of the steps that were taken, without those that only read.
    """

    def __init__(self, *names, found=AS_FOUND, takes=lambda name, value: value, **more):
        self.reports = {
            name: replace(make.drive(name, number), domain_id="domain", **more)
            for number, name in enumerate(names)
        }
        self.values = {name: dict(found) for name in names}
        self.takes = takes
        self.journal = {}
        self.does = []
        self.kill_after = None

    def look(self):
        """What a look at them finds, with all options."""
        return tuple(self._read(report) for report in self.reports.values())

    def _read(self, report):
        values = self.values[report.dev_name].items()
        options = tuple(OptionValue(name, value) for name, value in values)
        return replace(report, state=replace(report.state, options=options))

    def prior(self, name="scheduler", names=None):
        """What the mgr has stored of them, as they are now."""
        return prior_from(FSID, "domain", self.look(), names or names_of(name))

    def entry(self, fsid=FSID, name="scheduler", kind=EntryKind.LEASE):
        """A journal entry of them as they are now."""
        prior = self.prior(name)
        return JournalEntry(1, kind, "l", "domain", prior.drives, 0.0, cluster_fsid=fsid)

    def run(self, program):
        """Carry out a program to its end, as the probe does."""
        result, failure = None, None
        while True:
            try:
                step = program.throw(failure) if failure else program.send(result)
            except StopIteration as stop:
                return stop.value
            result, failure = None, None
            try:
                result = self._do(step)
            except StorageError as error:
                failure = error
            if len(self.does) == self.kill_after:
                raise Killed

    def _do(self, step):
        if isinstance(step, steps.ReadOptions):
            return self._read(step.drive).state
        self.does.append(type(step).__name__)
        if isinstance(step, steps.WriteJournal):
            self.journal[step.entry.key] = step.entry
        elif isinstance(step, steps.RemoveJournal):
            del self.journal[step.entry.key]
        else:
            assert isinstance(step, steps.SetOption), step
            assert self.journal, "nothing is set that is in no journal"
            self._set(step)
        return None

    def _set(self, step):
        name, values = step.drive.dev_name, self.values[step.drive.dev_name]
        taken = self.takes(name, step.value)
        if isinstance(taken, Exception):
            raise taken
        values[step.name] = taken
        if step.name == "scheduler":  # the kernel makes the queue anew
            values.update({"nr_requests": "256", "wbt_lat_usec": "75000"})
