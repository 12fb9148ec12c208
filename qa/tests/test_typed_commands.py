"""What pages, findings and advice tell people to type is what the programs take."""

from __future__ import annotations

import ast
import re
from pathlib import Path
from typing import Dict, Iterator, List, Tuple

import manual
import pytest
from ceph_ci.module_page import PAGE
from house import tree
from wcache.commands.commands import COMMANDS
from wcache.core.errors import MalformedError
from wcache.core.scope import parse_scope
from wcache.knobs.registry import ADVICE

PROJECT = Path(__file__).resolve().parents[2]
PAGES = [
    *PROJECT.glob("*.md"), *PROJECT.glob("doc/**/*.md"), *PROJECT.glob("packaging/*.md"),
    *PROJECT.glob("templates/*.*"), *PROJECT.glob("mgr_module/wcache/deployment/*.j2"), PAGE,
]
CODE = [
    path for top in ("mgr_module/wcache", "osd_probe/wcache_probe", "cli")
    for path in (PROJECT / top).rglob("*.py")
]
# a toy that a page adds, folders, and what names a family of commands
OTHERWISE = re.compile(
    r"--knob=toy|wcache-probe witness$|wcache agent (poll|post)|memory trial$|\.\.\.$|[<{]"
)
TYPED = re.compile(r"(?:\./|(?:bin/)?(?=ceph ))?(ceph wcache|wcache-probe|wcache)((?: .*)?)$")
SHELL = PROJECT / "mgr_module/wcache/core/text.py"
# what makes commands of templates; whole scripts, each value of which goes through a filter
MAKERS, SCRIPTS = ("command", "typed", "commented"), PROJECT / "mgr_module/wcache/deployment"
# tables of templates, and which word of a row is one: the state that holds, or the command that was
# given, chooses a row, so its template stands in a variable; each row has to be a literal
TABLES = {"STATES": 2, "DONE": 1}
# names of what we ask of Ceph and its orchestrator stand in backticks there, and nothing else
ASKING = [PROJECT / "mgr_module/wcache/ceph" / name for name in ("command.py", "surroundings.py")]
# a command of ours that begins a text or follows a colon, with a hole in it
HOLE = re.compile(
    r"(?:^|[\s:(>])(?:(?:ceph|wcache-probe|kubectl) [a-z]|(?:echo|cat|sdparm|hdparm|nvme|ssacli"
    r"|arcconf|blkdiscard|dd|for f in) )[^`\n]*\0"
)
# of the `ceph` tool itself
CEPHS = ("--format", "--conf", "--cluster", "--keyring", "--name", "-f", "-i", "-h")

ANSWERS = {command.prefix: command for command in COMMANDS}
VERBS: Dict[Tuple[str, str], List[str]] = {
    (parser.prog, name): [word for action in verb._actions for word in action.option_strings]
    for parser in manual.parsers() for name, verb in manual.verbs(parser)
}


def typed(text: str) -> Iterator[Tuple[str, List[str]]]:
    """Each program that a text calls with its words, in inline code and on lines of their own."""
    text = re.sub(r"\\\n\s*", " ", text)
    text = re.sub(r"^ *```.*$", "", text, flags=re.M).replace("``", "`")
    lines = text.splitlines()
    spans = [" ".join(span.split()) for span in re.findall(r"`((?:(?!\n\n)[^`])+)`", text)]
    for line in [*lines, *spans]:
        for part in re.split(r"\s#|[;&)]|\|(?= )|\$\(|\bdo\b", line):
            found = TYPED.match(part.strip())
            if not found or OTHERWISE.search(part.strip()):
                continue
            # a line of prose may begin with the name
            if found[1] == "ceph wcache" or line in spans:
                yield found[1], found[2].split()


def wrong(program: str, words: List[str]) -> str:
    """What the program does not take of its words; '' if it takes all."""
    words = [word.strip("[].,:") for word in words]
    options = [word for word in words if word.startswith("-")]
    first = [word.split("|")[0] for word in words]
    if program == "ceph wcache":
        names = [" ".join(["wcache", *first[:n]]) for n in range(len(words), -1, -1)]
        prefix = next(name for name in names if name in ANSWERS)
        if prefix == "wcache" and words and words[0].islower() and not options:
            return words[0]
        scope = wrong_scope(prefix, words[len(prefix.split()) - 1:])
        if scope:
            return scope
        fields = {part for one in ANSWERS[prefix].arguments for part in one.split(",")}
        takes = [f"--{part[5:].replace('_', '-')}" for part in fields if part.startswith("name=")]
        takes += CEPHS
    else:
        names = [" ".join(first[:n]) for n in range(len(words), 0, -1)]
        verb = next((name for name in names if (program, name) in VERBS), "")
        if not verb:
            return words[0] if words and re.fullmatch(r"[a-z][a-z-]*", words[0]) else ""
        takes = VERBS[program, verb]
    return " ".join(one for one in options if one.partition("=")[0] not in takes)


