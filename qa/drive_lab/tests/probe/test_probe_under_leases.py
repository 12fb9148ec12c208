"""The probe at work under leases, on drives that really toggle, through resets and plugs."""

import pytest
from probe_bench import BACK, OTHER, THROUGH
from wcache.core import codec
from wcache.core.drive.prior import prior_from
from wcache.core.model import CacheMode
from wcache.core.protocol import (
    ApplyRequest,
    DrivesOutcome,
    LookRequest,
    ReleaseRequest,
    RollbackRequest,
    SetModeRequest,
)

pytestmark = pytest.mark.lab

HOST_DRIVERS = {"scsi": "virtio_scsi", "sas": "mptsas", "sata": "ahci", "nvme": "nvme"}
LONG = pytest.mark.long
ALL = pytest.mark.parametrize(
    "name", [pytest.param(n, marks=[LONG] if n in ("sas", "nvme") else []) for n in HOST_DRIVERS]
)
CASES = pytest.mark.parametrize(
    ("name", "prior"),
    [
        pytest.param(name, prior, id=f"{name} was {prior.value}", marks=marks)
        for name, prior, marks in (
            ("scsi", THROUGH, []), ("sas", BACK, [LONG]), ("sata", BACK, []), ("nvme", BACK, []),
            ("scsi", BACK, [LONG]), ("sas", THROUGH, [LONG]), ("sata", THROUGH, [LONG]),
            ("nvme", THROUGH, [LONG]),
        )
    ],
)


# ---- reading


@CASES
def test_look_says_what_the_drive_does(bench, probe_of, name, prior):
    probe = probe_of(name)
    disk = probe.begin(prior)
    seen = probe.look()
    placed = bench.lab.drive(name).fitted.placed
    assert seen["dev_name"] == disk.name
    assert seen["serial"] == placed.serial
    assert (seen["transport"], seen["host_driver"]) == (name, HOST_DRIVERS[name])
    assert (seen["rotational"], seen["size_bytes"]) == (
        placed.spec.rotational, placed.spec.size_bytes,
    )
    if not disk.is_nvme:  # QEMU gives all NVMe drives a model of its own, and no WWN
        assert seen["wwn"] == f"naa.{placed.wwn[2:]}"
        assert seen["drive_model"]["model"] == placed.spec.model
    assert seen["toggle_refusal"] == ""
    assert [use["osd_id"] for use in seen["uses"]] == [0]
    # four witnesses: QEMU, the probe, the kernel's file, and what one write and sync became
    true = bench.true_state(name)
    assert seen["state"]["device_cache"] == prior.value == probe.mode().value
    assert true.cached is (prior is BACK)
    assert seen["state"]["kernel_view"] == disk.kernel_view()
    assert true.flushed is (disk.kernel_view() == "write back")
    assert not true.unsafe


def test_look_calls_an_unsafe_drive_unsafe_and_it_is(bench, probe_of):
    probe = probe_of("scsi")
    disk = probe.begin(THROUGH)
    probe.behind_our_back(BACK)
    look = probe.forks.fork(probe.words("look"))
    assert look.wait() == 1
    assert "unsafe" in look.output()
    assert disk.kernel_view() == "write through"
    # last: the end of the writing program makes udev have the kernel look again
    assert bench.true_state("scsi").unsafe


# ---- toggling


@CASES
def test_a_lease_holds_the_drive_in_each_mode_and_gives_it_back(bench, probe_of, name, prior):
    probe = probe_of(name)
    disk = probe.begin(prior)
    probe.start()
    for mode in (OTHER[prior], prior, OTHER[prior]):
        outcome = probe.ask(SetModeRequest(probe.domain_id, mode, consent_turn_on=True))
        assert outcome["kind"] == "state", outcome
        (after,) = outcome["after"]
        assert after["device_cache"] == mode.value == probe.mode().value
        assert (after["kernel_view"], after["pinned"]) == ("write back", True)
        assert disk.kernel_view() == "write back"
        true = bench.true_state(name)
        assert (true.cached, true.flushed, true.unsafe) == (mode is BACK, True, False)
    assert len(probe.journal()) == 1
    outcome = probe.ask(ReleaseRequest(probe.domain_id))
    assert outcome["after"][0]["device_cache"] == prior.value == probe.mode().value
    assert probe.journal() == []
    assert not bench.true_state(name).unsafe
    assert probe.running.kill("TERM") == 0


