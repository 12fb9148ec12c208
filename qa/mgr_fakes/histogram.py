"""`perf histogram dump` as an OSD answers it: 32 by 32 buckets, latency by size."""

from __future__ import annotations

import json
from typing import Any, Dict, List, Mapping

BUCKETS = 32


def plain(counts: Mapping[int, int]) -> Dict[str, Any]:
    """The answer's object; `counts` by number of the latency bucket, spread over two sizes."""
    values = [[0] * BUCKETS for _ in range(BUCKETS)]
    for bucket, count in counts.items():
        values[bucket][4] = count // 2
        values[bucket][7] = count - count // 2
    axes = [_axis("Latency (usec)", 100_000), _axis("Request size (bytes)", 512)]
    return {"osd": {"op_w_latency_in_bytes_histogram": {"axes": axes, "values": values}}}


def dump(counts: Mapping[int, int]) -> str:
    """The answer's text."""
    return json.dumps(plain(counts))


def _axis(name: str, quant: int) -> Dict[str, Any]:
    ranges: List[Dict[str, int]] = [{"max": -1}]
    low = 0
    for bucket in range(BUCKETS - 2):
        high = quant * 2**bucket
        ranges.append({"min": low, "max": high - 1})
        low = high
    return {
        "name": name, "min": 0, "quant_size": quant, "buckets": BUCKETS, "scale_type": "log2",
        "ranges": [*ranges, {"min": low}],
    }
