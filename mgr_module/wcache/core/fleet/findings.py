"""What to do about every finding; those that follow from one host's report are found here.

One place for the words: health checks, `status` and the report all take them from
`ADVICE`.  What is found of a knob is in its folder, with its advice; `knobs/registry.py` has all.
What follows from more than a report is found in `commands/findings.py`.
"""

from __future__ import annotations

from collections import defaultdict
from typing import AbstractSet, Dict, List, Mapping, Tuple

from ..drive.manual import commands, pin, turn_off
from ..drive.safety import (
    Safety,
    dropping_above,
    judge,
    lost_after_reset,
    not_flushing,
    raised_by,
)
from ..host_report import HostReport
from ..model import (
    CacheMode,
    Cure,
    DeviceCache,
    DriveReport,
    Finding,
    FindingCode,
    Severity,
    Transport,
)
from ..text import ticked
from . import foreign_rules, set_up

# code: (summary for `ceph health`, what to do).  A summary with a form for one and a form for more
# (`core/text.py`, counted()) is told with the number of findings, as Ceph tells of its own.
ADVICE: Dict[FindingCode, Tuple[str, str]] = {
    FindingCode.UNSAFE: (
        "drive{s} {has|have} a volatile cache that the kernel does not flush",
        "acknowledged data is lost at a power cut: on the host, turn the cache off. SCSI, SATA: "
        f"{ticked(pin('sdX'))}, then SCSI: `sdparm --clear=WCE /dev/sdX`, SATA: "
        "`hdparm -W0 /dev/sdX`. NVMe: `nvme set-feature --feature-id=6 --value=0 /dev/nvmeX`. "
        "Then run `wcache-probe prepare`; where a dm device drops flushes, stop the OSD and "
        "reactivate its LV",
    ),
    FindingCode.UNSAFE_THROWAWAY: (
        "loop device{s} {drops|drop} flushes in this throwaway cluster",
        "expected while wcache measures here; never keep data in this cluster",
    ),
    FindingCode.DRIFT: (
        "drive{s} {is|are} not in the cache mode that was applied",
        "see `ceph wcache history`; apply again with `ceph wcache plan` and `apply`",
    ),
    FindingCode.CONTESTED: (
        "drive{s} {is|are} changed back by something else again and again",
        "remove the other rule, or run `ceph wcache rollback` and leave these drives to it; wcache "
        "does not change them by itself until you apply a plan to them",
    ),
    FindingCode.SHINGLED: (
        "drive{s} {is|are} drive-managed SMR (shingled)",
        "a short experiment does not show how slow they get under hours of writes: measure under "
        "hours of real load before you apply; `auto` leaves these drives alone",
    ),
    FindingCode.MIXED_MODES: (
        "drive model{s} {has|have} drives in different cache modes",
        "see `ceph wcache drive ls`; `ceph wcache recommend` says which mode is better",
    ),
    FindingCode.TOGGLE_INEFFECTIVE: (
        "drive{s} refused a change of cache mode, or accepted it and did not apply it",
        "nothing need be done: wcache leaves these drives as they are, and forgets it after a "
        "firmware update; the line names the command that has one tried again",
    ),
    FindingCode.SAVED_DIFFERS: (
        "drive{s} will change the cache mode at the next power-on",
        "apply with `--persist`, or save the current mode by hand",
    ),
    FindingCode.RAID_POLICY: (
        "drive{s} {has|have} a cache that a RAID controller owns",
        "wcache leaves it alone: set its policy with the controller's own tool, or give the OSD a "
        "drive that the controller passes on (JBOD, HBA mode)",
    ),
    FindingCode.UNKNOWN_LAYER: (
        "drive{s} {has|have} a layer below the OSD that wcache does not know",
        "check by hand that every layer passes flushes to the drive",
    ),
    FindingCode.LAYER_DROPS_FLUSHES: (
        "drive{s} {has|have} layers that would drop flushes if a reset turned the cache on",
        "run what the line names; volumes by hand, one OSD at a time: stop it, pin the disk "
        f"({ticked(pin('sdX'))}), deactivate and activate its LV (a dm-crypt device: close and "
        "open it), start it; then `wcache-probe prepare`, so that the next boot does not bring it "
        "back",
    ),
    FindingCode.LOADED_OFF: foreign_rules.ADVICE,
    FindingCode.SETUP: set_up.ADVICE,
    FindingCode.BCACHE_STATE: (
        "bcache device{s} {runs|run} without {its|their} cache",
        "where it says that what was dirty is lost: have Ceph check the OSD (`ceph osd deep-scrub "
        "osd.N`, or make it anew), then attach a cache. Without a cache the mode is what would "
        "hold with one",
    ),
    FindingCode.SHARED_DRIVE: (
        "OSD drive{s} may be shared with something that is not an OSD",
        "wcache leaves them alone: move the OSD or the other user elsewhere",
    ),
    FindingCode.NO_VOLATILE_CACHE: (
        "drive{s} {has|have} no volatile cache",
        "nothing to do: there is no cache to switch",
    ),
    FindingCode.FLUSH_TOO_FAST: (
        "drive{s} {answers|answer} flushes faster than any medium can write",
        "keep them in write through; where you know that they have power-loss protection, say so "
        "with `ceph wcache drive-model trust`",
    ),
    FindingCode.FLUSH_NOT_COUNTED: (
        "drive{s} {is|are} faster in write back, and the kernel counted no flush of {it|them}",
        "measure one commit at a time too (`--loads=depth1`), or boot Linux 5.5 or newer: until "
        "then write back is not recommended for them",
    ),
    FindingCode.FLUSH_LOST: (
        "drive model{s} lost writes that {it|they} had acknowledged, in a power cut",
        "keep every drive of that model in write through; see doc/hardware.md",
    ),
    FindingCode.FLUSH_MISSING: (
        "OSD{s} committed and no flush reached the {drive|drives}, whose kernel view is write back",
        "what such a cache holds is lost at a power cut: on the host, turn it off now, with the "
        "commands of WCACHE_UNSAFE in doc/troubleshooting.md. Then look for what drops flushes "
        "between OSD and drive (`wcache-probe look`), and measure again, which clears this",
    ),
    FindingCode.FLUSH_UNPROVEN: (
        "drive{s} {has|have} an adapter of which it is not shown that it passes flushes on",
        "nothing need be done: such a cache is turned off and on again, and one that is found off "
        "stays off; a SATA drive can be proven on a blank one of its model with `wcache-probe "
        "prove`",
    ),
    FindingCode.FOREIGN_RULE: (
        "rule{s} of others {sets|set} write caches",
        "each line says whether it agrees with the recommendation, and in which order to move to "
        "wcache's own: as a rule, `ceph wcache plan --persist` and `apply --persist` first, then "
        "remove it",
    ),
    FindingCode.NOT_PREPARED: (
        "drive{s} that wcache may toggle, or has toggled, would not be pinned at the next boot",
        "run `wcache-probe prepare` on the host, and again after adding drives or kernels",
    ),
    FindingCode.NOT_PINNED: (
        "drive{s} whose cache mode wcache has changed could not be pinned",
        "a reset may turn such a cache on with nothing that flushes it. The probe tries again, at "
        "least every 10 minutes. On the host see the kernel's log, and pin the disk by hand: "
        f"{ticked(pin('sdX'))}. A drive that is gone for good is given up with `ceph wcache drive "
        "accept`",
    ),
    FindingCode.CARRYOVER: (
        "drive{s} {has|have} a transient after a change of cache mode",
        "measure again with a longer settling time: `ceph config set mgr mgr/wcache/settle_s 2`; "
        "`auto` does so once by itself",
    ),
    FindingCode.AGENT_CONFLICT: (
        "host{s} {is|are} claimed by two probes",
        "stop one of the two, or give each its own host name",
    ),
    FindingCode.AGENT_SILENT: (
        "probe{s} {does|do} not respond",
        "start wcache-probe on the host, or check its key and its log",
    ),
    FindingCode.AGENT_VERSION: (
        "probe{s} {uses|use} another protocol version than the module, which ignores {it|them}",
        "bring wcache-probe on the host and the module on the mgrs to one version: doc/install.md "
        "has an upgrade for each route (packages, cephadm, Rook, by hand)",
    ),
    FindingCode.ROLLOUT_PAUSED: (
        "rollout{s} {is|are} paused and {waits|wait} for you",
        "see `ceph wcache rollout show`; then `ceph wcache rollout resume` or `abort`",
    ),
    FindingCode.PLAN_WAITS: (
        "plan{s} or automation{s} {has|have} waited for an hour",
        "nothing is at risk meanwhile, and it goes on by itself; see `ceph wcache rollout show` "
        "and `ceph wcache auto status`; to go on without what is named, `ceph wcache rollout "
        "resume PLAN --override=...`; to end it, `ceph wcache rollout abort PLAN`",
    ),
    FindingCode.CONFIG_UNPROVEN: (
        "setting{s} {was|were} changed, and it is not known which value is in effect",
        "see `ceph wcache plan show` for the commands and `ceph config dump` for the values; then "
        "run `ceph wcache rollback` with that plan",
    ),
    FindingCode.RESTORE_FAILED: (
        "prior cache state{s} {was|were} not restored, or not read back yet",
        "start the probe on the host if it does not respond; else run `wcache-probe restore --all` "
        "there and follow what it says: it restores what experiments held, and names `wcache-probe "
        "restore --action ID` for each applied change; give up a drive that is gone for good with "
        "`ceph wcache drive accept`",
    ),
    FindingCode.PRIOR_LOST: (
        "drive{s} had another cache mode before a change, and which is lost or disputed",
        "wcache does not touch that cache domain: look at the drive, correct its mode by hand if "
        "it is wrong, then run `ceph wcache drive accept HOST DOMAIN --accept-cost`",
    ),
    FindingCode.NO_ANALYSIS: (
        "the analysis cannot run",
        "install python3-numpy and python3-scipy on the mgr hosts",
    ),
    FindingCode.STORE_FAILED: (
        "the module's state cannot be stored",
        "check `ceph health` and the free space of the mons; running experiments end and restore",
    ),
    FindingCode.INTERNAL_ERROR: (
        "internal error in wcache",
        "the step was not carried out, and the probes restore; report the traceback from the "
        "mgr's log; `ceph mgr fail` restarts the module",
    ),
    FindingCode.FROZEN: (
        "an admin froze wcache",
        "nothing is measured or applied until you run `ceph wcache freeze --thaw`; `ceph wcache "
        "rollback` takes back what was applied all the same",
    ),
    FindingCode.RECOMMENDATION: (
        "drive model{s} would commit faster in the other cache mode",
        "see why with `ceph wcache recommend`, then `ceph wcache plan`; `ceph health mute "
        "WCACHE_RECOMMENDATION` where they should stay as they are, or `ceph wcache auto off`",
    ),
    FindingCode.WEB_PAGE: (
        "the web page of wcache cannot be shown",
        "do what the detail says, or `ceph config set mgr mgr/wcache/web off`; all else goes on",
    ),
    FindingCode.CAMPAIGN_ABORTS: (
        "campaigns keep aborting",
        "see the reasons in `ceph wcache campaign show`, fix them, and measure again; a campaign "
        "that succeeds clears this",
    ),
}

