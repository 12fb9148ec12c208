"""The boot rule on hosts that boot by themselves, and what happens without it.

Half of the drives are named by the boot rule when the host reboots.  The other half was too,
until all of them were off: the same run without our rule.
"""

from dataclasses import dataclass

import pytest
from booting_bench import BootingHost, OsdDrive
from drive_lab.images.booting_root import Initramfs
from probe_bench import BACK, THROUGH

pytestmark = pytest.mark.lab


@dataclass(frozen=True)
class Run:
    """One reboot: through which image, of which drives, and what had put them off."""

    initramfs: Initramfs
    manner: str
    transports: tuple = ("scsi", "sata")
    encrypted: tuple = (False, True)

    @property
    def drives(self):
        return [
            OsdDrive(transport, encrypted, ruled)
            for transport in self.transports
            for encrypted in self.encrypted
            for ruled in (True, False)
        ]

    def __str__(self):
        return f"{self.initramfs.value}-{self.manner}-{len(self.drives)}"


RUNS = [
    Run(Initramfs.INITRAMFS_TOOLS, "lease", ("scsi",), (False,)),
    *(
        pytest.param(Run(initramfs, manner), marks=pytest.mark.long)
        for initramfs, manner in (
            (Initramfs.INITRAMFS_TOOLS, "lease"),
            (Initramfs.INITRAMFS_TOOLS, "apply"),
            (Initramfs.INITRAMFS_TOOLS, "persist"),
            (Initramfs.DRACUT, "lease"),
        )
    ),
]


@pytest.fixture(scope="module", params=RUNS, ids=str)
def host(request):
    """A host after a warm reboot that all its drives, which were off, passed with their power."""
    run = request.param
    with BootingHost(run.initramfs, run.drives) as host:
        host.run = run
        host.prepare(make_image=False, boot=True)
        for drive in host.drives:
            host.put_off(drive, run.manner)
        host.forget_rule(drives_of(host, ruled=False))
        host.reboot_warm()
        yield host


@pytest.mark.long
@pytest.mark.parametrize("initramfs", [Initramfs.INITRAMFS_TOOLS, Initramfs.DRACUT])
def test_the_image_that_prepare_has_the_host_make_pins_drives_before_lvm(initramfs):
    drives = [OsdDrive("scsi", False, True), OsdDrive("sata", True, True)]
    with BootingHost(initramfs, drives) as host:
        host.prepare(make_image=True)
        for drive in drives:
            host.put_off(drive, "lease")
        host.reboot_warm()
        for drive in drives:
            assert host.loaded_before_the_root(drive)
            assert set(host.views(drive)) == {"write back"}
            assert host.lost_when_the_cache_comes_on(drive, "made-anew") == 0
        assert host.seen_of_the_boot() == ["HERE", "True"]
        # an image of somebody else, which lacks the rule that the root has
        host.lab.put_into_image({})
        host.lab.reset()
        assert host.seen_of_the_boot() == ["HERE", "False"]


@pytest.mark.long  # three boots more
def test_where_a_boot_cannot_be_told_a_drive_is_toggled_once_a_boot_has_shown_the_rule():
    """The command line speaks of the network; kernel and image are the host's own."""
    drive = OsdDrive("scsi", False, True)
    network = ("BOOTIF=01-52-54-00-12-34-56",)
    with BootingHost(Initramfs.INITRAMFS_TOOLS, [drive], network) as host:
        host.prepare(make_image=False)
        probe = host.probes[drive]
        assert host.seen_of_the_boot() == ["UNKNOWN", "False"]
        for asked in (lambda: probe.set_mode(THROUGH), lambda: probe.apply("a1", BACK, THROUGH)):
            done = asked()
            assert done["kind"] == "failure", done
            assert "boots once, then measures" in done["message"], done
            probe.end()
        assert probe.mode() is BACK

        host.lab.reset()
        host.sh("modprobe sg")
        host.forks.start()
        assert host.seen_of_the_boot() == ["UNKNOWN", "True"]
        host.put_off(drive, "lease")
        host.reboot_warm()
        assert host.loaded_before_the_root(drive)
        assert set(host.views(drive)) == {"write back"}
        assert host.lost_when_the_cache_comes_on(drive, "noted") == 0


def test_a_boot_by_an_image_with_the_rule_leaves_the_note_in_udevs_database(host):
    assert host.seen_of_the_boot() == ["HERE", "True"]


def drives_of(host, *, ruled):
    return [drive for drive in host.drives if drive.ruled is ruled]


def test_with_the_boot_rule_volumes_that_a_new_kernel_loads_flush_a_cache_that_comes_on(host):
    for drive in drives_of(host, ruled=True):
        assert host.loaded_before_the_root(drive)
        assert set(host.views(drive)) == {"write back"}
        assert host.lost_when_the_cache_comes_on(drive, "ruled") == 0


def test_without_the_boot_rule_the_same_reboot_loses_acknowledged_writes(host):
    for drive in drives_of(host, ruled=False):
        assert host.loaded_before_the_root(drive)
        assert host.views(drive)[1:] == ["write through"] * (1 + drive.encrypted)
        assert host.lost_when_the_cache_comes_on(drive, "bare") > 0


@pytest.mark.long
def test_the_probe_that_starts_after_the_reboot_makes_nothing_worse(host):
    """With the tables that this kernel loaded, and the drives off as it found them."""
    host.forks.start()
    for drive in host.drives:
        probe = host.probes[drive]
        host.off_unseen(drive)
        probe.restart()
        given_back = drive.ruled and host.run.manner == "lease"
        assert (probe.journal() == []) is given_back
        if drive.ruled:
            assert probe.mode() is (BACK if given_back else THROUGH)
            assert host.lost_when_the_cache_comes_on(drive, "started") == 0
        else:
            # a volume that drops flushes has no cure but to be made anew: it stays off
            assert probe.mode() is THROUGH
