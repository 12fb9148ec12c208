"""Stories for the goldens: each tells in one form what commands answer, one after the other."""

from dataclasses import replace

from memory_world import GIB, watch
from memory_world import a_mgr as a_mgr_with_memory
from mgr_fakes import builders as make
from mgr_fakes.module import FakeMgr
from mgr_fakes.probe import FakeProbe
from module_world import WB, WT, a_mgr, applied, measured_anew, ok, settled, start
from prior_world import left_over
from wcache.ceph.web_host import WebTokens
from wcache.core import codec
from wcache.core.host_report import ToggleProof
from wcache.core.model import (
    KernelView,
    Layer,
    LayerKind,
    OsdUse,
    PlpHint,
    Role,
    Transport,
)
from wcache.core.protocol import PROTOCOL_VERSION, Hello, Post
from wcache.core.verdict.foreign import BYTES_MAX, Evidence, checksum

MODEL = str(make.MODEL)
ELSEWHERE = "11111111-2222-4333-8444-555555555555"


def agents(say):
    """Probes come, call and go."""
    mgr = a_mgr()
    say(mgr, "agent add", hostname="h1")
    say(mgr, "agent add", all=True)
    say(mgr, "agent add", all=True, hosts_read=True)
    say(mgr, "agent add", hostname="h9")
    hello = codec.dumps(Hello(PROTOCOL_VERSION, "probe-h1", "i1", "", False))
    post = codec.dumps(
        Post(PROTOCOL_VERSION, "probe-h1", "i1", hostname="h1", task_id="t9")
    )
    say(mgr, "agent poll", hello, hostname="h1")
    say(mgr, "agent post", post, hostname="h1")
    say(mgr, "agent poll", "{}", hostname="h1")
    say(mgr, "agent poll", hostname="h1")
    say(mgr, "agent rm", hostname="h2", dry_run=True)
    say(mgr, "agent rm", hostname="h2")
    say(mgr, "agent rm", hostname="h2")
    say(mgr, "agent ls")


def drive_models(say):
    """An admin's word for a drive model, given and taken back."""
    mgr = FakeMgr(("h1", (make.drive("sda", 0, plp_hints=(PlpHint(True, "NV_SUP"),)),)))
    mgr.probes["h1"].latency_ns = {WB: 500_000, WT: 5_000_000}
    mgr.analysis.findings = [{"code": "WCACHE_FLUSH_TOO_FAST", "detail": "0.01 ms for a disk"}]
    mgr.report_all()
    start(mgr)
    settled(mgr)
    say(mgr, "status")
    given = {"drive_model": MODEL, "reason": "data sheet, page 3"}
    for dry_run in (True, False, False):
        say(mgr, "drive-model trust", dry_run=dry_run, **given)
    say(mgr, "drive-model trust", drive_model="X", reason="seen")
    say(mgr, "recommend")
    for dry_run in (True, False, False):
        say(mgr, "drive-model trust", take_back=True, drive_model=MODEL, dry_run=dry_run)
    say(mgr, "status")


def proofs(say):
    """What one host has shown of a drive model, accepted for all and revoked."""
    behind = make.drive(
        "sda", 0, transport=Transport.SATA_HBA, host_driver="mpt3sas",
        refusals=make.refused("not proven"),
    )
    mgr = FakeMgr(("h1", (behind,)), ("h2", ()))
    times = (10.0, 20.0, 30.0)
    shown = ToggleProof("mpt3sas", make.MODEL, False, (), times, times, "h2", "naa.9", 1.0)
    probe, report = mgr.probes["h2"], mgr.probes["h2"].report
    probe.report = lambda: replace(report(), proofs=(shown,))
    mgr.report_all()
    given = {"drive_model": MODEL, "hostname": "h2"}
    for dry_run in (True, False, False):
        say(mgr, "drive-model trust", reason="seen", dry_run=dry_run, **given)
    say(mgr, "drive-model trust", drive_model=MODEL, hostname="h1", reason="seen")
    for dry_run in (True, False, False):
        say(mgr, "drive-model trust", take_back=True, dry_run=dry_run, **given)


