"""The report shows what was measured, stands alone, and lets no outside text become markup."""

from __future__ import annotations

import html
import json
import os
import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from typing import Any, Dict, List, Optional, Tuple

import pytest
import zipapps
from module_answers import HOSTILE, FakeAnswers, everything
from report_answers import OSDS_PER_MODEL, a_lot
from wcache.core.errors import MalformedError, NotFoundError
from wcache_cli.answers import SavedAnswers, SavingAnswers
from wcache_cli.evidence import gather, plain
from wcache_cli.main import main
from wcache_cli.report_page import render
from wcache_cli.report_story import _plan_line


class Page(HTMLParser):
    """Tags with their attributes, and whether they nest."""

    VOID = ("meta", "br", "img")
    DRAWN = ("rect", "path")  # closed in themselves

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: List[Tuple[str, Dict[str, Optional[str]]]] = []
        self.open: List[str] = []
        self.words = ""
        self.feed(text)

    def handle_data(self, data: str) -> None:
        self.words += data

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def page_of(answers: Dict[str, Any]) -> str:
    return render(gather(FakeAnswers(answers)), now_s=1.7e9)


def test_a_hostile_model_string_stays_text():
    text = page_of(everything())
    assert HOSTILE not in text
    assert html.escape(HOSTILE).replace("&#x27;", "&#39;").replace("&quot;", "&#34;") in text
    names = {tag for tag, _ in Page(text).tags}
    assert not names & {"script", "img", "iframe", "object", "link"}


@pytest.mark.slow
def test_the_page_begins_with_what_all_of_it_would_gain():
    text = page_of(everything())
    assert text.index("1 of 2 drive models") < text.index("<h2>Verdicts")
    assert "Next: who answers for the cluster decides" in text
    assert ": <code>ceph wcache plan</code></p>" in " ".join(text.split())


def test_the_page_needs_nothing_from_elsewhere():
    text = page_of(everything())
    page = Page(text)
    assert page.open == []
    for _, attributes in page.tags:
        assert not {"src", "href", "srcset", "style"} & set(attributes)
    style = text.partition("<style>")[2].partition("</style>")[0]
    assert "url(" not in style
    assert "@import" not in style


@pytest.mark.slow
def test_what_noop_flushes_cost_is_shown_and_an_answer_of_before_lacks_it():
    answers = everything()
    assert "flushes with nothing" not in page_of(answers)
    row = answers["recommend"]["recommendations"][0]
    row["noop_flushes"] = ["with the cache off 9.1 of 9.5 ms are flushes with nothing to write"]
    assert "9.1 of 9.5 ms are flushes with nothing to write" in page_of(answers)


def test_both_modes_are_drawn_with_their_medians():
    text = page_of(everything())
    assert "write back, median 5.00 ms, n 12" in text
    assert "write through, median 500 us, n 12" in text
    assert text.count('<path class="curve') == 2 + 2  # and in its key


def test_the_numbers_of_results_and_plans_are_shown():
    text = page_of(everything())
    for shown in ("-89%, 99%: -92 to -86", "17.6 s", "96.0 KiB", "osd.3", "WCACHE_UNSAFE"):
        assert shown in text
    assert "5.00 ms -&gt; 500 us (-90%)" in text  # of the plan


def test_equal_advice_stands_once_and_the_audit_log_only_in_the_json_file(tmp_path):
    answers = everything()
    (one,) = answers["status"]["findings"]
    answers["status"]["findings"] = [one, {**one, "subject": "h2 sdb"}]
    text = page_of(answers)
    assert (text.count("h2 sdb"), text.count("stop the OSD")) == (1, 1)
    assert "Audit log" not in text
    assert f"started {HOSTILE}" not in Page(text).words
    assert plain(gather(FakeAnswers(answers)))["history"] == answers["history 1000"]["history"]


def test_an_empty_cluster_has_a_report_too():
    answers = everything()
    answers["drive ls"]["drives"] = []
    answers["campaign ls"]["campaigns"] = []
    answers["recommend"]["recommendations"] = []
    answers["plan ls"]["plans"] = []
    answers["history 1000"]["history"] = []
    answers["status"]["findings"] = []
    assert "Nothing is measured yet." in page_of(answers)


def test_the_page_says_what_was_done_gained_and_spent():
    text = page_of(a_lot())
    assert "Measured: 12 drives in 1 campaign, 24 results." in text
    assert "60.0 min of drive time, 9.0 GiB written" in text
    assert "6 of 7 changes in place; latency " in text
    rows = ((1e3, 900.0), (2e4, 3e4), (1e5, 9.5e4), (2e3, 1.9e3), (2.1e4, 1850.0))
    changes = [{"status": "applied", "before_us": b, "after_us": a} for b, a in rows]
    told = _plan_line({"plan_id": "p1", "status": "done", "changes": changes})
    # of the changes, and not of two medians, which are of two drives
    assert told.endswith("5 of 5 changes in place; latency -5.0%, the median of 5 changes.")
    plot = text[text.index('<figure class="gain">'):]
    assert plot[: plot.index("</figure>")].count('class="after better"') == OSDS_PER_MODEL
    assert re.search(r"2\d\.\d\d ms -&gt; 7\.\d\d ms \(-64%, 99%: -66 to -62\)", text)
    assert "4.0 GiB" in text  # of a plan that changes no drive
    assert "4294967296" not in text


