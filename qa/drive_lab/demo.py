"""``make demo-lab``: the main job on drives whose caches really toggle, step by step.

Three OSDs in a guest, on a drive where write through wins, one where write back wins and one
without a difference; everything is done by the commands that an admin would type.
"""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path
from typing import Any

from demo.stage import Stage, bold, say
from harness import Cluster, HarnessError
from probes import probe_caps
from wcache.core.wording import duration, table
from wcache_probe.sim.toml_table import DriveFileError

from . import campaign
from .artefacts import BuildError
from .lab import Lab
from .machine import LabDrive
from .probe import GuestProbe
from .processes import LabError
from .witness import look

DRIVE_FILE = Path(__file__).resolve().parents[1] / "drive_models" / "lab.toml"
PAIRS_MAX = 20
OPTIONS = {"poll_idle_s": "0.5", "settle_s": "0.2", "period_s": "2", "canary_wait_s": "3"}
PLAN_TIMEOUT_S = 300.0
ROLLBACK_TIMEOUT_S = 120.0


class LabStage(Stage):
    """The demo's stage with its probe in the guest, and the lab's witnesses beside it."""

    def __init__(self, lab: Lab, cluster: Cluster, began_s: float) -> None:
        super().__init__(cluster, began_s, OPTIONS)
        self._lab = lab
        self._guest_probe: GuestProbe | None = None

    @property
    def drives(self) -> list[LabDrive]:
        """The drives of the lab, with what they are modelled as."""
        return self._lab.drives

    def start_probe(self) -> None:
        """Make the probe's key and start it in the guest, as its systemd unit would."""
        keyring = self.cluster.auth_key(
            f"client.wcache.{self.hostname}", **probe_caps(self.hostname)
        )
        self._guest_probe = GuestProbe(self._lab, self.hostname, keyring)
        self._guest_probe.start()
        say(bold(f"{self.hostname}$ wcache-probe run --id wcache.{self.hostname} --keyring ..."))
        try:
            self.wait("the probe's first report", lambda: self.wcache("drive ls")["drives"], 60)
        except HarnessError as error:
            raise LabError(f"{error}\n{self._guest_probe.log()[-800:]}") from error

    def stop_probe(self) -> None:
        """End the probe, which restores what it holds."""
        if self._guest_probe is not None:
            self._guest_probe.stop()
            self._guest_probe = None

    def witnesses(self) -> None:
        """What can be seen of the drives without asking wcache."""
        rows = []
        for fitted in self._lab.drives:
            seen = look(self._lab.drive(fitted.name), None)
            mode = {True: "write back", False: "write through"}
            rows.append([
                fitted.name, mode[seen.by_drive_on], mode[seen.by_qmp_on],
                ", ".join(f"{name} {view}" for name, view in seen.by_kernel.items()),
            ])
        say(bold("the same drives as their own tools, QEMU and the kernel have them"))
        for line in table(("DRIVE", "DRIVE SAYS", "QEMU SAYS", "KERNEL SAYS"), rows).splitlines():
            say("  " + line)


def main() -> int:
    """Run the demo; returns its exit code.  RELEASE chooses the Ceph in the lab."""
    stages = campaign.Stages()
    began_s = time.monotonic()
    try:
        release = int(os.environ.get("RELEASE", "20"))
        say(bold(f"wcache demo on Ceph {release}, in the drive lab"))
        say("three OSDs in a QEMU guest, on modelled drives whose write caches really toggle")
        job = campaign.LabJob(drive_file=DRIVE_FILE, release=release)
        with campaign.running(job, stages) as (lab, cluster):
            stage = LabStage(lab, cluster, began_s)
            try:
                _steps(stage)
            finally:
                stage.stop_clients()
                stage.stop_probe()
        say("guest, drives and cluster are stopped and removed")
    except (BuildError, DriveFileError, HarnessError, LabError, OSError) as error:
        print(f"demo: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("\ndemo: interrupted", file=sys.stderr)
        return 130
    return 0


def _steps(stage: LabStage) -> None:
    ceph = stage.ceph
    stage.step("Set up: module and probe")
    stage.enable()
    stage.start_probe()
    stage.make_pool()

    stage.step("Look: what every drive is, on both sides of its cache")
    ceph("wcache", "status")
    ceph("wcache", "drive", "ls")
    stage.witnesses()

    stage.step("Measure: one write at a time, each drive in both modes, at a forecast cost")
    asked = ("--loads=depth1", f"--pairs={PAIRS_MAX}")
    stage.wait_clean()
    ceph("wcache", "campaign", "forecast", *asked)
    ceph("wcache", "campaign", "start", *asked, "--accept-cost")
    campaign_id = stage.wcache("campaign ls")["campaigns"][-1]["campaign_id"]
    stage.tool("watch", campaign_id)
    ceph("wcache", "campaign", "show", campaign_id)

    stage.step("Decide: one recommendation per device class and drive model, with its evidence")
    ceph("wcache", "recommend")

    stage.step("Plan and apply, under the traffic of clients: each change is measured")
    stage.start_clients()
    ceph("wcache", "plan")
    plans = stage.wcache("plan ls")["plans"]
    if not plans:
        say("No verdict is strong enough to act on, so nothing is changed: a quiet machine "
            "decides within a few pairs.")
    else:
        _apply_and_roll_back(stage, plans[-1]["plan_id"])
    stage.stop_clients()

    stage.step("The audit log")
    ceph("wcache", "history")
    _summary(stage)


def _apply_and_roll_back(stage: LabStage, plan_id: str) -> None:
    stage.ceph("wcache", "apply", plan_id)
    stage.wait_plan(plan_id, PLAN_TIMEOUT_S)
    stage.ceph("wcache", "plan", "show", plan_id)
    stage.ceph("wcache", "status")
    stage.witnesses()

    stage.step("Roll back: what was there before is there again")
    stage.ceph("wcache", "rollback", plan_id)
    stage.wait_plan(plan_id, ROLLBACK_TIMEOUT_S)
    stage.ceph("wcache", "plan", "show", plan_id)
    stage.witnesses()


def _summary(stage: LabStage) -> None:
    stage.step("Summary")
    expected = {
        drive.placed.uses[0][0]: (drive.name, drive.spec) for drive in stage.drives
    }
    rows: list[list[Any]] = []
    for listed in stage.wcache("campaign ls")["campaigns"]:
        for r in stage.wcache("campaign show", campaign_id=listed["campaign_id"])["results"]:
            name, spec = expected[r["osd_id"]]
            truth = next(t for p, t in spec.truth.items() if p.value == r["load_point"])
            rows.append([
                name, r["load_point"], f"{r['ratio']:.2f}" if r["ratio"] is not None else "-",
                r["verdict"], truth.verdict.value, r["pairs"], duration(r["seconds"]),
            ])
    say(table(("DRIVE", "LOAD", "RATIO", "VERDICT", "IT IS MODELLED AS", "PAIRS", "TIME"), rows))
    say(f"whole demo: {duration(time.monotonic() - stage.began_s)}")


if __name__ == "__main__":
    sys.exit(main())
