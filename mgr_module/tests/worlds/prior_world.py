"""Mgrs whose drives are owed a prior state, and what they say of it."""

from dataclasses import replace

from module_world import WB, WT, said, start
from wcache.core.drive import journal
from wcache.core.errors import StorageError
from wcache.core.host_report import JournalNote, KeptPrior
from wcache.core.model import Finding, FindingCode, Severity


def errors(mgr):
    return [f for f in said(mgr, "status")["findings"] if f["severity"] == "error"]


def held_and_lost(mgr, probe_id="probe-made-anew"):
    """A run's probe is gone with its journal, and the drive is left in the other mode."""
    start(mgr)
    probe = mgr.probes["h1"]
    for _ in range(400):
        mgr.step()
        if WT in probe.modes().values() and probe.leased:
            break
    assert probe.leased
    mgr.now_s += 95.0
    mgr.engine.tick()
    probe.leased.clear()
    probe.probe_id = probe_id
    probe.turn(0)
    return probe, next(name for name, mode in probe.modes().items() if mode is WT)


def wiped(mgr, key="action/p1.0", fsid="", mode=WB):
    """h1's journal has an entry that the mgr knows nothing of, as after a redeployment."""
    probe = mgr.probes["h1"]
    real = probe.report

    def report():
        note = JournalNote(key, "domain-sda", fsid, (KeptPrior("wwn-sda", mode),))
        return replace(real(), journal=(*real().journal, note) if probe.wiped else real().journal)

    probe.wiped, probe.report = True, report
    accept = probe._accept

    def accepted(request):
        if key in request.keys:
            probe.wiped = False
        return accept(request)

    probe._accept = accepted
    mgr.inside.hosts.reported_at_s.clear()
    mgr.report_all()


def unread(mgr, text, key="action/p9.0.abc", domain_id="domain-sda"):
    """h1's probe tells of an entry that it cannot read, as its journal words it."""
    probe = mgr.probes["h1"]
    real = probe.report
    try:
        journal.parse(key, text)
    except StorageError as error:
        told = Finding(FindingCode.RESTORE_FAILED, Severity.ERROR, key, error.line())

    def report():
        found = real()
        return replace(
            found, journal=(*found.journal, JournalNote(key, domain_id)),
            findings=(*found.findings, told),
        )

    probe.report = report
    mgr.inside.hosts.reported_at_s.clear()
    mgr.report_all()


def left_over(mgr):
    """A run's drive that does not go back, its entry in the probe's journal, and its domain."""
    probe, domain_id = held_and_lost(mgr)
    probe.stuck = set(probe.drives)
    probe.leased[domain_id] = WB
    mgr.inside.hosts.reported_at_s.clear()
    mgr.report_all()
    return probe, domain_id


def accept(mgr, domain_id):
    return said(mgr, "drive accept", hostname="h1", domain_id=domain_id, accept_cost=True)
