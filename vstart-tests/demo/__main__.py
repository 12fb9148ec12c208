"""The demo's steps.  RELEASE chooses the Ceph release; KEEP=1 leaves the cluster running."""

from __future__ import annotations

import os
import secrets
import sys
import time
from pathlib import Path
from typing import Any, Dict, List

from harness import ClusterPlan, HarnessError, start_cluster
from wcache.core.wording import amount, duration, latency, table

from .stage import Stage, bold, say

PAIRS_MAX = 12
OUT = Path(__file__).resolve().parents[2] / "out"


def main() -> int:
    """Run the demo; returns its exit code."""
    began_s = time.monotonic()
    try:
        release = int(os.environ.get("RELEASE", "20"))
        keep = os.environ.get("KEEP") == "1"
        say(bold(f"wcache demo on Ceph {release}"))
        say("a real cluster: mon, mgr, three BlueStore OSDs (one with db and wal, one with db)")
        say("the first run downloads Ceph's packages; later ones start at once")
        # not /tmp: where that is in memory, a flush costs nothing and there is nothing to see
        folder = Path("/var/tmp") / f"wc.{secrets.token_hex(4)}"
        cluster = start_cluster(ClusterPlan(
            release=release, folder=folder, conf={"mon allow pool size one": "true"}
        ))
        stage = Stage(cluster, began_s)
        try:
            _steps(stage)
        finally:
            if keep:
                cluster.leave_running()
                _tell_how_to_go_on(stage)
            else:
                stage.stop_clients()
                stage.stop_probe()
                cluster.stop()
                say("the cluster is stopped and removed")
    except HarnessError as error:
        print(f"demo: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("\ndemo: interrupted", file=sys.stderr)
        return 130
    return 0


def _steps(stage: Stage) -> None:
    ceph = stage.ceph
    stage.step(
        "Set up: module, probe, clients",
        "The OSDs here are on loop devices.  Those have no cache of their own, so write through "
        "makes the kernel drop their flushes: a true effect on latency, and the loss of data at "
        "a power cut.  That is why wcache touches them only where the cluster is declared "
        "worthless (throwaway_cluster).  On real drives it never does this.",
    )
    stage.enable()
    stage.start_probe()
    stage.make_pool()
    stage.start_clients()

    stage.step("Look: what every drive is, on both sides of its cache")
    ceph("wcache", "status")
    ceph("wcache", "drive", "ls")

    stage.step(
        "Measure while clients write: the OSDs' own traffic, in both modes; nothing is written",
        "A sample of each device class is enough: drives of one drive model are pooled.",
    )
    _campaign(stage, "--scope=osd.0", "--loads=traffic", f"--pairs={PAIRS_MAX}")
    _campaign(stage, "--scope=class:ssd", "--loads=traffic", f"--pairs={PAIRS_MAX}")

    stage.step("Measure without clients: one write at a time, by osd bench, at a forecast cost")
    stage.stop_clients()
    _campaign(
        stage, "--scope=osd.0", "--loads=depth1", f"--pairs={PAIRS_MAX}", consent="--accept-cost"
    )
    stage.start_clients()

    stage.step("Decide: one recommendation per device class and drive model, with its evidence")
    ceph("wcache", "recommend")

    stage.step("Plan and apply: each change is read back and measured before the next")
    ceph("wcache", "plan")
    plans = stage.wcache("plan ls")["plans"]
    applied: Dict[str, Any] = {"changes": [], "reason": ""}
    if not plans:
        say("No verdict is strong enough to act on, so nothing is changed: that is what "
            "`insufficient data` is for.")
        say("A busy machine does that to a demo; a quiet one decides within a few pairs.")
    else:
        plan_id = plans[-1]["plan_id"]
        ceph("wcache", "apply", plan_id)
        applied = stage.wait_plan(plan_id, 240)
        ceph("wcache", "plan", "show", plan_id)
        ceph("wcache", "status")

        stage.step("Roll back: what was there before is there again")
        ceph("wcache", "rollback", plan_id)
        stage.wait_plan(plan_id, 120)
        ceph("wcache", "plan", "show", plan_id)
    ceph("wcache", "drive", "ls")
    stage.stop_clients()

    stage.step("The audit log, and a report to keep")
    ceph("wcache", "history")
    stage.tool("report", "--out", str(stage.cluster.folder / "report.html"))
    stage.copy_out(["report.html"], OUT)

    _summary(stage, applied)


def _campaign(stage: Stage, *arguments: str, consent: str = "") -> None:
    """Forecast a campaign, start it, follow it to its end."""
    stage.wait_clean()
    stage.ceph("wcache", "campaign", "forecast", *arguments)
    stage.ceph("wcache", "campaign", "start", *arguments, *([consent] if consent else []))
    campaign_id = stage.wcache("campaign ls")["campaigns"][-1]["campaign_id"]
    stage.tool("watch", campaign_id)
    stage.ceph("wcache", "campaign", "show", campaign_id)


def _summary(stage: Stage, applied: Dict[str, Any]) -> None:
    stage.step("Summary")
    campaigns = stage.wcache("campaign ls")["campaigns"]
    measured: List[List[str]] = []
    for campaign in campaigns:
        shown = stage.wcache("campaign show", campaign_id=campaign["campaign_id"])
        for r in shown["results"]:
            measured.append([
                f"osd.{r['osd_id']}", r["device_class"], ", ".join(r["dev_names"]),
                r["load_point"], latency(r["write_back"]["p50_us"]),
                latency(r["write_through"]["p50_us"]),
                f"{r['ratio']:.2f}" if r["ratio"] is not None else "-", r["verdict"],
                duration(r["seconds"]), amount(r["bytes_written"]),
            ])
    say(bold("measured"))
    say(table(("OSD", "CLASS", "DRIVE", "LOAD", "WRITE BACK", "WRITE THROUGH", "RATIO", "VERDICT",
               "TIME", "WRITTEN"), measured))
    changed = [
        [f"osd.{c['osd_id']}", c["device_class"], ", ".join(c["dev_names"]), c["mode"],
         c["status"], latency(c["before_us"]), latency(c["after_us"]),
         f"{c['ratio']:.2f}" if c["ratio"] is not None else "-",
         duration(c["seconds"]), amount(c["bytes_written"])]
        for c in applied["changes"]
    ]
    if changed:
        say("")
        say(bold("changed, measured before and after, then rolled back"))
        say(table(("OSD", "CLASS", "DRIVE", "TO", "APPLY", "BEFORE", "AFTER", "RATIO", "TIME",
                   "WRITTEN"), changed))
        if applied["reason"]:
            say(f"plan {applied['plan_id']}: {applied['reason']}")
    say("")
    say(f"measuring cost {duration(sum(c['seconds'] for c in campaigns))} of drive time and wrote "
        f"{amount(sum(c['bytes_written'] for c in campaigns))}")
    say(f"report: {OUT / 'report.html'}")
    say(f"whole demo: {duration(time.monotonic() - stage.began_s)}")


def _tell_how_to_go_on(stage: Stage) -> None:
    folder = stage.cluster.folder
    say("")
    say("KEEP=1: cluster and probe go on running")
    say(f"talk  vstart-tests/cluster exec --dir {folder} -- ceph wcache status")
    say(f"shell vstart-tests/cluster shell --dir {folder}")
    say(f"stop  vstart-tests/cluster stop --dir {folder}")


if __name__ == "__main__":
    sys.exit(main())
