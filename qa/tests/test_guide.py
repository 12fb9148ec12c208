"""The guide's pages name every command and finding; the reference is made of the code."""

from __future__ import annotations

import ast
import os
import re
import subprocess
from collections import defaultdict
from pathlib import Path

import pytest
from packages_lab import guide
from reference import reference
from wcache.commands.commands import COMMANDS
from wcache.knobs.registry import ADVICE
from wcache.options import DESCRIPTIONS

PROJECT = Path(__file__).resolve().parents[2]
PAGES = (
    "install", "leave", "guide", "paged", "troubleshooting", "mclock", "memory", "rollouts",
    "blank-drives", "web-page",
)
PAGE = {name: (PROJECT / "doc" / f"{name}.md").read_text(encoding="utf-8") for name in PAGES}
# a command may be cut by the end of a line
ALL = " ".join(" ".join(PAGE.values()).split())


@pytest.mark.parametrize("prefix", [command.prefix for command in COMMANDS])
def test_every_command_is_in_the_guide(prefix):
    # the probe's own two are named where its key is made
    assert prefix in ALL


def test_the_reference_is_what_the_code_says():
    page = PROJECT / "doc/reference.md"
    if os.environ.get("GOLDEN") == "write":
        page.write_text(reference(), encoding="utf-8")
    assert page.read_text(encoding="utf-8") == reference()
    for name in (*DESCRIPTIONS, *(c.prefix for c in COMMANDS)):
        assert re.search(rf"`(ceph )?{re.escape(name)}[ `]", page.read_text(encoding="utf-8"))


@pytest.mark.parametrize("code", ADVICE)
def test_every_finding_is_on_the_page_of_who_is_on_call_once(code):
    assert PAGE["paged"].count(f"\n- `{code.value}`: ") == 1


def sections(page):
    """The findings under each heading of a page."""
    return {
        part.partition("\n")[0]: codes for part in re.split(r"^## ", page, flags=re.M)
        if (codes := set(re.findall(r"^- `(WCACHE_\w+)`: ", part, re.M)))
    }


def test_the_page_tells_alerts_as_the_file_of_alerts_has_them():
    text = (PROJECT / "templates/prometheus-alerts.yml").read_text(encoding="utf-8")
    page = PAGE["paged"].partition("## Alerts")[2].partition("\n## ")[0]
    told = dict(re.findall(r"^- `(\w+)` (.*)", page, re.M))
    for name, severity in re.findall(r"alert: (\w+)$.*?severity: (\w+)$", text, re.M | re.S):
        assert told.pop(name).startswith(f"({severity}):")
    assert told == {}
    acting, wrong = list(sections(PAGE["paged"]).values())[:2]
    for name, section in (("WcacheDataAtRisk", acting), ("WcacheNotRestored", wrong)):
        (matched,) = re.findall(rf"alert: {name}$.*?WCACHE_\(([A-Z_|]+)\)", text, re.M | re.S)[:1]
        codes = {f"WCACHE_{code}" for code in matched.split("|")}
        assert codes == section if section is acting else codes < section
        assert all(f"`{code}`" in page for code in codes)


@pytest.mark.slow
def test_what_pages_nobody_is_never_more_than_a_note():
    (notes,) = [found for title, found in sections(PAGE["paged"]).items() if "Notes" in title]
    raised = defaultdict(set)
    for path in (
        *(PROJECT / "mgr_module/wcache").rglob("*.py"),
        *(PROJECT / "osd_probe/wcache_probe").rglob("*.py"),
    ):
        for call in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(call, ast.Call) and ast.unparse(call.func) == "Finding":
                code, severity = map(ast.unparse, call.args[:2])
                raised[code].add(severity)
    assert len(raised) > 30
    for code in ADVICE:
        found = raised[f"FindingCode.{code.name}"]
        if code.value in notes:
            assert found <= {"Severity.INFO"}, code
        else:
            assert found != {"Severity.INFO"}, code


@pytest.mark.parametrize(
    "page", [
        "README.md", "SECURITY.md", "doc/architecture.md", "doc/what-was-shown.md",
        *(f"doc/{one}.md" for one in PAGES),
    ],
)
def test_files_that_a_page_names_are_there(page):
    text = (PROJECT / page).read_text(encoding="utf-8")
    for word in text.replace("`", " ").replace("(", " ").replace(")", " ").split():
        name = word.strip(".,;:")
        if name.startswith(("doc/", "qa/", "vstart-tests/", "mgr_module/", "templates/")):
            assert (PROJECT / name).exists(), f"{page} names {name}"


@pytest.mark.parametrize(
    "page", sorted((PROJECT / "doc").rglob("*.md")), ids=lambda page: page.name
)
def test_pages_and_headings_that_a_page_links_to_are_there(page):
    links = re.findall(r"\]\(([^)#:]*)#?([^):]*)\)", page.read_text(encoding="utf-8"))
    for name, heading in links:
        target = page.parent / name if name else page
        assert target.exists(), name
        assert not heading or heading in anchors(target), f"{name}#{heading}"


