"""Answers of a cluster of two drive models in which much has happened, for a whole report."""

from __future__ import annotations

import random
from dataclasses import replace
from statistics import mean, quantiles, stdev
from typing import Any, Dict, List, Tuple

from module_answers import everything, record
from wcache.commands.campaigns import told
from wcache.core import codec
from wcache.core.model import Arm, DriveModel, LoadPoint, Verdict
from wcache.core.record import Period, Record
from wcache.core.verdict.recommend import recommend
from wcache.core.verdict.result import ArmSummary, Result

MODELS = (DriveModel("SEAGATE", "ST16000NM002G", "E003"), DriveModel("", "SAMSUNG MZ7L3", "104Q"))
LOADS = (LoadPoint.OSD_BENCH_DEPTH1, LoadPoint.OSD_BENCH_BATCH)
# Latency in us with the cache on and off, of each model.
LATENCY_US = ((22_000.0, 7_900.0), (380.0, 372.0))
OSDS_PER_MODEL = 6


def a_lot(drives: int = 2 * OSDS_PER_MODEL) -> Dict[str, Any]:
    """Drives measured at two loads, one plan applied, one of values, one campaign empty."""
    random_ = random.Random(7)
    answers = everything()
    found = [
        _measured(f"c1.{osd}.{n}", osd, load, random_)
        for osd in range(drives) for n, load in enumerate(LOADS)
    ]
    results = tuple(result for result, _ in found)
    shown = answers["campaign show c1"]
    shown["results"] = [
        {**told(r), "dev_names": [f"sd{chr(97 + r.osd_id)}"]} for r in results
    ]
    shown["seconds"], shown["bytes_written"], shown["skipped"] = 3600.0, 9 << 30, []
    shown["options"] = {"loads": [x.value for x in LOADS], "pairs_max": 80, "drives_per_model": 6}
    answers["campaign show c2"] = {
        **shown, "campaign_id": "c2", "status": "aborted", "results": [], "seconds": 0.0,
        "bytes_written": 0,
        "run_list": [{**row, "reason": "frozen by an admin"} for row in shown["run_list"]],
    }
    answers["campaign ls"]["campaigns"] = [{"campaign_id": "c1"}, {"campaign_id": "c2"}]
    for _, one in found:
        answers[f"campaign record {one.record_id}"] = codec.to_plain(one)
    answers["recommend"]["recommendations"] = [
        {**codec.to_plain(item), "manual_on": "h0", "manual": [
            "sdparm --clear=WCE /dev/sda", "ceph wcache plan --persist  # have it last"]}
        for item in recommend(results)
    ]
    answers["plan show p1"]["changes"] = _changes(
        answers["plan show p1"]["changes"][0], min(drives, OSDS_PER_MODEL), random_)
    answers["drive ls"]["drives"] = [
        {**answers["drive ls"]["drives"][0], "hostname": f"h{n % 4}",
         "dev_name": f"sd{chr(97 + n)}", "drive_model": codec.to_plain(MODELS[n // OSDS_PER_MODEL])}
        for n in range(drives)
    ]
    answers["status"]["summary"] = {
        "text": "1 of 2 drive models would commit 2.6 to 2.9 times as fast with the cache off (6 "
        "of 12 drives); 1 is right as it is", "next": "ceph wcache plan",
    }
    return answers


def _measured(
    record_id: str, osd: int, load: LoadPoint, random_: random.Random
) -> Tuple[Result, Record]:
    kind = osd // OSDS_PER_MODEL
    back_us, through_us = LATENCY_US[kind]
    one = record(record_id, load)
    setup = replace(
        one.setup, osd_id=osd, drive_model=MODELS[kind], hostname=f"h{osd % 4}",
        drive_id=f"d{osd}", domain_id=f"d{osd}",
    )

    def period(of: Period, middle_us: float) -> Period:
        samples = tuple(int(1e3 * middle_us * random_.lognormvariate(0, 0.25)) for _ in range(12))
        return replace(of, samples_ns=samples)

    pairs = tuple(
        replace(pair, a=period(pair.a, back_us),
                b=period(pair.b, through_us))
        for pair in one.pairs
    )
    one = replace(one, record_id=record_id, setup=setup, pairs=pairs)
    back, through = (
        _summary([ns / 1e3 for pair in pairs for ns in pair.period(arm).samples_ns])
        for arm in Arm
    )
    ratio = back_us / through_us
    back, through = replace(back, level_us=back_us), replace(through, level_us=through_us)
    better = kind == 0
    result = Result(
        record_id, "c1", setup.hostname, osd, "hdd" if better else "ssd", setup.domain_id,
        setup.drive_id, MODELS[kind], load,
        Verdict.B if better else Verdict.NO_DIFFERENCE, 4, 150.0, 1 << 28, "decided",
        ratio, ratio * 0.95, ratio * 1.05, "the 99% interval lies wholly above 1.1" if better
        else "the 95% interval lies wholly between 0.91 and 1.1", back, through,
    )
    return result, one


def _summary(values_us: List[float]) -> ArmSummary:
    p25, p50, p75 = quantiles(values_us, n=4)
    return ArmSummary(
        len(values_us), mean(values_us), stdev(values_us), min(values_us), p25, p50, p75,
        quantiles(values_us, n=10)[-1], max(values_us),
    )


def _changes(
    first: Dict[str, Any], drives: int, random_: random.Random
) -> List[Dict[str, Any]]:
    changes: List[Dict[str, Any]] = []
    for n in range(drives):
        before, after = (
            us * random_.lognormvariate(0, 0.05) for us in LATENCY_US[0]
        )
        changes.append({
            **first, "action_id": f"p1.{n}.c66e232628d8d4bf", "hostname": f"h{n % 4}", "osd_id": n,
            "dev_names": [f"sd{chr(97 + n)}"], "before_us": before, "after_us": after,
            "ratio": before / after, "status": "applied", "detail": "",
        })
    edit = {"who": "osd.7", "name": "osd_memory_target", "prior": "4294967296",
            "value": "2147483648"}
    changes.append({
        "action_id": "p1.6.0", "kind": "config", "edits": [edit], "status": "planned",
        "before_us": None, "after_us": None, "ratio": None, "detail": "", "knob": "memory_target",
    })
    return changes
