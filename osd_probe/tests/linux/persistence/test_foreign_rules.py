"""Whatever else on the host sets write caches is named with its file and line, and nothing else."""

import pytest
from wcache.core.model import CacheMode, FindingCode
from wcache_probe.linux.persistence import foreign_rules
from wcache_probe.linux.persistence.boot_rule import FILE_NAME, BootRule
from wcache_probe.linux.persistence.rule_folder import RuleFolder

RULES = "etc/udev/rules.d/99-tuning.rules"


@pytest.fixture
def host(tmp_path):
    """Writes a file of the host."""

    def write(path, text):
        full = tmp_path / path
        full.parent.mkdir(parents=True, exist_ok=True)
        full.write_text(text)

    return write


@pytest.mark.parametrize(
    ("path", "line"),
    [
        (RULES, 'ACTION=="add", SUBSYSTEM=="scsi_disk", ATTR{cache_type}:="write through"'),
        (RULES, 'ACTION=="add", SUBSYSTEM=="scsi_disk", ATTR{cache_type}="write through"'),
        # the second rule of Ceph's documentation, for CentOS 7
        ("etc/udev/rules.d/99-ceph-write-through-el7.rules",
         'ACTION=="add", SUBSYSTEM=="scsi_disk", RUN+="/bin/sh -c \'echo write through > '
         "/sys/class/scsi_disk/$kernel/cache_type'\""),
        ("etc/rc.local", 'for f in /sys/class/scsi_disk/*; do echo "write through" > '
         "$f/cache_type; done"),
        ("etc/rc.local", 'for f in /sys/class/scsi_disk/*/cache_type; do echo "write through" > '
         '"$f"; done'),
        ("etc/rc.local", "for each in /sys/block/sd*/device/scsi_disk/*/cache_type\ndo\n"),
        ("etc/rc.local", "echo 'write through' | tee /sys/class/scsi_disk/*/cache_type"),
        (RULES, 'KERNEL=="sd*", ATTR{queue/write_cache}="write through"'),
        (RULES, 'RUN+="/usr/bin/sdparm --clear=WCE /dev/%k"'),
        (RULES, 'RUN+="/sbin/hdparm -B 254 -W 0 /dev/%k"'),
        (RULES, 'RUN+="/usr/sbin/nvme set-feature /dev/%k -f 6 -v 0"'),
        (RULES, 'RUN+="/usr/sbin/nvme set-feature /dev/%k --feature-id=0x06 --value=0"'),
        (RULES, "RUN+=\"/bin/sh -c 'echo write back > /sys/block/%k/queue/write_cache'\""),
        ("usr/lib/udev/rules.d/60-vendor.rules", 'RUN+="/sbin/hdparm -qW0 /dev/%k"'),
        ("etc/hdparm.conf", "\twrite_cache = off"),
        ("etc/smartd.conf", "/dev/sda -a -e wcache,off"),
        ("etc/smartmontools/smartd.conf", "DEVICESCAN -a -e wcache,on -m root"),
        ("etc/rc.local", "smartctl -s wcache,off /dev/sda"),
        ("etc/rc.local", "smartctl -s wcache-sct,off,p /dev/sda"),
        ("etc/rc.local", "smartctl --set=wcache,off /dev/sda"),
        ("etc/rc.local", "sdparm --clear WCE /dev/sd*"),
        ("etc/rc.local", "sdparm --set WCE=0 --save /dev/sda"),
        ("etc/rc.local", "sdparm -S -c WCE /dev/sda"),
        ("etc/rc.local", "for d in /dev/sd?; do hdparm -q -W 0 $d; done"),
        ("etc/rc.local", "/opt/openSeaChest/openSeaChest_Basics -d /dev/sg0 --writeCache=disable"),
        ("etc/rc.local", "/usr/bin/openSeaChest -d /dev/sg0 --writeCache disable"),
        ("etc/rc.local", "for d in /dev/sd?; do sdparm --quiet --clear WCE $d; done"),
        ("etc/rc.local", "openSeaChest_Configure -d /dev/sg0 --writeCache disable"),
        ("etc/rc.local", "openSeaChest_Configure -d /dev/sg0 --sctWriteCache disable"),
        ("etc/rc.d/rc.local", "for d in /dev/sd?; do sdparm -c WCE $d; done"),
        ("etc/crontab", "@reboot root hdparm -W 0 /dev/sda"),
        ("etc/cron.d/disks", "@reboot root echo 'write through' > /sys/block/a/queue/write_cache"),
        ("etc/sysfs.conf", "block/sda/queue/write_cache = write through"),
        ("etc/sysfs.d/disks.conf", "class/scsi_disk/0:0:0:0/cache_type = write through"),
        ("etc/tmpfiles.d/disks.conf", "w /sys/block/sda/queue/write_cache - - - - write through"),
        ("etc/systemd/system/nocache.service", "ExecStart=/usr/sbin/hdparm -W0 /dev/sda"),
    ],
)
def test_what_sets_a_cache_is_named_with_its_line(host, tmp_path, path, line):
    host(path, f"# tuning\n{line}\n")
    (finding,) = foreign_rules.find(str(tmp_path))
    assert (finding.code, finding.subject) == (
        FindingCode.FOREIGN_RULE, path.rpartition("/")[2]
    )
    assert finding.detail.startswith(f"/{path}:2: {line.strip()[:40]}")


