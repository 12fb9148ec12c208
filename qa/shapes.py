"""Keeps a digest of the shape of every type that is stored or sent, in `shapes.txt` beside this.

    make shapes     writes the file; refuses where a shape changed and has no number of its own

A shape is what `codec` takes: the names of fields, which of them must be there, their types and
limits, the words of enums, down to the last part.  Names of classes and the order of fields are
no part of it.
"""

from __future__ import annotations

import dataclasses
import enum
import hashlib
import importlib
import inspect
import subprocess
import sys
import typing
from pathlib import Path
from typing import AbstractSet, Any, Dict, List, Mapping, NamedTuple, Set, Tuple

FILE = Path(__file__).with_name("shapes.txt")
ROOT = FILE.parents[1]
LIMITS = ("max", "max_chars", "min")  # that codec knows, of what is no list
FOLDERS = ("mgr_module/wcache", "osd_probe/wcache_probe", "qa/wcache_sim")
TODO = """\
A value of another shape must be refused by its number alone, before any field is read. So:

1. Raise the number in the lines named above, by one for each shape (a constant that several
   classes share is raised once). No number is used twice, not within a branch either.
2. READS, in the same class, names older numbers whose values are still taken. Add the number
   that it had where, and only where, every value of the old shape means the same when it is read
   by the new one: nothing but fields were added, and their defaults say what held before. Take
   all of them out where not. What probe and module say to each other has no READS: both are
   updated together.
3. Run `make shapes`, and commit qa/shapes.txt with your change.

Where a rebase stops at qa/shapes.txt: `git checkout --ours qa/shapes.txt` takes the file of the
branch that you rebase on; raise your numbers above the ones in it, then do 3."""


class Shape(NamedTuple):
    """What a line of the file says: a type's number, and the digest of its shape."""

    number: int
    digest: str


Past = AbstractSet[Tuple[str, Shape]]


def wholes() -> Dict[str, type]:
    """Every type that is stored or sent as a whole, by module and name."""
    found: Dict[str, type] = {}
    for folder in FOLDERS:
        for path in sorted((ROOT / folder).rglob("*.py")):
            if "VERSION: ClassVar" not in path.read_text():
                continue
            name = ".".join(path.relative_to((ROOT / folder).parent).with_suffix("").parts)
            found.update(
                (f"{name}.{item}", cls) for item, cls in vars(importlib.import_module(name)).items()
                if inspect.isclass(cls) and cls.__module__ == name and "VERSION" in vars(cls)
            )
    return dict(sorted(found.items()))


def now() -> Dict[str, Shape]:
    """The shapes as the code has them."""
    return {name: Shape(cls.VERSION, digest(cls)) for name, cls in wholes().items()}  # type: ignore[attr-defined]


def kept(text: str) -> Dict[str, Shape]:
    """The shapes as the file has them."""
    lines = [line.split() for line in text.splitlines() if line and not line.startswith("#")]
    return {name: Shape(int(number), found) for name, number, found in lines}


def committed() -> Set[Tuple[str, Shape]]:
    """What the file has ever said, by the commits that are here; nothing outside of a clone."""
    done = subprocess.run(
        ["git", "log", "-p", "--full-history", "--no-color", "--no-ext-diff", "--format=", "--",
         FILE.name],
        cwd=FILE.parent, capture_output=True, text=True, check=False,
    )
    lines = [
        line[1:] for line in done.stdout.splitlines() if line[:1] == "+" and line[:3] != "+++"
    ]
    return {one for line in lines for one in kept(line).items()}


def digest(cls: type) -> str:
    """What stands for the shape of a type."""
    return hashlib.sha256(repr(shape_of(cls, {})).encode()).hexdigest()[:24]


def shape_of(hint: Any, limits: Mapping[str, Any]) -> Any:
    """The shape of a type, as nested tuples of words."""
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin is typing.Union:
        return ("one of", *sorted((shape_of(item, limits) for item in arguments), key=repr))
    if origin is tuple:
        least = [limits["min_items"]] if "min_items" in limits else []
        return ("many", limits.get("max_items"), shape_of(arguments[0], limits), *least)
    if isinstance(hint, type) and issubclass(hint, enum.Enum):
        return ("word", *sorted(str(member.value) for member in hint))
    if dataclasses.is_dataclass(hint):
        hints = typing.get_type_hints(hint)
        return ("fields", getattr(hint, "KIND", ""), *sorted(
            (item.name, _must_be_there(item), shape_of(hints[item.name], item.metadata))
            for item in dataclasses.fields(hint)
        ))
    return (hint.__name__, *((key, limits[key]) for key in LIMITS if key in limits))


def _must_be_there(item: Any) -> bool:
    missing = dataclasses.MISSING
    return item.default is missing and item.default_factory is missing


def faults(
    code: Mapping[str, Shape], file: Mapping[str, Shape], past: Past = frozenset(),
) -> Tuple[List[str], List[str]]:
    """(types whose shape has no new number, types of which the file is not up to date).

    `past` is what the file said before: a number that stood for another shape is not new.
    """
    used = {(name, shape.number): shape for name, shape in past if shape != code.get(name)}
    same = [
        name for name, shape in code.items() if (name, shape.number) in used
        or (name in file and shape != file[name] and shape.number <= file[name].number)
    ]
    old = [name for name in {**code, **file} if code.get(name) != file.get(name)]
    return same, sorted({*old} - {*same})


def complaint(
    code: Mapping[str, Shape], file: Mapping[str, Shape], past: Past = frozenset()
) -> str:
    """What is wrong, and all that a developer has to do; empty where nothing is."""
    same, old = faults(code, file, past)
    if same:
        lines = [
            "", "The shape of these types has changed, and their number has been used before:",
            "", *(f"  {name}, number {code[name].number}\n    {_where(name)}" for name in same),
            "", TODO,
        ]
        return "\n".join(lines)
    if old:
        return "\n".join([
            "", "qa/shapes.txt does not tell of these types as they are now: run `make shapes`",
            "and commit it.", "", *(f"  {name}" for name in old),
        ])
    return ""


def _where(name: str) -> str:
    """Where the number of a type stands, and the line that has it."""
    cls = wholes()[name]
    path = Path(inspect.getsourcefile(cls) or "").relative_to(ROOT)
    lines, first = inspect.getsourcelines(cls)
    at = next((at for at, line in enumerate(lines) if line.strip().startswith("VERSION")), 0)
    return f"{path}:{first + at}: {lines[at].strip()}"


def text_of(shapes: Mapping[str, Shape]) -> str:
    """The file."""
    head = "# The number and shape of every type that is stored or sent: `make shapes` writes it.\n"
    return head + "".join(
        f"{name} {shape.number} {shape.digest}\n" for name, shape in sorted(shapes.items())
    )


def main() -> int:
    """Write the file, unless a number has to be raised first."""
    code, text = now(), FILE.read_text() if FILE.exists() else ""
    if "<<<<<<<" in text:
        print("qa/shapes.txt has marks of a conflict: `git checkout --ours qa/shapes.txt` first")
        return 1
    file, past = kept(text), committed()
    if faults(code, file, past)[0]:
        print(complaint(code, file, past))
        return 1
    FILE.write_text(text_of(code))
    return 0


if __name__ == "__main__":
    sys.exit(main())
