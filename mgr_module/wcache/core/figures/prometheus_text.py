"""Prometheus' text format, version 0.0.4: metrics with their labels as lines of text.

See https://prometheus.io/docs/instrumenting/exposition_formats/.
"""

from __future__ import annotations

from typing import Dict, Iterable, List, Mapping, Tuple

CONTENT_TYPE = "text/plain; version=0.0.4"
LABEL_CHARS_MAX = 200
# Values of drives' own strings; what is beyond is added up under OTHERS.
SERIES_MAX = 200
OTHERS = "others"
_ESCAPED = str.maketrans({"\\": r"\\", '"': r"\""})

Sample = Tuple[Mapping[str, str], float]


def gauge(name: str, help_: str, *samples: Sample) -> str:
    """A metric by its samples; `({}, 3)` is one without labels.  Without samples it is nothing.

    All of ours are gauges, since what is counted may be forgotten.
    """
    told = [f"{name}{_labels(of)} {_number(value)}\n" for of, value in _told_once(samples)]
    return "".join([f"# HELP {name} {help_}\n# TYPE {name} gauge\n", *told]) if told else ""


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
