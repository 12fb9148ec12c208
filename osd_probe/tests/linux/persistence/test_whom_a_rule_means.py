"""A drive that appears is kept for its own rule; what shares its switch or its name is not."""

import time
from dataclasses import replace

import pytest
from model_drives import ModelScsi
from wcache.core.drive.journal import EntryKind
from wcache.core.errors import (
    ConflictError,
    NotReadyError,
    Refusal,
    RefusalKind,
    RefusedError,
)
from wcache.core.host_report import PowerCut
from wcache.core.model import CacheMode
from wcache_probe.evidence import POWER_CUT, EvidenceFolder
from wcache_probe.journal.host_lock import HostLock
from wcache_probe.journal.journal_file import LeaseMarker, NoJournal, StateFolder
from wcache_probe.linux.persistence.appearing import Appearing, appear, try_until_done
from wcache_probe.linux.persistence.udev_rule import FILE_NAME, RuleFolder, boot_rule
from wcache_probe.linux.transports.classify import Switches
from wcache_probe.main import main
from wcache_probe.switcher import Switcher
from wcache_probe.switching import toggle

BACK, THROUGH = CacheMode.WRITE_BACK, CacheMode.WRITE_THROUGH


class Bay:
    """Disks of one or more targets; the model of each answers for it."""

    def __init__(self, fake_host, root):
        self.fake, self.models, self.run_dir = fake_host, {}, str(root / "run")
        (root / "rules.d").mkdir()
        self.rules = RuleFolder(str(root / "rules.d"), self.run_dir, "/usr/bin/wcache-probe")
        self.boot_rule = root / "rules.d" / FILE_NAME
        self.pinned = []
        self.state = StateFolder(str(root / "state"), self.run_dir)
        self.state.probe_id()
        self.evidence = EvidenceFolder(self.state.path)
        self.host = fake_host.drive_host(
            switches=Switches(scsi=self), find_foreign_rules=tuple, rules=self.rules,
            evidence=self.evidence,
        )

    def put(self, name, low, *, on=True, target="0:0:0", serial=None, model=None):
        number = len(self.models)
        hctl = f"{target}:{number}"
        self.fake.scsi_disk(name, f"8:{16 * number}", hctl=hctl)
        self.fake.write(
            f"sys/devices/pci0/host0/target{target}/{hctl}/wwid", self.wwid(low) + "\n"
        )
        self.models[name] = model or ModelScsi(wce=on)
        self.pinned.append(self.wwid(low))
        self.boot_rule.write_text(boot_rule(self.pinned))
        if model is None:
            self.models[name].naa = bytes.fromhex(self.wwid(low)[4:])
            self.models[name].serial = (serial or name).encode()

    @staticmethod
    def wwid(low):
        return f"naa.5000c500000000{low:02x}"

    def command(self, device, cdb, **more):
        return self.models[device.name].command(device, cdb, **more)

    def on(self):
        return {name: bool(model.current[2] & 4) for name, model in self.models.items()}

    def mounted(self, number):
        self.fake.write("proc/self/mountinfo", f"30 1 {number} / /srv rw - ext4 /dev/sdb rw\n")

    def appears(self, name, low, mode):
        switcher = Switcher(self.host, NoJournal(), lock=HostLock(self.run_dir).held)
        (first, *_) = self.host.appeared(name, self.wwid(low))
        return switcher.run(first.domain_id, appear(
            self.host, self.rules, LeaseMarker(self.run_dir), dev_name=name,
            wwid=self.wwid(low), mode=mode,
        ))


@pytest.fixture
def bay(fake_host, tmp_path):
    return Bay(fake_host, tmp_path)


def test_a_lun_that_no_rule_names_stays_on_where_another_goes_off(bay):
    bay.put("sda", 0x61)
    bay.put("sdb", 0x62)
    bay.mounted("8:16")
    bay.rules.write(bay.wwid(0x61), THROUGH)
    assert bay.appears("sda", 0x61, THROUGH).changed
    assert bay.on() == {"sda": False, "sdb": True}