def test_an_aborted_campaign_that_measured_nothing_takes_a_line():
    text = page_of(a_lot())
    assert "Measured nothing: c2 (aborted: frozen by an admin)." in text
    assert "<h3>Campaign c2" not in text


def test_reasons_stand_before_what_to_type_by_hand_and_wcache_is_not_by_hand():
    text = page_of(a_lot())
    why, by_hand = text.index("<h3>Why: SEAGATE"), text.index("The same by hand")
    assert why < text.index("<svg viewBox", why) < by_hand
    block = text[by_hand: text.index("</pre>", by_hand)]
    assert "sdparm" in block
    assert "ceph wcache" not in block


def test_a_cell_names_its_column_for_narrow_pages():
    page = Page(page_of(a_lot()))
    cells = [attributes for tag, attributes in page.tags if tag == "td"]
    assert len(cells) > 500
    assert all(cell.get("data-label") for cell in cells if "colspan" not in cell)


def test_how_to_repeat_it_is_a_command_with_its_seed():
    text = page_of(a_lot())
    command = (
        "ceph wcache campaign start cluster --loads=depth1,batch --pairs=80 "
        "--drives-per-model=6 --seed=7"
    )
    assert command in text


@pytest.mark.slow
def test_the_json_beside_the_page_has_every_sample(tmp_path):
    folder = tmp_path / "s"
    gather(SavingAnswers(FakeAnswers(a_lot()), folder))
    assert main(["report", "--from", str(folder), "--out", str(tmp_path / "r.html")]) == 0
    beside = json.loads((tmp_path / "r.json").read_text())
    assert beside["format_version"] == 1
    assert len(beside["records"]) == 2 * 2 * OSDS_PER_MODEL
    assert all(len(p["a"]["samples_ns"]) == 12 for p in beside["records"][0]["pairs"])
    # a page that is called like the file of samples does not lose to it
    assert main(["report", "--from", str(folder), "--out", str(tmp_path / "q.json")]) == 0
    assert "<!DOCTYPE html>" in (tmp_path / "q.json").read_text()


def test_raw_samples_that_are_gone_are_said_to_be_gone():
    answers = everything()
    del answers["campaign record c1.0.0"]
    assert "no longer kept: c1.0.0" in page_of(answers)


@pytest.mark.slow
def test_saved_answers_give_the_same_page(tmp_path):
    answers = everything()
    live = render(gather(SavingAnswers(FakeAnswers(answers), tmp_path / "s")), now_s=1.7e9)
    assert render(gather(SavedAnswers(tmp_path / "s")), now_s=1.7e9) == live


def test_an_id_cannot_name_a_file_outside_of_the_folder(tmp_path):
    answers = everything()
    answers["campaign ls"]["campaigns"] = [{"campaign_id": "../../x"}]
    answers["campaign show ../../x"] = answers["campaign show c1"]
    with pytest.raises(MalformedError, match="cannot be a file name"):
        gather(SavingAnswers(FakeAnswers(answers), tmp_path))
    assert [path.name for path in tmp_path.parent.glob("x*")] == []


def test_an_id_cannot_become_an_option_of_the_ceph_tool():
    answers = everything()
    answers["plan ls"]["plans"] = [{"plan_id": "--conf=/tmp/x"}]
    with pytest.raises(MalformedError, match="plan_id"):
        gather(FakeAnswers(answers))


def test_a_missing_file_says_which_command_makes_it(tmp_path):
    with pytest.raises(NotFoundError) as caught:
        gather(SavedAnswers(tmp_path))
    assert "ceph wcache status --format json > status.json" in caught.value.line()


def test_an_answer_of_another_format_is_refused():
    answers = everything()
    answers["recommend"]["format_version"] = 2
    with pytest.raises(MalformedError, match="answers in format 2, this tool reads 1"):
        page_of(answers)
    answers["recommend"]["format_version"] = "2\x1b[2J\n"
    with pytest.raises(MalformedError, match=r"answers in format 2 \[2J, this tool reads 1"):
        page_of(answers)


def test_an_answer_that_is_not_as_it_should_be_is_one_line_of_error():
    lacks, other = everything(), everything()
    del lacks["campaign show c1"]["seconds"]
    other["plan show p1"]["changes"][0]["action_id"] = {"p1": 1}
    for answers in (lacks, other):
        with pytest.raises(MalformedError, match="does not have what the report shows"):
            page_of(answers)


def saved(folder: Path) -> Path:
    gather(SavingAnswers(FakeAnswers(everything()), folder))
    return folder


