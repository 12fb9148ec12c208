"""What pages, findings and advice tell people to type is what the programs take."""

from __future__ import annotations

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
    *PROJECT.glob("templates/*.*"), PAGE,
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


def test_what_the_programs_advise_is_taken():
    texts = [advice for _, advice in ADVICE.values()]
    # strings that go on in the next line of the source
    texts += [re.sub(r'"\s*\n\s*f?"', "", path.read_text(encoding="utf-8")) for path in CODE]
    assert [line for text in texts for line in mistakes(text)] == []


def test_mistakes_are_found():
    for text in (
        "`ceph wcache campaign begin`", "  ceph wcache plan --persists\n",
        "`wcache-probe prove sdx --inplace`", "`wcache follow`",
    ):
        assert mistakes(text), text
    assert not mistakes("`ceph wcache apply p1 --persist`, `wcache-probe look`")
    assert sum(len(list(typed(page.read_text(encoding="utf-8")))) for page in PAGES) > 400
