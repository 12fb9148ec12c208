"""A large answer is the same as a small one, only longer."""

import dataclasses
import enum
import json
import time
from typing import Optional, Tuple

import pytest
from hypothesis import given
from hypothesis import strategies as st
from mgr_fakes import builders as make
from mgr_fakes.module import FakeMgr
from wcache.commands.commands import ROWS_AT_ONCE
from wcache.commands.status import FINDINGS_MAX
from wcache.core import codec
from wcache.core.model import CacheMode, Finding, FindingCode, Severity


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


LOOKS = (
    ("", {}), ("status", {}), ("drive ls", {}), ("agent ls", {}), ("campaign ls", {}),
    ("recommend", {}), ("load ls", {}), ("plan ls", {}), ("auto status", {}),
    ("try", {"dry_run": True}),
    ("campaign start", {"loads": "depth1", "dry_run": True}), ("memory status", {}),
    ("memory recommend", {}), ("mclock show", {}), ("history", {}),
    ("drive-model ls", {}), ("controller ls", {}), ("evidence ls", {}),
    ("option ls", {}),
)
LINES_MAX, PLAIN_BYTES_MAX, JSON_BYTES_MAX = 100, 16_000, 700_000
DRIVE_BYTES_MAX = 1000  # of JSON; a program that asks for all drives gets all
# Of a processor: about a second on a slow one, and the mgr's other modules wait for it.
SECONDS_MAX = 5.0


@pytest.mark.slow
def test_ten_thousand_osds_are_told_in_a_page_and_in_seconds():
    mgr = FakeMgr(*(
        (f"h{h:03}", tuple(
            make.drive(
                f"sd{chr(97 + i)}", 10 * h + i, drive_id=f"w{h:03}{i}", domain_id=f"d{h:03}{i}",
                mode=CacheMode.WRITE_BACK if h % 100 else CacheMode.WRITE_THROUGH,
            ) for i in range(10)
        )) for h in range(1000)
    ))
    mgr.report_all()
    too_much = []
    for prefix, arguments in LOOKS:
        for form in ("plain", "json"):
            began_s = time.thread_time()
            code, out, error = mgr.command(prefix, format=form, **arguments)
            spent_s = time.thread_time() - began_s
            assert code == 0, error
            most = PLAIN_BYTES_MAX if form == "plain" else JSON_BYTES_MAX
            if (prefix, form) == ("drive ls", "json"):
                most = 10_000 * DRIVE_BYTES_MAX
            if out.count("\n") >= LINES_MAX or len(out) > most or spent_s > SECONDS_MAX:
                too_much.append((prefix, form, out.count("\n"), len(out), round(spent_s, 1)))
    assert too_much == []


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