@ALL
def test_an_applied_change_stays_until_it_is_rolled_back(bench, probe_of, name):
    probe = probe_of(name)
    probe.begin(BACK)
    probe.start()
    told = probe.ask(LookRequest(probe.domain_id), lease=False)
    prior = prior_from("", probe.domain_id, codec.decode(DrivesOutcome, told, "outcome").drives)
    change = ApplyRequest(probe.domain_id, "a1", BACK, THROUGH, prior=prior)
    done = probe.ask(change, lease=False)
    assert (done["kind"], done["changed"]) == ("state", True), done
    again = probe.ask(change, lease=False)
    assert again["kind"] == "state", again
    assert probe.mode() is THROUGH
    assert probe.running.kill("TERM") == 0
    assert probe.mode() is THROUGH
    assert not bench.true_state(name).unsafe

    probe.start()
    done = probe.ask(RollbackRequest(probe.domain_id, "a1", prior=prior), lease=False)
    assert (done["kind"], probe.mode()) == ("state", BACK), done
    assert probe.journal() == []
    probe.check_safe("rolled-back")


# ---- what happens to a drive under a lease


@ALL
def test_a_drive_switched_behind_our_back_is_safe_and_is_given_back(probe_of, name):
    probe = probe_of(name)
    probe.begin(BACK)
    assert probe.set_mode(THROUGH)["kind"] == "state"
    probe.behind_our_back(BACK)
    probe.check_safe("switched-on")
    assert probe.ask(SetModeRequest(probe.domain_id, THROUGH))["kind"] == "state"
    assert probe.mode() is THROUGH, "the probe read the drive again before it believed anything"
    probe.behind_our_back(BACK)
    probe.behind_our_back(THROUGH)
    probe.check_safe("on-and-off")
    assert probe.ask(ReleaseRequest(probe.domain_id))["kind"] == "state"
    assert probe.mode() is BACK
    probe.check_safe("given-back")


# virtio-scsi resets a LUN and nothing else; libata lets nobody ask for a reset
@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("scsi", "device"),
        pytest.param("sas", "device", marks=LONG),
        pytest.param("sas", "bus", marks=LONG),
        pytest.param("sas", "host", marks=LONG),
        ("nvme", "controller"),
    ],
)
def test_a_reset_of_a_drive_under_a_lease_is_safe(probe_of, name, kind):
    probe = probe_of(name)
    probe.begin(BACK)
    assert probe.set_mode(THROUGH)["kind"] == "state"
    probe.reset(kind)
    probe.check_safe("reset")
    # a drive that came back from it with its cache on
    probe.behind_our_back(BACK)
    probe.check_safe("reset-and-on")
    assert probe.ask(ReleaseRequest(probe.domain_id))["kind"] == "state"
    assert probe.mode() is BACK


@pytest.mark.parametrize("name", ["sata", pytest.param("sas", marks=LONG)])
def test_a_drive_that_comes_anew_under_a_lease_is_pinned_before_it_is_given_back(
    probe_of, name
):
    """The nearest thing to a hot plug that QEMU has for SATA; the drive keeps its mode."""
    probe = probe_of(name)
    probe.begin(BACK)
    assert probe.set_mode(THROUGH)["kind"] == "state"
    probe.adapter_driven_anew()
    assert probe.mode() is THROUGH
    probe.make_osd()
    probe.check_safe("anew")
    outcome = probe.ask(ReleaseRequest(probe.domain_id))
    assert outcome["kind"] == "state", outcome
    assert probe.mode() is BACK
    probe.check_safe("given-back")
    probe.behind_our_back(THROUGH)
    probe.behind_our_back(BACK)
    probe.check_safe("still-pinned")


@pytest.mark.parametrize("name", ["scsi", *(pytest.param(n, marks=LONG) for n in ("sas", "sata"))])
def test_without_udev_nobody_follows_and_the_pin_holds_all_the_same(bench, probe_of, name):
    probe = probe_of(name)
    probe.begin(BACK)
    bench.sh("udevadm control --exit").checked()
    try:
        assert probe.set_mode(THROUGH)["kind"] == "state"
        probe.check_safe("no-udev")
        probe.behind_our_back(BACK)
        probe.check_safe("no-udev-on")
        probe.running.kill()
        probe.behind_our_back(THROUGH)
        code, said = probe.restore_all()
        assert code == 0, said
        assert probe.mode() is BACK
        probe.check_safe("no-udev-restored")
    finally:
        bench.sh("/usr/lib/systemd/systemd-udevd --daemon").checked()
        bench.settle()


