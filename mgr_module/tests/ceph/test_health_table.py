"""Every error that Ceph 16, 18 and 20 can raise is in the table.  qa/reference.py documents it."""

import os
import re
from pathlib import Path

import pytest
from wcache.ceph.health import CHECKS, FLAGS, PG_STATES, Named, Reach, row_of

ALL, NEW, NEWEST = (16, 18, 20), (18, 20), (20,)
# Where Ceph raises HEALTH_ERR, by name.  The files are of 18.2.7 and 20.2.4; of 16.2.15 the names
# are in its programs, and cephadm's are in its module.
ERRORS = {
    "AUTH_BAD_CAPS": ("src/mon/AuthMonitor.cc", ALL),
    "AUTH_INSECURE_SERVICE_KEY_TYPE": ("src/mon/AuthMonitor.cc", NEWEST),
    "AUTH_INSECURE_SERVICE_TICKETS": ("src/mon/AuthMonitor.cc", NEWEST),
    "CEPHADM_CERT_ERROR": ("src/pybind/mgr/cephadm/cert_mgr.py", NEWEST),
    "DAEMON_OLD_VERSION": ("src/mon/HealthMonitor.cc", ALL),
    "MDS_ALL_DOWN": ("src/mds/MDSMap.cc", ALL),
    "MDS_CLIENTS_BROKEN_ROOTSQUASH": ("src/mds/Beacon.cc", NEW),
    "MDS_DAMAGE": ("src/mds/MDSMap.cc, src/mds/Beacon.cc", ALL),
    "MDS_DUMMY": ("src/mds/Beacon.cc", ALL),
    "MGR_DOWN": ("src/mon/MgrMonitor.cc", ALL),
    "MGR_MODULE_ERROR": ("src/mgr/PyModuleRegistry.cc", ALL),
    "MON_DISK_CRIT": ("src/mon/HealthMonitor.cc", ALL),
    "MULTIMDS_WITH_OLDSNAPS": ("src/mds/MDSMap.cc", ALL),
    "OSD_FULL": ("src/osd/OSDMap.cc", ALL),
    "OSD_OUT_OF_ORDER_FULL": ("src/osd/OSDMap.cc", ALL),
    "OSD_SCRUB_ERRORS": ("src/mon/PGMap.cc", ALL),
    "OSD_UNREACHABLE": ("src/osd/OSDMap.cc", NEW),
    "PG_DAMAGED": ("src/mon/PGMap.cc", ALL),
    "PG_RECOVERY_FULL": ("src/mon/PGMap.cc", ALL),
    "POOL_FULL": ("src/mon/PGMap.cc", ALL),
    "REQUEST_STUCK": ("src/mon/PGMap.cc", ALL),
    "UPGRADE_BAD_TARGET_VERSION": ("src/pybind/mgr/cephadm/upgrade.py", ALL),
    "UPGRADE_EXCEPTION": ("src/pybind/mgr/cephadm/upgrade.py", ALL),
    "UPGRADE_OFFLINE_HOST": ("src/pybind/mgr/cephadm/upgrade.py", NEW),
}
# A severity that is in a variable: file, and which names it may have.
IN_VARIABLES = {
    "src/mon/PGMap.cc": ["PG_DAMAGED", "PG_RECOVERY_FULL"],
    "src/mon/MgrMonitor.cc": ["MGR_DOWN"],
    "src/mon/HealthMonitor.cc": ["DAEMON_OLD_VERSION"],
}
WANTED = (
    "src/mon/*.cc", "src/mgr/*.cc", "src/osd/OSDMap.cc", "src/osd/osd_types.cc", "src/mds/*.cc",
    "src/messages/MMDSBeacon.h", "src/pybind/mgr/*.py",
)


@pytest.mark.parametrize("name", ERRORS)
def test_an_error_that_ceph_can_raise_is_in_the_table(name):
    assert row_of(name) in CHECKS, f"{name}: whom does it keep, and why? ({ERRORS[name][0]})"
    assert row_of(name).scope in (Reach.CLUSTER, Reach.ERROR, Reach.OSDS, Reach.NOTHING)


@pytest.mark.parametrize("rows", [CHECKS, FLAGS, PG_STATES])
def test_a_name_stands_in_one_row_and_each_row_says_why(rows):
    names = [name for row in rows for name in row.names]
    assert len(names) == len(set(names))
    assert all(row.why and row.names for row in rows)
    for row in rows:
        assert all(row_of(name, rows) is row for name in row.names)


