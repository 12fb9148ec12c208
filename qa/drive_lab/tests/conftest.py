"""One guest for all tests, and each test begins with every cache on and safe."""

from __future__ import annotations

import os
from pathlib import Path

import older_tree
import pytest
from drive_lab import network
from drive_lab.forked_probe import ProbeForks
from drive_lab.images import artefacts
from drive_lab.lab import PROJECT, Lab
from harness.releases import ensure_release
from lab_bench import Bench
from probe_bench import ProbeOf

HERE = Path(__file__).resolve().parent


@pytest.fixture(scope="session")
def release():
    """The Ceph release whose Debian the guest runs, from the environment's RELEASE."""
    return int(os.environ.get("RELEASE", "16"))


@pytest.fixture(scope="session")
def private_network(release):
    """This process in a network of its own; what needs the machine's is fetched before."""
    artefacts.ensure(release)
    ensure_release(release)
    network.enter_private_network()


@pytest.fixture(scope="session")
def lab(release):
    with Lab(HERE / "drives.toml", release=release) as running:
        yield running


@pytest.fixture(scope="session")
def older_packages(lab):
    """Where the guest has a probe of another protocol, which is today's in all else."""
    older_tree.todays(PROJECT, lab.share / "older")
    return older_tree.packages_in("/share/older")


@pytest.fixture
def bench(lab):
    return Bench(lab)


@pytest.fixture(scope="session")
def session_forks(lab):
    return ProbeForks(lab)


@pytest.fixture
def forks(session_forks):
    """Where the probes of the tests come from."""
    session_forks.ensure()
    return session_forks


@pytest.fixture
def probe_of(bench, forks):
    """The probe of a drive, by the drive's name; none is left running."""
    made = {}

    def one(name):
        return made.setdefault(name, ProbeOf(bench, forks, name))

    yield one
    for probe in made.values():
        probe.end()
