"""Arrows point inwards: who may import what, by the imports that stand in the files."""

import re
import sys
from functools import cache
from pathlib import Path

import pytest
from house import PACKAGES, imported, modules

ROOT = Path(__file__).resolve().parents[2]
OUTSIDE = {
    "numpy", "scipy", "rados", "mgr_module", "ceph_module", "jinja2", "yaml", "tomli",
    "wcache_sim",  # test equipment
}
# tomllib came with 3.11; what a newer Python has is no library of somebody else
STDLIB = set(sys.stdlib_module_names) | {"tomllib"} if sys.version_info >= (3, 10) else None


@cache
def imports():
    """(module name, file, what it imports) of every file of ours."""
    return [(name, path, set(imported(name, path))) for name, path in modules()]


def under(module, *packages):
    return any(module == package or module.startswith(package + ".") for package in packages)


def breaches(of, allowed):
    """Imports of our packages and of `OUTSIDE` in modules under `of` that are not allowed."""
    return [
        f"{path.relative_to(ROOT)} imports {module}"
        for name, path, found in imports()
        if under(name, of)
        for module in sorted(found)
        if under(module, *PACKAGES, *OUTSIDE) and not under(module, *allowed)
        and not (module == "wcache" and under("wcache.core", *allowed))
    ]


def test_all_packages_are_looked_at():
    assert {name.partition(".")[0] for name, _, _ in imports()} == set(PACKAGES)
    assert len(imports()) > 40
    by_name = {name: found for name, _, found in imports()}
    assert "wcache.core.experiment.run" in by_name["wcache.engine.under_way"]
    assert "wcache.core.events" in by_name["wcache.core.experiment.run"]


def test_core_imports_only_itself_and_the_standard_library():
    assert breaches("wcache.core", ["wcache.core"]) == []
    if STDLIB is not None:
        for name, _, found in imports():
            if under(name, "wcache.core"):
                tops = {module.partition(".")[0] for module in found}
                assert tops <= STDLIB | {"wcache"}, name


def test_the_probe_imports_only_the_core_of_the_module():
    allowed = ["wcache.core", "wcache_probe", "rados", "tomli", "jinja2"]
    assert breaches("wcache_probe", allowed) == []


@pytest.mark.parametrize("target", ["wcache.module", "wcache_cli"])
def test_nothing_imports_the_module_or_the_cli(target):
    found = [
        str(path.relative_to(ROOT))
        for name, path, modules_ in imports()
        if not under(name, target) and any(under(module, target) for module in modules_)
    ]
    # __init__ is how a mgr finds the module, and it looks first whether a mgr is there
    assert found in ([], ["mgr_module/wcache/__init__.py"])


@pytest.mark.parametrize(
    ("outside", "homes"),
    [
        ("numpy", ["mgr_module/wcache/analysis/", "cli/wcache_cli/compare/"]),
        ("scipy", ["mgr_module/wcache/analysis/"]),
        ("rados", ["osd_probe/wcache_probe/rados_link.py"]),
        ("mgr_module", ["mgr_module/wcache/module.py", "mgr_module/wcache/ceph/compat.py"]),
        ("jinja2", [
            "mgr_module/wcache/web/rendering.py", "mgr_module/wcache/deployment/scripts.py",
            "cli/wcache_cli/report_page.py",
        ]),
        ("yaml", ["mgr_module/wcache/commands/commands.py"]),
        ("cheroot", ["mgr_module/wcache/web/cheroot_server.py"]),
        # who talks over a network, starts a program, or calls what is no Python
        ("socket", [
            "mgr_module/wcache/web/", "mgr_module/wcache/ceph/web_host.py",
            "osd_probe/wcache_probe/stop_signal.py",  # systemd's own socket
            "osd_probe/wcache_probe/linux/glance.py",  # the kernel's netlink
            "osd_probe/wcache_probe/witness/",  # by hand alone
            # the name of the host, no more
            "osd_probe/wcache_probe/arguments.py", "mgr_module/wcache/ceph/surroundings.py",
        ]),
        ("http", ["mgr_module/wcache/web/"]),
        ("ssl", ["mgr_module/wcache/web/"]),
        ("subprocess", [
            "mgr_module/wcache/engine/evidence/analysis_child.py", "cli/wcache_cli/answers.py",
            "osd_probe/wcache_probe/restoring/restorer.py",
            "osd_probe/wcache_probe/matrix/cells.py", "osd_probe/wcache_probe/linux/vendor/tool.py",
            "osd_probe/wcache_probe/linux/persistence/",
        ]),
        ("ctypes", [
            "osd_probe/wcache_probe/linux/transports/",
            "osd_probe/wcache_probe/rados_link.py",  # how many heaps glibc may make
        ]),
    ],
)
def test_each_outsider_is_let_in_through_its_own_door(outside, homes):
    users = [
        path.relative_to(ROOT).as_posix()
        for name, path, found in imports()
        if any(under(module, outside) for module in found)
    ]
    assert users
    assert [user for user in users if not user.startswith(tuple(homes))] == []


