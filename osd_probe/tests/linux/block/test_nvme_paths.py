"""Under native multipath a hidden path asks its own view: it may drop what the head hands down."""

from shutil import rmtree

import pytest
from model_drives import ModelNvme
from wcache.core.drive.safety import Safety, judge, lost_after_reset, may_rest_on
from wcache.core.errors import RefusedError
from wcache.core.model import CacheMode, KernelView, Layer, LayerKind
from wcache_probe.commands.inspect import inspected, next_step
from wcache_probe.journal.journal_file import StateFolder
from wcache_probe.linux.block.sysfs import by_name, queues_on
from wcache_probe.linux.transports.classify import Switches
from wcache_probe.switcher import Switcher
from wcache_probe.switching import toggle

BACK, THROUGH = CacheMode.WRITE_BACK, CacheMode.WRITE_THROUGH


class Subsystem:
    """One namespace behind one controller, with the kernel's own multipath."""

    def __init__(self, fake_host, root, *, on, cntlid="0"):
        self.fake, self.model = fake_host, ModelNvme(on=on)
        self.path = f"sys/devices/pci0/nvme/nvme0/nvme0c{cntlid}n1"
        real = fake_host.nvme_subsystem("259:0", "nvme0n1", {"nvme0": "0 " * 17}, cntlid)
        (real / "wwid").write_text("eui.1234567812345678\n")
        fake_host.write("sys/devices/pci0/nvme/nvme0/dev", "240:0\n")
        fake_host.write("sys/devices/pci0/nvme/nvme0/transport", "pcie\n")
        fake_host.osd(0, block="nvme0n1")
        self.host = fake_host.drive_host(
            switches=Switches(nvme=self.model), find_foreign_rules=tuple
        )
        self.journal = StateFolder(str(root / "state"), str(root / "run")).journal

    def path_is(self, view):
        self.fake.write(f"{self.path}/queue/write_cache", f"{view}\n")

    def safety(self):
        (drive,) = self.host.look()
        return judge(drive.state)

    def apply(self, mode):
        drives = self.host.look()
        Switcher(self.host, self.journal).run(drives[0].domain_id, toggle.apply(
            drives, action_id="a", expected=mode.other, mode=mode, now_s=0.0, throwaway=False,
            consent_turn_on=True, persist=False,
        ))


def test_a_path_is_a_layer_of_its_namespace(fake_host, tmp_path):
    Subsystem(fake_host, tmp_path, on=True)
    (layer,) = queues_on(by_name(fake_host.files, "nvme0n1"))
    assert (layer.name, layer.kind, layer.kernel_view, layer.fua) == (
        "nvme0c0n1", LayerKind.DISK, KernelView.WRITE_BACK, True
    )


def test_a_namespace_without_native_multipath_has_no_such_layer(fake_host):
    fake_host.nvme("nvme1", "nvme1n1", "259:1")
    assert queues_on(by_name(fake_host.files, "nvme1n1")) == ()


@pytest.mark.parametrize(("path", "head", "safety"), [
    ("write back", "write back", Safety.SAFE), ("write through", "write back", Safety.UNSAFE),
    ("write back", "write through", Safety.UNSAFE), ("", "write back", Safety.UNKNOWN),
])
def test_a_cache_is_as_safe_as_the_path_below_it(fake_host, tmp_path, path, head, safety):
    drive = Subsystem(fake_host, tmp_path, on=True)
    drive.path_is(path)
    fake_host.set_view("nvme0n1", head)
    assert drive.safety() is safety


@pytest.mark.parametrize(("path", "safety"), [
    ("write back", Safety.SAFE), ("write through", Safety.UNSAFE),
])
def test_a_cache_is_as_safe_as_a_path_that_is_named_by_the_cntlid(
    fake_host, tmp_path, path, safety
):
    drive = Subsystem(fake_host, tmp_path, on=True, cntlid="7")
    drive.path_is(path)
    assert drive.safety() is safety
    (layer,) = queues_on(by_name(fake_host.files, "nvme0n1"))
    assert layer.name == "nvme0c7n1"


def test_a_path_of_another_namespace_is_none_of_this_one(fake_host, tmp_path):
    Subsystem(fake_host, tmp_path, on=True)
    for other in ("nvme0c0n11", "nvme0c0n2", "nvme1c0n1"):
        fake_host.write(f"sys/devices/pci0/nvme/nvme0/{other}/queue/write_cache", "write through\n")
    assert [one.name for one in queues_on(by_name(fake_host.files, "nvme0n1"))] == ["nvme0c0n1"]


def test_a_cache_on_a_head_whose_path_is_not_found_is_of_unknown_safety(fake_host, tmp_path):
    drive = Subsystem(fake_host, tmp_path, on=True)
    rmtree(fake_host.root / drive.path)
    assert queues_on(by_name(fake_host.files, "nvme0n1")) == (
        Layer("nvme0c*n1", LayerKind.DISK, KernelView.UNKNOWN),
    )
    assert drive.safety() is Safety.UNKNOWN


def test_a_cache_stays_off_above_a_path_that_drops_flushes(fake_host, tmp_path):
    drive = Subsystem(fake_host, tmp_path, on=False)
    drive.path_is("write through")
    with pytest.raises(RefusedError, match="nvme0c0n1 does not flush") as refused:
        drive.apply(BACK)
    assert "/sys/block/nvme0c0n1/queue/write_cache` has it flush" in str(refused.value)
    assert not drive.model.on
    assert drive.journal.read() == {}
    drive.path_is("write back")
    drive.apply(BACK)
    assert drive.model.on


def test_off_is_the_cure_of_a_path_that_drops_flushes(fake_host, tmp_path):
    drive = Subsystem(fake_host, tmp_path, on=True)
    drive.path_is("write through")
    drive.apply(THROUGH)
    assert not drive.model.on
    assert drive.safety() is Safety.AFTER_RESET


def test_a_path_that_drops_flushes_loses_data_once_a_reset_turns_the_cache_on(
    fake_host, tmp_path
):
    drive = Subsystem(fake_host, tmp_path, on=False)
    (found,) = drive.host.look()
    assert (judge(found.state), may_rest_on(found, {})) == (Safety.SAFE, "")
    drive.path_is("write through")
    (found,) = drive.host.look()
    assert judge(found.state) is Safety.AFTER_RESET
    assert lost_after_reset(found.state) == ("nvme0c0n1",)
    assert "a reset may turn it on, and nvme0c0n1 does not flush" in may_rest_on(found, {})
    following = next_step([inspected(found)], [])
    assert "echo 'write back' > /sys/block/nvme0c0n1/queue/write_cache" in following
