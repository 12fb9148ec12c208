"""``make lab DRIVES=file.toml OUT=dir``: a campaign over modelled drives, and its result."""

from __future__ import annotations

import argparse
import json
import os
import signal
import sys
from pathlib import Path
from typing import Any

from harness import HarnessError
from wcache_sim.toml_table import DriveFileError

from . import campaign
from .images.artefacts import BuildError
from .osds import Stack
from .processes import LabError


def main(words: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="drive_lab", description=__doc__)
    parser.add_argument("drives", type=Path, help="TOML file of drive models")
    parser.add_argument("out", type=Path, help="folder for result.json")
    parser.add_argument("--release", type=int, choices=(16, 18, 20), default=20)
    parser.add_argument(
        "--stack", type=Stack, choices=list(Stack), default=Stack.RAW,
        help="what lies between OSD and drive: %(choices)s",
    )  # fmt: skip
    parser.add_argument(
        "--loads", default=",".join(campaign.LOADS),
        help="default: %(default)s; also batch, 4m, timer, traffic",
    )  # fmt: skip
    parser.add_argument("--pairs", type=int, default=campaign.LabJob.pairs)
    parser.add_argument("--seed", type=int, default=campaign.LabJob.seed)
    options = parser.parse_args(words)
    # a lab that is stopped takes the same way out as a finished one, and a shell begins its
    # background jobs with SIGINT ignored
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))
    try:
        options.out.mkdir(parents=True, exist_ok=True)
        result = campaign.run(
            campaign.LabJob(
                drive_file=options.drives,
                release=options.release,
                stack=options.stack,
                loads=tuple(options.loads.split(",")),
                pairs=options.pairs,
                seed=options.seed,
            )
        )
        write(options.out / "result.json", result)
    except (BuildError, DriveFileError, HarnessError, LabError, AssertionError, OSError) as error:
        print(f"lab: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("lab: stopped; nothing is left behind", file=sys.stderr)
        return 130
    print(summary(result))
    return 0


def write(path: Path, result: dict[str, Any]) -> None:
    """Write the result whole or not at all."""
    part = path.with_suffix(".part")
    part.write_text(json.dumps(result, indent=1, allow_nan=False) + "\n")
    os.replace(part, path)


def summary(result: dict[str, Any]) -> str:
    """A line for each drive and load."""
    lines = [
        f"{'drive':16} {'load':18} {'verdict':24} {'ratio (interval)':24} "
        f"{'s':>6} {'MiB':>7}  expected"
    ]
    for drive in result["drives"]:
        for load in drive["loads"]:
            ratio = "-"
            if load["ratio"] is not None:
                ratio = f"{load['ratio']:.2f} ({load['ratio_low']:.2f}-{load['ratio_high']:.2f})"
            lines.append(
                f"{drive['name']:16} {load['load_point']:18} {load['verdict']:24} {ratio:24} "
                f"{load['seconds']:6.1f} {load['bytes_written'] / 2**20:7.2f}  "
                f"{'as expected' if load['right'] else load['expected'] or 'not stated'}"
            )
    unsafe = [d["name"] for d in result["drives"] if d["before"]["unsafe"] or d["after"]["unsafe"]]
    lines.append(f"unsafe before or after: {', '.join(unsafe) or 'none'}")
    lines.append(f"{result['total_seconds']} s in all")
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
