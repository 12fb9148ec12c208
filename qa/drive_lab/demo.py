"""``make demo``: the main job on drives whose caches really toggle, step by step.

Three OSDs in a guest, on a drive where write through wins, one where write back wins and one
without a difference; everything is done by the commands that an admin would type.  RELEASE
chooses the Ceph in it; KEEP=1 leaves all of it running.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from pathlib import Path
from typing import Any

from harness import HarnessError
from wcache.core.model import LoadPoint, Verdict
from wcache.core.options.entries import CACHE_MODES
from wcache.core.text import amount, before_after, duration, table
from wcache.core.verdict.result import turned_off
from wcache_sim.toml_table import DriveFileError

from . import campaign
from .images.artefacts import BuildError
from .processes import LabError
from .stage import Stage, bold, say

DRIVE_FILE = Path(__file__).resolve().parents[1] / "drive_models" / "lab.toml"
OUT = Path(__file__).resolve().parents[2] / "out"
TRAFFIC_CLASS = "hdd"  # the one that `plan` will change
SECONDS_MAX = "experiment_seconds_max"
UNDECIDED = Verdict.INSUFFICIENT.value
TOO_BUSY = 3  # exit code: nothing was decided, so nothing was applied and rolled back
# looked at fast: the defaults are for clusters with more to lose
OPTIONS = {
    "poll_idle_s": "0.2", "settle_s": "0.2", "period_s": "0.8", "canary_wait_s": "1",
    # its clients have only just begun when it asks how much they write
    "traffic_commits_min": "10",
    # some of its drives have no unchanged one beside them, and it is to take minutes
    "gate_by_load": "false",
    # a drive that a busy machine keeps undecided is given up after this; to show that nothing
    # differs may take all of it
    SECONDS_MAX: "50", "no_difference_share": "1.0",
}
GUEST_PATH = "qa:osd_probe:mgr_module:vstart-tests"  # from the root of the tree
PLAN_TIMEOUT_S = 300.0
ROLLBACK_TIMEOUT_S = 120.0


def main() -> int:
    """Run the demo; returns its exit code."""
    began_s = time.monotonic()
    # a terminated demo takes the same way out as a finished one
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))
    try:
        release = int(os.environ.get("RELEASE", "20"))
        keep = os.environ.get("KEEP") == "1"
        say(bold(f"wcache demo on Ceph {release}"))
        say("a real cluster: three BlueStore OSDs in a QEMU guest, on modelled drives whose write")
        say("caches really toggle (virtio-scsi, NVMe, SATA); mon, mgr and clients beside it")
        say("the first run downloads packages and builds the guest; later ones start at once")
        job = campaign.LabJob(drive_file=DRIVE_FILE, release=release)
        with campaign.running(job, campaign.Stages(), keepable=keep) as up:
            stage = Stage(up, began_s)
            try:
                decided = _steps(stage)
            finally:
                stage.stop_clients()
            if not keep:
                stage.step("Leave: keys, service, boot rule, options and all that was stored")
                stage.leave()
            stage.show_health()
            if keep:
                up.leave_running()
                _tell_how_to_go_on(stage)
        if not keep:
            say("guest, drives and cluster are stopped and removed")
        say(f"whole demo: {duration(time.monotonic() - began_s)}")
        if not decided:
            print("demo: the machine was too busy to decide anything: run it again on a quiet one",
                  file=sys.stderr)
            return TOO_BUSY
    except (BuildError, DriveFileError, HarnessError, LabError, ValueError, OSError) as error:
        print(f"demo: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("\ndemo: interrupted; nothing is left behind", file=sys.stderr)
        return 130
    return 0


def _steps(stage: Stage) -> bool:
    """Show all of it; whether something was decided, applied and rolled back."""
    ceph = stage.ceph
    stage.step("Set up: module, clients on one of the drives, probe")
    stage.enable(OPTIONS)
    stage.up.clients.make_pool(TRAFFIC_CLASS)
    stage.start_clients(TRAFFIC_CLASS)
    stage.add_host()

    stage.step("Look: what every drive is, on both sides of its cache")
    ceph("wcache", "status")
    ceph("wcache", "drive", "ls")
    stage.witnesses()

    stage.step(
        "Measure: `try` takes the clients' own writes where there are some, else one at a time",
        "Each drive in both modes, in pairs of periods ordered by a coin, until it is decided;",
        "one that is not decided after 50 s of its time is given up, and that is said.",
    )
    stage.wait_clean()
    ceph("wcache", "try", "--dry-run")
    stage.tool("try", "--accept-cost")

    stage.step("Decide: one recommendation per device class and drive model, with its evidence")
    ceph("wcache", "recommend")
    _measure_longer(stage)

    stage.step("Plan and apply under the clients' writes: each change is measured and read back")
    ceph("wcache", "plan")
    plans = stage.wcache("plan ls")["plans"]
    applied: dict[str, Any] = {"changes": [], "reason": ""}
    if not plans:
        say("No verdict is strong enough to act on, so nothing is changed: that is what "
            "`insufficient data` is for.")
        say("This machine was too busy: a quiet one decides within a few pairs.")
    else:
        applied = _apply_and_roll_back(stage, plans[-1]["plan_id"])
    stage.stop_clients()

    stage.step("The audit log, and a report to keep")
    ceph("wcache", "history")
    stage.tool("report", "--out", str(stage.cluster.folder / "report.html"))
    stage.copy_out(["report.html"], OUT)

    _summary(stage, applied)
    return bool(plans)


def _measure_longer(stage: Stage) -> None:
    """Measure what is undecided once more, with twice the time."""
    found = stage.wcache("recommend")["recommendations"]
    undecided = [r["device_class"] for r in found if r["verdict"] == UNDECIDED]
    if not undecided:
        return
    say(f"Undecided on this machine: {', '.join(undecided)}. Once more, with twice the time.")
    longer_s = 2 * int(OPTIONS[SECONDS_MAX])
    stage.ceph("config", "set", "mgr", f"mgr/wcache/{SECONDS_MAX}", str(longer_s))
    for device_class in undecided:
        stage.tool("try", f"class:{device_class}", "--accept-cost")
    stage.ceph("wcache", "recommend")


def _apply_and_roll_back(stage: Stage, plan_id: str) -> dict[str, Any]:
    stage.ceph("wcache", "apply", plan_id)
    applied: dict[str, Any] = stage.wait_plan(plan_id, PLAN_TIMEOUT_S)
    stage.ceph("wcache", "plan", "show", plan_id)
    changed = [c for c in applied["changes"] if c["status"] == "applied"]
    # a command shows what the probe reported last, which trails by one survey
    stage.wait_shown({name: c["mode"] for c in changed for name in c["dev_names"]})
    stage.ceph("wcache", "status")
    stage.witnesses()
    stage.ceph("health")

    stage.step("Roll back: what was there before is there again")
    stage.ceph("wcache", "rollback", plan_id)
    stage.wait_plan(plan_id, ROLLBACK_TIMEOUT_S)
    stage.ceph("wcache", "plan", "show", plan_id)
    stage.witnesses()
    return applied


def _summary(stage: Stage, applied: dict[str, Any]) -> None:
    stage.step("Summary")
    drives = {drive.placed.uses[0][0]: drive for drive in stage.up.lab.drives}
    campaigns = stage.wcache("campaign ls")["campaigns"]
    rows: list[list[str]] = []
    for each in campaigns:
        for r in stage.wcache("campaign show", campaign_id=each["campaign_id"])["results"]:
            drive = drives[r["osd_id"]]
            truth = CACHE_MODES.said(drive.spec.truth[LoadPoint(r["load_point"])].verdict)
            rows.append([
                drive.name, r["device_class"], r["load_point"],
                turned_off(r), r["verdict"], "yes" if r["verdict"] == truth else f"no: {truth}",
                duration(r["seconds"]), amount(r["bytes_written"]),
            ])  # fmt: skip
    say(bold("measured"))
    say(table(("DRIVE", "CLASS", "LOAD", "CACHE OFF", "VERDICT", "AS MODELLED", "TIME",
               "WRITTEN"), rows))
    _summary_of_advice(stage)
    changed = [
        [f"osd.{c['osd_id']}", c["device_class"], ", ".join(c["dev_names"]), c["mode"],
         c["status"], before_after(c["before_us"], c["after_us"]),
         duration(c["seconds"]), amount(c["bytes_written"])]
        for c in applied["changes"]
    ]  # fmt: skip
    if changed:
        say("")
        say(bold("changed, measured before and after, then rolled back"))
        say(table(("OSD", "CLASS", "DRIVE", "TO", "APPLY", "LATENCY", "TIME", "WRITTEN"),
                  changed))
        if applied["reason"]:
            say(f"plan {applied['plan_id']}: {applied['reason']}")
    say("")
    say(f"measuring cost {duration(sum(c['seconds'] for c in campaigns))} of drive time and wrote "
        f"{amount(sum(c['bytes_written'] for c in campaigns))}")
    say(f"report: {OUT / 'report.html'}")


def _summary_of_advice(stage: Stage) -> None:
    """What is recommended, beside what each drive model was made to be."""
    made: dict[str, str] = {}
    for drive in stage.up.lab.drives:
        made[drive.placed.device_class] = " and ".join(
            dict.fromkeys(
                CACHE_MODES.said(truth.verdict)
                for load, truth in drive.spec.truth.items()
                if load is not LoadPoint.FDATASYNC_TIMER  # evidence, not a load of OSDs
            )
        )
    rows = [
        [row["device_class"], row["drive_model"]["model"], row["verdict"],
         made[row["device_class"]]]
        for row in stage.wcache("recommend")["recommendations"]
    ]  # fmt: skip
    say("")
    say(bold("recommended"))
    say(table(("CLASS", "DRIVE MODEL", "RECOMMENDED", "MODELLED AS"), rows))


def _tell_how_to_go_on(stage: Stage) -> None:
    folder = stage.cluster.folder
    say("")
    say("KEEP=1: cluster, guest and probe go on running, whatever becomes of this shell")
    say(f"talk  vstart-tests/cluster exec --dir {folder} -- ceph wcache status")
    say(f"shell vstart-tests/cluster shell --dir {folder}")
    agent = stage.up.lab.folder / "agent.sock"
    say(f"guest PYTHONPATH={GUEST_PATH} python3 -m drive_lab.agent {agent} lsblk")
    say(f"stop  vstart-tests/cluster stop --dir {folder}")


if __name__ == "__main__":
    sys.exit(main())
