"""`wcache analyze RECORD...`: the verdict of recorded experiments, without a cluster."""

from __future__ import annotations

import argparse
from typing import Any, Dict, Iterator, List, Tuple, Union

from wcache.core import codec, versions
from wcache.core.change.preconditions import faults
from wcache.core.errors import MalformedError
from wcache.core.experiment.factorial import both_sides, measured_in
from wcache.core.experiment.matrix import MATRIX_FORMAT, Matrix
from wcache.core.loads import MATERIAL_RATIO
from wcache.core.model import load_name
from wcache.core.record import RECORD_BYTES_MAX, Record
from wcache.core.text import amount

from .files import read_text
from .matrix_table import matrix_lines
from .output import add_format, print_json
from .tables import mode_table, result_lines, write_lines

NAME = "analyze"
ERROR_CODE = 2
HELP = (
    "Decide recorded experiments anew, offline: the same verdict as on the cluster, bit for "
    "bit; like records of three drives or more are pooled as well.  Also decides the files of "
    "`wcache-probe matrix`"
)
RECORDS_MAX = 4096


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """See main.Command."""
    parser.add_argument(
        "records", nargs="+", metavar="RECORD", help="file with a record, or one on each line"
    )
    parser.add_argument(
        "--material-ratio", type=float, default=MATERIAL_RATIO, metavar="RATIO",
        help="smaller differences are not worth a change (default: %(default)s)",
    )
    add_format(parser)


def run(options: argparse.Namespace) -> int:
    """Print each record's result, and those of pools of like records."""
    from wcache.analysis.decision import Materiality
    from wcache.analysis.experiment import analyse

    from . import matrix_analysis

    rules = codec.decode(Materiality, {"material_ratio": options.material_ratio}, "options")
    found = [item for path in options.records for item in _read(path)]
    if len(found) > RECORDS_MAX:
        raise MalformedError(f"more than {RECORDS_MAX} records", "give fewer files")
    records = [item for item in found if isinstance(item, Record)]
    matrices = [matrix_analysis.analyse(item, rules) for item in found if isinstance(item, Matrix)]
    sides = list(_sides(records))
    results = [analyse(record, rules) for record in sides]
    pools = _pools(list(zip(sides, results)), rules)
    if options.format == "json":
        print_json({"results": results, "pools": pools, "matrices": matrices})
        return 0
    for item in matrices:
        print("\n".join(matrix_lines(item)))
        print()
    for result in results:
        print("\n".join(_heading(result)))
        per_mode = result["per_mode"]
        print("\n".join([*mode_table(per_mode), *write_lines(per_mode)]))
        print("\n".join(result_lines(result)))
        print()
    for pool in pools:
        print(f"{pool['drives']} drives of {pool['alike']['drive_model']}, "
              f"{load_name(pool['alike']['load_point'])}, pooled")
        print("\n".join(result_lines(pool)))
        print()
    return 0


def _read(path: str) -> List[Union[Record, Matrix]]:
    """The record or matrix in a file, or those on its lines; MalformedError names the place."""
    text = read_text(path, RECORD_BYTES_MAX * 8)
    lines = [(number, line) for number, line in enumerate(text.splitlines(), 1) if line.strip()]
    if not lines:
        raise MalformedError(f"{path} is empty")
    whole = len(lines) == 1 or not lines[0][1].rstrip().endswith("}")
    if whole:
        return [_decoded(text, path)]
    return [_decoded(line, f"{path}, line {number}") for number, line in lines]


def _decoded(text: str, where: str) -> Union[Record, Matrix]:
    plain = codec.parse_json(text, bytes_max=RECORD_BYTES_MAX, what=where)
    if isinstance(plain, dict) and plain.get("format") == MATRIX_FORMAT:
        return versions.take(Matrix, plain, where)
    return versions.take(Record, plain, where)


def _sides(records: List[Record]) -> Iterator[Record]:
    """The records, and of each factorial the other drive's, unless that is given as well."""
    given = {(record.setup.fsid, record.record_id) for record in records}
    for record in records:
        yield record
        if not measured_in(record.record_id):
            for side in both_sides(record)[1:]:
                if (side.setup.fsid, side.record_id) not in given:
                    yield side


def _pools(analysed: List[Tuple[Record, Dict[str, Any]]], options: Any) -> List[Dict[str, Any]]:
    """One pool for each group of like results of three drives or more, as the cluster pools them.

    Forced ones stay out, and a drive that is flagged keeps its pool from deciding.
    """
    from wcache.analysis.experiment import analysed as kept
    from wcache.analysis.pooling import pool

    groups: Dict[str, List[Tuple[Record, Dict[str, Any]]]] = {}
    for record, result in analysed:
        groups.setdefault(repr(sorted(result["alike"].items())), []).append((record, result))
    pools = [
        pool([kept(*item).result for item in group], group[0][1]["alike"], options)
        for _, group in sorted(groups.items())
    ]
    return [item for item in pools if item is not None]


def _heading(result: Dict[str, Any]) -> List[str]:
    alike, subject = result["alike"], result["subject"]
    marks = [word for word in ("simulated", "throwaway") if alike[word]]
    if result["forced"]:
        marks.append("forced: " + "; ".join(faults(result["missed_preconditions"])))
    return [
        f"{result['record_id']}: {alike['drive_model']} {subject['drive_id']} "
        f"(osd.{subject['osd_id']} {alike['role']}), {load_name(alike['load_point'])}"
        + (f" [{'; '.join(marks)}]" if marks else ""),
        f"{result['pairs']} pairs in {result['seconds']:.1f} s of drive time, "
        f"{amount(result['bytes_written'])} written",
    ]
