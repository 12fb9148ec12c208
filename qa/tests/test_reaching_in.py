"""How far files reach into what is not theirs: counted, and never more than the last time.

A figure that falls is written down here with the change that made it fall.
"""

import ast
from functools import cache
from pathlib import Path

from house import tree

ROOT = Path(__file__).resolve().parents[2] / "mgr_module" / "wcache"
ENGINE = ROOT / "engine" / "engine.py"
# A knob's own files; whoever else imports one of them names that knob.
KNOBS = tuple(f"knobs/{one}" for one in ("cache_mode", "mclock", "memory", "options"))

# What the engine has for anybody, who need not have its lock.
FREE = {"clock", "config", "kept_blocks", "ports", "trial_kinds", "wake"}

REACHES_MAX = 0  # 475 before there was a World
ROOMS_MAX = 0  # 14, in the rooms of the knobs
ASKING_MAX = 0  # 29


def files(*folders):
    return sorted(path for folder in folders for path in (ROOT / folder).rglob("*.py"))


@cache
def methods_of_the_engine():
    """What it does when asked; properties and attributes are what it has."""
    engine = next(node for node in tree(ENGINE).body if isinstance(node, ast.ClassDef))
    return {
        node.name for node in engine.body
        if isinstance(node, ast.FunctionDef) and "property" not in map(ast.unparse,
                                                                       node.decorator_list)
    }


def is_engine(node):
    return (isinstance(node, ast.Name) and node.id == "engine") or (
        isinstance(node, ast.Attribute) and node.attr == "_engine"
    )


def reaches_of(module):
    return [
        node for node in ast.walk(module)
        if isinstance(node, ast.Attribute) and is_engine(node.value)
        and node.attr not in methods_of_the_engine() | FREE
    ]


def reaches(path):
    """Each use of something that the engine has."""
    name = path.relative_to(ROOT)
    return [f"{name}:{node.lineno}: engine.{node.attr}" for node in reaches_of(tree(path))]


def knobs_named(path):
    """The folders of knobs that a file imports from."""
    here = path.relative_to(ROOT).parent.parts
    found = set()
    for node in ast.walk(tree(path)):
        if isinstance(node, ast.ImportFrom) and node.level:
            base = here[:len(here) - node.level + 1]
            name = "/".join((*base, *(node.module or "").split(".")))
            found |= {knob for knob in KNOBS if f"{name}/".startswith(f"{knob}/")}
    return found


def asks_what_is_under_way(path):
    """Where a file goes through all runs or plans for those that are not over."""
    def asked(node):
        about, words = ast.unparse(node.iter), " ".join(map(ast.unparse, node.ifs))
        return ("runs." in about or "rollouts." in about) and any(
            word in words for word in (".over", ".under_way", ".moving", ".holds_lease")
        )

    name = path.relative_to(ROOT)
    return [
        f"{name}:{node.iter.lineno}" for node in ast.walk(tree(path))
        if isinstance(node, ast.comprehension) and asked(node)
    ]


def is_a_knobs(path):
    return any(path.is_relative_to(ROOT / knob) for knob in KNOBS)


def test_services_and_commands_reach_into_the_engine_no_more_than_they_did():
    found = [line for path in files("services", "commands") for line in reaches(path)]
    assert len(found) == REACHES_MAX, "\n".join(found)


def test_nobody_else_reaches_into_the_engine():
    module, rooms = [ROOT / "module.py"], files("knobs")
    found = [line for path in [*module, *files("ceph", "web", "core")] for line in reaches(path)]
    assert found == []
    found = [line for path in rooms for line in reaches(path)]
    assert len(found) == ROOMS_MAX, "\n".join(found)


def test_the_registry_alone_names_knobs():
    found = [
        str(path.relative_to(ROOT)) for path in files(".")
        if not is_a_knobs(path) and knobs_named(path)
    ]
    assert found == ["knobs/registry.py"]


def test_one_place_knows_whether_anything_is_under_way():
    place = ROOT / "engine" / "under_way.py"
    found = [
        line for path in files("engine", "services", "commands") if path != place
        for line in asks_what_is_under_way(path)
    ]
    assert len(found) == ASKING_MAX, "\n".join(found)
    assert asks_what_is_under_way(place)


def test_what_the_engine_has_is_told_from_what_it_does():
    lines = ("self._engine.hosts.reports", "engine.world()", "engine.clock()", "engine.lock")
    found = reaches_of(ast.parse("\n".join(lines)))
    assert sorted(node.attr for node in found) == ["hosts", "lock"]
