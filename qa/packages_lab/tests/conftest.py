"""Packages are built once, and each host is fresh."""

from __future__ import annotations

from pathlib import Path

import build_packages
import pytest
from packages_lab import roots
from packages_lab.host import Host


@pytest.fixture(scope="session")
def build_tools():
    """What building needs; a release of this machine's own is not needed."""
    roots.ensure_build_tools()


@pytest.fixture(scope="session")
def debs(build_tools, tmp_path_factory):
    """The packages, by name."""
    return _by_name(build_packages.build_debs(tmp_path_factory.mktemp("debs")))


@pytest.fixture(scope="session")
def newer_debs(build_tools, tmp_path_factory):
    """The same as the next version."""
    return _by_name(build_packages.build_debs(tmp_path_factory.mktemp("newer"), "+next"))


@pytest.fixture(scope="session")
def private_mounts():
    """What is mounted from here on goes with this process."""
    roots.enter_private_mounts()


@pytest.fixture
def fresh_root(private_mounts, release):
    """A root that nobody has changed."""
    with roots.FreshRoot(release) as fresh:
        yield fresh


@pytest.fixture
def host(fresh_root):
    """A host without packages of ours."""
    return Host(fresh_root.root, fresh_root.folder)


def _by_name(files):
    return {Path(path).name.partition("_")[0]: path for path in files}