def anchors(page):
    """The headings of a page as links name them."""
    titles = re.findall(r"^#+ (.*)$", page.read_text(encoding="utf-8"), re.M)
    return {re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-") for title in titles}


def test_pages_that_a_packaged_page_links_to_are_packaged():
    packaged = (PROJECT / "packaging/debian/ceph-mgr-wcache.docs").read_text().split()
    spec = (PROJECT / "packaging/rpm/wcache.spec.in").read_text()
    pages = [name for name in packaged if name.startswith("doc/")]
    assert [page for page in pages if page not in spec] == []
    for page in pages:
        text = (PROJECT / page).read_text(encoding="utf-8")
        for link in re.findall(r"\]\(([\w/-]+\.md)", text):
            assert f"doc/{link}" in pages, f"{page} links to {link}"


def test_files_that_the_pages_for_maintainers_name_by_their_folder_are_there():
    pages = ("architecture", "add-a-setting")
    text = "".join((PROJECT / f"doc/{page}.md").read_text(encoding="utf-8") for page in pages)
    names = set(re.findall(r"`([a-z_]+/[a-z_/]+\.(?:py|md))`", text))
    homes = [
        PROJECT / home
        for home in ("", "mgr_module/wcache", "osd_probe", "osd_probe/wcache_probe")
    ]
    assert len(names) > 20
    assert [name for name in names if not any((home / name).exists() for home in homes)] == []


CEPH = """#!/bin/sh
echo "ceph $*" >> said
case $(grep -c 'ceph wcache leave' said) in
1) echo 'plan p1 goes back: run the same command again in a moment' >&2; exit 11 ;;
2) echo "echo 'waits: h2' >&2"; echo 'echo h1 >> said' ;;
*) echo "echo 'wcache has left this cluster: ...' >&2"; echo 'echo h2 >> said' ;;
esac
"""
SSH = """#!/bin/sh
PATH=$PWD/$1:$PATH
sh -c "$2"
"""


def program(path, text):
    path.parent.mkdir(exist_ok=True)
    path.write_text(text, encoding="utf-8")
    path.chmod(0o755)


def typed(folder, block):
    """Type the lines of a block; what the programs in `folder` have noted by then."""
    path = f"{folder}:{os.environ['PATH']}"
    subprocess.run(["bash", "-c", "\n".join(block)], cwd=folder, env={"PATH": path}, check=False)
    return (folder / "said").read_text(encoding="utf-8").splitlines()


def test_leave_is_repeated_until_it_has_left_and_keeps_each_script(tmp_path):
    program(tmp_path / "ceph", CEPH)
    program(tmp_path / "sleep", "#!/bin/sh\n")
    (block,) = guide.blocks("Leave", guide.LEAVE)
    call = "ceph wcache leave --back"
    assert typed(tmp_path, block) == [call, call, "h1", call, "h2"]
    kept = (tmp_path / "leave.sh").read_text(encoding="utf-8")
    assert re.findall("echo (h.) >> said", kept) == ["h1", "h2"]


def test_leave_keeps_all_of_a_script_whose_run_ends_early(tmp_path):
    program(tmp_path / "ceph", (
        "#!/bin/sh\n"
        'echo "ceph $*" >> said\n'
        "echo 'exit 1'; echo '# wcache has left'; seq 20000\n"  # more than a pipe holds
    ))
    program(tmp_path / "sleep", "#!/bin/sh\n")
    (block,) = guide.blocks("Leave", guide.LEAVE)
    assert typed(tmp_path, block) == ["ceph wcache leave --back"]
    kept = (tmp_path / "leave.sh").read_text(encoding="utf-8").splitlines()
    assert (kept[0], kept[-1], len(kept)) == ("exit 1", "20000", 20002)


@pytest.mark.parametrize("fails", ["removable", "restore --all", ""])
def test_under_cephadm_a_host_keeps_the_program_and_the_journal_of_what_stands(tmp_path, fails):
    program(tmp_path / "ceph", CEPH)
    program(tmp_path / "ssh", SSH)
    for host in ("h1", "h2", "h3"):
        refuses = f'[ "$*" != "{fails}" ]\n' if host == "h2" else ""
        program(tmp_path / f"root@{host}/wcache-probe", f"#!/bin/sh\n{refuses}")
        program(tmp_path / f"root@{host}/rm", f'#!/bin/sh\necho "{host} $*" >> said\n')
    (block,) = guide.blocks("With cephadm", guide.LEAVE)
    gone = [line.partition(" ")[0] for line in typed(tmp_path, block) if "/var/lib/wcache" in line]
    assert gone == (["h1", "h3"] if fails else ["h1", "h2", "h3"])