@pytest.mark.parametrize(
    ("path", "line"),
    [
        (RULES, '# ATTR{cache_type}="write through"'),
        (RULES, 'ATTR{cache_type}=="write back", SYMLINK+="cached"'),
        (RULES, 'ATTR{queue/rotational}=="0", ATTR{queue/scheduler}="none"'),
        (RULES, 'RUN+="/usr/sbin/nvme set-feature /dev/%k -f 0x10 -v 1"'),
        (RULES, 'RUN+="/sbin/hdparm -B 254 /dev/%k"'),
        ("etc/rc.local", "sdparm --get=WCE /dev/sda"),
        ("etc/rc.local", "smartctl -g wcache /dev/sda"),
        ("etc/hdparm.conf", "; write_cache = off"),
        ("etc/smartd.conf", "DEVICESCAN -a -s (S/../.././02|L/../../6/03)"),
        ("etc/sysfs.conf", "block/sda/queue/scheduler = none"),
    ],
)
def test_what_sets_no_cache_is_no_finding(host, tmp_path, path, line):
    host(path, line + "\n")
    assert foreign_rules.find(str(tmp_path)) == []


def test_the_profile_that_tuned_has_active_counts_with_what_it_includes(host, tmp_path):
    host("etc/tuned/active_profile", "ceph-osd\n")
    host("etc/tuned/ceph-osd/tuned.conf", "[main]\ninclude=base, throughput\n")
    host("usr/lib/tuned/base/tuned.conf",
         "[sysfs]\n/sys/block/sd*/queue/write_cache=write through\n")
    host("usr/lib/tuned/profiles/throughput/tuned.conf", "[main]\ninclude=ceph-osd\n")
    host("usr/lib/tuned/profiles/throughput/script.sh", "#!/bin/sh\nhdparm -W1 /dev/sda\n")
    host("usr/lib/tuned/unused/tuned.conf", "[sysfs]\n/sys/block/sda/queue/write_cache=x\n")
    assert sorted(finding.detail for finding in foreign_rules.find(str(tmp_path))) == [
        "/usr/lib/tuned/base/tuned.conf:2: /sys/block/sd*/queue/write_cache=write through",
        "/usr/lib/tuned/profiles/throughput/script.sh:2: hdparm -W1 /dev/sda",
    ]


@pytest.mark.parametrize("names", ["../../etc\n", "/etc\n", "a " * 500, "\0\n"])
def test_an_odd_name_of_a_profile_leads_nowhere(host, tmp_path, names):
    host("etc/tuned/active_profile", names)
    host("etc/tuned.conf", "/sys/block/sda/queue/write_cache=x\n")
    assert foreign_rules.find(str(tmp_path)) == []


def test_our_own_rules_and_masked_ones_are_no_findings(host, tmp_path):
    host("etc/udev/rules.d/99-x.rules", "# masked by the admin\n")
    host("usr/lib/udev/rules.d/99-x.rules", 'ATTR{cache_type}="write through"\n')
    rules = RuleFolder(str(tmp_path / "etc/udev/rules.d"), "/run/wcache", "/usr/bin/wcache-probe")
    rules.write("naa.5000c50000000001", CacheMode.WRITE_THROUGH)
    host(f"etc/udev/rules.d/{FILE_NAME}", BootRule(("naa.5000c50000000001",)).text())
    assert foreign_rules.find(str(tmp_path)) == []


def test_one_file_under_two_names_is_one_finding(host, tmp_path):
    host("etc/rc.d/rc.local", "hdparm -W0 /dev/sda\n")
    (tmp_path / "etc/rc.local").symlink_to("rc.d/rc.local")
    assert len(foreign_rules.find(str(tmp_path))) == 1


def test_a_host_full_of_rules_gives_a_bounded_answer(host, tmp_path):
    for number in range(40):
        host(f"etc/udev/rules.d/{number}.rules", 'ATTR{cache_type}="write through"\n')
    assert len(foreign_rules.find(str(tmp_path))) == foreign_rules.FOUND_MAX
