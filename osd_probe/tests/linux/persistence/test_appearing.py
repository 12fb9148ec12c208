"""Sixty drives appear at once: each is asked by itself, tried again, and none is missed."""

import json
import os
import subprocess
import sys
import time

import pytest
from model_drives import ModelScsi
from wcache.core.errors import NotFoundError, NotReadyError, RefusedError, StorageError
from wcache.core.model import CacheMode
from wcache_probe.journal.host_lock import HostLock
from wcache_probe.journal.journal_file import LeaseMarker, NoJournal
from wcache_probe.linux.host import LinuxDriveHost
from wcache_probe.linux.persistence.appearing import Appearing, Missed, appear, try_until_done
from wcache_probe.linux.persistence.udev_rule import FILE_NAME, RuleFolder, boot_rule
from wcache_probe.linux.transports.classify import Switches
from wcache_probe.restoring.restorer import start_command
from wcache_probe.switcher import Switcher

THROUGH = CacheMode.WRITE_THROUGH
DRIVES = 60
WWID = "naa.5000c50000000001"


class Shelf:
    """Disks whose caches are on, behind processes that share nothing but files.

    A disk of `hangs` never answers; the first process at one of `fails` gets an error.
    """

    def __init__(self, root, fake_host, count):
        self.fake, self.root, self.hangs, self.fails = fake_host, root, set(), set()
        self.asked = root / "asked"
        self.asked.mkdir()
        (root / "rules.d").mkdir()
        self.run_dir = str(root / "run")
        self.rules = RuleFolder(str(root / "rules.d"), self.run_dir, "/usr/bin/wcache-probe")
        for number in range(count):
            name = f"sd{number}"
            fake_host.scsi_disk(name, f"8:{number}", hctl=f"0:0:{number}:0")
            fake_host.write(f"sys/class/block/{name}/device/wwid", self.wwid(name) + "\n")
            self.rules.write(self.wwid(name), THROUGH)
        named = [self.wwid(f"sd{number}") for number in range(count)]
        (root / "rules.d" / FILE_NAME).write_text(boot_rule(named))

    @staticmethod
    def wwid(name):
        return f"naa.5000c500000{int(name[2:]):05x}"

    def is_on(self, name):
        return not (self.root / f"{name}.off").exists()

    def command(self, device, cdb, **more):
        (self.asked / f"{os.getpid()}.{device.name}").touch()
        while device.name in self.hangs:
            time.sleep(0.05)
        if device.name in self.fails:
            try:
                (self.root / f"{device.name}.failed").touch(exist_ok=False)
                raise StorageError("it is not ready")
            except FileExistsError:
                pass
        model = ModelScsi(wce=self.is_on(device.name))
        model.naa = bytes.fromhex(self.wwid(device.name)[4:])
        reply = model.command(device, cdb, **more)
        if model.current == model.page(False):
            (self.root / f"{device.name}.off").touch()
        return reply

    def appear(self, name):
        """Be the program that udev starts."""
        host = LinuxDriveHost(
            files=self.fake.files, osd_data_globs=[], switches=Switches(scsi=self),
            rules=self.rules,
        )
        switcher = Switcher(host, NoJournal(), lock=HostLock(self.run_dir).held)
        wwid = self.wwid(name)

        def keep():
            program = appear(
                host, self.rules, LeaseMarker(self.run_dir), dev_name=name, wwid=wwid,
                mode=THROUGH,
            )
            switcher.run(host.appeared(name, wwid)[0].domain_id, program)

        try_until_done(
            keep, Appearing(self.run_dir), name, wwid, THROUGH,
            sleep=lambda seconds: time.sleep(seconds / 100),
        )

    def start(self, name):
        pid = os.fork()
        if pid == 0:
            code = 1
            try:
                self.appear(name)
                code = 0
            finally:
                os._exit(code)
        return pid


