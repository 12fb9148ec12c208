"""Short words for what the tests do to a lab."""

from __future__ import annotations

import time

OFFSET_BLOCKS = 1024
FOLLOW_S = 8.0  # for what the kernel is expected to do by itself
IGNORE_S = 1.0  # for what it is expected not to do: ten times what following takes


class Bench:
    """A lab, its drives by name."""

    def __init__(self, lab):
        self.lab = lab
        self.true_state = lab.true_state

    def sh(self, script):
        return self.lab.guest.sh(script)

    def disk(self, name):
        return self.lab.drive(name).disk()

    def drive_on(self, name):
        """What QEMU, the drive itself and its tool agree on."""
        on = self.lab.drive(name).qmp_writeback()
        assert self.disk(name).device_cache_on() is on
        return on

    def settle(self):
        self.lab.guest.settle()

    def all_on(self, name):
        """Cache on, kernel flushing, no override: how every test begins."""
        disk = self.disk(name)
        self.settle()
        if disk.is_nvme:
            self.sh(f"nvme set-feature {disk.controller} --feature-id=6 --value=1").checked()
            self.sh(f"echo 'write back' > {disk.queue_file}").checked()
        else:
            assert disk.set_cache_type("write back") == 0
        self.settle()
        assert self.state(name) == ("on", "write back")
        return disk

    def state(self, name):
        return "on" if self.drive_on(name) else "off", self.disk(name).kernel_view()

    def write(self, path, word, conv="notrunc"):
        """Taken by the drive, which may still lose it."""
        self.sh(
            f"printf %-4096s {word} | dd of={path} bs=4096 count=1 seek={OFFSET_BLOCKS} "
            f"iflag=fullblock oflag=direct conv={conv} status=none"
        ).checked()

    def write_and_sync(self, path, word):
        """Acknowledged, as far as the program that wrote it can tell."""
        self.write(path, word, "notrunc,fdatasync")

    def on_the_medium(self, path):
        # O_DIRECT, or the page cache would tell what was written and not what is there
        shown = self.sh(
            f"dd if={path} bs=4096 count=1 skip={OFFSET_BLOCKS} iflag=direct status=none"
        ).checked()
        return shown.rstrip(" \0")

    def follows(self, name, view):
        """Whether the kernel comes to this view by itself."""
        disk = self.disk(name)
        deadline = time.monotonic() + FOLLOW_S
        while disk.kernel_view() != view:
            if time.monotonic() > deadline:
                return False
            time.sleep(0.05)
        return True

    def stays(self, name, view):
        """Whether the kernel keeps this view, given the time to change it."""
        self.settle()
        time.sleep(IGNORE_S)
        return self.disk(name).kernel_view() == view
