"""Persisted modes over power cycles: QEMU's drives save nothing, so udev rules do it all.

udev runs the project's probe by itself here, as on a host where it is installed.
"""

import pytest
from probe_bench import BACK, THROUGH

pytestmark = pytest.mark.lab

NAMES = ("scsi", "sas", "sata", "nvme")
COMMAND = "/usr/bin/wcache-probe"
BOOT_RULE = "/etc/udev/rules.d/59-wcache-pin.rules"
PACKAGES = "/wcache/osd_probe:/wcache/mgr_module"


@pytest.fixture(scope="module", autouse=True)
def installed(lab):
    """The probe where a rule finds it."""
    script = f'#!/bin/sh\nPYTHONPATH={PACKAGES} exec python3 -B -m wcache_probe "$@"\n'
    lab.guest.run(["tee", COMMAND], stdin=script).checked()
    lab.guest.run(["chmod", "755", COMMAND]).checked()
    lab.guest.run(["sync"]).checked()


@pytest.fixture
def persisted(bench, probe_of):
    """Put drives into write through for good, as actions of their own names."""
    rules = "rm -f /etc/udev/rules.d/85-wcache-*"
    bench.sh(rules).checked()

    def persist(*names):
        for name in names:
            probe = probe_of(name)
            probe.begin(BACK)
            done = probe.apply(name, BACK, THROUGH, persist=True)
            assert done["kind"] == "state", done
            assert probe.running.kill("TERM") == 0
        return [probe_of(name) for name in names]

    yield persist
    bench.sh(rules).checked()


def rules_of(bench):
    return bench.sh("ls /etc/udev/rules.d").checked().count("85-wcache-")


def appear_again(bench, name):
    """The event of a drive that just appeared; does not wait for what it starts."""
    disk = bench.disk(name).path
    bench.sh(f"udevadm trigger --action=add --name-match={disk}").checked()


@pytest.mark.long
def test_a_rule_yields_to_a_lease_on_its_drive_and_to_no_other(bench, persisted, probe_of):
    (probe,) = persisted("scsi")
    domain = probe.look()["domain_id"]
    for held, wins in ((domain, BACK), ("naa.another", THROUGH)):
        probe.behind_our_back(BACK)
        bench.sh(
            f"rm -rf {probe.folders[3]}/leases; mkdir -p {probe.folders[3]}/leases; "
            f"touch {probe.folders[3]}/leases/0.lease%2F{held}.json"
        ).checked()
        appear_again(bench, "scsi")
        bench.settle()
        assert probe.mode() is wins
        probe.check_safe(f"held-{wins.value[6:]}")
    assert probe.restore_action("scsi")[0] == 0


def test_a_rollback_has_the_last_word_over_an_event_of_udev(bench, persisted):
    """Some events come before the rule is gone, some after, some while it is read."""
    for round_number in range(2):
        (probe,) = persisted("sata")
        probe.behind_our_back(BACK)
        for _ in range(2 + 2 * round_number):
            appear_again(bench, "sata")
        code, said = probe.restore_action("sata")
        assert code == 0, said
        bench.settle()
        assert (probe.mode(), rules_of(bench)) == (BACK, 0)
        probe.check_safe(f"rolled-back-{round_number}")


def view_of_a_new_disk_that_was_switched_off(bench, probe):
    """Plug a drive in anew, switch it behind the kernel, and let the kernel look again.

    A rescan believes the drive where there is no pin.
    """
    bench.lab.unplug(probe.name)
    bench.lab.replug(probe.name)
    bench.settle()
    # the first command to a new disk may be answered by a Unit Attention
    bench.sh(f"sg_turs {bench.disk(probe.name).generic} || :").checked()
    probe.behind_our_back(THROUGH)
    bench.disk(probe.name).rescan()
    return bench.disk(probe.name).kernel_view()


@pytest.mark.long
def test_a_rule_that_outlives_the_program_still_pins_its_drive(bench, persisted, probe_of):
    """As after a removal that was told to leave it: what the rule starts is not there."""
    (probe,) = persisted("scsi")
    # what `prepare` wrote would pin it too
    away = {path: f"{path}.away" for path in (COMMAND, BOOT_RULE)}
    for path, aside in away.items():
        bench.sh(f"mv {path} {aside}").checked()
    bench.sh("udevadm control --reload").checked()
    try:
        assert view_of_a_new_disk_that_was_switched_off(bench, probe_of("sas")) == "write through"
        bench.all_on("sas")
        assert view_of_a_new_disk_that_was_switched_off(bench, probe) == "write back"
        probe.check_safe("off-and-pinned")
        probe.behind_our_back(BACK)
        probe.check_safe("on-and-pinned")
    finally:
        for path, aside in away.items():
            bench.sh(f"mv {aside} {path}").checked()
        bench.sh("udevadm control --reload").checked()
    probe.make_osd()
    code, said = probe.restore_action("scsi")
    assert code == 0, said
    assert (probe.mode(), rules_of(bench)) == (BACK, 0)


@pytest.mark.long
def test_what_was_persisted_is_there_after_a_power_cycle_and_a_rollback_takes_it_back(
    bench, persisted, forks
):
    probes = persisted(*NAMES)
    for probe in probes:
        bench.write_and_sync(bench.disk(probe.name).path, "before-the-cut")
    assert set(bench.lab.reboot().values()) == {0}
    forks.start()
    bench.settle()
    for probe in probes:
        probe.running = None
        probe.make_osd()
        assert bench.state(probe.name) == ("off", "write back"), "off, and pinned"
        assert bench.on_the_medium(bench.disk(probe.name).path) == "before-the-cut"
        assert probe.look()["state"]["page"]["saved"] == THROUGH.value
        # pinned: what a reset brings back on is flushed
        probe.behind_our_back(BACK)
        probe.check_safe("reset")
        assert probe.restore_action(probe.name)[0] == 0
        assert (probe.mode(), probe.journal()) == (BACK, [])
    assert rules_of(bench) == 0
    bench.lab.reboot()
    forks.start()
    bench.settle()
    assert [bench.state(name) for name in NAMES] == [("on", "write back")] * len(NAMES)


@pytest.mark.long
@pytest.mark.parametrize("name", ["scsi", "nvme"])
def test_a_drive_that_is_plugged_in_again_gets_its_persisted_mode(bench, persisted, name):
    (probe,) = persisted(name)
    bench.lab.unplug(name)
    bench.lab.replug(name)
    bench.settle()
    assert bench.state(name) == ("off", "write back")
    probe.check_safe("replugged")
    probe.make_osd()
    assert probe.restore_action(name)[0] == 0
    assert probe.mode() is BACK
