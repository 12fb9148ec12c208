"""The README's first screen is what `ceph wcache try` says of two made-up disks.

`GOLDEN=write` has it written anew.  The order of periods is drawn at random, so figures differ
from run to run: words are compared.
"""

import os
import random
import re
from pathlib import Path

import pytest
from mgr_fakes import builders as make
from mgr_fakes.module import FakeMgr
from module_world import WB, WT, RealAnalysis, ok

README = Path(__file__).resolve().parents[2] / "README.md"
SCREEN = re.compile(r"(?<=```\n)\$ ceph wcache try\n.*?(?=```)", re.DOTALL)


def answer():
    """Of disks that write 4 KiB in 22 ms with the cache on, in 9 ms with it off."""
    mgr = FakeMgr(
        ("h1", (make.drive("sda", 0),)), ("h2", (make.drive("sdb", 1),)),
        make_analysis=RealAnalysis,
    )
    noise = random.Random(7)
    levels = {WB: 22e6, WT: 9e6}

    def latency_ns(osd_id):
        (drive,) = mgr.probes[f"h{osd_id + 1}"].drives.values()
        return int(levels[drive.mode] * noise.lognormvariate(0.0, 0.08))

    mgr.loads.latency_ns = latency_ns
    mgr.report_all()
    ok(mgr.command("try", accept_cost=True))
    while mgr.engine.is_active():
        mgr.step()
    mgr.report_all()
    return ok(mgr.command("try"))


def words(text):
    """A text without its figures."""
    return re.sub(r"\d[\d.]*", "0", text)


@pytest.mark.slow
def test_the_first_screen_is_what_try_says():
    # the ways on that it names beside the next one would not fit
    lines = [line for line in answer().splitlines() if not line.startswith(("to ", "  `"))]
    screen = "".join(f"{line}\n" for line in ["$ ceph wcache try", *lines])
    text = README.read_text(encoding="utf-8")
    if os.environ.get("GOLDEN") == "write":
        text = SCREEN.sub(lambda _: screen, text)
        README.write_text(text, encoding="utf-8")
    assert list(map(words, SCREEN.findall(text))) == [words(screen)]
    assert len(lines) < 9