def wrong_scope(prefix: str, words: List[str]) -> str:
    """The scope among the words after a command's name, where it is none; else ''."""
    command = ANSWERS[prefix]
    names = [one.partition("name=")[2].partition(",")[0] for one in command.arguments]
    here = words[:words.index(">")] if ">" in words else words
    given = dict(zip(names, [
        word for before, word in zip(["", *here], here)
        if not word.startswith("-") and before not in CEPHS
    ]))
    options = [word[8:] for word in words if word.startswith("--scope=")]
    scope = options[0] if options else given.get("scope", "SCOPE")
    try:
        # X is what a template has a hole for
        parse_scope(None if scope in ("SCOPE", "X") else scope.replace("X", "1"), command.terms)
    except MalformedError:
        return scope
    return ""


def mistakes(text: str) -> List[str]:
    """The calls in a text that are none."""
    return [f"{program} {' '.join(words)}" for program, words in typed(text)
            if wrong(program, words)]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_what_a_page_has_people_type_is_taken(page):
    assert mistakes(page.read_text(encoding="utf-8")) == []


@pytest.mark.slow
def test_what_the_programs_advise_is_taken():
    texts = [advice for _, advice in ADVICE.values()]
    # strings that go on in the next line of the source
    texts += [re.sub(r'"\s*\n\s*f?"', "", path.read_text(encoding="utf-8")) for path in CODE]
    assert [line for text in texts for line in mistakes(text)] == []


def unquoted(program: ast.Module) -> List[str]:
    """The commands of a program that are not made in `core/text.py`."""
    found = []
    makers, rows = _makers(program), _of_tables(program)
    for node in ast.walk(program):
        if isinstance(node, ast.JoinedStr):
            text = "".join(map(_shown, node.values))
            typed_ = any("\0" in span for span in text.split("`")[1::2])
            found += [ast.unparse(node)] if typed_ or HOLE.search(text) else []
        call = isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
        name = node.func.id if call else ""
        # not a function of that name that a table of verbs gives
        if name in makers:
            template = node.args[makers[name] == "commented"]
            made = _literal(template) or template in rows
            found += [ast.unparse(node)] if not made else []
        # nor under a name that the lines above do not see
        if isinstance(node, ast.Attribute) and node.attr in MAKERS and (
            isinstance(node.value, ast.Name) and node.value.id == "text"
        ):
            found.append(ast.unparse(node))
        if name == "CommandLine" or (
            isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name)
            and node.value.id == "shlex" and node.attr in ("quote", "join")
        ):
            found.append(ast.unparse(node))
    return found


def _makers(program: ast.Module) -> Dict[str, str]:
    """What makes commands of templates, by its name in a file that imports it."""
    return {
        one.asname or one.name: one.name for node in ast.walk(program)
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[-1] == "text"
        for one in node.names if one.name in MAKERS
    }


def _templates(program: ast.Module, table: str) -> List[ast.expr]:
    """The templates of a table of the file itself, one of each row; none where it has no rows."""
    for node in program.body:
        target = node.targets[0] if isinstance(node, ast.Assign) else getattr(node, "target", None)
        if isinstance(target, ast.Name) and target.id == table:
            rows = node.value.values if isinstance(node.value, ast.Dict) else node.value.elts
            return [row.elts[TABLES[table]] for row in rows]
    return []


def _of_tables(program: ast.Module) -> List[ast.expr]:
    """The variable templates that only a row of a table of literals gives."""
    found = []
    tables = {name: _templates(program, name) for name in TABLES}
    for function in ast.walk(program) if any(tables.values()) else ():
        if not isinstance(function, ast.FunctionDef):
            continue
        names = {one.arg for one in ast.walk(function.args) if isinstance(one, ast.arg)}
        given = {}  # the names that a row is unpacked into
        for node in ast.walk(function):
            row = node.iter if isinstance(node, ast.For) else getattr(node, "value", None)
            row = row.value if isinstance(row, ast.Subscript) else row
            target = node.targets[0] if isinstance(node, ast.Assign) else (
                node.target if isinstance(node, ast.For) else None
            )
            table = row.id if isinstance(row, ast.Name) and row.id in TABLES else ""
            if table and isinstance(target, ast.Tuple) and tables[table] and (
                all(map(_literal, tables[table]))
            ):
                given[target.elts[TABLES[table]].id] = target.elts[TABLES[table]]
        for node in ast.walk(function):
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                names |= {node.id} if node is not given.get(node.id) else set()
        for node in ast.walk(function):
            # its holes have names there
            named = isinstance(node, ast.Call) and ast.unparse(node.func) == "_HOLE.sub" and (
                _literal(node.args[0])
            )
            of = node.args[1] if named else node
            if isinstance(of, ast.Name) and of.id in given and of.id not in names:
                found.append(node)
    return found


