"""The shape of what is stored or sent does not change without a new number."""

from __future__ import annotations

import json
import re
import subprocess
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from typing import ClassVar, Optional, Tuple, Union

import pytest
import shapes
from shapes import Shape, committed, complaint, digest, faults, kept, now, text_of, wholes
from wcache.core import versions
from wcache.core.drive.journal import FrozenEntry, frozen
from wcache.core.model import CacheMode

ROOT = Path(__file__).resolve().parents[2]


def test_no_shape_has_changed_without_a_new_number():
    said = complaint(now(), kept(shapes.FILE.read_text()), committed())
    assert not said, said


def test_the_frozen_part_of_a_journal_entry_is_what_it_was():
    """Earlier and later probes go by it, so it has no number that could rise.

    A word may be added, and its new digest then stands here: a probe that does not know the word
    pins the drives by their names.  Nothing else of it changes.
    """
    assert digest(FrozenEntry) == "566cd29d49b49fc46dafc742"
    drive = {
        "drive_id": "d", "dev_name": "sda", "transport": "sas", "mode": "write back",
        "state": {"page": {"saved": "write through"}},
    }
    plain = {"kind": "lease", "owner_id": "l", "domain_id": "d", "drives": [drive]}
    (found,) = frozen(json.dumps(plain)).drives
    assert found.saved is CacheMode.WRITE_THROUGH, "it stands at state.page.saved for good"


def test_what_is_read_from_a_text_has_a_number():
    # `versions` demands one of the types it reads; nothing else may decode a whole value
    # (FrozenEntry is what every version has, OptionTrial a part of a result that says its own)
    parts = {"Materiality", "ObservedLoad", "FrozenEntry", "FrozenDrive", "OptionTrial"}
    for folder in ("mgr_module/wcache", "osd_probe/wcache_probe", "cli/wcache_cli"):
        for path in sorted((ROOT / folder).rglob("*.py")):
            if path.name in ("codec.py", "versions.py"):
                continue
            read = re.findall(r"codec\.(?:decode|loads)\(\s*(\w+)", path.read_text())
            assert set(read) <= parts, (path, "read it by core.versions, with a VERSION")


def test_every_type_with_a_number_writes_and_reads_it():
    for name, cls in wholes().items():
        assert cls.VERSION >= 1, name
        assert cls.VERSION not in versions.reads(cls)[1:], name
        with pytest.raises(versions.VersionError, match=f"version {cls.VERSION + 1}"):
            versions.take(cls, {"version": cls.VERSION + 1, "nobody": "knows it"}, "it")


@dataclass(frozen=True)
class Read:
    VERSION: ClassVar[int] = 4
    READS: ClassVar[Tuple[int, ...]] = (3,)
    a: int = 0


@pytest.mark.parametrize(("number", "why"), [
    (3, ""), (4, ""), (5, "a newer wcache wrote it"), (2, "an older wcache wrote it"),
    (0, "it has no version, and 3 or 4 is known here"),
])
def test_a_value_of_an_earlier_number_is_read_where_its_type_says_so(number, why):
    if not why:
        assert versions.take(Read, {"version": number, "a": 7}, "it") == Read(7)
        return
    with pytest.raises(versions.VersionError, match=why):
        versions.take(Read, {"version": number, "a": 7}, "it")


class Word(str, Enum):
    ONE = "one"


class MoreWords(str, Enum):
    TWO, ONE = "two", "one"


@dataclass(frozen=True)
class Inner:
    word: Word = Word.ONE


@dataclass(frozen=True)
class WiderInner:
    word: MoreWords = MoreWords.ONE


@dataclass(frozen=True)
class Tagged:
    KIND: ClassVar[str] = "tagged"
    a: int


@dataclass(frozen=True)
class Whole:
    a: int
    b: Tuple[Inner, ...] = ()
    c: Union[None, Inner, Tagged] = None


def variant(**changes):
    """Whole with fields replaced: a name and (type, field)."""
    annotations = {"a": int, "b": Tuple[Inner, ...], "c": Union[None, Inner, Tagged]}
    defaults = {"b": (), "c": None}
    for name, (hint, default) in changes.items():
        annotations[name] = hint
        defaults[name] = default
    annotations = {n: h for n, h in annotations.items() if h is not None}
    defaults = {n: d for n, d in defaults.items() if n in annotations and d is not ...}
    return dataclass(frozen=True)(
        type("Variant", (), {"__annotations__": annotations, "__module__": __name__, **defaults})
    )


