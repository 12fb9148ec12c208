"""Whatever else on the host sets write caches is named with its file and line, and nothing else."""

import os
import time

import pytest
from wcache.core.model import CacheMode, FindingCode
from wcache_probe.linux.block.host_files import Mount
from wcache_probe.linux.persistence import foreign_rules
from wcache_probe.linux.persistence.udev_rule import FILE_NAME, RuleFolder, boot_rule

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
    host(f"etc/udev/rules.d/{FILE_NAME}", boot_rule(("naa.5000c50000000001",)))
    assert foreign_rules.find(str(tmp_path)) == []


def test_one_file_under_two_names_is_one_finding(host, tmp_path):
    host("etc/rc.d/rc.local", "hdparm -W0 /dev/sda\n")
    (tmp_path / "etc/rc.local").symlink_to("rc.d/rc.local")
    assert len(foreign_rules.find(str(tmp_path))) == 1


def test_a_host_full_of_rules_gives_a_bounded_answer(host, tmp_path):
    for number in range(40):
        host(f"etc/udev/rules.d/{number}.rules", 'ATTR{cache_type}="write through"\n')
    assert len(foreign_rules.find(str(tmp_path))) == foreign_rules.FOUND_MAX


# ---- what is written over several lines, elsewhere, or in what is started


def details(tmp_path):
    return [finding.detail for finding in foreign_rules.find(str(tmp_path))]


@pytest.mark.parametrize(
    "path",
    [f"{place}/udev/rules.d/80-a.rules" for place in ("etc", "run", "usr/local/lib", "usr/lib",
                                                      "lib")]
    + [f"{place}/systemd/system/a.service" for place in ("etc", "run", "usr/local/lib", "usr/lib")]
    + ["etc/systemd/system/ceph-osd@.service.d/cache.conf",
       "usr/lib/systemd/system/a.service.d/b.conf", "etc/systemd/system/a.socket",
       "usr/lib/systemd/system-sleep/disks", "etc/cron.hourly/a", "etc/cron.daily/a",
       "etc/cron.weekly/a", "etc/cron.monthly/a", "etc/anacrontab", "etc/init.d/disks",
       "etc/local.d/disks.start", "etc/initramfs-tools/scripts/local-bottom/disks",
       "var/spool/cron/crontabs/root", "usr/local/lib/tmpfiles.d/a.conf"],
)
def test_every_folder_that_udev_systemd_and_cron_read_is_looked_into(host, tmp_path, path):
    line = "ExecStartPre=/usr/sbin/hdparm -W 0 /dev/sdb"
    if path.endswith(".rules"):
        line = 'KERNEL=="sd*", RUN+="/usr/sbin/hdparm -W 0 /dev/%k"'
    if "tmpfiles" in path:
        line = "w /sys/block/sdb/queue/write_cache - - - - write through"
    host(path, f"{line}\n")
    assert details(tmp_path) == [f"/{path}:1: {line}"]


def test_a_drives_settings_of_udisks_are_looked_into(host, tmp_path):
    host("etc/udisks2/SOME-DRIVE.conf", "[ATA]\nStandbyTimeout=0\nWriteCacheEnabled=false\n")
    assert details(tmp_path) == ["/etc/udisks2/SOME-DRIVE.conf:3: WriteCacheEnabled=false"]


@pytest.mark.parametrize(
    ("path", "text", "first"),
    [
        (RULES, 'KERNEL=="sd*", \\\n  RUN+="/usr/sbin/sdparm \\\n  --clear=WCE /dev/%k"\n', 2),
        ("etc/rc.local", "hdparm \\\n# of all\n -q -W 0 \\\n /dev/sd?\n", 2),
        ("etc/systemd/system/a.service", "ExecStart=/usr/sbin/smartctl \\\n -s wcache,off x\n", 2),
        ("etc/cron.d/a", "@reboot root nvme set-feature \\\n -f 6 -v 0 /dev/nvme0\n", 2),
        ("etc/rc.local", "hdparm \\\r\n -W0 /dev/sda\r\n", 2),
        ("etc/rc.local", "hdparm -W0 \\", 2),  # and the file ends there
    ],
)
def test_a_line_is_what_its_backslashes_make_of_it(host, tmp_path, path, text, first):
    host(path, f"# tuning \\\n{text}")
    (said,) = details(tmp_path)
    assert said.startswith(f"/{path}:{first}: ")


