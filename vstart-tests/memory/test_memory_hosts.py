"""What cephadm's autotuner would give is computed as its own code does, on hosts of many kinds."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Dict, List, Optional

import pytest
from ceph_ci.source import source_of
from test_memory_division import HOSTS
from wcache.core.text import amount, table
from wcache.knobs.memory.reading import MemoryOptions, equal_split, others_bytes, room_of

# the source is a quarter of a gigabyte to fetch
pytestmark = [pytest.mark.cluster, pytest.mark.long]

RELEASE = 20
RATIO = 0.7
# Runs that file as it stands; of the rest of cephadm it wants only the type of a daemon.
READER = """
import importlib.util, json, sys, types
for name in ("orchestrator", "orchestrator._interface"):
    sys.modules[name] = types.ModuleType(name)
class DaemonDescription:
    memory_usage = None
    def __init__(self, daemon_type, daemon_id):
        self.daemon_type, self.daemon_id = daemon_type, daemon_id
    def name(self):
        return f"{self.daemon_type}.{self.daemon_id}"
sys.modules["orchestrator._interface"].DaemonDescription = DaemonDescription
spec = importlib.util.spec_from_file_location("autotune", sys.argv[1])
autotune = importlib.util.module_from_spec(spec)
spec.loader.exec_module(autotune)
values = {"mds_cache_memory_limit": 4 * 2**30, "osd_memory_target_autotune": True}
told = []
for host in json.load(sys.stdin):
    daemons = [DaemonDescription(kind, str(n)) for kind, count in host["daemons"].items()
               for n in range(count)]
    tuner = autotune.MemoryAutotuner(
        daemons=daemons, config_get=lambda who, name: values[name], total_mem=host["total"])
    told.append(tuner.tune()[0])
print(json.dumps(told))
"""


@pytest.fixture(scope="module")
def theirs(release: int) -> Dict[str, Optional[int]]:
    """By the name of each host: what cephadm's code gives each of its OSDs."""
    if release != RELEASE:
        pytest.skip(f"the newest release's code is asked: RELEASE={RELEASE}")
    code: Path = source_of(RELEASE) / "src/pybind/mgr/cephadm/autotune.py"
    asked = [
        {"total": total * RATIO, "daemons": {**daemons, "osd": osds}}
        for total, daemons, osds in HOSTS.values()
    ]
    done = subprocess.run(
        ["/usr/bin/python3", "-c", READER, str(code)], input=json.dumps(asked),
        capture_output=True, text=True, timeout=60, check=False,
    )
    assert done.returncode == 0, done.stderr
    told: List[Optional[int]] = json.loads(done.stdout)
    return dict(zip(HOSTS, told))


def test_what_cephadm_would_set_is_computed_as_its_own_code_does(
    theirs: Dict[str, Optional[int]]
):
    rows = []
    for name, (total, daemons, osds) in HOSTS.items():
        others = others_bytes(daemons)
        each = int((total * RATIO - others) // osds)
        ours = each if each >= 0 else None
        assert ours == theirs[name], name
        room = room_of(total, others, MemoryOptions())
        rows.append((
            name, osds, amount(total), amount(others),
            "nothing" if ours is None else amount(ours),
            amount(equal_split(room, osds, MemoryOptions())),
            "yes" if room.osds_bytes >= osds * MemoryOptions().least_target_bytes else "no",
        ))
    print("\n" + table(
        ("HOST", "OSDS", "RAM", "OTHERS", "CEPHADM GIVES", "OUR RULE GIVES", "FLOORS FIT"), rows
    ))


def test_a_probe_in_a_container_costs_its_host_a_gib_of_targets_by_that_code(
    theirs: Dict[str, Optional[int]]
):
    with_probe, without = theirs["a probe in a container"], theirs["the same without it"]
    assert with_probe is not None
    assert without is not None
    assert abs((without - with_probe) * HOSTS["the same without it"][2] - 2**30) < 16
