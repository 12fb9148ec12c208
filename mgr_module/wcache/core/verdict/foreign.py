"""Verdicts of other clusters: the file that carries them, with what they may shorten here.

What `evidence export` writes and `evidence import` takes is bounded, versioned and checksummed.
The checksum finds damage and careless edits.  It is no signature: whoever can write the file
can make one.  So nothing is decided by what a file says.

A verdict of another cluster, or of this one where a drive is new, can be confirmed with fewer
drives, fewer pairs and the loads that decided.  The statistics are those of any experiment: its
own pairs decide, and the prior adds nothing to them.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import ClassVar, Dict, FrozenSet, List, Mapping, Optional, Sequence, Tuple

from .. import codec, versions
from ..errors import MalformedError, RefusedError, VersionError
from ..experiment.design import design_of
from ..experiment.run_state import RunSpec
from ..model import DriveModel, LoadPoint, Verdict
from ..options.entries import CACHE_MODES
from .recommend import Recommendation
from .result import Result

FORMAT = "wcache.evidence"
VERSION = 1
BYTES_MAX = 1_000_000
VERDICTS_MAX = 256
RATIO_MAX = 1e6
COUNT_MAX = 1_000_000
NAME_CHARS_MAX = 128
# Clocks differ; a file from the day after tomorrow is none.
FUTURE_S = 86400.0
CLUSTERS_MAX = 16
_CLUSTER = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}").fullmatch
# At 12 pairs the 99% interval is 1.4 sd of a pair difference to either side: a clear case.
PAIRS = 12
DRIVES_PER_MODEL = 2  # a verdict on drives of several hosts needs the word of two

Key = Tuple[str, str]
"""Device class and drive model."""

Priors = Mapping[Key, FrozenSet[LoadPoint]]
"""What there is to confirm: the loads at which it was decided."""


class ModeVerdict(str, Enum):
    """A verdict on the cache modes in the words of a file."""

    WRITE_BACK = "write back"
    WRITE_THROUGH = "write through"
    NO_DIFFERENCE = Verdict.NO_DIFFERENCE.value
    INSUFFICIENT = Verdict.INSUFFICIENT.value
    CONFLICTING = Verdict.CONFLICTING.value

    @property
    def meant(self) -> Verdict:
        """The verdict that it is."""
        return CACHE_MODES.meant(self.value)


@dataclass(frozen=True)
class ForeignLoad:
    """The pooled estimate at one load point, as `LoadVerdict` has it."""

    load_point: LoadPoint
    verdict: ModeVerdict
    drives: int = field(metadata={"min": 1, "max": COUNT_MAX})
    ratio: Optional[float] = None
    ratio_low: Optional[float] = None
    ratio_high: Optional[float] = None
    pooled: bool = False
    next_low: Optional[float] = None
    next_high: Optional[float] = None


@dataclass(frozen=True)
class ForeignVerdict:
    """What a cluster found of one drive model in one device class."""

    device_class: str = field(metadata={"max_chars": NAME_CHARS_MAX})
    drive_model: DriveModel
    verdict: ModeVerdict
    drives: int = field(metadata={"min": 1, "max": COUNT_MAX})
    hosts: int = field(metadata={"min": 1, "max": COUNT_MAX})
    measured_at_s: float
    ceph_releases: Tuple[str, ...] = field(metadata={"max_items": 8})
    loads: Tuple[ForeignLoad, ...] = field(metadata={"max_items": len(LoadPoint)})

    @property
    def key(self) -> Tuple[str, str]:
        """Device class and drive model."""
        return self.device_class, str(self.drive_model)


@dataclass(frozen=True)
class Evidence:
    """The whole file; `sha256` is of the rest (`checksum`)."""

    VERSION: ClassVar[int] = VERSION
    STORED_BY: ClassVar[str] = "cluster"
    format: str
    version: int
    cluster: str
    exported_at_s: float
    verdicts: Tuple[ForeignVerdict, ...] = field(metadata={"max_items": VERDICTS_MAX})
    sha256: str = ""


def checksum(evidence: Evidence) -> str:
    """Over the canonical text, so that blanks and the order of fields do not matter."""
    text = codec.dumps(replace(evidence, sha256=""))
    return hashlib.sha256(text.encode()).hexdigest()


def export(
    cluster: str, recommendations: Sequence[Recommendation], results: Sequence[Result],
    now_s: float,
) -> Evidence:
    """What this cluster has measured on real drives; host names and serials stay here."""
    by_id = {result.record_id: result for result in results}
    verdicts: List[ForeignVerdict] = []
    for item in recommendations:
        measured = [by_id[name] for name in item.record_ids if name in by_id]
        made_up = not item.real or any(result.throwaway for result in measured)
        if made_up or not measured or len(verdicts) >= VERDICTS_MAX:
            continue
        terms = [result.pool_term for result in measured if result.pool_term is not None]
        verdicts.append(ForeignVerdict(
            item.device_class, item.drive_model, ModeVerdict(CACHE_MODES.said(item.verdict)),
            len({(result.hostname, result.drive_id) for result in measured}),
            len({result.hostname for result in measured}),
            max(result.ended_at_s for result in measured),
            tuple(sorted({term.ceph_release for term in terms}))[:8],
            tuple(
                ForeignLoad(
                    load.load_point, ModeVerdict(CACHE_MODES.said(load.verdict)),
                    max(1, load.drives), _in_range(load.ratio), _in_range(load.ratio_low),
                    _in_range(load.ratio_high), load.pooled, _in_range(load.next_low),
                    _in_range(load.next_high),
                ) for load in item.loads
            ),
        ))
    found = Evidence(FORMAT, VERSION, cluster, now_s, tuple(verdicts))
    return replace(found, sha256=checksum(found))


def _in_range(figure: Optional[float]) -> Optional[float]:
    """The ratio as far as a file may have it: few drives that are far apart leave room for any."""
    return None if figure is None else min(max(figure, 1 / RATIO_MAX), RATIO_MAX)


def parse(text: str, now_s: float) -> Evidence:
    """The file that `export` made; raises one that says in a line what is wrong with it."""
    what = "the file"
    plain = codec.parse_json(text, bytes_max=BYTES_MAX, what=what)
    if not isinstance(plain, dict) or plain.get("format") != FORMAT:
        raise MalformedError(
            f"{what} is no evidence of wcache", "make one with `ceph wcache evidence export`"
        )
    if plain.get("version") != VERSION:
        raise VersionError(
            f"{what} has version {codec.one_line(str(plain.get('version')), 20)}, this module "
            f"knows {VERSION}",
            "export it again with this module's version",
        )
    found = versions.take(Evidence, plain, what)
    if found.sha256 != checksum(found):
        raise MalformedError(
            f"the checksum of {what} is wrong: it is damaged, or somebody edited it",
            "export it again",
        )
    _check(found, now_s)
    return found


def _check(found: Evidence, now_s: float) -> None:
    if not _CLUSTER(found.cluster):
        raise MalformedError(f"cluster {found.cluster[:40]!r} is no fsid")
    if found.exported_at_s > now_s + FUTURE_S:
        raise MalformedError("the file is from the future", "set the clocks, and export it again")
    seen = set()
    for verdict in found.verdicts:
        name = f"{verdict.device_class} {verdict.drive_model}"[:80]
        if not verdict.device_class or not verdict.drive_model.model:
            raise MalformedError(f"a verdict names no device class or drive model ({name!r})")
        if verdict.key in seen:
            raise MalformedError(f"{name} is there twice")
        seen.add(verdict.key)
        if not 0 < verdict.measured_at_s <= found.exported_at_s + FUTURE_S:
            raise MalformedError(f"{name} was measured after the file was made")
        for load in verdict.loads:
            _check_load(f"{name}, {load.load_point.short}", load)
        said = verdict.verdict
        if said.meant.arm and not any(load.verdict is said for load in verdict.loads):
            raise MalformedError(f"{name}: no load says {said.value}")


def _check_load(name: str, load: ForeignLoad) -> None:
    figures = (load.ratio, load.ratio_low, load.ratio_high, load.next_low, load.next_high)
    if any(figure is not None and not 1 / RATIO_MAX <= figure <= RATIO_MAX for figure in figures):
        raise MalformedError(f"{name}: a ratio is out of range")
    for low, high in ((load.ratio_low, load.ratio_high), (load.next_low, load.next_high)):
        if (low is None) != (high is None) or (low is not None and high is not None and low > high):
            raise MalformedError(f"{name}: an interval has its ends the wrong way round")
    low, high = load.ratio_low, load.ratio_high
    if load.verdict.meant.arm is None:
        return
    if low is None or high is None or load.ratio is None or not low <= load.ratio <= high:
        raise MalformedError(f"{name}: {load.verdict.value} without a ratio and its interval")
    near, far = (low, high) if load.verdict.meant is Verdict.B else (1 / high, 1 / low)
    # drives that are not pooled decide by one of them: the widest interval need not say it
    if (near if load.pooled or load.drives == 1 else far) <= 1.0:
        raise MalformedError(f"{name}: its interval does not say {load.verdict.value}")


def is_new(files: Mapping[str, Evidence], evidence: Evidence) -> bool:
    """Whether a file would be kept; raises RefusedError where there is no room for it."""
    old = files.get(evidence.cluster)
    if old is None and len(files) >= CLUSTERS_MAX:
        raise RefusedError(
            f"evidence of {CLUSTERS_MAX} clusters is imported already",
            "drop one with `ceph wcache evidence rm`",
        )
    return old is None or old.exported_at_s < evidence.exported_at_s


def priors(
    own: Sequence[Recommendation], foreign: Sequence[ForeignVerdict]
) -> Dict[Key, FrozenSet[LoadPoint]]:
    """Every verdict that can be confirmed; one of this cluster goes before a foreign one."""
    found: Dict[Key, FrozenSet[LoadPoint]] = {}
    for verdict in sorted(foreign, key=lambda item: item.measured_at_s):
        if verdict.verdict.meant.decided:
            found[verdict.key] = frozenset(
                load.load_point for load in verdict.loads if load.verdict is verdict.verdict
            )
    for item in own:
        if item.verdict.decided:
            found[(item.device_class, str(item.drive_model))] = frozenset(
                load.load_point for load in item.loads if load.verdict is item.verdict
            )
    return {key: loads for key, loads in found.items() if loads}


def shortened(runs: Sequence[RunSpec], known: Priors) -> Tuple[RunSpec, ...]:
    """The runs, those of a drive model that has a prior cut to what confirms it."""
    taken: Dict[Key, int] = {}
    kept: List[RunSpec] = []
    for run in runs:
        first = run.experiments[0]
        key = (first.device_class, str(first.drive_model))
        loads = known.get(key)
        if loads is None or design_of(first).crosses:
            kept.append(run)
            continue
        taken[key] = taken.get(key, 0) + 1
        if taken[key] > DRIVES_PER_MODEL:
            continue
        experiments = tuple(
            replace(setup, pairs_max=min(setup.pairs_max, PAIRS))
            for setup in run.experiments if setup.load_point in loads
        )
        # what was decided elsewhere cannot be measured on this drive: then all of it
        kept.append(replace(run, experiments=experiments) if experiments else run)
    return tuple(kept)
