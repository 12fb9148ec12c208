"""ceph.conf, keyrings and ports of a test cluster."""

from __future__ import annotations

import os
import random
import socket
from pathlib import Path
from typing import Dict, Iterable, Mapping, Sequence, Tuple

from .errors import HarnessError

ADDRESS = "127.0.0.1"
# Windows of ports below Linux's ephemeral range (from 32768), one for each cluster.
PORTS_FIRST = 11000
PORTS_LAST = 32000
PORTS_PER_CLUSTER = 200
# The daemons take theirs from the window's middle; tests may have what is above.
DAEMON_PORTS = 150

# A unix socket's path fits into 107 bytes, and the longest of ours is "/client.admin.asok"
# with room for a pid and a counter.
LONGEST_FOLDER = 60

MGR_CAPS = {"mon": "allow profile mgr", "osd": "allow *", "mds": "allow *"}
OSD_CAPS = {"mon": "allow profile osd", "mgr": "allow profile osd", "osd": "allow *"}
ADMIN_CAPS = {"mon": "allow *", "mgr": "allow *", "osd": "allow *", "mds": "allow *"}
MON_CAPS = {"mon": "allow *"}


def _is_free(address: str, port: int) -> bool:
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((address, port))
        except OSError:
            return False
    return True


def choose_ports(address: str = ADDRESS) -> int:
    """The first port of a window of PORTS_PER_CLUSTER in which nobody listens.

    Call it under a lock that is held until the mon listens, else two clusters started
    together can choose the same window.  Raises HarnessError when all are taken.
    """
    windows = list(range(PORTS_FIRST, PORTS_LAST - PORTS_PER_CLUSTER, PORTS_PER_CLUSTER))
    random.shuffle(windows)
    for first in windows:
        if all(_is_free(address, port) for port in range(first, first + PORTS_PER_CLUSTER)):
            return first
    raise HarnessError("no free window of ports: stop some clusters (vstart-tests/cluster stop)")


def write_keyring(path: Path, entities: Mapping[str, Tuple[str, Mapping[str, str]]]) -> None:
    """Write a keyring of {entity: (key, caps)}, readable by its owner only."""
    lines = []
    for entity, (key, caps) in entities.items():
        lines += [f"[{entity}]", f"\tkey = {key}"]
        lines += [f'\tcaps {service} = "{cap}"' for service, cap in caps.items()]
    write_private(path, "\n".join(lines) + "\n")


def write_private(path: Path, text: str) -> None:
    """Write a file that its owner alone can read, also where one of that name is there."""
    path.unlink(missing_ok=True)  # it would keep its mode
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with open(descriptor, "w", encoding="ascii") as file:
        file.write(text)


def caps_of(mgrs: Sequence[str], osd_ids: Iterable[int]) -> Dict[str, Mapping[str, str]]:
    """Who is in the cluster from the first, and what each may do."""
    caps: Dict[str, Mapping[str, str]] = {"mon.": MON_CAPS, "client.admin": ADMIN_CAPS}
    caps.update({f"mgr.{name}": MGR_CAPS for name in mgrs})
    caps.update({f"osd.{osd_id}": OSD_CAPS for osd_id in osd_ids})
    return caps


def write_all_keyrings(
    folder: Path, caps: Mapping[str, Mapping[str, str]], keys: Sequence[str]
) -> None:
    """Write every keyring of the cluster before its mon exists, and the daemons' folders.

    `ceph-mon --mkfs` takes all of them from one file, which spares a command per daemon.
    """
    everyone = {entity: (key, caps[entity]) for entity, key in zip(caps, keys)}
    write_keyring(folder / "mon.keyring", everyone)
    write_keyring(folder / "keyring", {"client.admin": everyone["client.admin"]})
    for entity, entry in everyone.items():
        if entity.startswith(("mgr.", "osd.")):
            (folder / entity).mkdir()
            write_keyring(folder / entity / "keyring", {entity: entry})


def mon_addresses(address: str, first_port: int, index: int) -> str:
    """What a mon listens on, by its number: the first ports of the window are the mons'."""
    port = first_port + 2 * index
    return f"[v2:{address}:{port},v1:{address}:{port + 1}]"


def ceph_conf(
    folder: Path, fsid: str, address: str, first_port: int, mons: int, extra: Mapping[str, str]
) -> str:
    """The text of ceph.conf; `extra` options go to [global] and win over ours."""
    options = {
        "fsid": fsid,
        "mon host": ",".join(mon_addresses(address, first_port, index) for index in range(mons)),
        "public addr": address,
        "cluster addr": address,
        "ms bind port min": str(first_port + 2 * mons),
        "ms bind port max": str(first_port + DAEMON_PORTS),
        "run dir": str(folder),
        "crash dir": f"{folder}/crash",
        "auth allow insecure global id reclaim": "false",
        # One host: replicas go to different OSDs, and one OSD's word that another is down
        # counts although both are on the same host.
        "osd crush chooseleaf type": "0",
        "mon osd reporter subtree level": "osd",
        "osd pool default size": "3",
        "osd pool default pg autoscale mode": "off",
        "mon allow pool delete": "true",
        "mon warn on pool no redundancy": "false",
        "mon data avail warn": "2",
        "mon data avail crit": "1",
        # A busy machine that stands still for a second makes pings slow, and their averages,
        # which forbid to measure, keep that for minutes (OSD_SLOW_PING_TIME_*; in ms).
        "mon warn on slow ping time": "60000",
        # Ready sooner: don't wait to gather changes, nor measure drives at the first start.
        "paxos propose interval": "0.1",
        "osd mclock skip benchmark": "true",
        "osd scrub load threshold": "2000",
        # The mgr hears of PGs and usage five times as often.
        "mgr stats period": "1",
        **extra,
    }
    daemons = {
        "log file": f"{folder}/log/$name.log",
        "admin socket": f"{folder}/$name.asok",
        "pid file": f"{folder}/$name.pid",
        "log to stderr": "false",
        "err to stderr": "true",
    }
    sections: Dict[str, Dict[str, str]] = {
        "global": options,
        "mon": {
            **daemons,
            "mon data": f"{folder}/mon.$id",
            "mon cluster log file": f"{folder}/log/cluster.log",
            # the mon's option: it enables these at the first start, and the folder has none
            "mgr initial modules": "",
        },
        "mgr": {
            **daemons,
            "mgr data": f"{folder}/mgr.$id",
            "keyring": f"{folder}/mgr.$id/keyring",
            "mgr module path": f"{folder}/modules",
        },
        "osd": {**daemons, "osd data": f"{folder}/osd.$id", "keyring": f"{folder}/osd.$id/keyring"},
        # Never under [global]: a daemon would take the admin's keyring for its own.
        "client": {"keyring": f"{folder}/keyring", "log file": "/dev/null", "admin socket": ""},
    }  # fmt: skip
    lines = []
    for section, values in sections.items():
        lines.append(f"[{section}]")
        lines += [f"{key} = {value}" for key, value in values.items()]
    return "\n".join(lines) + "\n"