@pytest.mark.parametrize("name", ["scsi", pytest.param("nvme", marks=LONG)])
def test_a_drive_pulled_out_under_a_lease_is_given_back_when_it_returns(bench, probe_of, name):
    probe = probe_of(name)
    probe.begin(BACK)
    assert probe.set_mode(THROUGH)["kind"] == "state"
    bench.lab.unplug(name)
    outcome = probe.ask(ReleaseRequest(probe.domain_id))
    assert outcome["kind"] == "failure", outcome
    assert outcome["restored"] is False
    assert len(probe.journal()) == 1, "nobody forgets a drive that is away"
    bench.lab.replug(name)
    bench.settle()
    assert probe.mode() is BACK
    probe.make_osd()  # as its activation does
    probe.check_safe("replugged")
    probe.running.kill()
    code, said = probe.restore_all()
    assert code == 0, said
    assert probe.journal() == []
    assert probe.mode() is BACK
    probe.check_safe("restored")


@LONG
def test_a_guest_that_resets_under_leases_gets_its_drives_back(bench, probe_of, forks):
    """The reset keeps the drives' power: they are off, and the new kernel believes them."""
    probes = [probe_of(name) for name in ("scsi", "sas", "sata", "nvme")]
    for probe in probes:
        probe.begin(BACK)
        assert probe.set_mode(THROUGH)["kind"] == "state"
    bench.lab.reset()
    forks.start()
    for probe in probes:
        assert probe.mode() is THROUGH
        probe.running = None
        probe.make_osd()
        probe.check_safe("after-reset")
        code, said = probe.restore_all()
        assert code == 0, said
        assert (probe.mode(), probe.journal()) == (BACK, [])
        probe.check_safe("restored")


@LONG  # `make powercuts` cuts in the middle of leases, a few times in the short form too
def test_a_power_cycle_under_leases_leaves_nothing_to_do_but_the_journal(bench, probe_of, forks):
    probes = [probe_of(name) for name in ("scsi", "sas", "sata", "nvme")]
    for probe in probes:
        probe.begin(BACK)
        assert probe.set_mode(THROUGH)["kind"] == "state"
        bench.write_and_sync(bench.disk(probe.name).path, "before-the-cut")
    lost = bench.lab.reboot()
    assert set(lost.values()) == {0}
    forks.start()
    for probe in probes:
        probe.running = None
        assert bench.on_the_medium(bench.disk(probe.name).path) == "before-the-cut"
        assert probe.mode() is BACK
        assert len(probe.journal()) == 1
        probe.make_osd()
        assert probe.restart()[0] == 0
        assert (probe.mode(), probe.journal()) == (BACK, [])
        probe.check_safe("restored")


# ---- what is refused, and left as it was


def test_turning_on_a_cache_needs_its_own_consent(probe_of):
    probe = probe_of("sata")
    probe.begin(THROUGH)
    outcome = probe.set_mode(BACK, consent=False)
    assert (outcome["kind"], outcome["refused"]) == ("failure", True)
    assert "consent" in outcome["message"]
    assert (probe.mode(), probe.journal()) == (THROUGH, [])


def test_a_drive_with_a_file_system_is_left_alone(bench, probe_of):
    probe = probe_of("sata")
    disk = probe.begin(BACK)
    bench.sh(f"mke2fs -q -F {disk.path} 64M && mount {disk.path} /mnt").checked()
    try:
        outcome = probe.set_mode(THROUGH)
        assert (outcome["kind"], outcome["refused"]) == ("failure", True)
        assert "mounted on /mnt" in outcome["message"]
        assert (probe.mode(), probe.journal()) == (BACK, [])
    finally:
        bench.sh("umount /mnt").checked()


def test_a_drive_that_another_program_writes_is_left_alone(bench, probe_of):
    probe = probe_of("scsi")
    disk = probe.begin(BACK)
    holder = bench.lab.guest.spawn(["/bin/sh", "-c", f"exec 3<>{disk.path}; exec sleep 600"])
    try:
        outcome = probe.set_mode(THROUGH)
        assert (outcome["kind"], outcome["refused"]) == ("failure", True)
        assert "sleep (pid" in outcome["message"]
        codes = [found["code"] for found in probe.look()["findings"]]
        assert codes == ["WCACHE_SHARED_DRIVE"]
        assert (probe.mode(), probe.journal()) == (BACK, [])
    finally:
        holder.kill()
    bench.settle()
    probe.end()
    assert probe.set_mode(THROUGH)["kind"] == "state"


def test_a_transport_that_is_not_proven_is_shown_and_left_alone(bench, probe_of):
    probe = probe_of("translated")
    probe.begin(BACK)
    seen = probe.look()
    assert seen["transport"] == "sata-behind-hba"
    # QEMU's adapter passes no ATA commands on, so nothing could prove it
    assert "refuses SCSI command 85h" in seen["toggle_refusal"]
    outcome = probe.set_mode(CacheMode.WRITE_THROUGH)
    assert (outcome["kind"], outcome["refused"]) == ("failure", True)
    assert bench.state("translated") == ("on", "write back")
    assert probe.journal() == []
