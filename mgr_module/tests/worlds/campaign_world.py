"""Hosts with a DB drive, and the runs that a campaign over them has."""

from dataclasses import replace

from mgr_fakes import builders as make
from wcache.core.experiment.campaign import (
    CampaignOptions,
    candidates,
    select,
)
from wcache.core.experiment.forecast import forecast
from wcache.core.experiment.schedule import make_runs
from wcache.core.model import DriveModel, Role, Transport
from wcache.core.scope import parse_scope


def options(*loads, **changes):
    return replace(CampaignOptions("cluster", loads, 20, 6, 0.25, 2.0, 2000.0, 900.0, 2**32),
                   **changes)


def a_host(*, blocks=1, rotational=True, wal=False, db_osds=None):
    """Block drives of osd.0, 1, ..., and one drive with the DB of `db_osds`."""
    drives = [
        make.drive(f"sd{chr(97 + n)}", n, rotational=rotational) for n in range(blocks)
    ]
    served = range(blocks) if db_osds is None else db_osds
    db = DriveModel("ACME", "DB1", "2")
    drives.append(make.drive("nvme0n1", *served, roles=(Role.DB,), drive_model=db,
                             transport=Transport.NVME, rotational=False))
    if wal:
        drives.append(make.drive("nvme1n1", *served, roles=(Role.WAL,), rotational=False,
                                 drive_model=replace(db, model="WAL1"),
                                 transport=Transport.NVME))
    osds = [
        make.osd(n, "h1", dedicated_db=n in served, dedicated_wal=wal, rotational=rotational)
        for n in range(blocks)
    ]
    return [make.report("h1", *drives)], make.cluster(osds)


def runs_of(world, wanted):
    reports, cluster = world
    found = candidates(reports, cluster, parse_scope(wanted.scope))
    picked = select(found, cluster, wanted, throwaway=False)
    runs = make_runs("c1", picked, cluster, wanted, seed=1, throwaway=False, nonce="n")
    return runs, forecast(runs, cluster, ())
