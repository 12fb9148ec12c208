"""A command that is printed stays one command, whatever a probe or an OSD calls its things."""

import errno
import json
import re
import shlex
from dataclasses import replace

from memory_world import GIB, watch
from memory_world import a_mgr as a_mgr_with_memory
from mgr_fakes import builders as make
from mgr_fakes.module import FakeMgr
from module_world import ok, refused, said
from prior_world import left_over
from wcache.core.config_database import LABELS_OF, ConfigEdit
from wcache.core.model import Verdict
from wcache.core.verdict.explaining import settling
from wcache.core.verdict.recommend import Recommendation
from wcache.knobs.memory.advice import advise, cephadm_settings, rook_patch

EVIL = "d; reboot $(reboot) 'x\" #"


def pasted(text, verb):
    """The words of each command between backticks that has this verb; there must be one."""
    found = [shlex.split(one) for one in re.findall("`([^`]*)`", text) if verb in one]
    assert found, text
    return found


def in_debt():
    """A mgr with a host whose drive of that name is owed its prior state."""
    mgr = FakeMgr(("h1", (make.drive("sda", 0, domain_id=EVIL), make.drive("sdb", 1))))
    mgr.report_all()
    _, domain_id = left_over(mgr)
    assert domain_id == EVIL
    return mgr


def test_the_name_of_a_cache_domain_is_one_word_of_what_gives_it_up():
    mgr = in_debt()
    accept = ["ceph", "wcache", "drive", "accept", "h1", EVIL]
    told = ok(mgr.command("campaign start", dry_run=True, loads="depth1"))
    assert pasted(told, "drive accept") == [accept]
    del mgr.probes["h1"]
    mgr.now_s += 600.0
    mgr.step()
    error = refused(
        mgr, "drive accept", errno.EAGAIN, hostname="h1", domain_id=EVIL, accept_cost=True
    )
    assert pasted(error, "wcache-probe accept") == [["wcache-probe", "accept", EVIL, "--yes"]]
    stays = said(mgr, "agent rm", hostname="h1", host_is_gone=True)["stays"]
    assert pasted("\n".join(stays), "drive accept") == [[*accept, "--accept-cost"]]


def test_the_section_of_a_setting_and_the_host_of_a_label_are_one_word():
    for who, words in (
        (f"osd/class:{EVIL}", ["config", "set", f"osd/class:{EVIL}", "name", "1"]),
        (f"{EVIL}{LABELS_OF}", ["orch", "host", "label", "add", EVIL, "name"]),
    ):
        edit = ConfigEdit(who, "name", "1", None)
        assert shlex.split(edit.command) == ["ceph", *words]
        back = shlex.split(edit.inverse.command)
        assert "rm" in back
        assert back[-2:] == [words[-2] if words[0] == "orch" else words[2], "name"]


def test_the_name_of_a_host_is_one_word_of_the_ways_around_cephadm():
    mgr = a_mgr_with_memory(hosts=1)
    watch(mgr)
    facts = mgr.memory.facts.gather(mgr.engine.world())
    host = replace(facts.hosts[0], name=EVIL, autotuned=True)
    *_, label = cephadm_settings([host])
    assert shlex.split(label)[-2:] == [EVIL, "_no_autotune_memory"]
    (kept,) = advise(replace(facts, hosts=(host,)))
    (words,) = pasted(kept.left_alone[0], "--override")
    assert words[-1] == f"--override=autotuner:{EVIL}"


def test_the_name_of_a_device_class_is_one_word_of_a_patch_for_rook():
    mgr = a_mgr_with_memory(hosts=1, classes=(EVIL, "ssd"))
    for osd in mgr.osd_memory.osds.values():
        osd.env_bytes = 2 * GIB
    watch(mgr)
    facts = mgr.memory.facts.gather(mgr.engine.world())
    patches = [json.loads(shlex.split(line)[-1]) for line in rook_patch(facts, facts.hosts)]
    assert f"osd-{EVIL}" in {name for plain in patches for name in plain["spec"]["resources"]}


def test_the_name_of_a_host_to_measure_on_is_one_word():
    found = Recommendation(
        "hdd", make.MODEL, Verdict.INSUFFICIENT, None, "", (), (), (), measure_on=EVIL
    )
    ((_, command),) = settling(found, [])
    assert shlex.split(command)[-1] == f"--scope=host:{EVIL}"
