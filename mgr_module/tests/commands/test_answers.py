"""A large answer is the same as a small one, only longer."""

import dataclasses
import enum
import json
from typing import Optional, Tuple

from hypothesis import given
from hypothesis import strategies as st
from mgr_fakes import builders as make
from mgr_fakes.module import FakeMgr
from wcache.commands.commands import ROWS_AT_ONCE
from wcache.commands.tables import FINDINGS_MAX
from wcache.core import codec
from wcache.core.model import Finding, FindingCode, Severity


def test_many_rows_are_encoded_one_by_one_to_the_same_json():
    count = ROWS_AT_ONCE + 1
    mgr = FakeMgr(("h1", tuple(make.drive(f"sd{i}", i) for i in range(count))))
    mgr.report_all()
    (_, rows, _), (_, pretty, _) = (
        mgr.command("drive ls", format=form) for form in ("json", "json-pretty")
    )
    assert len(json.loads(rows)["drives"]) == count
    assert json.loads(rows) == json.loads(pretty)
    assert rows == json.dumps(json.loads(pretty))


def test_a_fleet_with_a_finding_for_each_drive_is_told_in_some_lines_and_a_number():
    found = Finding(FindingCode.SAVED_DIFFERS, Severity.WARNING, "", "saved write back")
    count = FINDINGS_MAX + 7
    mgr = FakeMgr(("h1", tuple(make.drive(f"sd{i}", i, findings=(found,)) for i in range(count))))
    mgr.report_all()
    text = mgr.command("status")[1]
    assert text.count("WARNING WCACHE_SAVED_DIFFERS") == FINDINGS_MAX
    assert "and 7 more WCACHE_SAVED_DIFFERS" in text
    assert len(json.loads(mgr.command("status", format="json")[1])["findings"]) == count


class Colour(str, enum.Enum):
    RED = "red"


class Level(int, enum.Enum):
    HIGH = 3


@dataclasses.dataclass(frozen=True)
class Leaf:
    KIND = "leaf"
    colour: Colour
    level: Level
    note: Optional[str] = None


@dataclasses.dataclass(frozen=True)
class Tree:
    leaves: Tuple[Leaf, ...]
    sizes: Tuple[float, ...] = ()


@given(st.lists(st.floats(allow_nan=False, allow_infinity=False), max_size=5), st.booleans())
def test_every_kind_of_value_becomes_plain(sizes, wrapped):
    tree = Tree((Leaf(Colour.RED, Level.HIGH), Leaf(Colour.RED, Level.HIGH, "x")), tuple(sizes))
    plain = codec.to_plain({"tree": [tree]} if wrapped else tree)
    found = plain["tree"][0] if wrapped else plain
    assert found == {
        "leaves": [
            {"kind": "leaf", "colour": "red", "level": 3, "note": None},
            {"kind": "leaf", "colour": "red", "level": 3, "note": "x"},
        ],
        "sizes": sizes,
    }
    kinds = {type(found["leaves"][0][name]) for name in ("colour", "level")}
    assert kinds == {str, int}
