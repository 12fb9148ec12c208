"""Recordings of what programs yield: `steps/*.txt` beside the tests, a word for each step.

`GOLDEN=write` writes the files anew; read the difference before you commit it.  A file has each
sequence once, with a number; below, each case has the numbers of those that it leads to.  So the
files hold which steps are taken, in which order, after what, and how it ends; not the words of
errors, and not what a step reads.  `steps/README` says how to read them.
"""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

from switching_scripts import recovery, worlds
from switching_search import CRASHES_MAX, explore
from wcache.core.errors import StorageError, WcacheError
from wcache.core.model import CacheMode
from wcache_probe.switching import steps

FOLDER = Path(__file__).parents[1] / "switching" / "steps"
MODES = {CacheMode.WRITE_BACK: "+", CacheMode.WRITE_THROUGH: "-", None: "."}
STEPS = tuple(steps._WORDS)


def require_same(name, text):
    """Assert that a recording is as its file has it; or write the file."""
    path = FOLDER / f"{name}.txt"
    if os.environ.get("GOLDEN") == "write":
        FOLDER.mkdir(exist_ok=True)
        path.write_text(text)
    now, recorded = text.splitlines(), path.read_text().splitlines()
    differ = [line for line in zip(now, recorded) if line[0] != line[1]][:3]
    assert (differ, len(now)) == ([], len(recorded)), f"{path.name}: now, and as recorded"


# ---- words


def word(step):
    """A step in a word; drives other than `d` are named."""
    if isinstance(step, steps.RemoveJournal):
        return "D"
    if isinstance(step, steps.WriteJournal):
        return journal(step.entry)
    name = "" if step.drive.drive_id == "d" else f"{step.drive.dev_name}."
    return name + _of_drive(step)


def _of_drive(step):
    if isinstance(step, (steps.ReadState, steps.ReadOptions)):
        return "r"
    if isinstance(step, steps.Pin):
        return "p"
    if isinstance(step, steps.Flush):
        return "f"
    if isinstance(step, steps.SetCache):
        return MODES[step.mode] + "rescue" * step.rescue
    if isinstance(step, steps.SaveCache):
        return f"F{MODES[step.saved]}" if step.mode is None else f"S{MODES[step.mode]}"
    if isinstance(step, steps.SetOption):
        return f"{step.name}={step.value}" + "(back)" * step.back
    assert isinstance(step, steps.AskCache), step
    return "ask(agreed)" if step.agreed else "ask"


def journal(entry):
    """A journal entry: its kind, and of each drive the mode, what it saves, and its options."""
    if entry is None:
        return "-"
    drives = "+".join(
        "/".join((MODES[one.mode], MODES[one.state.page.saved] + "r" * one.state.page.by_rule,
                  *(f"{option.name}={option.value}" for option in one.options)))
        for one in entry.drives
    )
    return f"W({entry.kind.value},{drives}{',lasts' * entry.persisted})"


def ended(error):
    """How a program ended."""
    return "done" if error is None else type(error).__name__


# ---- programs that are run by the search


class Sequences:
    """The sequences of the histories of scripts, and their numbers in the order of first need."""

    def __init__(self):
        self._words = {}
        self._numbers = {}

    def of(self, history):
        """The words of the steps that were taken; with its end where the script has ended."""
        found = self._words.get(history)
        if found is None:
            before, words = history._before, ""
            if before is not None:
                words = self.of(before)
                if isinstance(before.step, STEPS):
                    failed = isinstance(history._value, WcacheError)
                    words += word(before.step) + "! " [not failed:]
            end = f"{history.ended}" if history.step is None else ""
            found = self._words[history] = words
            self._words[history, "end"] = words + end
        return found

    def whole(self, history):
        """The sequence of a script that has ended."""
        self.of(history)
        return self._words[history, "end"]

    def number(self, text):
        """The number of a sequence."""
        return self._numbers.setdefault(text, len(self._numbers) + 1)

    def numbers(self, texts):
        """The numbers of sequences in short."""
        return ranges({self.number(text) for text in sorted(texts)})

    @property
    def lines(self):
        """All sequences that have a number; `^12` for the first 12 words of the one before."""
        told, before = [], []
        for text, number in self._numbers.items():
            words = text.split()
            same = os.path.commonprefix([before, words])
            rest = words if len(same) < 3 else [f"^{len(same)}", *words[len(same):]]
            told.append(" ".join((str(number), *rest)))
            before = words
        return told


def ranges(numbers):
    """Numbers with what is in a row joined: 1-3 7."""
    parts = []
    for number in sorted(numbers):
        if parts and parts[-1][1] == number - 1:
            parts[-1][1] = number
        else:
            parts.append([number, number])
    return " ".join(str(a) if a == b else f"{a}-{b}" for a, b in parts) or "-"


def digest(lines):
    """A digest of lines, whatever their order."""
    return hashlib.sha256("\n".join(sorted(lines)).encode()).hexdigest()[:8]


def flag(value, words):
    return "." if value is None else words[not value]


