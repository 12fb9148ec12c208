"""One place says the version: `wcache.core.VERSION`."""

import re
from pathlib import Path

import pytest
from wcache.core import VERSION
from wcache_cli.main import main as wcache
from wcache_probe.main import main as wcache_probe

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize(("name", "main"), [("wcache", wcache), ("wcache-probe", wcache_probe)])
def test_each_program_says_the_version(name, main, capsys):
    with pytest.raises(SystemExit) as ended:
        main(["--version"])
    assert (ended.value.code, capsys.readouterr().out) == (0, f"{name} {VERSION}\n")


def test_nothing_else_states_a_version():
    files = [ROOT / "setup.py", ROOT / "pyproject.toml"]
    for package in ("mgr_module/wcache", "osd_probe/wcache_probe", "cli/wcache_cli"):
        files += sorted((ROOT / package).rglob("*.py"))
    stated = re.compile(rf"""["']{re.escape(VERSION)}["']""")
    found = [p.relative_to(ROOT).as_posix() for p in files if stated.search(p.read_text())]
    assert found == ["mgr_module/wcache/core/__init__.py"]