def test_a_lun_that_no_rule_names_stays_off_where_another_comes_on(bay):
    bay.put("sda", 0x61, on=False)
    bay.put("sdb", 0x62, on=False)
    bay.rules.write(bay.wwid(0x61), BACK)
    assert bay.appears("sda", 0x61, BACK).changed
    assert bay.on() == {"sda": True, "sdb": False}


def test_every_lun_with_a_rule_is_kept_by_the_event_of_one(bay):
    bay.put("sda", 0x61)
    bay.put("sdb", 0x62)
    for low in (0x61, 0x62):
        bay.rules.write(bay.wwid(low), THROUGH)
    assert bay.appears("sda", 0x61, THROUGH).changed
    assert bay.on() == {"sda": False, "sdb": False}


def test_no_cache_goes_off_that_the_next_boot_would_not_pin(bay):
    bay.put("sda", 0x61)
    bay.rules.write(bay.wwid(0x61), THROUGH)
    bay.boot_rule.unlink()
    with pytest.raises(RefusedError, match="the cache of sda stays on: the boot rule does not"):
        bay.appears("sda", 0x61, THROUGH)
    assert bay.on() == {"sda": True}


def test_a_rollback_takes_the_rule_away_by_the_name_that_the_drive_had(bay):
    bay.put("sda", 0x61)
    bay.fake.osd(0, block="sda")
    switcher = Switcher(bay.host, bay.state.journal, lock=HostLock(bay.run_dir).held)
    drives = bay.host.look()
    switcher.run(drives[0].domain_id, toggle.apply(
        drives, None, action_id="a1", expected=BACK, mode=THROUGH, now_s=1.0, throwaway=False,
        consent_turn_on=False, persist=True,
    ))
    assert bay.on() == {"sda": False}
    assert len(bay.rules.standing()) == 1
    # another kernel names it by another designator of its page 83h
    bay.fake.write("sys/devices/pci0/host0/target0:0:0/0:0:0:0/wwid", "t10.VEND MODEL SER1\n")
    switcher.restore_key(f"{EntryKind.ACTION.value}/a1")
    assert (bay.on(), bay.rules.standing()) == ({"sda": True}, ())


def test_no_cache_comes_on_where_a_file_system_shares_it(bay):
    bay.put("sda", 0x61, on=False)
    bay.put("sdb", 0x62, on=False)
    bay.mounted("8:16")
    bay.rules.write(bay.wwid(0x61), BACK)
    with pytest.raises(NotReadyError, match="sdb: shared with sdb mounted on /srv"):
        bay.appears("sda", 0x61, BACK)
    assert bay.on() == {"sda": False, "sdb": False}


def test_a_cache_comes_on_at_a_later_try_once_who_used_the_drive_has_gone(bay, tmp_path):
    bay.put("sda", 0x61, on=False)
    bay.mounted("8:0")
    bay.rules.write(bay.wwid(0x61), BACK)
    notes = Appearing(str(tmp_path / "notes"), now=lambda: time.time() + 1000.0)
    left = []

    def sleep(seconds):
        left.extend(notes.missed())
        if len(left) == 2:
            bay.fake.write("proc/self/mountinfo", "")

    try_until_done(
        lambda: bay.appears("sda", 0x61, BACK), notes, "sda", bay.wwid(0x61), BACK, sleep
    )
    assert left == [("sda", bay.wwid(0x61), BACK)] * 2
    assert (bay.on(), list(notes.missed())) == ({"sda": True}, [])


def test_what_does_not_pass_is_refused_whoever_uses_the_drive(bay, monkeypatch):
    bay.put("sda", 0x61, on=False)
    bay.mounted("8:0")
    bay.rules.write(bay.wwid(0x61), BACK)
    refusal = Refusal(RefusalKind.NO_FLUSH, "it takes no flush")
    read = bay.host.appeared
    monkeypatch.setattr(bay.host, "appeared", lambda *which: tuple(
        replace(drive, refusals=(refusal,)) for drive in read(*which)
    ))
    with pytest.raises(RefusedError, match="it takes no flush"):
        bay.appears("sda", 0x61, BACK)
    assert bay.on() == {"sda": False}