STARTS = {
    "a rule": (RULES, 'KERNEL=="sd*", RUN+="/opt/off.sh %k"'),
    "a rule's program": (RULES, 'KERNEL=="sd*", PROGRAM="/opt/off.sh %k"'),
    "a rule's import": (RULES, 'KERNEL=="sd*", IMPORT{program}="/opt/off.sh %k"'),
    "a unit": ("etc/systemd/system/a.service", "ExecStart=-/opt/off.sh"),
    "a unit, by a shell": ("etc/systemd/system/a.service", "ExecStart=/bin/sh -c '/opt/off.sh; x'"),
    "a drop-in": ("etc/systemd/system/a.service.d/b.conf", "ExecStartPost=/opt/off.sh"),
    "cron": ("etc/cron.d/a", "@reboot root /opt/off.sh >/dev/null"),
    "root's own table": ("var/spool/cron/crontabs/root", "@reboot /opt/off.sh"),
    "a boot script": ("etc/rc.local", "[ -x /opt/off.sh ] && /opt/off.sh"),
}


@pytest.mark.parametrize("what", STARTS)
def test_the_script_that_something_starts_is_read(host, tmp_path, what):
    path, line = STARTS[what]
    host(path, f"{line}\n")
    host("opt/off.sh", "#!/bin/sh\nfor d in /dev/sd?; do\n  hdparm -W 0 $d\ndone\n")
    assert details(tmp_path) == [f"/opt/off.sh:3: hdparm -W 0 $d (started by /{path})"]


@pytest.mark.parametrize(
    ("folder", "path", "line"),
    [("usr/local/sbin", "etc/cron.d/a", "@reboot root off-now"),
     ("usr/local/bin", "etc/systemd/system/a.service", "ExecStart=off-now"),
     ("usr/lib/udev", RULES, 'RUN+="off-now %k"')],
)
def test_a_command_without_its_folder_is_looked_for_where_an_admins_are(
    host, tmp_path, folder, path, line
):
    host(path, f"{line}\n")
    host(f"{folder}/off-now", "sdparm --clear=WCE /dev/$1\n")
    (said,) = details(tmp_path)
    assert said.startswith(f"/{folder}/off-now:1: ")


def test_a_script_that_starts_a_script_is_followed_so_far(host, tmp_path):
    host("etc/rc.local", "/opt/1\n")
    for number in range(1, 9):
        host(f"opt/{number}", f"/opt/{number + 1}\n")
    host(f"opt/{foreign_rules.STEPS_MAX}", "hdparm -W0 /dev/sda\n")
    assert len(details(tmp_path)) == 1
    host(f"opt/{foreign_rules.STEPS_MAX}", f"/opt/{foreign_rules.STEPS_MAX + 1}\n")
    host(f"opt/{foreign_rules.STEPS_MAX + 1}", "hdparm -W0 /dev/sda\n")
    assert details(tmp_path) == []


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("opt/off.sh", "write_cache=$(hdparm -W /dev/sda)\nif [ $write_cache = 1 ]; then x; fi\n"),
        ("opt/off.sh", "# hdparm -W 0 /dev/sda\nsdparm --get=WCE /dev/sda\n"),
        ("opt/off.sh", "\0ELF hdparm -W 0 /dev/sda\n"),
        ("opt/other.sh", "hdparm -W 0 /dev/sda\n"),  # which nothing starts
    ],
)
def test_a_script_that_only_reads_and_one_that_nothing_starts_are_no_findings(
    host, tmp_path, path, text
):
    host("etc/rc.local", "/opt/off.sh\n/opt/none.sh\n/opt\n")
    host("etc/systemd/system/a.service", "ConditionPathExists=/opt/other.sh\n")
    host(path, text)
    assert details(tmp_path) == []


