"""How large and how tangled the module is: each row a figure and what is wanted of it at most.

    make house [FORMAT=json]

It reports and fails nothing.  GOAL is for the end of the next piece of work, LATER for all work
after that; where both are missing, the row is there so that no other one gets better by a trick.

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
from typing import Dict, Iterable, Iterator, List, NamedTuple, Optional, Set, Tuple

ROOT = Path(__file__).resolve().parents[1]
MODULE = ROOT / "mgr_module" / "wcache"
PROBE = ROOT / "osd_probe" / "wcache_probe"
CLI = ROOT / "cli" / "wcache_cli"
PACKAGES = {"wcache": MODULE, "wcache_probe": PROBE, "wcache_cli": CLI}
TESTS = ("mgr_module/tests", "osd_probe/tests", "cli/tests")
SIMULATED = re.compile("OfDrives|MayBeSimulated")
OLDER = re.compile(r"older (version|plan|module)|next release|stored_v1", re.IGNORECASE)
LAYOUT = {
    tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT,
    tokenize.ENCODING, tokenize.ENDMARKER,
}
SCOPES = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)


class Row(NamedTuple):
    """A figure, the most that is wanted of it, and the most that is wanted later."""

    words: str
    figure: int
    goal: Optional[int] = None
    later: Optional[int] = None


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
        Row("files of the module", len(all_of_it), 215),
        Row("lines of the module", len(text), 35_500, 38_500),
        Row("  of them blank, in a thousand", 1000 * sum(not x.strip() for x in text) // len(text)),
        Row("code lines of the module", len(code), 22_800, 24_800),
        Row("  characters of a code line, mean", sum(map(len, code)) // len(code)),
        Row("lines of the probe", len(lines(files(PROBE))), 15_500),
        Row("lines of tests", len(lines(files(*(ROOT / one for one in TESTS)))), 42_000),
        Row("  lines of qa and vstart-tests",
            len(lines(files(ROOT / "qa", ROOT / "vstart-tests")))),
        Row("lines about older versions", sum(bool(OLDER.search(x)) for x in lines(both)), 0),
        Row("files that ask for simulation",
            sum(bool(SIMULATED.search(path.read_text())) for path in module), 6),
        Row("TYPE_CHECKING or import_module", having("TYPE_CHECKING|import_module"), 3),
        Row("lines with Dict[str, Any]", having(r"Dict\[str, Any\]"), 80),
        Row("  with Mapping[str, Any] or [str, object]",
            having(r"Mapping\[str, Any\]|\[str, object\]")),
        Row("names of classes that stand twice", twice(module), 0),
        Row("  with those of the probe", twice(both)),
        Row("files over 400 lines but toggle.py",
            sum(n > 400 for path, n in long.items() if path.name != "toggle.py"), 0),
        Row("files under 40 lines but __init__.py",
            sum(n < 40 for path, n in long.items() if path.name != "__init__.py"), 0),
        Row("folders over 20 files", sum(count > 20 for count in folders.values()), 0),
        Row("circles of files", len(circles()), 0),
        Row("commands", len(COMMANDS), 56),
    ]


def walked() -> List[Row]:
    """What usual things enter of the module."""
    from bench.walks import measure

    goals: Dict[str, Tuple[Optional[int], Optional[int]]] = {
        "status": (100, 28), "idle tick": (60, 18), "apply + rollback": (280, 50),
        "sample": (380, 60),
    }
    found = measure()
    rows = [
        Row(f"{what} of {name}", one[what], goals.get(name, (None, None))[place])
        for place, what in enumerate(("functions", "files")) for name, one in found.items()
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

    return "\n".join(f"{words:44}" + "".join(map(number, rest)) for words, *rest in rows)


def main() -> int:
    """Print all rows; returns the exit code."""
    rows = sizes() + walked()
    if os.environ.get("FORMAT") == "json":
        print(json.dumps([row._asdict() for row in rows], indent=2))
    else:
        print(f"{'':44}{'NOW':>9}{'GOAL':>9}{'LATER':>9}\n{plain(rows)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
