"""How large the module is, how tangled: each row a figure with its aim, and what it is held to.

    make house [FORMAT=json]

It reports and fails nothing.  AIM is what was once wanted.  HELD is the honest figure of
doc/decisions/0018: no work goes beyond it without saying there what for, and a row that is beyond
it ends with "over".  Where both are missing, the row is there so that no other one gets better by
a trick.

- Lines are those of Python and of templates (.j2).  Code lines are those without blank ones,
  comments, docstrings and imports.
- A circle is a set of files each of which imports the others, also inside functions and for
  annotations only.
- Functions and files that are entered: `qa/bench/walks.py`.
"""

from __future__ import annotations

import ast
import json
import os
import re
import sys
import tokenize
from collections import Counter
from functools import cache
from pathlib import Path
from typing import Iterable, Iterator, List, NamedTuple, Optional, Set, Tuple

ROOT = Path(__file__).resolve().parents[1]
MODULE = ROOT / "mgr_module" / "wcache"
PROBE = ROOT / "osd_probe" / "wcache_probe"
CLI = ROOT / "cli" / "wcache_cli"
PACKAGES = {"wcache": MODULE, "wcache_probe": PROBE, "wcache_cli": CLI}
TESTS = ("mgr_module/tests", "osd_probe/tests", "cli/tests")
# What a type is that knows whether a simulated host told of it, and what such a type says.
SIMULATED = re.compile("OfDrives|OfDriveKind|MayBeSimulated")
READS_SIMULATED = re.compile(r"\.(simulated|real|has_clients|measured_by_probe|on_our_clock)\b")
OLDER = re.compile(r"older (version|plan|module)|next release|stored_v1", re.IGNORECASE)
# Of each row that has them: the aim, and what it is held to.
LIMITS = {
    "files of the module": (215, 255),
    "lines of the module": (35_500, 52_870),
    "code lines of the module": (22_800, 34_500),
    "lines of the probe": (15_500, 16_400),
    "lines of tests": (42_000, 62_310),
    "lines about older versions": (0, 0),
    "files that ask for simulation": (6, 9),
    "TYPE_CHECKING or import_module": (3, 2),
    "lines with Dict[str, Any]": (80, 145),
    "names of classes that stand twice": (0, 0),
    "files whose first line has an 'and'": (0, 0),
    "files over 400 lines but toggle.py": (0, 0),
    "files under 40 lines but __init__.py": (0, 1),
    "folders over 20 files": (0, 0),
    "circles of files": (0, 0),
    "commands": (56, 50),
    "functions of status": (100, 215),
    "functions of idle tick": (60, 105),
    "functions of apply + rollback": (280, 567),
    "functions of sample": (380, 661),
    "files of status": (28, 46),
    "files of idle tick": (18, 38),
    "files of apply + rollback": (50, 96),
    "files of sample": (60, 99),
}
LAYOUT = {
    tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT,
    tokenize.ENCODING, tokenize.ENDMARKER,
}
SCOPES = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)


class Row(NamedTuple):
    """A figure, by the words that its limits are found by."""

    words: str
    figure: int

    @property
    def limits(self) -> Tuple[Optional[int], Optional[int]]:
        """What was aimed at, and the most that decision 0018 allows; None where nothing is said."""
        return LIMITS.get(self.words, (None, None))

    @property
    def over(self) -> bool:
        """Whether it is beyond what it is held to."""
        held = self.limits[1]
        return held is not None and self.figure > held


def files(*folders: Path, templates: bool = False) -> List[Path]:
    """All Python files of folders, and templates."""
    suffixes = {".py", ".j2"} if templates else {".py"}
    return sorted(
        path for folder in folders for path in folder.rglob("*") if path.suffix in suffixes
    )


def lines(paths: Iterable[Path]) -> List[str]:
    """All lines of files."""
    return [line for path in paths for line in path.read_text().splitlines()]


@cache
def tree(path: Path) -> ast.Module:
    """A file, parsed."""
    return ast.parse(path.read_text(encoding="utf-8"))


def code_lines(path: Path) -> List[str]:
    """The lines that are no blank, comment, docstring or import."""
    text = path.read_text().splitlines()
    if path.suffix == ".j2":
        return [line for line in text if line.strip() and not line.startswith("{#")]
    kept: Set[int] = set()
    with path.open("rb") as file:
        for token in tokenize.tokenize(file.readline):
            if token.type not in LAYOUT:
                kept.update(range(token.start[0], token.end[0] + 1))
    for node in ast.walk(tree(path)):
        gone = [node] if isinstance(node, (ast.Import, ast.ImportFrom)) else []
        if isinstance(node, SCOPES) and ast.get_docstring(node, clean=False) is not None:
            gone = [node.body[0]]
        for one in gone:
            kept.difference_update(range(one.lineno, (one.end_lineno or 0) + 1))
    return [text[number - 1] for number in sorted(kept)]


def modules() -> Iterator[Tuple[str, Path]]:
    """Name and file of every module of ours."""
    for package, root in PACKAGES.items():
        for path in files(root):
            parts = path.relative_to(root).with_suffix("").parts
            yield ".".join((package, *(p for p in parts if p != "__init__"))), path