def prior(world):
    """What a drive was before a script, in words."""
    return "".join((
        flag(world.on, "+-"), flag(world.wakes_on, "+-"), " ", flag(world.view, "bt"),
        flag(world.layer, "bt"), " ", flag(world.savable, ("page", "rule")),
    ))


def now(world):
    """What a drive is in the middle of a script, all of it that a step or event can change."""
    return "".join(flag(one, "10") for one in (
        world.on, world.wakes_on, world.view, world.override, world.layer, world.remembered,
        world.rule, world.boot_rule,
    ))


def drive_words(world):
    """What a drive is like, in words."""
    return f"{world.transport.value} wakes-{world.wakes_on:d} page-{world.savable:d} " \
        f"view-{world.view:d} dm-{world.layer}"


class Way:
    """One script from one prior state: all moments, and all ends."""

    def __init__(self, script, world, events_max, sequences):
        self._sequences = sequences
        self._moments = []
        self._texts = {}
        self.found, self.states, self.ends = explore(
            script, recovery, world, events_max, self._watch
        )
        for node in self.ends:
            self._watch(node, None)
        self._events_max = events_max
        self._script = script

    def _watch(self, node, _step):
        self._moments.append(node.moment)

    def _text(self, thing, words):
        found = self._texts.get(id(thing))
        if found is None:
            found = self._texts[id(thing)] = words(thing)
        return found

    @property
    def line(self):
        """Calm, with a failure or an event, after a crash or a new kernel; states, ends, digest."""
        calm, first, again = set(), set(), set()
        for node in self.ends:
            moment = node.moment
            text = self._sequences.whole(moment.history)
            if moment.history.script is recovery:
                again.add(text)
            elif (moment.events, moment.crashes) == (self._events_max, CRASHES_MAX):
                calm.add(text)
            else:
                first.add(text)
        told = [self._sequences.numbers(texts) for texts in (calm, first, again)]
        return (
            f"{' | '.join(told)} | {self.states} {len(self.ends)} {digest(self._lines())}"
        )

    def _lines(self):
        for moment in self._moments:
            history, world, twin, entry, events, crashes = moment
            yield " ".join((
                self._sequences.whole(history), self._text(world, now), self._text(twin, now),
                self._text(entry, journal), str(events), str(crashes),
            ))


def of_programs(script, transport):
    """The recording of all ways with nothing beside them but crashes; its sequences, a digest."""
    text = ways(script, transport, 0)[1].partition("\n")[2]
    return (*text.partition("\n\n")[0].splitlines(), digest(text.splitlines()))


def ways(script, transport, events_max):
    """The unsafe ways of a script through all prior states, and the recording of all ways."""
    sequences, found, lines, states = Sequences(), [], [], 0
    for world in worlds(transport):
        way = Way(script, world, events_max, sequences)
        lines.append(f"{prior(world)}: {way.line}")
        found += [(world, one) for one in way.found]
        states += way.states
    head = f"# {script.__name__}, {transport.value}: {states} states"
    return found, "\n".join((head, *sequences.lines, "", *lines, ""))


# ---- programs that are run by worlds of their own


class Stopped(Exception):
    """The probe died."""


def told(program, words, fails_at=None, stops_at=None):
    """A program whose steps go into `words`; one fails with nothing done, or the probe dies after.

    Steps are counted from the first of `words`.
    """
    value, failure = None, None
    while True:
        try:
            step = program.throw(failure) if failure else program.send(value)
        except StopIteration as stop:
            words.append("done")
            return stop.value
        except WcacheError as error:
            words.append(type(error).__name__)
            raise
        number = len(words)
        words.append(word(step))
        value = failure = None
        if number == fails_at:
            failure = StorageError("the step failed")
        else:
            try:
                value = yield step
            except WcacheError as error:
                failure = error
        words[number] += "!" * (failure is not None)
        if number == stops_at:
            words.append("KILLED")
            raise Stopped


def each_end(run):
    """What `run(words, fails_at, stops_at)` does calmly, with each step failing, and killed at it.

    Yields how it was disturbed, and the sequence.
    """
    def sequence(**how):
        words = []
        run(words, **how)
        return words

    calm = sequence()
    yield "calm", " ".join(calm)
    for number in range(len(calm)):
        yield "fails", " ".join(sequence(fails_at=number))
        yield "killed", " ".join(sequence(stops_at=number))


def listed(what, cases):
    """A recording: all sequences, and for each case those that it leads to, by how.

    `cases` are (name, how it was disturbed, sequence).
    """
    sequences, by_case = Sequences(), {}
    for name, how, text in cases:
        by_case.setdefault(name, {}).setdefault(how, []).append(sequences.number(text))
    alike = {}
    for name, found in by_case.items():
        told_of = " | ".join(
            f"{how} {' '.join(map(str, dict.fromkeys(numbers)))}" for how, numbers in found.items()
        )
        alike.setdefault(told_of, []).append(name)
    lines = [f"{'; '.join(names)}: {text}" for text, names in alike.items()]
    return "\n".join((f"# {what}", *sequences.lines, "", *lines, ""))