@pytest.mark.parametrize("changed", [
    variant(d=(int, 0)),
    variant(c=(None, None)),
    variant(a=(float, ...)),
    variant(a=(int, 0)),
    variant(a=(int, field(metadata={"max": 7}))),
    variant(b=(Tuple[Inner, ...], field(default=(), metadata={"max_items": 7}))),
    variant(b=(Tuple[Inner, ...], field(default=(), metadata={"min_items": 1}))),
    variant(b=(Tuple[WiderInner, ...], ())),
    variant(c=(Optional[Inner], None)),
    variant(c=(Union[Inner, Tagged], None)),
], ids=["new field", "field gone", "type", "required", "limit", "items", "least", "word", "member",
        "none"])
def test_all_that_a_reader_would_stumble_over_is_in_the_digest(changed):
    assert digest(Whole) == digest(variant())
    assert digest(changed) != digest(Whole)


OLD = {"m.A": Shape(3, "aa"), "m.B": Shape(1, "bb")}


@pytest.mark.parametrize(("new", "same", "old"), [
    (OLD, [], []),
    ({**OLD, "m.A": Shape(3, "ac")}, ["m.A"], []),
    ({**OLD, "m.A": Shape(2, "ac")}, ["m.A"], []),
    ({**OLD, "m.A": Shape(2, "aa")}, ["m.A"], []),
    ({**OLD, "m.A": Shape(4, "ac")}, [], ["m.A"]),
    ({**OLD, "m.C": Shape(1, "cc")}, [], ["m.C"]),
    ({"m.A": OLD["m.A"]}, [], ["m.B"]),
])
def test_a_number_has_to_rise_with_its_shape(new, same, old):
    assert faults(new, OLD) == (same, old)


@pytest.mark.parametrize(("new", "same"), [
    (Shape(4, "ad"), ["m.A"]), (Shape(3, "ab"), ["m.A"]), (Shape(5, "ac"), []),
    (Shape(4, "ac"), []),
])
def test_a_number_that_git_knows_with_another_shape_is_not_used_again(new, same):
    """Also where the file was written by hand, or its line dropped meanwhile."""
    past = {("m.A", Shape(3, "aa")), ("m.A", Shape(4, "ac"))}
    for file in ({"m.A": new}, {}):
        assert faults({"m.A": new}, file, past)[0] == same


def test_what_git_knows_is_read_from_all_commits_of_the_file(monkeypatch, tmp_path):
    file = tmp_path / "shapes.txt"
    monkeypatch.setattr(shapes, "FILE", file)
    assert committed() == set(), "no repository"

    def git(*words):
        subprocess.run(["git", "-c", "user.name=a", "-c", "user.email=a@b", *words], cwd=tmp_path,
                       check=True, capture_output=True)

    git("init")
    versions_of = [{"m.A": Shape(1, "aa"), "m.B": Shape(1, "bb")}, {"m.A": Shape(2, "ab")}]
    for each in versions_of:
        file.write_text(text_of(each))
        git("add", file.name)
        git("commit", "-m", "one")
    assert committed() == {one for each in versions_of for one in each.items()}


@pytest.mark.slow
def test_a_developer_is_told_all_that_there_is_to_do(monkeypatch, tmp_path, capsys):
    name = "wcache.core.protocol.Post"
    changed = {**now(), name: now()[name]._replace(digest="another")}
    file = tmp_path / "shapes.txt"
    file.write_text(text_of(changed))
    monkeypatch.setattr(shapes, "FILE", file)
    assert shapes.main() == 1, "a digest is not written over another of the same number"
    said = capsys.readouterr().out
    for words in (
        name, "core/protocol.py:", "VERSION: ClassVar[int] = PROTOCOL_VERSION", "make shapes",
        "qa/shapes.txt", "READS", "git checkout --ours",
    ):
        assert words in said, words
    assert file.read_text() == text_of(changed)
    file.write_text(text_of({**changed, name: Shape(changed[name].number - 1, "another")}))
    assert shapes.main() == 0
    assert kept(file.read_text()) == now()
