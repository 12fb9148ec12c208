"""A drive that is off and saves that itself is left out of the boot rule; all others are named."""

from __future__ import annotations

from dataclasses import replace

import pytest
from model_drives import ModelScsi
from prepare_bench import WHERE, Bank, entry_of, host_of, options_of, preparer_of, turned_off
from wcache.core.drive.journal import EntryKind, JournalEntry, encode, prior_of
from wcache.core.drive.saved_off import PRICE, saves_off, why_pinned
from wcache.core.errors import ConflictError, NotFoundError, NotReadyError, RefusalKind
from wcache.core.model import CacheMode, DeviceCache, FindingCode, Transport
from wcache_probe.commands import prepare as command
from wcache_probe.journal.host_lock import HostLock
from wcache_probe.journal.journal_file import StateFolder
from wcache_probe.linux.persistence.preparation import told_once
from wcache_probe.linux.persistence.udev_rule import RuleFolder

WB, WT = CacheMode.WRITE_BACK, CacheMode.WRITE_THROUGH
HOW = "`wcache-probe prepare --drive=sda`"


class Desk:
    """A host with two drives under OSDs, the first one off and saving that."""

    def __init__(self, fake_host, monkeypatch, **drive):
        drive = {"wce": False, "savable": True, **drive}
        self.fake, self.bank = fake_host, Bank()
        self.model = self.bank.drives["sda"] = ModelScsi(**drive)
        self.model.naa = bytes.fromhex(f"5000c500000000{ord('a'):02x}")
        self.host = host_of(fake_host, osds=("sda", "sdb"), bank=self.bank)
        fake_host.set_view("sda", "write through")
        self.state, self.run = (str(fake_host.root / name) for name in ("state", "run"))
        self.said = []

    def _run(self, verb, words):
        self.said.clear()
        made = preparer_of(self.fake, self.said.append)
        return verb(options_of(self.fake, verb.__name__, *words), made, self.host)

    def prepare(self, *words):
        return self._run(command.prepare, words)

    def unprepare(self, *words):
        return self._run(command.unprepare, words)

    def named(self):
        """The names of the disks that the rule pins."""
        path = self.fake.root / f"etc/{WHERE}"
        text = path.read_text() if path.exists() else ""
        return [name for name, wwid in self.host.disks() if wwid and wwid in text]

    def sda(self):
        return next(drive for drive in self.host.look() if drive.dev_name == "sda")

    def journal(self, folder="state", kind=EntryKind.ACTION):
        state = options_of(self.fake, "prepare", state=folder).state_dir
        drive = self.sda()
        entry = JournalEntry(2, kind, "a1", drive.domain_id, prior_of((drive,)), 0.0)
        StateFolder(state, self.run).journal.write(entry.key, encode(entry))
        return entry


@pytest.fixture
def desk(fake_host, monkeypatch):
    return Desk(fake_host, monkeypatch)


def test_it_is_left_out_and_the_admin_is_told_how_it_is_named_and_what_that_costs(desk):
    assert desk.prepare() == 0
    assert desk.named() == ["sdb"]
    (line,) = [line for line in desk.said if line.startswith("left as it is: sda: ")]
    assert HOW in line
    assert PRICE in line


def test_it_is_told_too_where_no_drive_of_the_host_needs_a_pin(desk):
    (desk.fake.root / "osd/osd.1/block").unlink()
    assert desk.prepare() == 0
    told = [line.partition(": ")[0] for line in desk.said]
    assert told == ["left as it is", "nothing to prepare"]
    assert HOW in desk.said[0]
    assert not (desk.fake.root / f"etc/{WHERE}").exists()


def test_nothing_touches_it_and_the_refusal_says_the_command(desk):
    desk.prepare()
    drive = desk.sda()
    assert [one.kind for one in drive.refusals] == [RefusalKind.NOT_PREPARED]
    assert HOW in drive.toggle_refusal
    assert [one.code for one in drive.findings] == [FindingCode.NOT_PREPARED]
    # nothing is to be done about it, so the host's report says nothing of it
    drives, findings = told_once(desk.host.look(), frozenset())
    assert findings == ()
    assert not any(drive.findings for drive in drives)
    _, (finding,) = told_once(desk.host.look(), {drive.domain_id})
    assert finding.severity.value == "warning"


@pytest.mark.parametrize("word", ["sda", "/dev/sda"])
def test_an_admin_has_it_named_and_once_in_the_rule_prepare_never_takes_it_out(desk, word):
    assert desk.prepare(f"--drive={word}") == 0
    assert desk.named() == ["sda", "sdb"]
    assert any("off, and flushed all the same" in line and "sda" in line for line in desk.said)
    assert desk.sda().toggle_refusal == ""
    assert desk.prepare() == 0
    assert desk.named() == ["sda", "sdb"]
    assert not any("left as it is" in line or "its line stays" in line for line in desk.said)