# What is to be done where that of the code is too wide.
_CURES: Dict[Cure, str] = {
    Cure.LET_PROBE_SEE: (
        "the probe does not see every program of its host: a container needs the host's "
        "pid namespace (doc/install.md); until then wcache leaves these drives alone"
    ),
    Cure.IN_DETAIL: (
        "acknowledged data is lost at a power cut: run what the line says, "
        "then `wcache-probe prepare` on that host; where a dm device drops flushes, stop the OSD "
        "and reactivate its LV"
    ),
    Cure.START_PROBE: (
        "start the probe on the host: it restores and reports; a drive that is gone for "
        "good is given up with `ceph wcache drive accept`"
    ),
    Cure.BOOT_ONCE: (
        "boot the host once, when it suits: until a boot has shown the boot rule, its SCSI and "
        "SATA drives are not toggled. Where what it boots is not made on it, put "
        "/etc/udev/rules.d/59-wcache-pin.rules into that first (doc/install.md)"
    ),
    Cure.START_OSD: (
        "start the OSD if it is down: the mgr asks it each minute, and takes back what it was "
        "given; the command that the line names does the same by hand"
    ),
}


def advice_on(
    item: Finding, advice: Mapping[FindingCode, Tuple[str, str]] = ADVICE
) -> str:
    """Say what to do about a finding: the cure that applies to it alone, where that is known."""
    return _CURES.get(item.cure) or advice[item.code][1]


