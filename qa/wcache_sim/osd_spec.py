"""What a file of drive models says of the simulated OSDs: see `drive_schema.py`."""

from __future__ import annotations

from dataclasses import dataclass

from .toml_table import Table


@dataclass(frozen=True)
class OsdSpec:
    """The simulated OSD: how its commits use its drives (see `osd.py`)."""

    flushes_per_commit: int = 1  # 2 on Ceph 16.2, 1 on 20
    overhead_us: float = 150.0  # software, once per commit
    client_depth: int = 4  # clients of osd_traffic, each with one write under way
    batch_writes: int = 256  # writes of one batch bench
    queue_depth_batch: int = 32  # writes that share a kv commit in a batch
    large_writes: int = 8  # 4 MiB writes of one 4m bench
    large_queue: int = 4  # 4 MiB writes that share a kv commit
    deferred_coalesce: int = 8  # deferred writes that reach an HDD as one
    timer_dirty_share: float = 1.0  # timer flushes that find data of the OSD to write


def read_osd(table: Table) -> OsdSpec:
    """The table `osd` of a file of drive models."""
    spec = OsdSpec(
        flushes_per_commit=table.integer("flushes_per_commit", 1, 1, 2),
        overhead_us=table.number("overhead_us", OsdSpec.overhead_us, 0.0, 1e6),
        client_depth=table.integer("client_depth", OsdSpec.client_depth, 1, 1024),
        batch_writes=table.integer("batch_writes", OsdSpec.batch_writes, 1, 3000),
        queue_depth_batch=table.integer("queue_depth_batch", OsdSpec.queue_depth_batch, 1, 1024),
        large_writes=table.integer("large_writes", OsdSpec.large_writes, 1, 256),
        large_queue=table.integer("large_queue", OsdSpec.large_queue, 1, 256),
        deferred_coalesce=table.integer("deferred_coalesce", OsdSpec.deferred_coalesce, 1, 1024),
        timer_dirty_share=table.number(
            "timer_dirty_share", OsdSpec.timer_dirty_share, 0.0, 1.0
        ),
    )
    table.done()
    return spec