def test_a_users_table_leads_root_to_no_file(host, tmp_path):
    host("var/spool/cron/crontabs/alice", "@reboot /opt/off.sh\n")
    host("opt/off.sh", "hdparm -W 0 /dev/sda\n")
    assert details(tmp_path) == []


def test_a_link_of_the_host_leads_out_of_no_container(host, tmp_path):
    """What the probe sees of its host lies in a folder, and links there are the host's."""
    outside = tmp_path / "outside"
    outside.write_text("hdparm -W 0 /dev/sda\n")
    inside = tmp_path / "inside"
    host("inside/etc/rc.local", f"/opt/a\n{outside}\n")
    host("inside/opt/b", "hdparm -W 1 /dev/sda\n")
    (inside / "opt/a").symlink_to("/opt/b")
    (inside / "etc/crontab").symlink_to(outside)
    (said,) = details(inside)
    assert said.startswith("/opt/a:1: hdparm -W 1")


def test_what_is_no_file_holds_up_no_look(host, tmp_path):
    host("etc/rc.local", "/opt/fifo\n")
    (tmp_path / "opt").mkdir()
    os.mkfifo(tmp_path / "opt/fifo")
    os.mkfifo(tmp_path / "etc/crontab")
    assert details(tmp_path) == []


def test_a_file_that_starts_very_many_is_followed_so_often(host, tmp_path):
    names = [f"/opt/{number}" for number in range(foreign_rules.STARTED_MAX + 1)]
    host("etc/rc.local", "".join(f"{name}\n" for name in names))
    for name in names:
        host(name.lstrip("/"), "true\n")
    host(names[-1].lstrip("/"), "hdparm -W 0 /dev/sda\n")
    assert details(tmp_path) == []
    host("etc/rc.local", f"{names[-1]}\n")
    assert len(details(tmp_path)) == 1


@pytest.mark.parametrize("word", [
    "nvme ", "nvme set-feature ", "sdparm ", "sdparm --get ", "hdparm ", "hdparm -", "echo ",
    "for x in ", "smartctl -s ", "openSeaChest ", "ATTR{",
])
def test_a_long_line_takes_no_more_than_its_length(host, tmp_path, word):
    """An ordinary user's table, or script that a unit starts, has as many lines as it likes."""
    def seconds(chars):
        line = (word * chars)[:chars] + "\n"
        host("etc/rc.local", line * (65_536 // chars))
        began_s = time.process_time()
        assert foreign_rules.find(str(tmp_path)) == []
        return time.process_time() - began_s

    short, long = (min(seconds(chars) for _ in range(3)) for chars in (256, 4095))
    assert long < 5 * short


@pytest.mark.parametrize("kind", ["nfs4", "autofs"])
def test_nothing_is_asked_of_a_file_system_whose_server_may_be_gone(
    host, tmp_path, monkeypatch, kind
):
    host("mnt/far/set.sh", "hdparm -W0 /dev/sda\n")
    host("etc/crontab", "0 3 * * * root /mnt/far/set.sh\n")
    assert [one.subject for one in foreign_rules.find(str(tmp_path))] == ["set.sh"]
    asked, real = [], os.path.lexists
    monkeypatch.setattr(os.path, "lexists", lambda path: asked.append(path) or real(path))
    table = [
        Mount("8:1", "/", "ext4", (), "/dev/sda1"),
        Mount("0:9", str(tmp_path / "mnt/far"), kind, (), "server:/far"),
    ]
    monkeypatch.setattr(foreign_rules, "mounts", lambda proc: table)
    assert foreign_rules.find(str(tmp_path)) == []
    assert [path for path in asked if "far" in path] == []
