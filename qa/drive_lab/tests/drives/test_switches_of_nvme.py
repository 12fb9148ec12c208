"""What each switch of an NVMe drive does: the kernel's view never follows the feature."""

import re

import pytest

pytestmark = [pytest.mark.lab, pytest.mark.long]


def test_the_feature_changes_the_drive_and_never_the_kernel(bench):
    disk = bench.all_on("nvme")
    bench.sh(f"nvme set-feature {disk.controller} --feature-id=6 --value=0").checked()
    assert bench.stays("nvme", "write back")
    assert not bench.drive_on("nvme")
    off = bench.true_state("nvme")
    assert (off.cached, off.flushed, off.unsafe) == (False, True, False)
    bench.sh(f"nvme set-feature {disk.controller} --feature-id=6 --value=1").checked()
    on = bench.true_state("nvme")
    assert (on.cached, on.flushed, on.unsafe) == (True, True, False)


def test_the_broadcast_namespace_is_accepted(bench):
    disk = bench.all_on("nvme")
    bench.sh(
        f"nvme set-feature {disk.controller} --namespace-id=0xffffffff --feature-id=6 --value=0"
    ).checked()
    assert not bench.drive_on("nvme")


def test_on_a_namespace_it_is_refused(bench):
    disk = bench.all_on("nvme")
    result = bench.sh(f"nvme set-feature {disk.path} --feature-id=6 --value=0")
    assert result.returncode == 1
    assert bench.state("nvme") == ("on", "write back")


def test_saving_is_refused_where_the_feature_cannot_be_saved(bench):
    disk = bench.all_on("nvme")
    result = bench.sh(f"nvme set-feature {disk.controller} --feature-id=6 --value=0 --save")
    assert result.returncode == 1
    assert bench.state("nvme") == ("on", "write back")


def test_sdparm_reads_the_right_value_and_exits_5(bench):
    disk = bench.all_on("nvme")
    result = bench.sh(f"sdparm --get=WCE {disk.path}")
    assert result.returncode == 5
    assert [line.split()[:2] for line in result.stdout.splitlines()[1:2]] == [["WCE", "1"]]


def test_a_controller_reset_keeps_qemus_feature_and_the_kernel_flushing(bench):
    """QEMU keeps the current value; real drives may restore a saved or default one."""
    disk = bench.all_on("nvme")
    bench.sh(f"nvme set-feature {disk.controller} --feature-id=6 --value=0").checked()
    bench.sh(f"nvme reset {disk.controller}").checked()
    assert bench.state("nvme") == ("off", "write back")
    assert not bench.true_state("nvme").unsafe


def test_the_short_option_of_the_value_means_verbose_to_newer_tools(bench):
    """nvme-cli made -v mean --verbose: it prints its usage and changes nothing."""
    disk = bench.all_on("nvme")
    usage = bench.sh("nvme set-feature --help 2>&1 || :").stdout
    assert "--value=" in usage
    verbose = re.search(r"--value=<\w+>, -v ", usage) is None
    changed = bench.sh(f"nvme set-feature {disk.controller} -f 6 -v 0")
    assert bench.state("nvme") == ("on" if verbose else "off", "write back")
    assert (changed.returncode == 0) is not verbose, changed