@pytest.mark.parametrize("put", [
    os.mkfifo, lambda path: path.symlink_to("/dev/zero"), lambda path: path.write_bytes(b"\xff"),
    lambda path: path.write_text('{"a":' + '["]",' * 400 + "1" + "]" * 400 + "}"),
], ids=("fifo", "zero", "no text", "deep"))
def test_a_saved_answer_that_is_none_is_one_clear_line(tmp_path, capsys, put):
    folder = saved(tmp_path / "s")
    (folder / "status.json").unlink()
    put(folder / "status.json")
    assert main(["report", "--from", str(folder), "--out", str(tmp_path / "r.html")]) != 0
    (line,) = capsys.readouterr().err.splitlines()
    assert "status.json" in line


def test_a_link_that_lies_where_the_page_is_written_is_not_followed(tmp_path, capsys):
    victim, out = tmp_path / "victim", tmp_path / "r.html"
    victim.write_text("as it was")
    (tmp_path / f".r.html.{os.getpid()}").symlink_to(victim)
    assert main(["report", "--from", str(saved(tmp_path / "s")), "--out", str(out)]) != 0
    assert victim.read_text() == "as it was"
    assert "is in the way" in capsys.readouterr().err


def test_the_command_writes_the_page(tmp_path, capsys):
    out = tmp_path / "report.html"
    assert main(["report", "--from", str(saved(tmp_path / "s")), "--out", str(out)]) == 0
    assert "wcache report" in out.read_text()
    assert str(out) in capsys.readouterr().out


@pytest.mark.slow
def test_the_command_asks_the_ceph_tool_with_its_options(tmp_path):
    source = saved(tmp_path / "s")
    tool = tmp_path / "ceph"
    tool.write_text(
        f"#!{sys.executable}\nimport sys\n"
        "words = sys.argv[1:]\n"
        "assert words[:4] == ['--connect-timeout', '20', '--conf', 'c.conf'], words\n"
        "assert words[4] == 'wcache' and words[-2:] == ['--format', 'json'], words\n"
        f"print(open({str(source)!r} + '/' + '-'.join(words[5:-2]) + '.json').read())\n"
    )
    tool.chmod(0o755)
    out = tmp_path / "report.html"
    assert main(["report", "--ceph", str(tool), "--conf", "c.conf", "--out", str(out)]) == 0
    assert "osd.3" in out.read_text()


@pytest.mark.parametrize(
    ("program", "said"),
    [
        ("#!/bin/sh\necho trace >&2; echo 'Error EPERM: no right' >&2; exit 1", "no right"),
        ("#!/bin/sh\necho not json", "is not JSON"),
        ("#!/bin/sh\necho '[]'", "is not a JSON object"),
    ],
)
def test_a_ceph_tool_that_fails_is_one_line_of_error(tmp_path, capsys, program, said):
    tool = tmp_path / "ceph"
    tool.write_text(program + "\n")
    tool.chmod(0o755)
    assert main(["report", "--ceph", str(tool), "--out", str(tmp_path / "r.html")]) == 1
    error = capsys.readouterr().err
    assert said in error
    assert len(error.splitlines()) == 1
    assert not (tmp_path / "r.html").exists()


@pytest.mark.parametrize(
    ("options", "places"),
    [
        ([], "/etc/ceph/ceph.conf, /home/me/.ceph/ceph.conf, ceph.conf in this folder"),
        (["--cluster", "x"], "/etc/ceph/x.conf, /home/me/.ceph/x.conf, x.conf in this folder"),
        (["--conf", "/c"], "looked for /c"),
    ],
)
def test_where_the_ceph_tool_finds_no_configuration_the_places_are_named(
    tmp_path, capsys, monkeypatch, options, places
):
    monkeypatch.setenv("HOME", "/home/me")
    monkeypatch.delenv("CEPH_CONF", raising=False)
    tool = tmp_path / "ceph"
    tool.write_text(
        '#!/bin/sh\necho "Error initializing cluster client: ObjectNotFound(\'RADOS object not '
        'found (error calling conf_read_file)\')" >&2; exit 1\n'
    )
    tool.chmod(0o755)
    assert main(["report", "--ceph", str(tool), *options, "--out", str(tmp_path / "r")]) == 1
    error = capsys.readouterr().err
    assert places in error
    assert len(error.splitlines()) == 1


@pytest.mark.slow
def test_the_template_is_found_inside_a_zipapp(tmp_path):
    archive = zipapps.build("wcache", tmp_path)
    out = tmp_path / "report.html"
    argv = [sys.executable, "-I", str(archive), "report", "--from", str(saved(tmp_path / "s"))]
    subprocess.run([*argv, "--out", str(out)], check=True, timeout=60, cwd=tmp_path)
    assert "<svg" in out.read_text()


@pytest.mark.slow
def test_a_zipapp_passes_the_exit_code_on(tmp_path):
    archive = zipapps.build("wcache", tmp_path)
    argv = [sys.executable, "-I", str(archive), "report", "--from", "/nowhere", "--out", "x"]
    done = subprocess.run(
        argv, check=False, capture_output=True, text=True, timeout=60, cwd=tmp_path
    )
    assert done.returncode == 1
    assert done.stderr.startswith("wcache report: there is no folder /nowhere")
