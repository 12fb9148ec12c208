"""What `wcache-probe prove` has shown on one host, and what that opens or closes on others."""

from dataclasses import replace

from translations import Translation, host_with, proof
from wcache.core.drive.proofs import AcceptedProof, digest, proofs_for
from wcache.core.host_report import HostReport
from wcache.core.model import DriveModel
from wcache_probe.evidence import EvidenceFolder
from wcache_probe.linux.transports.sata import why_unproven


def told(hostname, *proofs, drives=(), simulated=False):
    return HostReport(hostname, "1", drives, proofs=proofs, simulated=simulated)


def test_the_mgr_passes_a_proof_to_hosts_that_have_the_combination_and_to_no_other(fake_host):
    (drive,) = host_with(fake_host, Translation()).look()
    needs = told("h1", drives=(drive,))
    other = told("h3", drives=(replace(drive, drive_model=DriveModel("ATA", "X", "1")),))
    have = [told("h2", proof()), told("h4", proof(hostname="h4"))]
    assert proofs_for("h1", [needs, *have]) == (proof(),)
    assert proofs_for("h3", [other, *have]) == ()
    assert proofs_for("h1", [needs, *(replace(one, simulated=True) for one in have)]) == ()
    nothing = replace(proof(), write_back_us=())
    assert proofs_for("h1", [needs, told("h2", nothing), told("h4", nothing)]) == ()


def test_a_forged_proof_of_one_host_opens_no_other_whatever_name_it_bears(fake_host):
    (drive,) = host_with(fake_host, Translation()).look()
    forged = [proof(hostname=name) for name in ("h5", "h6", "h7")]
    reports = [told("h1", drives=(drive,)), told("h9", *forged)]
    assert proofs_for("h1", reports) == ()
    assert proofs_for("h1", [*reports, told("h2", proof())]) != ()


def test_a_forged_failure_of_one_host_closes_no_other_and_that_of_two_does(fake_host):
    (drive,) = host_with(fake_host, Translation()).look()
    bad = proof(disagreed=("no",), hostname="h4")
    held = [told("h1", drives=(drive,)), told("h2", proof()), told("h3", proof(hostname="h3"))]
    assert proofs_for("h1", [*held, told("h4", bad)]) == (proof(),)
    assert proofs_for("h1", [*held, told("h4", bad), told("h5", bad)]) == (bad,)
    # who saw it hold and fail is no word for it
    unsure = [*held[:2], told("h3", proof(hostname="h3"), bad)]
    assert proofs_for("h1", unsure) == ()


def test_an_admins_word_for_one_host_opens_the_others_for_what_it_had_shown_by_then(fake_host):
    (drive,) = host_with(fake_host, Translation()).look()
    model = str(proof().drive_model)
    word = AcceptedProof("h2", model, "seen it", (digest(proof()),))
    reports = [told("h1", drives=(drive,)), told("h2", proof())]
    assert proofs_for("h1", reports, [word]) == (proof(),)
    later = replace(proof(), proven_at_s=2.0)
    assert proofs_for("h1", [reports[0], told("h2", later)], [word]) == ()
    for other in (replace(word, hostname="h3"), replace(word, drive_model="X")):
        assert proofs_for("h1", reports, [other]) == ()


def test_what_was_shown_on_the_host_itself_takes_precedence_over_what_others_say():
    own, passed = proof(hostname="h1"), proof(disagreed=("no",), hostname="h4")
    names = (own.host_driver, own.drive_model)
    assert why_unproven(*names, (own, passed)) == ""
    assert "did not hold: no" in why_unproven(*names, (passed, own))


def test_what_the_mgr_tells_no_more_is_forgotten_and_what_was_seen_here_never(tmp_path):
    folder_ = EvidenceFolder(str(tmp_path))
    own = proof(hostname="h1")
    folder_.put_proof(own)
    passed = proof(driver="mpi3mr")
    folder_.take([passed])
    assert folder_.proofs() == (own, passed)
    assert folder_.own_proofs() == (own,)
    folder_.take([])
    assert folder_.proofs() == (own,)
