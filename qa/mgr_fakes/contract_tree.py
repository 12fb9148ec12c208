"""Contracts as trees by path, and an answer of Ceph's held against one."""

from __future__ import annotations

import json
from typing import Any, Dict, List, Optional, Union

from .contracts import Paths

_KINDS = {"str": str, "int": int, "number": (int, float), "bool": bool}

Tree = Union[str, Dict[str, Any]]
"""What follows a path: subtrees by the next word, or at its end the type and what follows it."""


def tree_of(paths: Paths) -> Tree:
    """The paths as one tree."""
    if "" in paths:
        return paths[""]
    root: Dict[str, Any] = {}
    for path, leaf in paths.items():
        node, words = root, path.split("/")
        # the names of counters have no slash, but the first two words of a key may
        for word in words[:-1]:
            node = node.setdefault(word, {})
        node[words[-1]] = leaf
    return root


def below(tree: Tree, word: str) -> Optional[Tree]:
    """What follows a word; None where no contract has it."""
    if isinstance(tree, str):
        return None
    found: Optional[Tree] = tree.get(word, tree.get("*"))
    return found


def is_of(tree: Tree, value: Any) -> bool:
    """Whether a value is what a tree says that is there."""
    if isinstance(tree, str):
        kind = _KINDS[tree.split()[0]]
        return isinstance(value, kind) and (kind is bool or not isinstance(value, bool))
    return isinstance(value, list if "[]" in tree else (dict, str))


class Held:
    """An answer held against a tree, for one release.

    `problems` tell what is not as the contract has it; `kept` is the answer without what no
    contract has.
    """

    def __init__(self, tree: Tree, answer: Any, release: int) -> None:
        self._release = release
        self.problems: List[str] = []
        self._some: Dict[str, bool] = {}
        self.kept = self._hold(tree, answer, "")
        self.problems += [f"{path}: nowhere" for path, seen in self._some.items() if not seen]

    def _hold(self, tree: Tree, value: Any, path: str) -> Any:
        if not is_of(tree, value):
            self.problems.append(f"{path}: {type(value).__name__} instead of {tree}"[:200])
            return value
        if isinstance(tree, str):
            return value
        if isinstance(value, str):
            return json.dumps(self._hold(tree, json.loads(value), path))
        if isinstance(value, list):
            return [self._hold(tree["[]"], item, f"{path}/[]") for item in value]
        if "*" in tree:
            return {
                str(key): self._hold(tree["*"], item, f"{path}/*") for key, item in value.items()
            }
        kept = {}
        for word, lower in tree.items():
            where = f"{path}/{word}"
            if self._look_for(lower, word in value, where):
                kept[word] = self._hold(lower, value[word], where)
        return kept

    def _look_for(self, lower: Tree, there: bool, path: str) -> bool:
        """Whether it is there; notes where it must be and is not, or the other way round."""
        marks = set(_marks(lower))
        if "some" in marks:
            self._some[path] = self._some.get(path, False) or there
        elif "?" not in marks and there != self._expected(marks):
            self.problems.append(f"{path}: {'is there' if there else 'is not there'}")
        return there

    def _expected(self, marks: Any) -> bool:
        releases = {int(mark) for mark in marks if mark.isdigit()}
        return not releases or self._release in releases


def _marks(tree: Tree) -> List[str]:
    """What follows the type; of an object what follows all the types in it alike."""
    if isinstance(tree, str):
        return tree.split()[1:]
    each = [_marks(lower) for lower in tree.values()]
    return [mark for mark in each[0] if all(mark in other for other in each)]
