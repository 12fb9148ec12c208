"""Which value an OSD takes: computed by us, against the mons and the OSD itself."""

from __future__ import annotations

import itertools
from typing import Dict, Iterator, Tuple

import pytest
from harness import ClusterAccess
from harness.processes import wait_until
from wcache.core.cluster import OsdInfo
from wcache.core.config_database import Config, parse_dump

pytestmark = pytest.mark.cluster

NAME = "osd_memory_target"
OSD = "osd.0"
# Their names sort before and after the option's: the mons mind what stands between two values.
BEFORE, AFTER = "osd_max_scrubs", "osd_op_complaint_time"
DEFAULT_BYTES = 4 * 2**30


@pytest.fixture
def place(steady: ClusterAccess) -> Iterator[Tuple[str, str]]:
    """Host and device class of the OSD; the database has no value of it but what the test sets."""
    of_all = [
        row["value"] for row in steady.command("config dump")
        if (row["section"], row["mask"], row["name"]) == ("osd", "", NAME)
    ]
    steady.command("config rm", who="osd", name=NAME)
    tree = {node["id"]: node for node in steady.command("osd tree")["nodes"]}
    (host,) = [n["name"] for n in tree.values() if n["type"] == "host" and 0 in n["children"]]
    yield host, tree[0]["device_class"]
    for row in steady.command("config dump"):
        if row["name"] in (NAME, BEFORE, AFTER):
            mask = f"/{row['mask']}" if row["mask"] else ""
            steady.command("config rm", who=row["section"] + mask, name=row["name"])
    for value in of_all:
        steady.command("config set", who="osd", name=NAME, value=value)


def test_the_value_that_an_osd_takes_is_computed_as_the_mons_do(
    steady: ClusterAccess, place: Tuple[str, str]
):
    host, device_class = place
    osd = OsdInfo(0, host, device_class, True, location=(("host", host), ("root", "default")))
    sections = (
        "global", "osd", f"osd/class:{device_class}", f"osd/host:{host}",
        f"osd/host:{host}/class:{device_class}", OSD,
    )
    value = {who: 2**30 + number * 2**20 for number, who in enumerate(sections)}
    before = {(row["section"], row["name"]) for row in steady.command("config dump")}
    assert not {key for key in before if key[1] == NAME}
    set_now: Dict[str, bool] = dict.fromkeys(sections, False)
    wrong = []
    neighbours = (None, ("osd", AFTER), (OSD, BEFORE))
    for neighbour in neighbours:
        if neighbour:
            steady.command("config set", who=neighbour[0], name=neighbour[1], value="3")
        for wanted in itertools.product((False, True), repeat=len(sections)):
            for who, there in zip(sections, wanted):
                if there and not set_now[who]:
                    steady.command("config set", who=who, name=NAME, value=str(value[who]))
                elif set_now[who] and not there:
                    steady.command("config rm", who=who, name=NAME)
                set_now[who] = there
            config = Config(parse_dump(steady.command("config dump"), (NAME,)))
            entry = config.of_osd(osd, NAME)
            ours = DEFAULT_BYTES if entry is None else int(entry.value)
            mons = int(steady.command("config get", who=OSD, key=NAME))
            if ours != mons:
                there = [who for who in sections if set_now[who]]
                wrong.append((neighbour, there, entry and entry.who, mons))
        if neighbour:
            steady.command("config rm", who=neighbour[0], name=neighbour[1])
    assert not wrong, wrong[:5]
    # all of them are set: the OSD itself has what the mons say, and so does `config show`
    mons = int(steady.command("config get", who=OSD, key=NAME))
    assert wait_until(
        lambda: int(steady.command("config show", target="mgr", who=OSD, key=NAME)) == mons,
        30, 0.5,
    )
    assert steady.command("config get", target=0, var=NAME) == {NAME: str(mons)}