def test_its_line_stays_though_no_osd_uses_it_any_more(desk):
    desk.prepare("--drive=sda")
    (desk.fake.root / "osd/osd.0/block").unlink()
    assert desk.prepare() == 0
    assert desk.named() == ["sda", "sdb"]
    assert "its line stays in the boot rule: the cache of sda is off now" in desk.said


def test_a_dry_run_says_who_is_left_out_and_who_will_be_flushed(desk):
    turned_off(desk.host, 1)
    assert desk.prepare("--dry-run") == 0
    assert desk.named() == []
    assert any(line.startswith("left as it is: sda: ") for line in desk.said)
    assert any("flushed all the same" in line and "sdb" in line for line in desk.said)
    assert not any("flushed all the same" in line and "sda" in line for line in desk.said)


def test_a_drive_that_no_osd_uses_is_not_asked_for(desk):
    with pytest.raises(NotFoundError, match="no OSD of this host uses a drive sdz"):
        desk.prepare("--drive=sdz")


# ---- each of the five conditions


def of_sda(desk):
    return desk.host.appeared("sda", desk.sda().wwid)


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (lambda d: replace(d, transport=Transport.SATA_HBA), "not switched by its own mode page"),
        (lambda d: replace(d, transport=Transport.NVME), "not switched by its own mode page"),
        (lambda d: replace(d, transport=Transport.SAS_RAID), "an adapter answers"),
        (lambda d: with_page(d, by_rule=True), "saves nothing itself"),
        (lambda d: with_page(d, saved=None, default=WT), "does not save"),
        (lambda d: with_page(d, saved=WB), "does not save"),
        (lambda d: with_cache(d, DeviceCache.WRITE_BACK), "is not off now"),
        (lambda d: with_cache(d, DeviceCache.UNKNOWN), "is not off now"),
    ],
)
def test_a_drive_is_pinned_where_one_of_the_conditions_of_its_own_fails(desk, change, why):
    (drive,) = of_sda(desk)
    assert saves_off(drive)
    assert why_pinned((drive,), lambda _: "") == ""
    other = change(drive)
    assert not saves_off(other)
    assert why in why_pinned((other,), lambda _: "")
    assert why in why_pinned((drive, other), lambda _: ""), "one of those that share the switch"


def with_page(drive, **changes):
    return replace(drive, state=replace(drive.state, page=replace(drive.state.page, **changes)))


def with_cache(drive, cache):
    return replace(drive, state=replace(drive.state, device_cache=cache))


def test_of_a_domain_that_nobody_could_look_at_nothing_is_known(desk):
    assert why_pinned((), lambda _: "")


@pytest.mark.parametrize(
    "drive", [{"wce": True}, {"savable": False}], ids=["saves that it is on", "saves nothing"]
)
def test_a_drive_that_does_not_save_it_is_named_though_it_is_off(fake_host, monkeypatch, drive):
    desk = Desk(fake_host, monkeypatch, **drive)
    desk.model.current = ModelScsi.page(False)
    assert desk.prepare() == 0
    assert desk.named() == ["sda", "sdb"]


def second_lun(desk):
    """Another disk of sda's switch, which is off and saves that too."""
    second = desk.bank.drives["sdc"] = ModelScsi(wce=False, savable=True)
    second.naa = desk.model.naa[:-1] + b"c"
    desk.fake.scsi_disk("sdc", "8:32", hctl="0:0:0:1")
    lun = desk.fake.root / "sys/devices/pci0/host0/target0:0:0/0:0:0:1"
    (lun / "wwid").write_text("naa.5000c50000000003\n")
    return second


def test_one_lun_of_two_decides_nothing(desk):
    second = second_lun(desk)
    assert desk.prepare() == 0
    assert desk.named() == ["sdb"]
    second.saved = ModelScsi.page(True)
    assert desk.prepare() == 0
    assert desk.named() == ["sda", "sdb", "sdc"]


def test_a_second_lun_that_does_not_answer_may_save_anything(desk):
    second_lun(desk).bad_mode_data = b""
    assert desk.prepare() == 0
    assert "sda" in desk.named()


def journalled(desk):
    desk.journal()


def journalled_by_its_own_name(desk):
    """A second LUN has come since: the domain has another name now."""
    entry = replace(entry_of((desk.sda(),)), domain_id="another")
    StateFolder(desk.state, desk.run).journal.write(entry.key, encode(entry))


