"""What pages, findings and advice tell people to type is what the programs take."""

from __future__ import annotations

import ast
import re
from pathlib import Path
from typing import Dict, Iterator, List, Tuple

import manual
import pytest
from ceph_ci.module_page import PAGE
from wcache.commands.commands import COMMANDS
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
# names of what we ask of Ceph and its orchestrator stand in backticks there, and nothing else
ASKING = [PROJECT / "mgr_module/wcache/ceph" / name for name in ("command.py", "surroundings.py")]
# a command of ours that begins a text or follows a colon, with a hole in it
HOLE = re.compile(
    r"(?:^|[\s:(>])(?:(?:ceph|wcache-probe|kubectl) [a-z]|(?:echo|cat|sdparm|hdparm|nvme|ssacli"
    r"|arcconf|blkdiscard|dd|for f in) )[^`\n]*\0"
)
# of the `ceph` tool itself
CEPHS = ("--format", "--conf", "--cluster", "--keyring", "--name", "-f", "-i", "-h")

ANSWERS = {command.prefix: command.arguments for command in COMMANDS}
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
        fields = {part for one in ANSWERS[prefix] for part in one.split(",")}
        takes = [f"--{part[5:].replace('_', '-')}" for part in fields if part.startswith("name=")]
        takes += CEPHS
    else:
        names = [" ".join(first[:n]) for n in range(len(words), 0, -1)]
        verb = next((name for name in names if (program, name) in VERBS), "")
        if not verb:
            return words[0] if words and re.fullmatch(r"[a-z][a-z-]*", words[0]) else ""
        takes = VERBS[program, verb]
    return " ".join(one for one in options if one.partition("=")[0] not in takes)


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


def unquoted(source: str) -> List[str]:
    """The commands of a source that are not made in `core/text.py`."""
    found = []
    tree = ast.parse(source)
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            text = "".join(map(_shown, node.values))
            typed_ = any("\0" in span for span in text.split("`")[1::2])
            found += [ast.unparse(node)] if typed_ or HOLE.search(text) else []
        call = isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
        name = node.func.id if call else ""
        # not a function of that name that a table of verbs gives
        if name in MAKERS and "shell import" in source:
            template = node.args[name == "commented"]
            found += [ast.unparse(node)] if not _literal(template) else []
        if name == "CommandLine" or (
            isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name)
            and node.value.id == "shlex" and node.attr in ("quote", "join")
        ):
            found.append(ast.unparse(node))
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
    assert unquoted(path.read_text(encoding="utf-8")) == []


@pytest.mark.parametrize("source", [
    'f"`ceph wcache explain {what}`"', 'f"next: ceph wcache explain {what}"',
    'f"echo {value} > /sys/block/{name}/queue/x"', 'f"`{line}`"', "shlex.quote(name)",
    'command(f"ceph wcache explain {what}")', "typed(template, word)", "CommandLine(text)",
    'commented(line, f"it was {least}")',
])
def test_a_command_that_is_made_elsewhere_is_found(source):
    assert unquoted(f"from ..core.shell import command\n{source}")
    assert not unquoted('f"{many} of {all}"; typed("ceph wcache explain {}", what)')


@pytest.mark.slow
def test_what_templates_make_is_taken():
    holes = re.compile(r"\{\}")
    texts = [
        f"`{holes.sub('X', node.args[0].value)}`" for path in CODE
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
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