def test_nobody_has_another_way_to_a_network_a_shell_or_code_in_data():
    never = ("urllib.request", "asyncio", "socketserver", "xmlrpc", "ftplib", "smtplib", "requests",
             "pickle", "marshal", "shelve", "multiprocessing", "pty")  # fmt: skip
    assert [
        f"{path.relative_to(ROOT)} imports {module}"
        for _, path, found in imports() for module in sorted(found) if under(module, *never)
    ] == []
    shells = re.compile(r"shell=True|os\.system\(|os\.popen\(|[^\w.]eval\(|[^\w.]exec\(")
    assert [
        path.relative_to(ROOT).as_posix()
        for _, path, _ in imports() if shells.search(path.read_text(encoding="utf-8"))
    ] == []


# No folder of a package imports one that comes after it; its files count as the last of them.
ORDERS = {
    # the words of core come first
    "wcache": (
        "words", "drive", "setting", "experiment", "verdict", "change", "automation", "fleet",
        "deployment", "knobs", "analysis", "ceph", "engine", "services", "commands", "rooms",
        "all commands", "web", "module",
    ),
    "wcache_probe": (
        "switching", "words", "linux.block", "linux.vendor", "linux.transports", "journal",
        "evidence", "restoring", "linux.persistence", "linux", "matrix", "prove", "witness",
        "commands", "program",
    ),
    "wcache_cli": ("words", "compare", "program"),
}
# What stands elsewhere than the folder says.  Journal entries, prior states and what hosts tell of
# their hardware are words that probe and mgr exchange; figures are the words for samples.
PLACES = {
    "wcache.core.drive.journal": "words", "wcache.core.drive.prior": "words",
    "wcache.core.figures": "words", "wcache.core.hardware": "words",
    "wcache.core.options": "words", "wcache.options": "knobs",
    # the table of all commands has those of the knobs, whose text is made of what tables share
    "wcache.commands.commands": "all commands", "wcache.commands.rows": "all commands",
    **{f"wcache_probe.{name}": "words" for name in (
        "arguments", "changes", "domain_survey", "mgr_link", "safe_files", "stop_signal",
        "switcher",
    )},
    **{f"wcache_cli.{name}": "words" for name in (
        "answers", "evidence", "files", "matrix_table", "output", "report_page",
        "report_story", "tables",
    )},
}
LAST = {"wcache": "module", "wcache_probe": "program", "wcache_cli": "program"}


def room(module):
    """The folder that a module of ours belongs to in ORDERS; None for other modules."""
    package, *parts = module.split(".")
    if package not in ORDERS or not parts:
        return None
    for place, name in PLACES.items():
        if under(module, place):
            return name
    if package == "wcache" and parts[0] == "knobs" and "mgr" in parts:
        return "rooms"
    if package == "wcache" and parts[0] == "core":
        return parts[1] if len(parts) > 1 and parts[1] in ORDERS[package] else "words"
    for length in (2, 1):
        name = ".".join(parts[:length])
        if name in ORDERS[package]:
            return name
    return LAST[package]


def later_rooms(found):
    """Imports of a later folder of the same package, of (module name, what it imports)."""
    breached = []
    for name, modules_ in found:
        package = name.partition(".")[0]
        for module in sorted(modules_):
            if under(module, package) and room(name) and room(module):
                order = ORDERS[package].index
                if order(room(module)) > order(room(name)):
                    breached.append(f"{name} ({room(name)}) imports {module} ({room(module)})")
    return breached