def priors(say):
    """A drive that does not go back, until an admin accepts it as it is."""
    mgr = a_mgr()
    _, domain_id = left_over(mgr)
    say(mgr, "status")
    drive = {"hostname": "h1", "domain_id": domain_id}
    say(mgr, "drive accept", **drive)
    say(mgr, "drive accept", dry_run=True, **drive)
    say(mgr, "drive accept", accept_cost=True, **drive)
    mgr.report_all()
    mgr.report_all()
    say(mgr, "drive accept", accept_cost=True, **drive)
    say(mgr, "status")


def campaigns(say):
    """A campaign is stopped, another measured; then everything is frozen and thawed."""
    mgr = a_mgr()
    say(mgr, "campaign start", loads="depth1")
    say(mgr, "campaign start", loads="depth1", seed=1, accept_cost=True)
    mgr.step()
    for dry_run in (True, False):
        say(mgr, "campaign stop", campaign_id="c1", dry_run=dry_run)
    mgr.settle()
    say(mgr, "campaign stop", campaign_id="c1")
    say(mgr, "campaign stop", campaign_id="c9")
    start(mgr, seed=1)
    mgr.step()
    for thaw in (False, True):
        for dry_run in (True, False, False):
            say(mgr, "freeze", thaw=thaw, dry_run=dry_run)
    mgr.settle()
    say(mgr, "campaign show", campaign_id="c2")


def records(say):
    """A record with its raw samples."""
    mgr = a_mgr()
    start(mgr, seed=1)
    mgr.settle()
    say(mgr, "campaign record", record_id="c1.0.0")
    say(mgr, "campaign record", record_id="c9.0.0")


def automation(say):
    """What may be begun without an admin is said; another cluster's evidence comes and goes."""
    mgr = measured_anew()
    say(mgr, "auto", mode="apply", dry_run=True)
    say(mgr, "auto", mode="apply")
    say(mgr, "auto", mode="recommend", scope="class:ssd")
    say(mgr, "auto", mode="off")
    file = codec.loads(
        Evidence, ok(mgr.command("evidence export")), bytes_max=BYTES_MAX, what="file"
    )
    file = replace(file, cluster=ELSEWHERE)
    text = codec.dumps(replace(file, sha256=checksum(file)))
    say(mgr, "evidence import", text, dry_run=True)
    say(mgr, "evidence import", text)
    say(mgr, "evidence import", text)
    say(mgr, "evidence import", "{}")
    say(mgr, "evidence ls")
    for dry_run in (True, False, False):
        say(mgr, "evidence rm", cluster=ELSEWHERE, dry_run=dry_run)


def rollouts(say):
    """A rollout is paused, resumed and aborted."""
    mgr = measured_anew()
    ok(mgr.command("plan"))
    ok(mgr.command("apply", plan_id="p1"))
    mgr.steps(12)
    for dry_run in (True, False):
        say(mgr, "rollout pause", plan_id="p1", dry_run=dry_run)
    for _ in range(200):
        mgr.step()
        if mgr.inside.rollouts["p1"].paused:
            break
    say(mgr, "rollout show", plan_id="p1")
    say(mgr, "rollout resume", plan_id="p1", override="nonsense")
    for dry_run in (True, False):
        say(mgr, "rollout resume", plan_id="p1", dry_run=dry_run)
    mgr.steps(3)
    for dry_run in (True, False):
        say(mgr, "rollout abort", plan_id="p1", dry_run=dry_run)
    mgr.settle()
    say(mgr, "rollout show", plan_id="p1")
    say(mgr, "rollout abort", plan_id="p1")
    say(mgr, "rollout pause", plan_id="p9")


def memory_trial(say):
    """A trial of more memory, from what it would take until it is stopped."""
    mgr = a_mgr_with_memory(hosts=3, ram_bytes=32 * GIB)
    watch(mgr)
    wanted = {"scope": "class:hdd", "target_bytes": 6 * GIB}
    say(mgr, "memory trial start", **wanted)
    say(mgr, "memory trial start", scope="class:zzz", accept_cost=True)
    say(mgr, "memory trial start", accept_cost=True, **wanted)
    for _ in range(400):
        mgr.step(10.0)
        if mgr.osd_memory.osds[0].leased:
            break
    say(mgr, "memory trial show")
    say(mgr, "rollout abort", plan_id="t1")
    mgr.steps(10, 10.0)
    say(mgr, "memory trial show")
    say(mgr, "rollout abort", plan_id="t1")