def imported(name: str, path: Path) -> Iterator[str]:
    """Every module that a file imports, with relative imports resolved."""
    package = name if path.name == "__init__.py" else name.rpartition(".")[0]
    for node in ast.walk(tree(path)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                above = package.split(".")[: len(package.split(".")) - node.level + 1]
                base = ".".join([*above, base] if base else above)
            yield base
            # `from . import run` names a module too
            yield from (f"{base}.{alias.name}" for alias in node.names)


def circles() -> List[Set[str]]:
    """Files of the module that all reach each other by imports."""
    mine = {name: path for name, path in modules() if name.partition(".")[0] == "wcache"}
    edges = {
        name: {one for one in imported(name, path) if one in mine and one != name}
        for name, path in mine.items() if path.name != "__init__.py"
    }

    def reached(name: str) -> Set[str]:
        found: Set[str] = set()
        ahead = list(edges[name])
        while ahead:
            one = ahead.pop()
            if one not in found:
                found.add(one)
                ahead += edges.get(one, ())
        return found

    reach = {name: reached(name) for name in edges}
    sets = {
        frozenset(other for other in reach[name] if name in reach.get(other, ()))
        for name in edges if name in reach[name]
    }
    return [set(one) for one in sets]


def twice(paths: Iterable[Path]) -> int:
    """How many names of classes stand more than once."""
    names = Counter(
        node.name for path in paths for node in ast.walk(tree(path))
        if isinstance(node, ast.ClassDef)
    )
    return sum(count > 1 for count in names.values())


def joins_two(path: Path) -> bool:
    """Whether a file's first line names its subject by two things."""
    first = (ast.get_docstring(tree(path)) or "").partition("\n")[0]
    return bool(re.search(r"\band\b", first))


def sizes() -> List[Row]:
    """What the files say of themselves."""
    from wcache.commands.commands import COMMANDS

    module, both = files(MODULE), files(MODULE, PROBE)
    all_of_it = files(MODULE, templates=True)
    text = lines(all_of_it)
    code = [line for path in all_of_it for line in code_lines(path)]
    long = {path: len(path.read_text().splitlines()) for path in both}
    folders = Counter(path.parent for path in both)

    def having(pattern: str, paths: Iterable[Path] = tuple(module)) -> int:
        return sum(bool(re.search(pattern, line)) for line in lines(paths))

    return [
        Row("files of the module", len(all_of_it)),
        Row("lines of the module", len(text)),
        Row("  of them blank, in a thousand", 1000 * sum(not x.strip() for x in text) // len(text)),
        Row("  of them over 95 columns", sum(len(x) > 95 for x in text)),
        Row("code lines of the module", len(code)),
        Row("  characters of a code line, mean", sum(map(len, code)) // len(code)),
        Row("lines of the probe", len(lines(files(PROBE)))),
        Row("lines of tests", len(lines(files(*(ROOT / one for one in TESTS))))),
        Row("  lines of qa and vstart-tests",
            len(lines(files(ROOT / "qa", ROOT / "vstart-tests")))),
        Row("lines about older versions", sum(bool(OLDER.search(x)) for x in lines(both))),
        Row("files that ask for simulation",
            sum(bool(SIMULATED.search(path.read_text())) for path in module)),
        Row("  files that act on what it is",
            sum(bool(READS_SIMULATED.search(path.read_text())) for path in module)),
        Row("TYPE_CHECKING or import_module", having("TYPE_CHECKING|import_module")),
        Row("lines with Dict[str, Any]", having(r"Dict\[str, Any\]")),
        Row("  with Mapping[str, Any] or [str, object]",
            having(r"Mapping\[str, Any\]|\[str, object\]")),
        Row("names of classes that stand twice", twice(module)),
        Row("  with those of the probe", twice(both)),
        Row("files whose first line has an 'and'", sum(map(joins_two, both))),
        Row("files over 400 lines but toggle.py",
            sum(n > 400 for path, n in long.items() if path.name != "toggle.py")),
        Row("files under 40 lines but __init__.py",
            sum(n < 40 for path, n in long.items() if path.name != "__init__.py")),
        Row("folders over 20 files", sum(count > 20 for count in folders.values())),
        Row("circles of files", len(circles())),
        Row("commands", len(COMMANDS)),
    ]


def walked() -> List[Row]:
    """What usual things enter of the module."""
    from bench.walks import measure

    found = measure()
    rows = [
        Row(f"{what} of {name}", one[what])
        for what in ("functions", "files") for name, one in found.items()
    ]
    return rows + [
        Row(f"  {what} of {name}", one[what])
        for what in ("code", "functions from start", "code from start")
        for name, one in found.items()
    ]


def plain(rows: Iterable[Row]) -> str:
    """The rows as a table."""
    def number(value: Optional[int]) -> str:
        return f"{'-' if value is None else format(value, ','):>9}"

    return "\n".join(
        f"{row.words:44}" + "".join(map(number, (row.figure, *row.limits)))
        + " over" * row.over for row in rows
    )


def main() -> int:
    """Print all rows; returns the exit code."""
    rows = sizes() + walked()
    if os.environ.get("FORMAT") == "json":
        print(json.dumps([
            {**row._asdict(), **dict(zip(("aim", "held"), row.limits))} for row in rows
        ], indent=2))
    else:
        print(f"{'':44}{'NOW':>9}{'AIM':>9}{'HELD':>9}\n{plain(rows)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
