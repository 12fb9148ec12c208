"""Translations of SAS adapters at the level of the SG_IO ioctl, with their known lies.

Made from the SAT specification: no such hardware was there.
"""

from model_drives import ModelAta, designator, vpd
from wcache.core.host_report import ToggleProof
from wcache.core.model import DriveModel
from wcache_probe.linux.transports.classify import Switches
from wcache_probe.linux.transports.sg_io import CHECK_CONDITION, GOOD, ScsiReply, Sense, SgIo

ILLEGAL_COMMAND, ILLEGAL_FIELD = Sense(5, 0x20, 0), Sense(5, 0x24, 0)
NOT_PASSED = Sense(0xB, 0, 0)
BEHIND = {"path": "host0/port-0:0/end_device-0:0", "vendor": "ATA", "driver": "mpt3sas"}
MODEL = DriveModel("ATA", "MODEL TWO", "FW02")


class Translation:
    """A SATA drive behind an adapter: INQUIRY, the caching page, pass-through, rescan.

    `cached_page`: the adapter answers MODE SENSE from a copy of its own.
    `blocked`: it passes no ATA command on; `no_features`: all but SET FEATURES.
    `read_only`: both ways are taken, and nothing changes.
    `returns`: a rescan or reset brings the cache back.
    `no_select`: MODE SELECT is refused, which is honest.
    """

    def __init__(
        self, *, enabled=True, cached_page=False, blocked=False, no_features=False,
        read_only=False, returns=False, no_select=False,
    ):
        self.drive = ModelAta(enabled=enabled)
        self.at_start = enabled
        self.page_copy = enabled
        self.cached_page, self.blocked, self.no_features = cached_page, blocked, no_features
        self.read_only, self.returns, self.no_select = read_only, returns, no_select
        self.changes = []

    def port(self):
        """The door a switch uses, down to the ioctl."""
        return SgIo(self.submit)

    def submit(self, _fd, _name, cdb, data_in, data_out, _timeout_ms):
        try:
            return GOOD, ScsiReply(self.answer(cdb, data_out)[:data_in] if data_in else
                                   self.answer(cdb, data_out))
        except Refused as refused:
            return CHECK_CONDITION, ScsiReply(b"", refused.sense)

    def answer(self, cdb, data_out):
        op = cdb[0]
        if op == 0x85:
            return self.pass_through(cdb)
        if op == 0x12:
            return self.inquiry(cdb)
        if op == 0x5A:
            return self.mode_sense(cdb)
        if op == 0x55:
            return self.mode_select(data_out)
        if op == 0x35:
            return b""
        raise Refused(ILLEGAL_COMMAND)

    def pass_through(self, cdb):
        if self.blocked or (self.no_features and cdb[14] == 0xEF):
            raise Refused(NOT_PASSED)
        if cdb[14] == 0xEF:
            self.told(cdb[4] == 0x02)
            return b""
        return self.drive.command(None, cdb).data

    def told(self, on):
        self.changes.append(on)
        if not self.read_only:
            self.drive.enabled = on

    def inquiry(self, cdb):
        if not cdb[1]:
            return bytes((0, 0, 6, 2, 91, 0, 0, 2)) + b"ATA     MODEL TWO       FW02".ljust(88)
        if cdb[2] == 0x83:
            return vpd(0x83, designator(bytes.fromhex("5000c50000000002")))
        raise Refused(ILLEGAL_FIELD)

    def mode_sense(self, cdb):
        control = cdb[2] >> 6
        if control == 3:
            raise Refused(Sense(5, 0x39, 0))
        on = self.page_copy if self.cached_page else self.drive.enabled
        wce = 4 if control in (1, 2) or on else 0
        page = bytes((0x08, 0x12, wce)) + bytes(17)
        return (6 + len(page)).to_bytes(2, "big") + bytes(6) + page

    def mode_select(self, data):
        if self.no_select:
            raise Refused(ILLEGAL_COMMAND)
        on = bool(data[8 + 2] & 4)
        self.page_copy = on
        if not self.cached_page:
            self.told(on)
        return b""

    def rescan(self, _device=None):
        """What a rescan does to it, a reset of the adapter's among that."""
        if self.returns:
            self.drive.enabled = self.at_start


class Refused(Exception):
    """A command that ends with CHECK CONDITION."""

    def __init__(self, sense):
        super().__init__(str(sense))
        self.sense = sense


def host_with(fake_host, translation, proofs=(), **more):
    """A host with osd.1 on the drive, on which these proofs are known."""
    fake_host.scsi_disk("sda", "8:0", **{**BEHIND, **more})
    fake_host.osd(1, block="sda")
    return fake_host.drive_host(switches=Switches(scsi=translation.port(), proofs=lambda: proofs))


def proof(by_page=False, disagreed=(), driver="mpt3sas", model=MODEL, hostname="h2"):
    """What was shown of the drive and its adapter."""
    times = (60.0, 9000.0, 40.0)
    return ToggleProof(driver, model, by_page, disagreed, times, times, hostname, "naa.9", 1.0)