def _shown(part: ast.expr) -> str:
    """A part of an f-string; what is no constant of ours is a hole."""
    if isinstance(part, ast.FormattedValue):
        return "X" if _literal(part.value) else "\0"
    return str(part.value) if isinstance(part, ast.Constant) else "\0"


def _literal(template: ast.expr) -> bool:
    """Whether nothing from outside is in a template: constants, of this file or of two."""
    if isinstance(template, ast.BinOp):
        return _literal(template.left) and _literal(template.right)
    if isinstance(template, ast.IfExp):
        return _literal(template.body) and _literal(template.orelse)
    if isinstance(template, ast.Name):
        return template.id.isupper()
    return isinstance(template, ast.Constant) and isinstance(template.value, str)


@pytest.mark.parametrize(
    "path", [path for path in CODE if path not in (SHELL, SCRIPTS / "scripts.py", *ASKING)],
    ids=lambda path: str(path.relative_to(PROJECT)),
)
def test_one_file_makes_the_commands_that_are_printed(path):
    assert unquoted(tree(path)) == []


@pytest.mark.parametrize("source", [
    'f"`ceph wcache explain {what}`"', 'f"next: ceph wcache explain {what}"',
    'f"echo {value} > /sys/block/{name}/queue/x"', 'f"`{line}`"', "shlex.quote(name)",
    'command(f"ceph wcache explain {what}")', "typed(template, word)", "CommandLine(text)",
    'commented(line, f"it was {least}")', "say(template, word)", "text.command(template)",
    # of a table of another file, of one with a row that is made, of a row and then of a parameter
    "def f():\n for _, _, line in STATES: command(line)",
    "STATES = (('', f, ''), ('', f, made()))\ndef f():\n for _, _, line in STATES: command(line)",
    "STATES = (('', f, ''),)\ndef f(line):\n for _, _, line in STATES: command(line)",
    "STATES = (('', f, ''),)\ndef f():\n for _, line, _ in STATES: command(line)",
    "DONE = {'': ('', '')}\ndef f():\n _, line = DONE['']; line = line + what; command(line)",
])
def test_a_command_that_is_made_elsewhere_is_found(source):
    imports = "from ..core.text import command, commented, typed, typed as say"
    assert unquoted(ast.parse(f"{imports}\n{source}"))


@pytest.mark.parametrize("source", [
    'f"{many} of {all}"; typed("ceph wcache explain {}", what)',
    "STATES = (('', f, ''),)\ndef f():\n for _, _, line in STATES: command(line)",
    "DONE = {'': ('', '')}\ndef f():\n _, line = DONE['']; command(_HOLE.sub('{}', line))",
])
def test_a_command_of_literals_is_not(source):
    assert not unquoted(ast.parse(f"from ..core.text import command, typed\n{source}"))


@pytest.mark.slow
def test_who_makes_commands_is_seen():
    """What makes them may move to another file, and the tests above shall not fall silent."""
    trees = [tree(path) for path in CODE]
    assert len([tree for tree in trees if _makers(tree)]) > 40
    assert {name for tree in trees for name in _makers(tree).values()} == {*MAKERS}
    assert {name for tree in trees for name in TABLES if _templates(tree, name)} == {*TABLES}


@pytest.mark.slow
def test_what_templates_make_is_taken():
    holes = re.compile(r"\{\w*\}")
    trees = [tree(path) for path in CODE]
    texts = [
        f"`{holes.sub('X', template.value)}`" for tree in trees for table in TABLES
        for template in _templates(tree, table)
    ]
    assert len(texts) > 30
    texts += [
        f"`{holes.sub('X', node.args[0].value)}`" for tree in trees for node in ast.walk(tree)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
        and node.func.id in MAKERS and node.args and isinstance(node.args[0], ast.Constant)
    ]
    assert len(texts) > 80
    assert [line for text in texts for line in mistakes(text)] == []


def test_mistakes_are_found():
    for text in (
        "`ceph wcache campaign begin`", "  ceph wcache plan --persists\n",
        "`wcache-probe prove sdx --inplace`", "`wcache follow`",
    ):
        assert mistakes(text), text
    assert not mistakes("`ceph wcache apply p1 --persist`, `wcache-probe look`")
    assert sum(len(list(typed(page.read_text(encoding="utf-8")))) for page in PAGES) > 400