@pytest.mark.slow
def test_sixty_drives_at_once_are_all_kept_though_two_hang_and_five_fail_at_first(
    tmp_path, fake_host
):
    shelf = Shelf(tmp_path, fake_host, DRIVES)
    names = [f"sd{number}" for number in range(DRIVES)]
    shelf.hangs, shelf.fails = {"sd7", "sd8"}, set(names[20:25])
    pids = {shelf.start(name): name for name in names}
    others = {pid: name for pid, name in pids.items() if name not in shelf.hangs}
    codes = {name: os.waitpid(pid, 0)[1] for pid, name in others.items()}
    assert set(codes.values()) == {0}
    assert [name for name in names if shelf.is_on(name)] == ["sd7", "sd8"]
    for seen in os.listdir(shelf.asked):
        pid, _, name = seen.partition(".")
        assert pids[int(pid)] == name, "no program asks another drive than its own"
    # what hangs is ended by udev in the end, and is not forgotten
    for pid in pids.keys() - others.keys():
        os.kill(pid, 9)
        os.waitpid(pid, 0)
    later = Appearing(shelf.run_dir, now=lambda: time.time() + 1000.0)
    assert sorted(device for device, _, _ in later.missed()) == ["sd7", "sd8"]
    assert list(Appearing(shelf.run_dir).missed()) == [], "they may still be at it"


@pytest.mark.parametrize(
    ("error", "tries", "kept"),
    [
        (StorageError("no answer"), 6, True), (NotReadyError("locked"), 6, True),
        (RefusedError("no"), 1, False), (NotFoundError("gone"), 1, False),
    ],
)
def test_what_is_not_ready_is_tried_again_and_noted_and_what_is_refused_is_not(
    tmp_path, error, tries, kept
):
    notes = Appearing(str(tmp_path), now=lambda: time.time() + 1000.0)
    tried, waits = [], []

    def keep():
        tried.append(1)
        raise error

    with pytest.raises(type(error)):
        try_until_done(keep, notes, "sda", WWID, THROUGH, sleep=waits.append)
    assert len(tried) == tries
    assert sum(waits) < 100.0, "udev ends its programs after 180 s"
    assert bool(list(notes.missed())) is kept


def test_the_probe_starts_what_was_missed_once_and_again_after_it_ended(tmp_path):
    notes = Appearing(str(tmp_path), now=lambda: time.time() + 1000.0)
    notes.begin("sda", WWID, THROUGH)
    started, said, now = [], [], [0.0]

    def start(words):
        started.append(list(words))
        return start_command([sys.executable, "-c", "import sys; sys.stdin.read()"])

    missed = Missed(notes, "/run/x", "/srv/x", start, said.append, clock=lambda: now[0])
    missed.look()
    missed.look()
    assert started == [["appear", "--mode", "write-through", "--wwid", WWID, "--run-dir",
                        "/run/x", "--state-dir", "/srv/x", "sda"]]
    assert len(said) == 1
    deadline = time.monotonic() + 30
    while len(started) < 2 and time.monotonic() < deadline:
        now[0] += 61.0
        missed.look()
        time.sleep(0.02)
    assert len(started) == 2
    notes.done(WWID)
    now[0] += 61.0
    missed.look()
    assert len(started) == 2


@pytest.mark.parametrize(
    "text", ["", "{}", "[1, 2, 3]", json.dumps(["sda", "other", "write through"]),
             json.dumps(["../sda", WWID, "write through"]), json.dumps(["sda", WWID, "off"]),
             "[" * 4000],
)
def test_a_note_that_makes_no_sense_starts_nothing(tmp_path, text):
    notes = Appearing(str(tmp_path), now=lambda: time.time() + 1000.0)
    notes.begin("sda", WWID, THROUGH)
    (tmp_path / "appearing" / WWID).write_text(text)
    assert list(notes.missed()) == []


@pytest.mark.slow
def test_appear_of_a_disk_that_is_not_here_is_one_line(tmp_path):
    done = subprocess.run(
        [sys.executable, "-m", "wcache_probe", "appear", "--mode", "write-through", "--wwid",
         "naa.not.here", "--run-dir", str(tmp_path), "sdnone"],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}, capture_output=True,
        text=True, timeout=60, check=False,
    )
    assert (done.returncode, done.stderr.count("\n")) == (2, 1), done.stderr
    assert os.listdir(tmp_path / "appearing") == []


@pytest.mark.parametrize(("noted_ago_s", "is_missed"), [
    (0.0, False), (3600.0, True),
    (-1e3, True), (-4e7, True),  # the clock of the boot was ahead, and is right now
])
def test_a_note_of_a_clock_that_was_set_back_is_not_young(tmp_path, noted_ago_s, is_missed):
    Appearing(str(tmp_path)).begin("sda", WWID, THROUGH)
    (note,) = (tmp_path / "appearing").iterdir()
    os.utime(note, (1.7e9, 1.7e9))
    notes = Appearing(str(tmp_path), now=lambda: 1.7e9 + noted_ago_s)
    assert bool(list(notes.missed())) is is_missed
