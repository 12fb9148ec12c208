"""What Prometheus is told, from the answers of three commands."""

import re

import pytest
from module_world import a_mgr, measured, said
from wcache.core.figures.prometheus_text import OTHERS, SERIES_MAX, gauge
from wcache.web.app import metrics_text

LINE = re.compile(r'[a-z_]+(\{([a-z_]+="(\\["\\]|[^"\\\n])*",?)+\})? -?[0-9.e+-]+')


def metrics(mgr):
    return metrics_text(said(mgr, "status"), said(mgr, "campaign ls"), said(mgr, "plan ls"))


@pytest.mark.slow
def test_what_waits_is_counted_with_what_it_would_gain():
    lines = metrics(measured()).splitlines()
    for line in (
        "wcache_drive_models{group=\"better_off\"} 1", 'wcache_drives_to_change{cache="off"} 3',
        'wcache_drives_to_change{cache="on"} 0', 'wcache_gain_ratio{cache="off",end="low"} 4.9',
        'wcache_probes{state="responding"} 2', 'wcache_campaigns{status="done"} 1',
        "wcache_frozen 0", "wcache_rollout_running 0", "wcache_measured_bytes 2162688",
    ):
        assert line in lines
    assert 'wcache_gain_ratio{cache="on"' not in "".join(lines)
    for line in (*lines, *metrics(a_mgr()).splitlines()):
        assert line.startswith(("# HELP wcache_", "# TYPE wcache_")) or LINE.fullmatch(line)


def test_a_hostile_string_is_one_label_on_one_line():
    hostile = '"} 1\nwcache_frozen 1\\' + "\u202e" + "x" * 10_000
    told = gauge("wcache_drives", "Drives.", ({"drive_model": hostile}, 1))
    assert len(told.splitlines()) == 3
    assert len(told) < 400
    assert "\u202e" not in told
    assert LINE.fullmatch(told.splitlines()[2])


def test_labels_that_are_alike_are_told_once_and_their_number_is_bounded():
    samples = [({"device": "x" * 300 + str(n)}, 1) for n in range(3)]
    assert gauge("a", "A.", *samples).splitlines()[2:] == [f'a{{device="{"x" * 200}"}} 3']
    many = [({"device": f"sd{n}"}, 1) for n in range(SERIES_MAX + 50)]
    lines = gauge("a", "A.", *many).splitlines()[2:]
    assert len(lines) == SERIES_MAX + 1
    assert lines[-1] == f'a{{device="{OTHERS}"}} 50'
