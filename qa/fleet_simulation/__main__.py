"""Fleets that grow, with faults: make simulate-fleet [OSDS=100] [SEEDS=10] [SEED=7: only that]

A seed repeats a failure.  Exit code 1 where something that must hold did not.
"""

from __future__ import annotations

import os
import sys
import time

from .fleet import Fleet


def main() -> int:
    """Run the seeds and print a line for each."""
    osds = int(os.environ.get("OSDS") or 100)
    only = os.environ.get("SEED")
    seeds = [int(only)] if only else range(int(os.environ.get("SEEDS") or 10))
    failed = 0
    began_s = time.monotonic()
    for seed in seeds:
        try:
            found = Fleet(osds, seed).run()
        except AssertionError as error:
            failed += 1
            print(f"FAILED {error}: repeat it with SEED={seed} OSDS={osds}", flush=True)
            continue
        print(
            f"seed {seed}: {found.osds} OSDs, {found.faults} faults, {found.campaigns} campaigns, "
            f"{found.plans} plans with {found.changes} changes in {found.applying_s:.0f} s of "
            f"virtual time, {found.applying_s / max(found.bound_s, 1e-9):.2f} x the bound of one "
            f"change at a time; all restored", flush=True,
        )
    print(f"{failed} failed, {time.monotonic() - began_s:.0f} s")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