def test_who_is_ill_or_has_an_alert_is_named_somewhere():
    for row in CHECKS:
        about_osds = row.scope in (Reach.OSDS, Reach.ALERT)
        assert (row.named is not Named.NOWHERE) is about_osds, row.names


def test_a_name_of_its_own_goes_before_one_for_many():
    assert row_of("OSD_DOWN").scope is Reach.OSDS
    assert row_of("OSD_HOST_DOWN").scope is Reach.RECORDED
    assert row_of("OSD_RACK_DOWN") is row_of("OSD_HOST_DOWN")
    assert row_of("NEVER_HEARD_OF") not in CHECKS
    assert row_of("XAUTH_") not in CHECKS


def source(release):
    """The source of a release, where some test has fetched it."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "wcache"
    for folder in sorted(cache.glob(f"source-{release}-*")):
        if all(any(folder.glob(pattern)) for pattern in WANTED):
            return folder
    pytest.skip(f"no source here: vstart-tests' ensure_source({release}, WANTED) fetches it")
    return None


def raised(folder):
    """The names that a source raises with HEALTH_ERR, and lines that say it in no known way."""
    names, odd = set(), []
    for path in sorted((folder / "src").rglob("*.cc")):
        text = re.sub(r"//[^\n]*", "", path.read_text(encoding="utf-8", errors="replace"))
        file = str(path.relative_to(folder))
        plain = re.findall(r'\b(?:get_or_)?add\(\s*"([A-Z_]+)",\s*HEALTH_ERR\b', text)
        metrics = re.findall(r"MDSHealthMetric \w+\(MDS_HEALTH_([A-Z_]+), HEALTH_ERR\b", text)
        # what MDSMap::get_health says is of before Ceph 12, and of no check
        old = len(re.findall(r"make_pair\(HEALTH_ERR,", text))
        kept = len(re.findall(r"= HEALTH_ERR;", text))
        inside = IN_VARIABLES.get(file, [])
        if file == "src/mgr/BaseMgrModule.cc":  # what a module calls an error, see below
            old, kept = old + kept, 0
        if kept != len(inside) or len(re.findall(r"\bHEALTH_ERR\b", text)) != (
            len(plain) + len(metrics) + old + kept
        ):
            odd.append(file)
        names |= {*plain, *inside, *(f"MDS_{name}" for name in metrics)}
    for path in sorted((folder / "src/pybind/mgr").rglob("*.py")):
        text = path.read_text(encoding="utf-8", errors="replace")
        file = str(path.relative_to(folder))
        if "/tests/" in file or file.endswith("/mgr_module.py"):
            continue
        plain = re.findall(r"""_fail_upgrade\('([A-Z_]+)', \{\s*'severity': 'error'""", text)
        given = re.findall(r"set_health_error\((?!self)([\w.]+)", text)
        names |= {*plain, *(
            value for each in given
            for value in re.findall(rf"\b{each.rpartition('.')[2]} = '([A-Z_]+)'", text)
        )}
        within = len(re.findall(r"""['"]severity['"]: ['"]error['"]""", text))
        if within != len(plain) + text.count("def set_health_error("):
            odd.append(file)
    return names, odd


@pytest.mark.slow
@pytest.mark.parametrize("release", NEW)
def test_the_list_of_errors_is_what_the_source_raises(release):
    names, odd = raised(source(release))
    assert odd == [], "these raise HEALTH_ERR in a way that this test cannot read"
    assert names == {name for name, (_, releases) in ERRORS.items() if release in releases}


@pytest.mark.parametrize("release", NEW)
def test_flags_and_states_are_those_of_the_source(release):
    folder = source(release)
    states = (folder / "src/osd/osd_types.cc").read_text().partition("string pg_state_string(")[2]
    words = set(re.findall(r'"([a-z_]+)\+?"', states.partition("\n}")[0]))
    assert words == {name for row in PG_STATES for name in row.names}
    text = (folder / "src/osd/OSDMap.cc").read_text()
    flags = text.partition("string OSDMap::get_flag_string(unsigned f)")[2].partition("\n}")[0]
    for flag in re.findall(r'",([a-z_-]+)"', flags):
        assert row_of(flag, FLAGS) in FLAGS, flag
