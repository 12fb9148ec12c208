"""`drive-model trust --hostname`: one host's word made to count for all."""

import errno
from dataclasses import replace

import pytest
from mgr_fakes import builders as make
from mgr_fakes.module import FakeMgr
from module_world import ok, said, taken_over
from wcache.core.host_report import PowerCut, ToggleProof
from wcache.core.model import CacheMode, Transport
from wcache.core.protocol import ReportRequest
from wcache.engine.probe_calls import ProbeCalls

MODEL = str(make.MODEL)
TIMES = (10.0, 20.0, 30.0)


def proof(hostname="h2", **changes):
    found = ToggleProof(
        "mpt3sas", make.MODEL, False, (), TIMES, TIMES, hostname, "naa.9", 1.0
    )
    return replace(found, **changes)


def a_mgr(proofs=(), cuts=()):
    """h1 has the combination, h2 says what it has shown of it."""
    behind = make.drive("sda", 0, transport=Transport.SATA_HBA, host_driver="mpt3sas",
                        refusals=make.refused("not proven"))
    mgr = FakeMgr(("h1", (behind,)), ("h2", ()))
    shows(mgr, proofs, cuts)
    mgr.report_all()
    return mgr


def shows(mgr, proofs=(), cuts=()):
    probe = mgr.probes["h2"]
    report = type(probe).report
    probe.report = lambda: replace(report(probe), proofs=proofs, power_cuts=cuts)


def passed_to_h1(mgr):
    """What h1 is told with the request for its next report."""
    mgr.inside.hosts.tasks.clear()
    mgr.inside.hosts.reported_at_s.pop("h1", None)
    task = ProbeCalls(mgr.inside, lambda hostname: 1).next_look("h1", mgr.now_s)
    assert isinstance(task.request, ReportRequest)
    return task.request.proofs


def test_a_forged_report_opens_nothing_on_another_host_until_an_admin_accepts_it():
    mgr = a_mgr((proof(),))
    assert passed_to_h1(mgr) == ()
    answer = said(mgr, "drive-model trust", drive_model=MODEL, hostname="h2",
                  reason="I ran it myself")
    assert (answer["accepted"], answer["changed"]) == (1, True)
    assert passed_to_h1(mgr) == (proof(),)
    shows(mgr, (proof(by_page=True),))  # what it says from now on is another thing
    mgr.inside.hosts.tasks.clear()
    mgr.inside.hosts.reported_at_s.clear()
    mgr.report_all()
    assert passed_to_h1(mgr) == ()


def test_an_accepted_word_survives_a_restart_and_can_be_taken_back():
    mgr = a_mgr((proof(),))
    arguments = {"drive_model": MODEL, "hostname": "h2"}
    said(mgr, "drive-model trust", reason="seen", **arguments)
    taken_over(mgr)
    assert passed_to_h1(mgr) == (proof(),)
    listed = ok(mgr.command("drive-model ls"))
    assert "h2 on toggling behind mpt3sas: proven (accepted for all hosts)" in listed
    said(mgr, "drive-model trust", take_back=True, **arguments)
    assert passed_to_h1(mgr) == ()
    assert "what h2 has shown is accepted: seen" in ok(mgr.command("history"))


@pytest.mark.parametrize(("arguments", "code"), [
    ({"hostname": "h1"}, errno.ENOENT), ({"hostname": "h9"}, errno.ENOENT),
    ({"drive_model": "X"}, errno.ENOENT), ({"drive_model": ""}, errno.ENOENT),
    ({"reason": " "}, errno.EINVAL), ({"reason": "x" * 300}, errno.EINVAL),
    ({"hostname": "a b"}, errno.EINVAL),
])
def test_what_nobody_has_shown_cannot_be_accepted(arguments, code):
    mgr = a_mgr((proof(),))
    words = {"drive_model": MODEL, "hostname": "h2", "reason": "seen", **arguments}
    got, _, error = mgr.command("drive-model trust", **words)
    assert got == -code, error
    assert len(error.strip().splitlines()) == 1


def test_drive_model_ls_says_what_each_host_has_shown():
    cut = PowerCut("ab" * 16, "naa.9", make.MODEL, CacheMode.WRITE_BACK, 900, 900, 2, 1.0, True)
    mgr = a_mgr((proof(disagreed=("no",)),), (cut,))
    (row,) = said(mgr, "drive-model ls")["drive_models"]
    assert [(one["hostname"], one["held"], one["accepted"]) for one in row["shown"]] == [
        ("h2", False, False), ("h2", False, False),
    ]
    listed = ok(mgr.command("drive-model ls"))
    assert "h2 on a power cut in write back: 2 of 900 acknowledged writes lost" in listed
    assert "counts on its own host, and on others when two hosts have it" in listed
