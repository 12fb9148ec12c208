"""What the benchmark prints: a line for each cell, today's ways beside it, and the figures."""

from __future__ import annotations

from typing import List, Optional, Sequence

from .baseline import FIXED_SAMPLES, RECIPE_S, RECIPE_TRIALS, Tally
from .cells import Cell
from .figures import Figure
from .score import Score, Share, count

RULE = "-" * 142


def report(cells: Sequence[Cell], held: Sequence[Figure]) -> List[str]:
    """All lines; the last one sums up."""
    lines = [*_table(cells), RULE]
    compared = [cell for cell in cells if cell.recipe and cell.rank_test]
    if compared:
        lines += [*_todays_ways(compared), RULE]
    lines += [_figure_line(item) for item in held]
    return [*lines, _summary(cells, held)]


def _table(cells: Sequence[Cell]) -> List[str]:
    lines = [
        "Shares in percent, each with its 95% interval; costs are means of an experiment; "
        "/W: pairs, and so samples, over W; s/W: seconds over W's",
        f"{'drive':17} {'load':17} {'ratio':>7} {'right':>14} {'wrong':>14} {'undecided':>14} "
        f"{'pairs':>6} {'samples':>7} {'seconds':>7} {'KiB':>8} {'/W':>5} {'s/W':>5}",
    ]
    for cell in cells:
        start = f"{cell.drive[:17]:17} {cell.load_point.value:17} {cell.ratio:7.3g} "
        if not cell.measured:
            lines.append(f"{start}refused: {cell.outcomes[0].refused}")
            continue
        shares = " ".join(f"{_percent(cell.share(wanted)):>14}" for wanted in Score)
        lines.append(
            f"{start}{shares} {cell.mean('pairs'):6.1f} {cell.mean('samples'):7.0f} "
            f"{cell.mean('seconds'):7.1f} {cell.mean('bytes_written') / 1024:8.0f} "
            f"{_over(cell.over_minimum)} {_over(cell.over_minimum_seconds)}"
        )
    return lines


def _over(ratio: Optional[float]) -> str:
    return f"{ratio:5.2f}" if ratio is not None else "    -"


def _percent(share: Share) -> str:
    """`95 76.4-99.1`, in percent."""
    share_pc, low, high = (
        f"{round(100 * part, 1):g}" for part in (share.share, share.low, share.high)
    )
    return f"{share_pc} {low}-{high}"


def _todays_ways(cells: Sequence[Cell]) -> List[str]:
    lines = [
        "Today's ways on the same drives, one write at a time, scored by the ratio of medians: "
        "right/wrong/undecided, then what one decision costs",
        f"docs' recipe: {RECIPE_S:.0f} s in each mode, the faster mean wins ({RECIPE_TRIALS} "
        f"trials); rank test: {FIXED_SAMPLES} samples in each mode, Mann-Whitney at 1%",
        f"{'drive':17} {'ratio':>7}" + "".join(
            f"   {name:>12} {'seconds':>7} {'samples':>8}"
            for name in ("wcache", "docs' recipe", "rank test")
        ),
    ]
    totals = [Tally(), Tally(), Tally()]
    for cell in cells:
        ways = [_own(cell), cell.recipe or Tally(), cell.rank_test or Tally()]
        totals = [total.plus(way) for total, way in zip(totals, ways)]
        lines.append(
            f"{cell.drive[:17]:17} {cell.ratio:7.3g}" + "".join(
                f"   {f'{way.right}/{way.wrong}/{way.undecided}':>12} {way.seconds:7.1f} "
                f"{way.samples:8.0f}" for way in ways
            )
        )
    for name, total in zip(("wcache", "docs' recipe", "rank test"), totals):
        right, wrong, undecided = (_percent(total.share(wanted)) for wanted in Score)
        lines.append(
            f"{name}, all drives: {right} right, {wrong} wrong, {undecided} undecided; "
            f"{total.seconds:.1f} s and {total.samples:.0f} samples a decision"
        )
    return lines


def _own(cell: Cell) -> Tally:
    return Tally(
        *(count(cell.measured, wanted) for wanted in Score), cell.mean("seconds"),
        cell.mean("samples"),
    )


def _figure_line(figure: Figure) -> str:
    found = "not shown by these drives" if figure.found is None else f"{figure.found:.4g}"
    if figure.share is not None:
        low, high = round(figure.share.low, 4), round(figure.share.high, 4)
        found += f", 95%: {low:g} to {high:g}"
    line = f"{figure.name}: {found} ({figure.experiments} experiments"
    if figure.limit is None or figure.found is None:
        return line + ")"
    bound = f"{'at most' if figure.at_most else 'at least'} {figure.limit:.4g}"
    held = "held" if figure.held else "MISSED"
    if figure.held and figure.shown is False:
        held = "held here, but more TRIALS are needed to show it"
    return f"{line}, {bound}): {held}"


def _summary(cells: Sequence[Cell], held: Sequence[Figure]) -> str:
    """One line for who reads no tables."""
    measured = [item for cell in cells for item in cell.measured]
    right, wrong, undecided = (
        _percent(Share.of(count(measured, wanted), len(measured))) for wanted in Score
    )
    asked = [item for item in held if item.held is not None]
    missed = [item.name for item in asked if not item.held]
    unshown = sum(bool(item.held) and item.shown is False for item in asked)
    drives = len({cell.drive for cell in cells if cell.measured})
    loads = len({cell.load_point for cell in cells if cell.measured})
    return (
        f"summary: {len(asked) - len(missed)} of {len(asked)} figures held"
        + (f" ({unshown} need more TRIALS to be shown)" if unshown else "")
        + (f", MISSED: {'; '.join(missed)}" if missed else "")
        + f"; drives {drives}, loads {loads}, experiments {len(measured)}: {right} right, "
        f"{wrong} wrong, {undecided} undecided"
    )