def test_no_cache_comes_on_where_its_users_cannot_be_seen(bay):
    bay.put("sda", 0x61, on=False)
    bay.rules.write(bay.wwid(0x61), BACK)
    bay.fake.hide_processes()
    with pytest.raises(NotReadyError, match="other programs may use it"):
        bay.appears("sda", 0x61, BACK)
    assert bay.on() == {"sda": False}


def test_what_is_on_already_is_kept_whoever_uses_it(bay, monkeypatch):
    """It loses nothing by that, and the pin is worth having; nor is any process looked at."""
    monkeypatch.setattr(bay.host, "with_users", None)
    bay.put("sda", 0x61)
    bay.mounted("8:0")
    bay.rules.write(bay.wwid(0x61), BACK)
    assert not bay.appears("sda", 0x61, BACK).changed
    assert bay.on() == {"sda": True}


@pytest.mark.parametrize("mode", list(CacheMode))
def test_a_drive_with_two_paths_is_left_as_it_is(bay, mode):
    """Pinned over one path, it would drop what goes down the other."""
    on = mode is THROUGH
    bay.put("sda", 0x61, on=on)
    bay.put("sdb", 0x61, target="0:0:1", model=bay.models["sda"])
    bay.fake.set_view("sdb", "write through")
    bay.rules.write(bay.wwid(0x61), mode)
    with pytest.raises(RefusedError, match="sda, sdb have the same name"):
        bay.appears("sda", 0x61, mode)
    assert bay.on() == {"sda": on, "sdb": on}


def test_a_lun_of_the_same_target_with_two_paths_keeps_all_as_they_are(bay):
    bay.put("sda", 0x61)
    bay.put("sdb", 0x62)
    bay.put("sdc", 0x62, target="0:0:1", model=bay.models["sdb"])
    for low in (0x61, 0x62):
        bay.rules.write(bay.wwid(low), THROUGH)
    with pytest.raises(RefusedError, match="sdb, sdc have the same name"):
        bay.appears("sda", 0x61, THROUGH)
    assert bay.on() == {"sda": True, "sdb": True, "sdc": True}


def test_of_two_drives_with_one_name_the_rule_means_neither(bay):
    bay.put("sda", 0x61)
    bay.put("sdb", 0x61, target="0:0:1")
    bay.mounted("8:16")
    bay.rules.write(bay.wwid(0x61), THROUGH)
    with pytest.raises(RefusedError, match="sda, sdb have the same name"):
        bay.appears("sdb", 0x61, THROUGH)
    assert bay.on() == {"sda": True, "sdb": True}


@pytest.mark.parametrize("on", [False, True])
def test_a_drive_model_that_has_lost_writes_is_not_turned_on(bay, on):
    bay.put("sda", 0x61, on=on)
    bay.rules.write(bay.wwid(0x61), BACK)
    (drive,) = bay.host.appeared("sda", bay.wwid(0x61))
    bay.evidence.put(POWER_CUT + "x", PowerCut(
        "0" * 32, drive.drive_id, drive.drive_model, BACK, 100, 100, 37, 1.0, True
    ))
    if on:
        assert not bay.appears("sda", 0x61, BACK).changed
    else:
        with pytest.raises(RefusedError, match="was shown to lose writes"):
            bay.appears("sda", 0x61, BACK)
    assert bay.on() == {"sda": on}


@pytest.mark.parametrize("mounted", ["later", "in time"])
def test_no_cache_comes_on_before_it_is_known_what_was_lost(bay, tmp_path, mounted):
    """The state folder is on a file system of its own, and an empty folder stands in its place."""
    bay.put("sda", 0x61, on=False)
    bay.rules.write(bay.wwid(0x61), BACK)
    state, away = tmp_path / "state", tmp_path / "away"
    state.rename(away)
    state.mkdir()
    waits = []

    def sleep(seconds):
        waits.append(seconds)
        if mounted == "in time" and len(waits) == 2:
            state.rmdir()
            away.rename(state)

    notes = Appearing(str(tmp_path / "notes"), now=lambda: time.time() + 1000.0)
    keep = (lambda: bay.appears("sda", 0x61, BACK), notes, "sda", bay.wwid(0x61), BACK, sleep)
    if mounted == "in time":
        try_until_done(*keep)
    else:
        with pytest.raises(NotReadyError, match="the cache of sda stays off, since the state"):
            try_until_done(*keep)
    assert bay.on() == {"sda": mounted == "in time"}
    assert bool(list(notes.missed())) is (mounted == "later"), "the probe starts it once more"


