"""What the module tells Prometheus: few numbers, whose count grows with drive models only.

What is wrong is no metric of ours: Ceph's own exporter has each health check
(`ceph_health_detail{name="WCACHE_..."}`), on which templates/prometheus-alerts.yml rests.
"""

from __future__ import annotations

from collections import Counter
from typing import Any, Iterable, List, Mapping

from ..core import VERSION
from ..core.figures.prometheus_text import Metric, Sample, gauge, text

_GROUPS = ("right", "undecided", "unmeasured", "went_back", "fixed")
_SIDES = (("off", "cache_off"), ("on", "cache_on"))


def metrics_text(
    status: Mapping[str, Any], campaigns: Mapping[str, Any], plans: Mapping[str, Any]
) -> str:
    """Metrics of the answers of `status`, `campaign ls` and `plan ls`."""
    summary, reported = status["summary"], status["reported"]
    rows, listed = campaigns["campaigns"], plans["plans"]
    return text([
        gauge("wcache_info", "The module and its version.", ({"version": VERSION}, 1)),
        gauge("wcache_probes", "Probes by whether they respond.",
              ({"state": "responding"}, status["agents"]["heard"]),
              ({"state": "silent"}, status["agents"]["known"] - status["agents"]["heard"])),
        gauge("wcache_report_age_seconds", "Age of the oldest report of a probe.",
              *_known({}, reported["oldest_s"])),
        gauge("wcache_drives", "Drives by model, by both sides of their caches, and by safety.",
              *(({name: row[name] for name in
                  ("drive_model", "device_cache", "kernel_view", "safety")}, row["drives"])
                for row in status["drive_models"])),
        gauge("wcache_drive_models", "Drive models by what is to be done about them.",
              *(({"group": f"better_{word}"}, summary[side]["drive_models"])
                for word, side in _SIDES),
              *(({"group": group}, summary[group]) for group in _GROUPS)),
        gauge("wcache_drives_to_change", "Drives that would commit faster in the other mode.",
              *(({"cache": word}, summary[side]["drives"]) for word, side in _SIDES)),
        gauge("wcache_gain_ratio",
              "How many times as fast those drives would commit: ends of the 99% interval.",
              *(sample for word, side in _SIDES for end in ("low", "high")
                for sample in _known({"cache": word, "end": end}, summary[side][f"times_{end}"]))),
        gauge("wcache_findings", "Findings by code and severity.",
              *_counted(("code", "severity"), status["findings"])),
        gauge("wcache_campaigns", "Campaigns by status.", *_counted(("status",), rows)),
        gauge("wcache_plans", "Plans by status.", *_counted(("status",), listed)),
        gauge("wcache_measured_seconds", "Drive time of all campaigns that are kept.",
              ({}, sum(row["seconds"] for row in rows))),
        gauge("wcache_measured_bytes", "What campaigns that are kept have written.",
              ({}, sum(row["bytes_written"] for row in rows))),
        _flag("wcache_measuring", "Whether OSDs are being measured.",
              bool(status["campaign"] or status["measuring"])),
        _flag("wcache_rollout_running", "Whether a plan is being applied or rolled back.",
              bool(status["rollout"])),
        _flag("wcache_frozen", "Whether an admin has frozen all work.", status["frozen"]),
    ])


def _flag(name: str, help_: str, on: bool) -> Metric:
    return gauge(name, help_, ({}, int(on)))


def _known(labels: Mapping[str, str], value: Any) -> List[Sample]:
    return [] if value is None else [(labels, float(value))]


def _counted(names: Iterable[str], rows: Iterable[Mapping[str, Any]]) -> List[Sample]:
    names = tuple(names)
    found = Counter(tuple(str(row[name]) for name in names) for row in rows)
    return [(dict(zip(names, values)), count) for values, count in sorted(found.items())]
