"""Model drives behind the two ports: they answer commands in bytes, as drives do."""

from __future__ import annotations

from wcache_probe.linux.transports import nvme
from wcache_probe.linux.transports.nvme import NvmeError
from wcache_probe.linux.transports.sg_io import ScsiError, ScsiReply, Sense

ILLEGAL = Sense(5, 0x20, 0)


def vpd(page, payload):
    return bytes((0, page)) + len(payload).to_bytes(2, "big") + payload


def designator(body, kind=3, association=0, code_set=1):
    return bytes((code_set, (association << 4) | kind, 0, len(body))) + body


class ModelScsi:
    """A SCSI disk: a caching page that can be saved or not, and a log of what it was told."""

    def __init__(self, *, wce=True, savable=False, changeable=True, ten=True, obeys=True):
        self.current = self.saved = self.page(wce)
        self.savable, self.changeable, self.ten, self.obeys = savable, changeable, ten, obeys
        self.zoned = 0
        self.naa = bytes.fromhex("5000c50000000001")
        self.serial = b"SER1"
        self.log = []
        self.bad_mode_data = None

    @staticmethod
    def page(wce, retention=0):
        return bytes((0x08, 0x12, 0x10 | (4 if wce else 0), retention)) + bytes(16)

    def power_on(self):
        self.current = self.saved

    def command(self, device, cdb, *, data_in=0, data_out=b"", timeout_ms=0, guard=None):
        if guard is not None:
            guard()
        self.log.append(cdb[0])
        op = cdb[0]
        if op == 0x12:
            return ScsiReply(self.inquiry(cdb)[:data_in])
        if op in (0x5A, 0x1A):
            return ScsiReply(self.mode_sense(cdb, op == 0x5A)[:data_in])
        if op in (0x55, 0x15):
            return self.mode_select(cdb, data_out, op == 0x55)
        if op == 0x35:
            return ScsiReply(b"")
        raise ScsiError("no such command", ILLEGAL)

    def inquiry(self, cdb):
        if not cdb[1]:
            return bytes((0, 0, 6, 2, 91, 0, 0, 2)) + b"VEND    MODEL           FW01".ljust(88)
        pages = {
            0x80: vpd(0x80, self.serial),
            0x83: vpd(0x83, designator(b"T10 name", 1, 0, 2) + designator(self.naa)),
            0x86: vpd(0x86, bytes(60)),
            0xB1: vpd(0xB1, bytes((0, 1, 0, 2, self.zoned << 4)) + bytes(55)),
        }
        if cdb[2] not in pages:
            raise ScsiError("no such page", Sense(5, 0x24, 0))
        return pages[cdb[2]]

    def mode_sense(self, cdb, ten):
        if ten is not self.ten:
            raise ScsiError("not this one", ILLEGAL)
        if self.bad_mode_data is not None:
            return self.bad_mode_data
        control = cdb[2] >> 6
        if control == 3 and not self.savable:
            raise ScsiError("saving parameters not supported", Sense(5, 0x39, 0))
        mask = bytes((0x08, 0x12, 4 if self.changeable else 0)) + bytes(17)
        page = (self.current, mask, self.page(True), self.saved)[control]
        page = bytes((page[0] | (0x80 if self.savable else 0),)) + page[1:]
        if ten:
            return (6 + len(page)).to_bytes(2, "big") + bytes(6) + page
        return bytes((3 + len(page), 0, 0, 0)) + page

    def mode_select(self, cdb, data, ten):
        assert ten is self.ten
        assert cdb[1] & 0x10, "PF says that this is a page"
        header = 8 if ten else 4
        assert data[:header] == bytes(header), "reserved in MODE SELECT"
        page = data[header:]
        assert len(page) == 20
        assert page[0] == 0x08, "PS is reserved in MODE SELECT"
        if cdb[1] & 1 and not self.savable:
            raise ScsiError("cannot save", Sense(5, 0x26, 0))
        if self.obeys:
            self.current = page
            if cdb[1] & 1:
                self.saved = page
        return ScsiReply(b"")


class ModelAta:
    """A SATA drive behind a translation that passes ATA commands through."""

    def __init__(self, *, enabled=True, supported=True, valid=True, sct_state=None):
        self.enabled, self.supported, self.valid = enabled, supported, valid
        self.sct_state = sct_state
        self.serial = "SER2"
        self.zoned = 0
        self.log = []

    def identify(self):
        words = [0] * 256
        for at, size, text in ((10, 10, self.serial), (23, 4, "FW02"), (27, 20, "MODEL TWO")):
            raw = text.ljust(size * 2).encode()
            for i in range(size):
                words[at + i] = (raw[2 * i] << 8) | raw[2 * i + 1]
        words[69] = self.zoned
        words[82] = 0x20 if self.supported else 0
        words[83] = 0x6000 if self.valid else 0
        words[85] = 0x20 if self.enabled else 0
        words[87] = 0x4100 if self.valid else 0
        words[108:112] = [0x5000, 0xC500, 0, 2 + (self.serial != "SER2")]
        words[206] = 0x11 if self.sct_state is not None else 0
        raw = b"".join(word.to_bytes(2, "little") for word in words[:255]) + b"\xa5"
        return raw + bytes(((-sum(raw)) % 256,))

    def command(self, device, cdb, *, data_in=0, data_out=b"", timeout_ms=0, guard=None):
        if guard is not None:
            guard()
        assert (cdb[0], len(cdb)) == (0x85, 16)
        self.log.append((cdb[14], cdb[4]))
        if cdb[14] == 0xEC:
            return ScsiReply(self.identify())
        if cdb[14] == 0xEF and cdb[4] in (0x02, 0x82):
            self.enabled = cdb[4] == 0x02
            return ScsiReply(b"")
        if cdb[14] in (0xEA, 0xE7):
            return ScsiReply(b"")
        if cdb[14] == 0x3F and self.sct_state is not None:
            assert data_out[:6] == bytes((4, 0, 2, 0, 1, 0)), "asks and sets nothing"
            registers = bytes((0x09, 0x0C, 0, 0, 0, self.sct_state)) + bytes(8)
            return ScsiReply(b"", Sense(1, 0, 0x1D, registers))
        raise ScsiError("aborted", Sense(0xB, 0, 0))


class ModelNvme:
    """An NVMe controller with feature 06h."""

    def __init__(self, *, on=True, present=True, savable=False, changeable=True):
        self.on, self.present, self.savable, self.changeable = on, present, savable, changeable
        self.saved = on
        self.log = []

    def admin(self, files, controller, opcode, *, cdw10, cdw11=0, data_in=0):
        self.log.append((opcode, cdw10, cdw11))
        if opcode == nvme.IDENTIFY:
            raw = bytearray(4096)
            raw[4:24] = b"SER3".ljust(20)
            raw[24:64] = b"MODEL THREE".ljust(40)
            raw[64:72] = b"FW03".ljust(8)
            raw[520] = 0x10
            raw[525] = 1 if self.present else 0
            return 0, bytes(raw)
        if opcode == nvme.GET_FEATURES:
            select = (cdw10 >> 8) & 7
            caps = (1 if self.savable else 0) | (4 if self.changeable else 0)
            return (int(self.on), 1, int(self.saved), caps)[select], b""
        if cdw10 >> 31 and not self.savable:
            raise NvmeError("feature identifier not saveable", 0x10D)
        self.on = bool(cdw11)
        if cdw10 >> 31:
            self.saved = self.on
        return 0, b""

    def flush(self, device):
        self.log.append(("flush", device.name))