def findings(say):
    """Much is wrong at once: a kernel that does not flush, a silent probe, a rival, a freeze."""
    mgr = FakeMgr(
        ("h1", (make.unsafe_drive(), make.drive("sdb", 1, mode=WT), make.drive("sdc", 2))),
        ("h2", (make.drive("sdd", 3),)),
    )
    mgr.report_all()
    mgr.probes["h2"].muted = True
    mgr.now_s += 95.0
    mgr.probes["h1"].turn()
    FakeProbe(mgr.send, "h1", (make.drive("sda", 0),), probe_id="rival").turn()
    ok(mgr.command("freeze"))
    mgr.engine.tick()
    say(mgr, "status")
    say(mgr, "try")


def explained(say):
    """Why a verdict, of one drive and of a drive model; and what is not measured or not known."""
    mgr = a_mgr()
    say(mgr, "explain", scope="osd.0")
    start(mgr, seed=1)
    settled(mgr)
    say(mgr, "explain", scope="osd.0")
    say(mgr, "explain", scope=["model:ACME", "HD1", "1.0"])
    say(mgr, "explain", scope="model:HD9")


def found_off(say):
    """Caches that somebody turned off, with volumes loaded so: told, and how they are cured."""
    layers = (Layer("dm-0", LayerKind.LVM, KernelView.WRITE_THROUGH),)
    state = make.state(WT, kernel_view=KernelView.WRITE_THROUGH, layers=layers)
    drives = (
        make.drive("sda", i, state=state, transport=Transport.SATA,
                   uses=(OsdUse(i, Role.BLOCK, layers),))
        for i in range(2)
    )
    mgr = FakeMgr(*((f"h{i}", (drive,)) for i, drive in enumerate(drives)))
    mgr.report_all()
    say(mgr, "status")
    say(mgr, "try")
    for seed in (1, 2):
        say(mgr, "campaign start", observe=True, loads="traffic", seed=seed)
        mgr.settle()
    say(mgr, "campaign show", before="c1", campaign_id="c2")
    say(mgr, "campaign show", before="c1", campaign_id="c1")
    say(mgr, "drive reload")
    say(mgr, "drive reload", scope="host:h9")


def web_page(say):
    """A token for the web page, while it is off, cannot be shown, and is there."""
    mgr = a_mgr()
    tokens = mgr.service.web_tokens = WebTokens(lambda: mgr.now_s)
    say(mgr, "web token")
    tokens.rest("cannot listen on 127.0.0.1 port 8447: choose another")
    say(mgr, "web token")
    tokens.serve(bytes(32), "http://127.0.0.1:8447/")
    say(mgr, "web token")


def leaving(say):
    """What is applied stays or goes back, one host is gone, and nothing is left."""
    for way in ("keep", "back"):
        mgr = applied()
        for name in ("h1", "h2"):
            ok(mgr.command("agent add", hostname=name, run_by="systemd"))
        say(mgr, "leave", **{way: True}, dry_run=True)
        if way == "back":
            say(mgr, "leave", back=True)
            settled(mgr)
            mgr.now_s += 120.0
            mgr.probes["h1"].turn()
            say(mgr, "leave", back=True)
            say(mgr, "leave", back=True)
        say(mgr, "leave", **{way: True}, host_is_gone="h2")
        say(mgr, "status")


STORIES = {
    "11-agents": agents, "12-drive-models": drive_models, "13-proofs": proofs, "14-priors": priors,
    "15-campaigns": campaigns, "17-automation": automation,
    "18-rollouts": rollouts, "19-memory-trial": memory_trial, "20-findings": findings,
    "21-explained": explained,
    "22-found-off": found_off,
    "23-web-page": web_page, "32-leaving": leaving,
}