def damaged(desk):
    """An entry that may be of any drive."""
    StateFolder(desk.state, desk.run).journal.write(desk.journal().key, "{")


def leased_elsewhere(desk):
    """The mark of a lease of another journal."""
    desk.journal("other", EntryKind.LEASE)


def kept_by_a_plan(desk):
    folder = RuleFolder(str(desk.fake.root / "etc/udev/rules.d"), desk.run, "/usr/bin/wcache-probe")
    folder.write(desk.sda().wwid, WT)


@pytest.mark.parametrize("names", [
    journalled, journalled_by_its_own_name, damaged, leased_elsewhere, kept_by_a_plan,
])
def test_what_something_names_is_in_the_rule(desk, names):
    names(desk)
    assert desk.prepare() == 0
    assert desk.named() == ["sda", "sdb"]


def test_a_rule_that_changes_while_prepare_looks_is_not_written_over(desk, monkeypatch):
    """Another `prepare --drive` would be undone."""
    desk.prepare()
    disks = desk.host.disks

    def another():
        monkeypatch.setattr(desk.host, "disks", disks)
        desk.prepare("--drive=sda")
        return disks()

    monkeypatch.setattr(desk.host, "disks", another)
    with pytest.raises(NotReadyError, match="the boot rule has changed meanwhile"):
        desk.prepare()
    assert desk.named() == ["sda", "sdb"]


# ---- out again


def test_only_unprepare_takes_it_out_and_says_the_price(desk):
    desk.prepare("--drive=sda")
    assert desk.unprepare("--drive=sda") == 0
    assert desk.named() == ["sdb"]
    assert "acknowledged writes are lost at a power cut" in desk.said[-1]
    assert HOW in desk.said[-1]
    assert desk.host.look()[1].toggle_refusal == "", "the others stay prepared"
    with pytest.raises(NotFoundError, match="the boot rule names no drive sda"):
        desk.unprepare("--drive=sda")


def turned_on(desk):
    desk.model.current = ModelScsi.page(True)


def saves_on(desk):
    desk.model.saved = ModelScsi.page(True)


def saves_nothing(desk):
    desk.model.savable = False


@pytest.mark.slow
@pytest.mark.parametrize(
    ("happens", "why"),
    [
        (turned_on, "is not off now"), (saves_on, "does not save"),
        (saves_nothing, "does not save"),
        (journalled, "the journal has an entry"), (leased_elsewhere, "another state folder"),
        (kept_by_a_plan, "a plan's udev rule"),
    ],
    ids=lambda each: getattr(each, "__name__", ""),
)
def test_unprepare_takes_no_drive_out_of_which_one_condition_fails(desk, happens, why):
    desk.prepare("--drive=sda")
    happens(desk)
    with pytest.raises(ConflictError, match=why):
        desk.unprepare("--drive=sda")
    assert desk.named() == ["sda", "sdb"]


def test_unprepare_of_the_whole_rule_goes_by_the_same(desk):
    desk.prepare("--drive=sda")
    desk.model.savable = False
    desk.model.page(True)
    with pytest.raises(ConflictError, match="the cache of sda is off now and may come on"):
        desk.unprepare()
    desk.model.savable = True
    assert desk.unprepare() == 0
    assert desk.named() == []


def test_what_shares_its_switch_goes_with_it(desk):
    second_lun(desk)
    desk.prepare("--drive=sda")
    assert desk.named() == ["sda", "sdb", "sdc"]
    assert desk.unprepare("--drive=sda") == 0
    assert desk.named() == ["sdb"]


def while_it_asks(desk, monkeypatch, do):
    """Do something the first time that `unprepare` asks a drive."""
    asked, real = [], desk.host.appeared

    def appeared(*words):
        if not asked:
            asked.append(words)
            do()
        return real(*words)

    monkeypatch.setattr(desk.host, "appeared", appeared)
    return asked


@pytest.mark.parametrize("words", [("--drive=sda",), ()])
def test_a_drive_that_unprepare_asks_holds_up_no_restore(desk, monkeypatch, words):
    desk.prepare("--drive=sda")

    def restored():
        with HostLock(desk.run, wait_s=0.0).held("naa.another-one"):
            pass

    asked = while_it_asks(desk, monkeypatch, restored)
    desk.unprepare(*words)
    assert asked


@pytest.mark.parametrize("words", [("--drive=sda",), ()])
def test_a_change_that_came_while_unprepare_asked_keeps_the_rule(desk, monkeypatch, words):
    desk.prepare("--drive=sda")
    named = desk.named()
    while_it_asks(desk, monkeypatch, desk.journal)
    with pytest.raises(NotReadyError, match="the journal has changed meanwhile"):
        desk.unprepare(*words)
    assert desk.named() == named
