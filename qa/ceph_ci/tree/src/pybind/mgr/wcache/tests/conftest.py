"""Where tests find what they share; what needs hypothesis skips itself where that is missing."""

import importlib.util
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent
SOURCE = HERE.parents[3]
SHARED = (
    HERE / 'worlds', HERE / 'ceph', HERE / 'commands', HERE / 'knobs', HERE / 'knobs/mclock',
    HERE / 'knobs/memory', HERE / 'core/verdict', HERE / 'services',
    HERE / 'services/automation', SOURCE / 'wcache-probe', SOURCE / 'python-common',
    SOURCE.parent / 'qa/workunits/mgr',
    HERE.parents[1],  # of the module itself: tox does not have it in its path
)
sys.path[:0] = [str(folder) for folder in SHARED]

from mgr_fakes import watch  # noqa: E402  it is found by these paths


class SkipsWithoutHypothesis:
    """A finder of modules: a test file that needs hypothesis is skipped."""

    @staticmethod
    def find_spec(name, path=None, target=None):
        if name == 'hypothesis':
            pytest.skip('needs hypothesis', allow_module_level=True)
        return None


if importlib.util.find_spec('hypothesis') is None:
    sys.meta_path.insert(0, SkipsWithoutHypothesis)


def pytest_configure(config):
    config.addinivalue_line('markers', 'slow: half a second of computing or more')
    watch.install()


@pytest.fixture(autouse=True)
def contracts():
    """A test fails that has the module ask or read of Ceph what no contract has."""
    yield
    watch.check()
