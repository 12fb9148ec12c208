"""What is needed of the machine by tests that time real devices."""

import os
import shutil

import pytest
from harness import HarnessError
from harness.releases import install_packages


@pytest.fixture(scope="session")
def installed_fio():
    """fio, installed where it is missing and may be; else the test is skipped."""
    if shutil.which("fio") is None and os.geteuid() == 0:
        try:
            install_packages(["fio"])
        except HarnessError as error:
            pytest.skip(f"no fio to be had: {error}")
    if shutil.which("fio") is None:
        pytest.skip("needs fio (apt-get install fio)")
