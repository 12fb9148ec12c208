"""Every page shows what the commands answer, in all states of the module, and nothing else."""

import json
import re
from dataclasses import replace

import pytest
from gate_world import HOSTS, GateMgr
from memory_world import a_mgr as a_mgr_with_memory
from mgr_fakes import builders as make
from mgr_fakes.module import FakeMgr
from module_world import RealAnalysis, a_mgr, applied, measured, ok, said, start
from wcache.commands.commands import COMMANDS
from wcache.core.hardware import OptionValue
from wcache.core.model import DriveModel
from wcache.web.pages import READS, ROWS_MAX, Reader
from web_world import HOSTILE, PLACES, Blocks, Site, with_changes, words


def test_the_page_asks_only_commands_that_need_no_right_but_to_read():
    by_prefix = {command.prefix: command for command in COMMANDS}
    assert {by_prefix[prefix].perm for prefix in READS} == {"r"}
    with pytest.raises(ValueError, match="no command of the page"):
        Reader(lambda cmd: (0, "{}", ""), Blocks())("freeze")


@pytest.mark.slow
@pytest.mark.parametrize("world", [FakeMgr, a_mgr, measured, applied, a_mgr_with_memory])
def test_every_page_is_there_in_every_state(world):
    site = Site(world())
    for place in PLACES:
        assert "<main" in site.page(place)


@pytest.mark.slow
def test_the_overview_says_the_sentence_and_the_verdict_by_device_class():
    mgr = measured()
    text = words(Site(mgr).page("/"))
    status = said(mgr, "status")
    assert status["summary"]["text"] in text
    assert "hdd ACME HD1 1.0 depth1, cache off: 20.00 ms -> 4.00 ms (-80%, 99%: -80 to -80)" in text
    assert "hdd ACME HD1 1.0 write through 3 3 depth1 on 3 drives (-80%, 99%: -80 to -80)" in text
    (found,) = said(mgr, "recommend")["recommendations"]
    assert [round(load["ratio"], 2) for load in found["loads"]] == [5.0]
    assert f"Next: {' '.join(status['summary']['next'].split())}" in text


def test_findings_stand_on_the_overview_with_what_to_do():
    mgr = a_mgr()
    ok(mgr.command("freeze"))
    text = words(Site(mgr).page("/"))
    assert "WCACHE_FROZEN" in text
    assert "until you run ceph wcache freeze --thaw" in text


def test_findings_that_are_cut_off_are_counted_with_the_command_that_lists_all_of_them():
    drives = tuple(
        make.drive(f"sd{n}", n, state=make.unsafe_drive().state) for n in range(ROWS_MAX + 1))
    mgr = FakeMgr(("h1", drives))
    mgr.report_all()
    more = len(said(mgr, "status")["findings"]) - ROWS_MAX
    assert f"And {more} more: ceph wcache status --all" in words(Site(mgr).page("/"))


def test_drives_that_are_cut_off_are_counted_with_the_command_that_lists_each():
    mgr = FakeMgr(("h1", tuple(make.drive(f"sd{n}", n) for n in range(ROWS_MAX + 1))))
    mgr.report_all()
    assert "And 1 more: ceph wcache drive ls host:h1 --all" in words(Site(mgr).page("/drives"))
    listed = ok(mgr.command("drive ls", scope="host:h1", all=True))
    assert all(f" sd{n} " in listed for n in range(ROWS_MAX + 1))


def test_equal_advice_stands_once():
    unsafe = make.unsafe_drive().state
    drives = tuple(make.drive(f"sd{n}", n, state=unsafe) for n in range(3))
    mgr = FakeMgr(("h1", drives))
    mgr.report_all()
    found = [f for f in said(mgr, "status")["findings"] if f["code"] == "WCACHE_UNSAFE"]
    assert len(found) == 3
    text = words(Site(mgr).page("/"))
    assert all(one["subject"] in text for one in found)
    assert text.count(found[0]["advice"].partition("`")[0]) == 1


