"""Where Ceph's own programs look for a cluster's configuration, in their order."""

from __future__ import annotations

import re
from typing import Mapping, Tuple

CLUSTER = "ceph"


def conf_places(given: str, cluster: str, environment: Mapping[str, str]) -> Tuple[str, ...]:
    """The files of which the first that can be read is it.

    `given` is what --conf says: one path or several with commas between them, as CEPH_CONF may
    have too; `cluster` is its name, if it has one.  (common/config.cc: get_conffile_paths,
    CEPH_CONF_FILE_DEFAULT)
    """
    cluster = cluster or CLUSTER
    named = given or environment.get("CEPH_CONF", "")
    if named:
        paths = [path.strip() for path in re.split("[,;]", named)]
        return tuple(path.replace("$cluster", cluster) for path in paths if path)
    home = environment.get("HOME", "")
    file_name = f"{cluster}.conf"
    of_user = (f"{home}/.ceph/{file_name}",) if home else ()
    return (f"/etc/ceph/{file_name}", *of_user, file_name)


def looked_in(places: Tuple[str, ...]) -> str:
    """What to say where no place has a configuration."""
    shown = [path if path.startswith("/") else f"{path} in this folder" for path in places]
    return f"no configuration of Ceph is there: looked for {', '.join(shown)}"
