"""A drive that does not obey is refused, and remembered until it does."""

import pytest
from model_drives import ModelScsi
from wcache.core.drive.safety import may_toggle
from wcache.core.errors import DisobeyedError, NotReadyError, RefusalKind, RefusedError
from wcache.core.model import CacheMode, FindingCode
from wcache_probe.linux.transports.classify import Switches
from wcache_probe.linux.transports.sg_io import ScsiError, Sense
from wcache_probe.main import main

BACK, THROUGH = CacheMode.WRITE_BACK, CacheMode.WRITE_THROUGH


def host_with(fake_host, drive):
    fake_host.scsi_disk("sda", "8:0")
    fake_host.osd(1, block="sda")
    return fake_host.drive_host(switches=Switches(scsi=drive))


def test_a_drive_that_does_not_obey_is_refused_and_remembered(fake_host):
    host = host_with(fake_host, ModelScsi(obeys=False))
    (drive,) = host.look()
    with pytest.raises(RefusedError, match="stays write back"):
        host.set_cache(drive, THROUGH)
    (seen,) = host.look()
    assert [finding.code for finding in seen.findings] == [FindingCode.TOGGLE_INEFFECTIVE]


class Refuses(ModelScsi):
    """Takes no MODE SELECT while it has an answer to it."""

    sense = Sense(5, 0x26, 0)

    def mode_select(self, *args):
        if self.sense is not None:
            raise ScsiError("sda refuses SCSI command 55h", self.sense)
        return super().mode_select(*args)

    def inquiry(self, cdb):
        return super().inquiry(cdb).replace(b"FW01", self.firmware)

    firmware = b"FW01"


def disobeys(drive):
    return [one.kind for one in drive.refusals] == [RefusalKind.DISOBEYED] and [
        one.code for one in drive.findings
    ] == [FindingCode.TOGGLE_INEFFECTIVE]


@pytest.mark.parametrize("model", [ModelScsi(obeys=False), Refuses()])
def test_that_a_drive_did_not_obey_is_known_to_a_probe_that_starts_anew(fake_host, model):
    host = host_with(fake_host, model)
    (drive,) = host.look()
    with pytest.raises(DisobeyedError, match="stays write back"):
        host.set_cache(drive, THROUGH)
    anew = fake_host.drive_host(switches=Switches(scsi=model))
    for seen in (*anew.look(), *anew.domain(drive.domain_id), anew.again(drive)):
        assert disobeys(seen)
        said = may_toggle([seen], THROUGH, throwaway=False, consent_turn_on=False)
        assert seen.refusals[0].text in said


def test_it_is_forgotten_once_the_drive_obeys_or_has_other_firmware_or_another_mode(fake_host):
    model = Refuses()
    host = host_with(fake_host, model)
    (drive,) = host.look()
    with pytest.raises(DisobeyedError):
        host.set_cache(drive, THROUGH)
    model.firmware = b"FW02"
    assert not host.look()[0].refusals
    model.firmware = b"FW01"
    model.current = model.page(False)  # by somebody else
    assert not host.look()[0].refusals
    model.current = model.page(True)
    assert disobeys(host.look()[0])
    model.sense = None
    host.set_cache(drive, THROUGH)  # a way back is never kept from it
    host.pin(drive)
    host.set_cache(drive, BACK)
    assert not host.look()[0].refusals


class Aborts(Refuses):
    """Aborts some commands, as an ATA drive does with a feature that it refuses."""

    def __init__(self, times):
        super().__init__()
        self.times = times

    def mode_select(self, *args):
        self.sense = Sense(0xB, 0, 0) if self.times else None
        self.times -= bool(self.times)
        return super().mode_select(*args)


def test_a_command_that_was_aborted_once_is_sent_again(fake_host):
    host = host_with(fake_host, Aborts(1))
    (drive,) = host.look()
    host.set_cache(drive, THROUGH)
    assert host.look()[0].mode is THROUGH


def test_a_command_that_was_aborted_is_not_sent_again_when_its_lease_has_ended(fake_host):
    model = Aborts(1)
    host = host_with(fake_host, model)
    (drive,) = host.look()
    asked = []

    def ends():
        asked.append(1)
        if len(asked) > 1:
            raise NotReadyError("the lease has ended")

    host.watched_by(lambda name: None, ends)
    with pytest.raises(NotReadyError):
        host.set_cache(drive, THROUGH)
    host.watched_by(lambda name: None, lambda: None)
    assert host.look()[0].mode is BACK


def test_a_drive_that_aborts_each_change_is_remembered(fake_host):
    host = host_with(fake_host, Aborts(100))
    (drive,) = host.look()
    with pytest.raises(DisobeyedError, match="stays write back"):
        host.set_cache(drive, THROUGH)
    assert disobeys(host.look()[0])


@pytest.mark.parametrize("sense", [Sense(4, 0x44, 0), Sense(2, 4, 1), Sense(0xB, 0x47, 0)])
def test_a_command_that_failed_otherwise_is_no_refusal_of_the_drive(fake_host, sense):
    model = Refuses()
    model.sense = sense
    host = host_with(fake_host, model)
    (drive,) = host.look()
    with pytest.raises(ScsiError):
        host.set_cache(drive, THROUGH)
    assert not host.look()[0].refusals


def test_an_admin_has_a_drive_tried_again_that_did_not_obey(fake_host, tmp_path, capsys):
    host = host_with(fake_host, Refuses())
    (drive,) = host.look()
    with pytest.raises(DisobeyedError):
        host.set_cache(drive, THROUGH)
    (seen,) = host.look()
    words = seen.findings[0].detail.partition("wcache-probe ")[2].split()
    folders = ["--state-dir", str(tmp_path / "evidence-of-tests")]
    assert main([*words, *folders]) == 1
    assert disobeys(host.look()[0])
    assert main([*words, *folders, "--yes"]) == 0
    assert "forgotten: " + drive.drive_id in capsys.readouterr().out
    assert not host.look()[0].refusals
