"""Where input from outside is read, by what stands in the code: no parser is forgotten.

Each function below that calls one of `READS` has to be entered by the inputs that some target
begins with, unless `WITHOUT` says why it needs none.
"""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path
from typing import Any, Dict, Iterator, List, Set, Tuple

ROOT = Path(__file__).resolve().parents[2]
FOLDERS = ("mgr_module/wcache", "osd_probe/wcache_probe", "cli/wcache_cli", "qa/wcache_sim")
READS = {
    "json.loads", "loads", "codec.loads", "versions.loads", "codec.decode", "versions.take",
    "int.from_bytes", "command.parse",
}
READS_OF_ANY = {  # whatever stands before the dot
    "parse_json", "raw_decode", "read_text", "read_table", "read_bytes", "read_number", "read_own",
    "read_of", "read_handle", "text_blocks", "parse_args", "parse_qsl", "unpack", "unpack_from",
    "decompress", "b64decode", "unquote_to_bytes",
}
PARSERS = ("prometheus_text",)
MODULE, PROBE = "mgr_module/wcache", "osd_probe/wcache_probe"
WITHOUT = {
    f"{MODULE}/ceph/view.py CephView._look": "the mgr's own words, from its own memory",
    f"{MODULE}/core/codec.py loads": "its two parts are entered, and only tests call it",
    f"{MODULE}/core/experiment/factorial.py order": "a digest that it makes itself",
    f"{MODULE}/core/experiment/matrix.py cells_of": "a digest that it makes itself",
    f"{MODULE}/engine/evidence/analysis_child.py AnalysisChild._exchange":
        "a pipe to a child that runs our own code; parse_json reads it",
    f"{MODULE}/web/dashboard_login.py DashboardLogin._answer":
        "a connection; parse_json reads what comes, and `ceph` has what is made of it",
    f"{PROBE}/journal/journal_file.py LeaseMarker.has":
        "looks for a drive's id among the lines of a file of root's",
    f"{PROBE}/journal/journal_file.py StateFolder.holder": "a struct that fcntl(2) fills",
    f"{PROBE}/linux/persistence/prepare.py Preparer.clear_images":
        "compares a file with the rule that was written, and makes nothing of it",
    f"{PROBE}/linux/transports/nvme.py _submit": "a struct that the kernel fills",
    f"{PROBE}/linux/transports/sg_io.py _submit": "a struct that the kernel fills",
    f"{PROBE}/linux/transports/nvme.py _why_remote": "compares a word of the kernel",
    f"{PROBE}/mgr_link.py encode_post": "reads what was written the line before",
}

Function = Tuple[str, int]


@cache
def reading() -> Dict[Function, str]:
    """Every such function: (file, first line) and its name."""
    found: Dict[Function, str] = {}
    for folder in FOLDERS:
        for path in sorted((ROOT / folder).rglob("*.py")):
            name = str(path.relative_to(ROOT))
            for function, line, called in _calls(ast.parse(path.read_text()), ""):
                if called in READS or called.rpartition(".")[2] in READS_OF_ANY:
                    found[name, line] = function
    return found


def _calls(node: ast.AST, inside: str, line: int = 0) -> Iterator[Tuple[str, int, str]]:
    """(function, its first line, what it calls) of each call in a function."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, (ast.FunctionDef, ast.ClassDef)):
            within = f"{inside}.{child.name}".lstrip(".")
            first = min([child.lineno, *(one.lineno for one in child.decorator_list)])
            yield from _calls(child, within, first if isinstance(child, ast.FunctionDef) else line)
            continue
        if isinstance(child, ast.Call) and line:
            yield inside, line, ast.unparse(child.func)
        yield from _calls(child, inside, line)


def others() -> List[str]:
    """All modules that none of these functions is in, as Python names them.

    `PARSERS` are given what others have read.
    """
    have = {name for name, _ in reading()}
    every = [
        str(path.relative_to(ROOT)) for folder in FOLDERS for path in (ROOT / folder).rglob("*.py")
    ]
    return [
        name.split("/", 1)[1][: -len(".py")].replace("/", ".").replace(".__init__", "")
        for name in every if name not in have and not name[: -len(".py")].endswith(PARSERS)
    ]


class Entered:
    """For sys.settrace: which functions were entered, and nothing of what they do."""

    def __init__(self) -> None:
        self.codes: Set[Any] = set()

    def __call__(self, frame: Any, _event: str, _argument: Any) -> None:
        """A call; its lines are not told."""
        self.codes.add(frame.f_code)

    def of_project(self) -> Set[Function]:
        """Those of the project, as `reading` names them."""
        top = f"{ROOT}/"
        return {
            (code.co_filename[len(top):], code.co_firstlineno) for code in self.codes
            if code.co_filename.startswith(top)
        }
