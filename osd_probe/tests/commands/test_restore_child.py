"""The child that restores one entry: of its own cluster alone, and to the end."""

import signal

import pytest
from sim_drives import BACK, OBEYS, THROUGH, Probe, hold
from wcache_probe.commands.restore import restore_one

SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


@pytest.fixture(autouse=True)
def _signals_as_they_were():
    kept = {number: signal.getsignal(number) for number in SIGNALS}
    yield
    for number, handler in kept.items():
        signal.signal(number, handler)


@pytest.fixture
def probe():
    made = Probe()
    hold(made)
    return made


def test_an_entry_of_another_cluster_is_told_and_left(probe, capsys):
    key = f"lease/{OBEYS}"
    assert restore_one(probe.switcher, key, hold=False, cluster_fsid="another") == 1
    assert "and this is cluster another" in capsys.readouterr().out
    assert (probe.mode(OBEYS), list(probe.journal.entries)) == (THROUGH, [key])
    assert restore_one(probe.switcher, key, hold=False) == 0
    assert (probe.mode(OBEYS), probe.journal.entries) == (BACK, {})


def test_a_stop_of_the_service_breaks_off_no_restore(probe):
    heeded = []
    probe.restart(lambda _number, _step: heeded.extend(map(signal.getsignal, SIGNALS)))
    assert restore_one(probe.switcher, f"lease/{OBEYS}", hold=False) == 0
    assert set(heeded) == {signal.SIG_IGN}
