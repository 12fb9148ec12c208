"""What is needed of the machine by tests that time real devices."""

import os
import shutil

import pytest
from harness import HarnessError
from harness.releases import install_packages


@pytest.fixture(scope="session")
def installed_fio():
    """fio, installed where it is missing and may be; else the test is skipped."""
    _installed("fio", "fio")


@pytest.fixture(scope="session")
def installed_compiler():
    """gcc with the headers of libc, installed as fio is."""
    _installed("gcc", "gcc", "libc6-dev")


def _installed(program, *packages):
    if shutil.which(program) is None and os.geteuid() == 0:
        try:
            install_packages(packages)
        except HarnessError as error:
            pytest.skip(f"no {program} to be had: {error}")
    if shutil.which(program) is None:
        pytest.skip(f"needs {program} (apt-get install {' '.join(packages)})")