def test_each_cell_names_its_column_for_narrow_pages():
    page = Site(a_mgr()).page("/drives")
    cells = re.findall(r"<(?:td|th scope=\"row\")[^>]*>|<th data[^>]*>", page)
    assert len(cells) > 20
    assert all('data-label="' in cell for cell in cells)


def test_a_page_says_when_it_was_read_and_whose_reports_are_how_old():
    text = words(Site(a_mgr()).page("/"))
    assert re.search(r"Read 20\d\d-\d\d-\d\d \d\d:\d\d:\d\d UTC\.", text)
    assert "3 drives, reported 0 s ago" in text


@pytest.mark.slow
def test_a_rollout_has_the_command_that_undoes_it_until_it_is_undone():
    mgr = measured()
    ok(mgr.command("plan"))
    undo = "ceph wcache rollback p1"
    ok(mgr.command("apply", plan_id="p1"))
    site = Site(mgr)
    assert f'class="command">{undo}</td>' in site.page("/rollouts")  # also while it goes on
    mgr.settle()
    assert f"Undo: <code>{undo}</code>" in site.page("/rollouts/p1")
    ok(mgr.command("rollback", plan_id="p1"))
    assert undo not in site.page("/rollouts")
    mgr.settle()
    assert "rolled back" in site.page("/rollouts/p1")
    assert undo not in site.page("/rollouts") + site.page("/rollouts/p1")


@pytest.mark.slow
def test_an_experiment_shows_its_pairs_and_the_interval_closing_in():
    mgr = measured()
    record_id = said(mgr, "campaign show", campaign_id="c1")["results"][0]["record_id"]
    site = Site(mgr)
    assert f'href="/experiments/{record_id}"' in site.page("/campaigns/c1")
    page = site.page(f"/experiments/{record_id}")
    text = words(page)
    assert "after 4 pairs write back -> write through is -80% of latency" in text
    assert "write back, median 20.00 ms, n 40" in text
    assert text.count("20.00 ms 4.00 ms -80%") == 4
    assert "ratio" not in text.lower()
    assert page.count('role="img"') == 3
    assert page.count("l8 8M") == 4  # a cross for each pair


def test_an_experiment_with_an_option_speaks_of_its_values_and_not_of_cache_modes():
    drive = make.drive("sda", 0)
    options = (OptionValue("nr_requests", "128"),)
    drive = replace(drive, state=replace(drive.state, options=options))
    mgr = FakeMgr(("h1", (drive,)), make_analysis=RealAnalysis)
    mgr.report_all()
    said(mgr, "ab", option="nr_requests=64,256", loads="batch", accept_cost=True)
    mgr.settle()
    site = Site(mgr)
    campaign = site.page("/campaigns/c1")
    assert 'href="/experiments/c1.0.0"' in campaign
    page = site.page("/experiments/c1.0.0")
    for text in (words(campaign), words(page)):
        assert "no material difference" in text
        assert "write back" not in text.lower()
        assert "write through" not in text.lower()
    assert "nr_requests 64, median 20.00 ms" in words(page)
    assert "PAIR FIRST nr_requests 64 nr_requests 256 CHANGE" in words(page)


def test_what_is_not_there_is_said():
    site = Site(a_mgr())
    for path in ("/campaigns/c9", "/experiments/x", "/rollouts/p9", "/nothing", "/drives/a/b"):
        assert site.get(path).code == 404, path
    assert "there is no campaign 'c9'" in words(site.get("/campaigns/c9").text)


def test_a_fleet_is_shown_by_host():
    drives = [(f"h{n:03}", tuple(make.drive(f"sd{n}-{k}", 4 * n + k) for k in range(4)))
              for n in range(100)]
    mgr = FakeMgr(*drives)
    mgr.report_all()
    site = Site(mgr)
    text = site.page("/drives")
    assert text.count("<tr>") == 1 + 4  # of the first host
    assert text.count("<option") == 101
    assert "sd42-0" in site.page("/drives?host=h042")
    assert len(text) < 60_000


