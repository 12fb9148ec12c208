"""One cluster with the dashboard for all tests that want it."""

from __future__ import annotations

from typing import Iterator

import pytest
from dashboard import Site, a_site
from probes import Probe

# Measured fast, and nothing by itself.
FAST = {"poll_idle_s": 0.3, "settle_s": 0.1, "period_s": 1.0, "auto_seconds_per_day": 0}


@pytest.fixture(scope="session")
def site() -> Iterator[Site]:
    """Leave it as it was: all three pages there, nothing raised."""
    with a_site() as found:
        yield found


@pytest.fixture
def measurable(site: Site) -> Iterator[Site]:
    """The same with a probe, until the test is over."""
    for name, value in FAST.items():
        site.wcache.option(name, value)
    probe = Probe(site.cluster)
    probe.start()
    try:
        site.wcache.wait("its report", lambda: site.wcache("drive ls")["drives"])
        yield site
    finally:
        site.wcache("auto", mode="off")
        probe.stop()
        site.wcache("agent rm", hostname=probe.hostname)
        for name in FAST:
            site.cluster.ceph("config", "rm", "mgr", f"mgr/wcache/{name}")
