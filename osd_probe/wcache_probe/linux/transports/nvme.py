"""NVMe drives: feature 06h of the controller, for all of its namespaces at once.

The kernel reads VWC when it scans a controller and never follows the feature
(drivers/nvme/host/core.c, nvme_update_disk_info()), so a drive that has a volatile
cache is flushed always: it is pinned by nature.
"""

from __future__ import annotations

import os
import re
from typing import Optional, Tuple

from wcache.core.errors import RefusedError, StorageError
from wcache.core.model import (
    CacheMode,
    CachePage,
    DeviceCache,
    DriveModel,
    KernelView,
    PlpHint,
    Transport,
)

from ..block import sysfs
from ..block.host_files import entries, printable, read_text
from ..block.sysfs import BlockDevice
from . import nvme_data as nvme
from .base import CacheReading, Identity, Switch, mode_of, safe_id, why_nameless
from .nvme_io import Controller, NvmeError, NvmePort

_CONTROLLER = re.compile(r"nvme[0-9]+")


class NvmeSwitch(Switch):
    """Transport `nvme`."""

    transport = Transport.NVME
    refusal = ""

    def __init__(self, port: NvmePort) -> None:
        self._port = port

    def identify(self, device: BlockDevice) -> Identity:
        """From Identify Controller and the namespace's own name."""
        controller = _one_controller(device)
        known = self._identify(device, controller)
        wwn = printable(read_text(os.path.join(device.folder, "wwid")) or "")
        named = f"nvme:{known.model}:{known.serial}".replace(" ", "_")
        domain = named if known.serial else f"nvme:{controller.name}"
        own = wwn if wwn.startswith(("eui.", "uuid.")) else ""
        hint = PlpHint(True, "Identify Controller: VWC says that no volatile cache is there")
        return Identity(
            drive_id=safe_id(wwn or f"{domain}:{device.name}"),
            domain_id=safe_id(domain),
            drive_model=DriveModel("", known.model, known.firmware),
            serial=known.serial,
            wwn=own,
            host_driver="nvme",
            plp_hints=() if known.cache_present else (hint,),
            refusal=why_nameless(own, known.serial) or _why_remote(controller),
        )

    def _identify(
        self, device: BlockDevice, controller: Controller
    ) -> nvme.IdentifyController:
        _, raw = self._port.admin(
            device.files, controller, nvme.IDENTIFY, cdw10=nvme.CNS_CONTROLLER,
            data_in=nvme.IDENTIFY_BYTES,
        )
        known = nvme.parse_identify(raw)
        if known is None:
            raise StorageError(f"{controller.name} gives an invalid answer to Identify")
        return known

    def read(self, device: BlockDevice) -> CacheReading:
        """VWC of the controller, and the feature where there is a cache."""
        controller = _one_controller(device)
        known = self._identify(device, controller)
        if not known.cache_present:
            return CacheReading(DeviceCache.NONE)
        current = self._get(device, controller, nvme.SEL_CURRENT)
        if current is None:
            return CacheReading(DeviceCache.UNKNOWN, refusal="it does not report feature 06h")
        page = self._page(device, controller) if known.selects else CachePage()
        stuck = "its write cache cannot be changed" if page.changeable is False else ""
        return CacheReading(DeviceCache(mode_of(current & 1).value), page, refusal=stuck)

    def _page(self, device: BlockDevice, controller: Controller) -> CachePage:
        capabilities = self._get(device, controller, nvme.SEL_CAPABILITIES)
        if capabilities is None:
            return CachePage()
        default, saved = self._get(device, controller, nvme.SEL_DEFAULT), None
        if capabilities & nvme.SAVABLE:
            saved = self._get(device, controller, nvme.SEL_SAVED)
        return CachePage(
            bool(capabilities & nvme.CHANGEABLE),
            None if default is None else mode_of(default & 1),
            None if saved is None else mode_of(saved & 1),
        )

    def _get(
        self, device: BlockDevice, controller: Controller, select: int
    ) -> Optional[int]:
        try:
            dword0, _ = self._port.admin(
                device.files, controller, nvme.GET_FEATURES,
                cdw10=nvme.VOLATILE_WRITE_CACHE | (select << 8),
            )
        except NvmeError:
            return None
        return dword0

    def pinned(self, device: BlockDevice) -> Optional[bool]:
        """The kernel view of a namespace stays as it was scanned."""
        return device.kernel_view is KernelView.WRITE_BACK

    def pin(self, device: BlockDevice) -> None:
        """Nothing holds it but the scan, so a view that was lowered cannot be brought back."""
        if device.kernel_view is not KernelView.WRITE_BACK:
            raise StorageError(f"the kernel view of {device.name} cannot be raised")

    def flush(self, device: BlockDevice) -> None:
        """The Flush command, to this namespace; every NVMe drive has it."""
        self._port.flush(device)

    def set_cache(self, device: BlockDevice, mode: CacheMode) -> None:
        """Set Features 06h on the controller, without saving."""
        self._set(device, mode, save=False)

    def save(self, device: BlockDevice, mode: CacheMode) -> bool:
        """Set Features with SV where the feature is savable; the current value stays."""
        controller = _one_controller(device)
        saved = self.read(device).page.saved
        if saved is None:
            return False
        current = self._get(device, controller, nvme.SEL_CURRENT)
        if current is None:
            raise StorageError(f"{controller.name} does not report feature 06h")
        if saved is not mode:
            self._set(device, mode, save=True)
            if mode_of(current & 1) is not mode:
                self._set(device, mode_of(current & 1), save=False)
        return True

    def _set(self, device: BlockDevice, mode: CacheMode, *, save: bool) -> None:
        controller = _one_controller(device)
        remote = _why_remote(controller)
        if remote:
            raise RefusedError(f"{controller.name} is left alone: {remote}")
        self._port.admin(
            device.files, controller, nvme.SET_FEATURES,
            cdw10=nvme.VOLATILE_WRITE_CACHE | (nvme.SAVE if save else 0),
            cdw11=1 if mode is CacheMode.WRITE_BACK else 0,
        )

    def siblings(self, device: BlockDevice) -> Tuple[BlockDevice, ...]:
        """Every namespace of the controller."""
        mine = _controllers(device)
        disks = (disk for disk in sysfs.all_disks(device.files) if disk.name.startswith("nvme"))
        found = tuple(disk for disk in disks if set(_controllers(disk)) & set(mine))
        return found or (device,)


def _controllers(device: BlockDevice) -> Tuple[Controller, ...]:
    """The controllers of a namespace: its parent, or, with native multipath, the subsystem's."""
    parent = os.path.realpath(os.path.join(device.folder, "device"))
    if _CONTROLLER.fullmatch(os.path.basename(parent)):
        return (Controller(os.path.basename(parent), parent, device.held),)
    return tuple(
        Controller(name, os.path.realpath(os.path.join(parent, name)), device.held)
        for name in entries(parent)
        if _CONTROLLER.fullmatch(name)
    )


def _why_remote(controller: Controller) -> str:
    """Why a controller is not this host's own; empty for one in a PCIe slot.

    What a fabric leads to may serve other hosts too, and one of them may switch it.
    """
    transport = printable(read_text(os.path.join(controller.folder, "transport")) or "", 20)
    if transport == "pcie":
        return ""
    return f"its NVMe transport is {transport or 'unknown'} and not pcie"


def _one_controller(device: BlockDevice) -> Controller:
    found = _controllers(device)
    if len(found) != 1:
        names = ", ".join(one.name for one in found) or "none"
        raise RefusedError(
            f"{device.name} is reached through several controllers or none ({names})",
            "the cache switch of each would have to be followed",
        )
    return found[0]
