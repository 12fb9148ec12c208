"""Prometheus' text format, version 0.0.4: metrics with their labels as lines of text.

See https://prometheus.io/docs/instrumenting/exposition_formats/.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Dict, Iterable, List, Mapping, Tuple

CONTENT_TYPE = "text/plain; version=0.0.4"
LABEL_CHARS_MAX = 200
# Values of drives' own strings; what is beyond is added up under OTHERS.
SERIES_MAX = 200
OTHERS = "others"
_ESCAPED = str.maketrans({"\\": r"\\", '"': r"\""})

Sample = Tuple[Mapping[str, str], float]


@dataclass(frozen=True)
class Metric:
    """One metric; all of ours are gauges, since what is counted may be forgotten."""

    name: str
    help: str
    samples: Tuple[Sample, ...]


def gauge(name: str, help_: str, *samples: Sample) -> Metric:
    """A metric from its samples; `({}, 3)` is one without labels."""
    return Metric(name, help_, tuple(samples))


def text(metrics: Iterable[Metric]) -> str:
    """All of them; one without samples is left out."""
    lines: List[str] = []
    for metric in metrics:
        if metric.samples:
            lines += [f"# HELP {metric.name} {metric.help}", f"# TYPE {metric.name} gauge"]
            lines += [
                f"{metric.name}{_labels(labels)} {_number(value)}"
                for labels, value in _told_once(metric.samples)
            ]
    return "".join(f"{line}\n" for line in lines)


def _told_once(samples: Iterable[Sample]) -> List[Sample]:
    """A scrape with two samples of the same labels is refused whole: they are added up."""
    sums: Dict[Tuple[Tuple[str, str], ...], float] = {}
    for labels, value in samples:
        key = tuple((name, _clean(text_)) for name, text_ in labels.items())
        if key not in sums and len(sums) >= SERIES_MAX:
            key = tuple((name, OTHERS) for name in labels)
        sums[key] = sums.get(key, 0.0) + value
    return [(dict(key), value) for key, value in sums.items()]


def _labels(labels: Mapping[str, str]) -> str:
    said = ",".join(f'{name}="{value.translate(_ESCAPED)}"' for name, value in labels.items())
    return f"{{{said}}}" if said else ""


def _clean(value: str) -> str:
    """A string of a drive or a host: bounded, on one line, and no character that hides others."""
    return "".join(c if c.isprintable() else "?" for c in value[:LABEL_CHARS_MAX])


def _number(value: float) -> str:
    return str(int(value)) if value == int(value) else repr(float(value))