def test_a_state_folder_that_comes_while_the_drive_is_read_is_waited_for(bay, tmp_path):
    """What was proven of the drive was read before that, and was not there."""
    bay.put("sda", 0x61, on=False)
    bay.rules.write(bay.wwid(0x61), BACK)
    state, away, appeared = tmp_path / "state", tmp_path / "away", bay.host.appeared
    state.rename(away)

    def mounted(*asked):
        drives = appeared(*asked)
        if away.exists():
            away.rename(state)
        return drives

    bay.host.appeared = mounted
    program = appear(
        bay.host, bay.rules, LeaseMarker(str(tmp_path / "run")),
        dev_name="sda", wwid=bay.wwid(0x61), mode=BACK,
    )
    with pytest.raises(NotReadyError, match="is not there yet"):
        next(program)


def test_appear_reads_what_was_proven_where_it_reads_what_was_lost(tmp_path, monkeypatch):
    hosts = []
    monkeypatch.setattr(
        "wcache_probe.linux.host.LinuxDriveHost.appeared",
        lambda host, *_: hosts.append(host) or pytest.fail("seen"),
    )
    asked = ["appear", "--mode", "write-back", "--wwid", "naa.5000", "--run-dir",
             str(tmp_path / "run"), "--state-dir", str(tmp_path / "elsewhere"), "sda"]
    with pytest.raises(pytest.fail.Exception, match="seen"):
        main(asked)
    host = hosts[0]
    assert host.switches._sata_hba._proofs == host.evidence.proofs


@pytest.mark.parametrize(("on", "mode"), [(True, THROUGH), (True, BACK), (False, THROUGH)])
def test_what_turns_nothing_on_does_not_wait_for_the_state_folder(bay, tmp_path, on, mode):
    (tmp_path / "state").rename(tmp_path / "away")
    bay.put("sda", 0x61, on=on)
    bay.rules.write(bay.wwid(0x61), mode)
    bay.appears("sda", 0x61, mode)
    assert bay.on() == {"sda": mode is BACK}


def test_a_lease_holds_its_drive_by_whatever_name_its_domain_goes(bay):
    bay.put("sda", 0x61)
    bay.rules.write(bay.wwid(0x61), BACK)
    journal = bay.state.journal
    switcher = Switcher(bay.host, journal, lock=HostLock(bay.run_dir).held)
    drives = bay.host.appeared("sda", bay.wwid(0x61))
    switcher.run(drives[0].domain_id, toggle.lease_set(
        drives, None, lease_id="l", mode=THROUGH, now_s=0.0, throwaway=False,
        consent_turn_on=False,
    ))
    bay.put("sdb", 0x01, on=False)
    now = bay.host.appeared("sda", bay.wwid(0x61))
    assert {drive.domain_id for drive in now} == {bay.wwid(0x01)} != {drives[0].domain_id}
    assert not bay.appears("sda", 0x61, BACK).changed
    journal.sync_marks()  # as after a restart
    assert not bay.appears("sda", 0x61, BACK).changed
    with pytest.raises(ConflictError, match="the journal has sda as a drive of naa"):
        switcher.run(now[0].domain_id, toggle.apply(
            now, action_id="a", expected=THROUGH, mode=THROUGH.other, now_s=0.0, throwaway=False,
            consent_turn_on=True, persist=False,
        ))
    assert bay.on() == {"sda": False, "sdb": False}
    switcher.restore_key(f"lease/{drives[0].domain_id}")
    assert bay.on()["sda"]
    assert journal.read() == {}
