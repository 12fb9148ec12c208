"""The real drives of a host, as the command line describes it."""

from __future__ import annotations

import os
from functools import partial
from typing import TYPE_CHECKING, Optional

from ..evidence import EvidenceFolder
from .block.host_files import HostFiles
from .block.osds import DEFAULT_DATA_GLOBS
from .host import LinuxDriveHost
from .persistence import foreign_rules
from .persistence.preparation import RULES_FOLDER, Preparation
from .persistence.udev_rule import RuleFolder
from .transports.classify import Switches
from .vendor.controllers import ControllerReader
from .vendor.tool import DmCaches, WearReader

if TYPE_CHECKING:
    import argparse


def linux_host(
    options: argparse.Namespace, fsid: Optional[str] = None, switches: Optional[Switches] = None
) -> LinuxDriveHost:
    """The drives of the host that the options describe."""
    root = options.host_root
    evidence = EvidenceFolder(options.state_dir)
    return LinuxDriveHost(
        files=HostFiles(etc=os.path.join(root, "etc")),
        osd_data_globs=options.osd_data or DEFAULT_DATA_GLOBS, cluster_fsid=fsid,
        rules=RuleFolder(os.path.join(root, RULES_FOLDER), options.run_dir),
        switches=switches or Switches(proofs=evidence.proofs),
        boot_pins=Preparation(root, options.state_dir).look,
        find_foreign_rules=partial(foreign_rules.find, root, {}), wear=WearReader(),
        controllers=ControllerReader().read, dm_caches=DmCaches().read,
        evidence=evidence,
    )
