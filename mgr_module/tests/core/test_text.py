"""Answers fit a terminal, and what is pasted stays whole."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from wcache.core.text import WIDTH, fitted, gained, pasted, since, table, when

LONG = "osd_memory_target of a host that has many OSDs and little memory for each of them"
COMMAND = "`ceph wcache campaign start --scope=class:hdd --loads=traffic --accept-cost --pairs=80`"


def test_a_column_that_is_the_same_in_every_row_is_said_once_where_the_table_is_too_wide():
    rows = [(f"p1.{i}", LONG, None, 10 * i) for i in range(2)]
    text = table(("CHANGE", "SETTING", "EMPTY OF ALL THAT COULD BE SAID OF IT", "N"), rows)
    assert text == f"CHANGE  {'SETTING':{len(LONG)}}   N\np1.0    {LONG}   0\np1.1    {LONG}  10"
    rows = [(f"p1.{i}", LONG, "write back of all drives that there are on it", i) for i in (1, 2)]
    assert table(("CHANGE", "SETTING", "FROM", "N"), rows) == (
        f"in each row SETTING: {LONG}; FROM: write back of all drives that there are on it\n"
        "CHANGE  N\np1.1    1\np1.2    2"
    )
    assert "in each row" not in table(("A", "B"), [(LONG, f"{LONG} and more")])
    assert table(("A", "B"), [("x", None), ("x", None)]) == "A  B\nx  -\nx  -", "it fits"


WORDS = st.text("ab ", max_size=90)


@given(st.lists(st.tuples(WORDS, WORDS, WORDS, st.integers(0, 9)), min_size=1, max_size=4))
def test_a_table_is_no_wider_than_a_terminal_and_loses_no_word(rows):
    rows = [(f"{i}", *row) for i, row in enumerate(rows)]
    text = table(("I", "A", "B", "C", "N"), rows)
    longest = max(len(word) for row in rows for text in row[1:4] for word in text.split(" "))
    if longest < 20:
        assert max(map(len, fitted(text).split("\n"))) <= WIDTH
    words = sorted(word for row in rows for text in row[1:4] for word in text.split())
    if "in each row" not in text:
        shown = " ".join(text.split("\n")[1:]).split()
        assert sorted(word for word in shown if word[0] in "ab") == words


def test_prose_is_wrapped_and_commands_are_not():
    text = f"  note: {LONG}: {COMMAND}, and then {LONG}"
    lines = fitted(text).split("\n")
    assert max(map(len, lines)) <= WIDTH
    assert any(COMMAND in line for line in lines)
    assert " ".join(line.strip() for line in lines) == text.strip()
    assert all(line.startswith("    ") for line in lines[1:])


def test_what_is_pasted_stands_alone_and_whole_however_long_it_is():
    long = f"ceph wcache plan --scope={'x' * 150} # {LONG}"
    assert fitted(f"next: {long}") == f"next: {long}"
    assert fitted(pasted(f"  {long}")) == f"  {long}"
    assert f"\n  `{long}`" in fitted(f"{LONG}: `{long}`; {LONG}")
    assert fitted(f"# a script\n{long}; {LONG}") == f"# a script\n{long}; {LONG}"


@pytest.mark.parametrize("at_s", [1e20, -1e20, float("inf"), float("nan")])
def test_a_stored_time_that_is_none_is_said_so(at_s):
    assert when(at_s) == "at no time"


@pytest.mark.parametrize(("ratio", "told"), [
    (1.1, "-9.1%"), (1.105, "-9.5%"), (1.12, "-11%"), (0.96, "+4.2%"), (0.5, "+100%"),
    (2.857, "-65%"), (200.0, "-99.5%"), (1e6, "-99.9%"), (1e-5, "any rise"),
])
def test_a_change_is_told_by_a_digit_more_where_a_digit_matters(ratio, told):
    assert gained(ratio) == told


@pytest.mark.parametrize(("ratios", "told"), [
    ((1.5, 0.96, 2.0), "changed by +50% (-4.0% to +100%)"),
    ((0.5, 0.0, float("inf")), "changed by -50% (-99.9% to any rise)"),
])
def test_after_over_before_is_told_in_percent(ratios, told):
    assert since(*ratios) == told