def of_drive(
    drive: DriveReport, *, throwaway: bool, leased: bool, touched: bool = True
) -> List[Finding]:
    """Findings that follow from one reading of a drive, with the probe's own.

    `touched`: wcache has changed it, or may have.
    """
    found = list(drive.findings)
    if judge(drive.state) is Safety.UNSAFE:
        layers = ", ".join(not_flushing(drive.state))
        detail = f"the volatile cache is on and {layers} does not flush"
        if drive.transport is Transport.LOOP and throwaway:
            held = " (an experiment holds it)" if leased else ""
            code = FindingCode.UNSAFE_THROWAWAY
            found.append(Finding(code, Severity.INFO, drive.dev_name, detail + held))
        else:
            cure = Cure.IN_DETAIL if commands(drive, CacheMode.WRITE_THROUGH) else Cure.GENERAL
            found.append(Finding(
                FindingCode.UNSAFE, Severity.ERROR, drive.dev_name,
                f"{detail}: {turn_off('', [drive])}", cure,
            ))
    elif judge(drive.state) is Safety.AFTER_RESET:
        layers = ", ".join(lost_after_reset(drive.state))
        found.append(
            Finding(FindingCode.LOADED_OFF, Severity.WARNING, drive.dev_name, layers)
            if foreign_rules.lenient(drive, touched or leased) else
            Finding(
                FindingCode.LAYER_DROPS_FLUSHES, Severity.ERROR, drive.dev_name,
                f"the cache is off, but a reset may turn it on, and {layers} drops flushes; "
                + raised_by(drive),
            )
        )
    elif drive.state.device_cache is DeviceCache.WRITE_THROUGH and dropping_above(drive):
        found.append(
            Finding(
                FindingCode.LAYER_DROPS_FLUSHES, Severity.INFO, drive.dev_name,
                f"{', '.join(dropping_above(drive))} drops flushes, but the drive keeps write "
                f"through after a reset; {raised_by(drive)}",
            )
        )
    return found


def of_power_cuts(report: HostReport) -> List[Finding]:
    """Drive models that lost acknowledged writes when somebody pulled a plug on this host."""
    names = {drive.drive_id: drive.dev_name for drive in report.drives}
    return [
        Finding(
            FindingCode.FLUSH_LOST, Severity.WARNING, str(cut.drive_model),
            f"{names.get(cut.drive_id, cut.drive_id)} lost {cut.lost} of the last {cut.checked} "
            "writes that it had acknowledged in "
            + (cut.mode.value if cut.mode else "an unknown mode"),
        )
        for cut in report.power_cuts if cut.lost
    ]


def modes_of(report: HostReport, without: AbstractSet[str]) -> Dict[Tuple[str, str], int]:
    """Drives of a host by (drive model, mode); domains in `without` do not count."""
    counts: Dict[Tuple[str, str], int] = defaultdict(int)
    for drive in report.drives:
        mode = drive.mode
        if mode is not None and drive.domain_id not in without:
            counts[str(drive.drive_model) or drive.transport.value, mode.value] += 1
    return dict(counts)