@pytest.mark.slow
def test_latency_over_time_has_the_changes_marked_on_it():
    site, changes = with_changes(applied())
    page = site.page("/latency")
    text = words(page)
    assert "osd.0: 20.00 ms first, 4.00 ms last" in text
    assert "Changes marked on it" in text
    assert changes[0]["text"] in text
    assert page.count('class="mark"') == 1
    # a third of the way, where the gate saw it made: not where it was judged
    assert 240 < float(page.split('class="mark" d="M')[1].split()[0]) < 270
    only = words(site.page("/latency?osd=osd.7"))
    assert "osd.7: 18.98 ms first" in only
    assert "osd.0: " not in only


@pytest.mark.slow
def test_a_rollout_shows_the_changed_beside_the_unchanged():
    mgr = applied()
    site, _ = with_changes(mgr)
    text = words(site.page("/rollouts/p1"))
    assert "OSDs changed by then: 4.00 ms first, 4.00 ms last" in text
    assert "OSDs unchanged by then: 19.48 ms first, 19.04 ms last" in text
    assert "h1 sda osd.0 write back write through - applied - 20.00 ms -> 4.00 ms (-80%)" in text
    changes = said(mgr, "plan show", plan_id="p1")["changes"]
    assert [round(change["ratio"], 2) for change in changes] == [5.0] * 3


@pytest.mark.slow
def test_blocks_of_a_gated_rollout_are_kept_and_drawn():
    drives = [(f"h{n}", (make.drive("sda", 2 * n), make.drive("sdb", 2 * n + 1)))
              for n in range(HOSTS)]
    mgr = GateMgr(*drives)
    mgr.report_all()
    start(mgr)
    mgr.settle()
    mgr.report_all()
    ok(mgr.command("plan"))
    ok(mgr.command("apply", plan_id="p1"))
    mgr.go(lambda: any(c.status.value == "applied" for c in mgr.plan.changes))
    kept = mgr.kept_blocks.since(0.0)
    assert len(kept) > 48
    text = words(Site(mgr).page("/rollouts/p1"))
    assert "OSDs changed by then:" in text
    assert "OSDs unchanged by then:" in text


@pytest.mark.slow
@pytest.mark.parametrize("name", HOSTILE, ids=range(len(HOSTILE)))
def test_hostile_names_are_escaped_and_cut_short(name):
    """Whatever a probe says of a drive or a host stands as text, and no page grows with it."""
    mgr = applied()
    answers = {}

    def answer(cmd):
        code, out, error = mgr.command(cmd["prefix"].partition("wcache ")[2], **{
            k: v for k, v in cmd.items() if k != "prefix"})
        # every text of every answer is the name: nothing may stand elsewhere than as text
        spared = ("format", "load_point", "mode", "first", "role", "transport", "verdict",
                  "device_cache", "kernel_view", "kind")

        def hostile(plain, key=""):
            if isinstance(plain, dict):
                return {k: hostile(v, k) for k, v in plain.items()}
            if isinstance(plain, list):
                return [hostile(v, key) for v in plain]
            return name if isinstance(plain, str) and key not in spared else plain

        record = cmd["prefix"] == "wcache campaign record"
        answers[cmd["prefix"]] = code
        return code, out if record else json.dumps(hostile(json.loads(out))), error

    site = Site(mgr)
    site.app._read._answer = answer
    for path in (*PLACES, "/campaigns/c1", "/experiments/c1.0.0", "/rollouts/p1"):
        page = site.page(path)
        assert len(page) < 200_000
        assert not set(page) & set("\u202e\u2066\x00\x1b\r")
        assert "<script" not in page
        assert "<img" not in page
    assert "49" not in words(site.page("/drives")) or name != "{{ 7 * 7 }}"
    assert set(answers.values()) == {0}


def test_a_drive_model_of_a_real_report_is_escaped():
    hostile = replace(
        make.drive("sda", 0), drive_model=DriveModel("<b>V", "<script>alert(1)</script>", "'\"")
    )
    mgr = FakeMgr(("h1", (hostile,)))
    mgr.report_all()
    assert "&lt;script&gt;alert(1)" in Site(mgr).page("/drives")
