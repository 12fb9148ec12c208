"""Ceph is as `qa/mgr_fakes/contracts.py` says, which unit tests hold the module and fakes to."""

from __future__ import annotations

import ast
import json
import os
from pathlib import Path
from typing import Any, Dict, Iterator

import pytest
from harness import Cluster, CommandError
from harness.modules import link_module
from harness.processes import wait_until
from mgr_fakes.contracts import METHODS

pytestmark = pytest.mark.cluster

MODULE = Path(__file__).with_name("wcache_contracts")
STUB = Path(__file__).parents[1] / "mgr_module" / "stubs" / "mgr_module.pyi"
# What the module gives to the mgr, and does not ask of it.
OURS = {"__init__", "handle_command", "COMMANDS", "MODULE_OPTIONS"}
SUBINTERPRETERS = "mgr_subinterpreter_modules"
# With WCACHE_KEEP_ANSWERS=1 what Ceph says replaces what unit tests have of it.
ANSWERS = Path(__file__).parents[1] / "qa" / "mgr_fakes" / "answers"


@pytest.fixture
def found(own_cluster: Cluster) -> Iterator[Dict[str, Any]]:
    """What the module found; on 20 with each module in an interpreter of its own."""
    host = own_cluster.command("osd metadata", id=0)["hostname"]
    own_cluster.command("osd set-group", flags="noout", who=[host])
    if own_cluster.release >= 20:
        own_cluster.command("config set", who="mgr", name=SUBINTERPRETERS, value="*")
    # the mgr that starts for it finds it; the one before knew of no such module
    link_module(own_cluster.module_folder, MODULE)
    gid = own_cluster.active_gid()
    own_cluster.command("mgr module enable", module=MODULE.name, force="--force")
    own_cluster.wait_new_mgr(gid)
    said: Dict[str, Any] = {}

    def held() -> bool:
        try:
            said.update(own_cluster.command("wcache_contracts held", target="mgr"))
        except CommandError:
            return False
        return True

    wait_until(held, 90, 0.3)
    yield said
    own_cluster.command("osd unset-group", flags="noout", who=[host])
    if own_cluster.release >= 20:
        own_cluster.command("config rm", who="mgr", name=SUBINTERPRETERS)
    (own_cluster.module_folder / MODULE.name).unlink()
    own_cluster.disable_module(MODULE.name)


def test_every_method_command_and_path_is_as_the_contracts_say(found: Dict[str, Any], release: int):
    assert found, "the module has told nothing: see the mgr's log"
    if os.environ.get("WCACHE_KEEP_ANSWERS") == "1":
        lines = [f"{json.dumps(key)}: {json.dumps(answer, sort_keys=True)}"
                 for key, answer in sorted(found["answers"].items())]
        text = "{\n" + ",\n".join(lines) + "\n}\n"
        (ANSWERS / f"{release}.json").write_text(text, encoding="utf-8")
    assert found["problems"] == []
    assert found["release"] == release
    assert found["alone"], "it shares an interpreter"


def test_what_mypy_knows_of_a_mgr_has_contracts():
    (mgr,) = (
        node for node in ast.parse(STUB.read_text(encoding="utf-8")).body
        if isinstance(node, ast.ClassDef) and node.name == "MgrModule"
    )
    known = {
        node.name: tuple(arg.arg for arg in node.args.args[1:])
        for node in mgr.body if isinstance(node, ast.FunctionDef)
    }
    known.update({
        ast.unparse(node.target): () for node in mgr.body if isinstance(node, ast.AnnAssign)
    })
    assert {name: METHODS.get(name) for name in set(known) - OURS} == {
        name: arguments for name, arguments in known.items() if name not in OURS
    }