def test_no_folder_imports_a_later_one():
    assert later_rooms((name, found) for name, _, found in imports()) == []


@pytest.mark.parametrize(
    ("name", "module"),
    [
        ("wcache.core.model", "wcache.core.drive.safety"),
        ("wcache.core.experiment.run", "wcache.core.change.rollout"),
        ("wcache.core.verdict.recommend", "wcache.core.fleet.findings"),
        ("wcache.ceph.loads", "wcache.engine.engine"),
        ("wcache.services.plans.plans", "wcache.commands.views"),
        ("wcache_probe.linux.block.sysfs", "wcache_probe.linux.host"),
        ("wcache_probe.switching.toggle", "wcache_probe.switcher"),
        ("wcache_probe.linux.transports.scsi", "wcache_probe.prove"),
        ("wcache_probe.switcher", "wcache_probe.agent"),
        ("wcache_cli.compare.reading", "wcache_cli.main"),
    ],
)
def test_an_import_of_a_later_folder_is_found(name, module):
    assert len(later_rooms([(name, {module})])) == 1
    assert later_rooms([(module, {name})]) == []


FILES = {name: path for name, path in modules()}
FOLDERS = [
    name for name, path in FILES.items() if path.name == "__init__.py" and name not in PACKAGES
]


def file_of(module):
    """The file of ours that an imported name stands in; None for what is not ours."""
    while module and module not in FILES:
        module = module.rpartition(".")[0]
    return module or None


def ways_back(folder, found):
    """Ways by imports from files of a folder through other files back into the folder.

    Parts of a folder that have different places in ORDERS are ordered by that, so there a way
    counts only from one place to the same.
    """
    inside = {name for name in FILES if under(name, folder)}
    breached = []
    for first in sorted(inside):
        seen, ahead = {first}, [(first,)]
        while ahead:
            way = ahead.pop()
            for name in sorted({file_of(module) for module in found.get(way[-1], ())} - seen):
                if name in inside and len(way) > 1 and room(name) == room(first):
                    breached.append(" -> ".join((*way, name)))
                elif name not in inside and FILES[name].name != "__init__.py":
                    seen.add(name)
                    ahead.append((*way, name))
    return breached


def own_imports():
    return {
        name: {module for module in found if file_of(module)} for name, _, found in imports()
    }


@pytest.mark.parametrize("folder", FOLDERS)
def test_no_way_out_of_a_folder_leads_back_into_it(folder):
    assert ways_back(folder, own_imports()) == []


def test_a_way_back_into_a_folder_is_found():
    gate, rollout = "wcache.core.change.gate", "wcache.core.change.rollout"
    found = own_imports()
    found[f"{gate}.judge"].add(rollout)
    assert f"{gate}.judge -> {rollout} -> {gate}.blocks" in ways_back(gate, found)


def test_who_carries_changes_out_knows_no_kind_of_setting():
    """Knobs make settings, and experiments go between two; stored plans name them in a union."""
    makers = ("wcache.core.setting", "wcache.core.experiment", "wcache.knobs")
    kinds = [f"wcache.core.setting.{one}" for one in (
        "config_setting", "domain_settings", "drive_setting",
    )]
    knowing = [
        name for name, _, found in imports() if under(name, "wcache") and not under(name, *makers)
        and any(under(module, *kinds) for module in found)
    ]
    assert knowing == ["wcache.core.change.change"]


@pytest.mark.parametrize("package", PACKAGES)
def test_every_folder_has_its_place(package):
    root = PACKAGES[package]
    folders = {path.parent for path in root.rglob("*.py")} - {root, root / "core"}
    placed = (*ORDERS[package], *PLACES)
    for folder in folders:
        name = ".".join((package, *folder.relative_to(root).parts))
        short = name.split(".", 2)[2] if name.startswith("wcache.core.") else name.partition(".")[2]
        assert under(short, *placed) or under(name, *placed), name


def test_every_place_is_there():
    names = {name for name, _, _ in imports()}
    assert [place for place in PLACES if not any(under(name, place) for name in names)] == []
