"""What every command prints, plain and as JSON, held to the letter, over stories on fake ports.

`GOLDEN=write make check` writes the files anew; read the difference before you commit it.
What is drawn at random (ids of changes and leases) is masked.  Each command succeeds in some story
in both forms, and so with each argument that it declares.
"""

import errno
import json
import os
import re
from collections import defaultdict
from pathlib import Path

import golden_arguments
import golden_stories
import pytest
from golden_stories import records
from mgr_fakes import builders as make
from mgr_fakes.module import FakeMgr
from module_world import a_mgr, ok, settled, start, with_osds_on
from wcache.commands.commands import COMMANDS
from wcache.core.model import DriveModel

FORMS = ("plain", "json-pretty")
LOOK = None  # is shown each mgr with what it has answered
STORIES = {**golden_stories.STORIES, **golden_arguments.STORIES}
# The arguments that each command was given where it succeeded, by its prefix and form.
GIVEN = defaultdict(set)
FOLDER = Path(__file__).parent / "goldens"
LOOKS = (
    ("", {}), ("status", {}), ("drive ls", {}), ("agent ls", {}), ("campaign ls", {}),
    ("recommend", {}), ("load ls", {}), ("plan ls", {}), ("mclock show", {}),
    ("history", {}),
)
# Looked at thrice: before anything is measured, when all is, and when a plan is applied.
LOOKS_NOW_AND_THEN = (
    ("try", {}), ("auto status", {}), ("memory status", {}),
    ("memory recommend", {}), ("memory trial show", {}), ("controller ls", {}),
    ("drive-model ls", {}), ("evidence ls", {}), ("evidence export", {}),
)
# a seed is a number of any length
# A command that stands alone on its line, after its label or in backticks.
_COMMAND = r"(ceph|wcache|wcache-probe|for|echo|sdparm|hdparm|nvme|cat) "
PASTED = re.compile(
    rf" *((next|undo|or|instead, by wcache): +)?({_COMMAND}.*|`{_COMMAND}[^`]*`[.,;:]?)"
)
_RANDOM = re.compile(r'\b[0-9a-f]{8,64}\b|(?<="seed": )\d+|(?<=, seed )\d{4,}')


def masked(text):
    return _RANDOM.sub("<random>", text)


def kept(mgr):
    modes = {name: probe.modes() for name, probe in mgr.probes.items()}
    return dict(mgr.store.kept), dict(mgr.keys.held), modes


def answered(form, mgr, prefix, inbuf="", **arguments):
    """A command and its answer in one form; errors as they come.

    What is a dry run, or lacks a consent, changes nothing.
    """
    before = kept(mgr)
    code, out, error = mgr.command(prefix, inbuf, format=form, **arguments)
    assert kept(mgr) == before or not (arguments.get("dry_run") or code == -errno.EPERM), prefix
    command = f"wcache {prefix}".strip()
    if code == 0:
        GIVEN[command, form.partition("-")[0]].update(("", *arguments))
    if LOOK is not None:
        LOOK(mgr, out)
    return f"$ ceph {command} --format {form}  -> {code}\n{out}{error}\n"


def told(mgr, prefix, **arguments):
    """A command in both forms, as an admin and as a program see it."""
    return "".join(answered(form, mgr, prefix, **arguments) for form in FORMS)


def story(tell, forms):
    """What a story tells, from its beginning in each form."""
    parts = []
    for form in forms:
        tell(lambda *said, form=form, **more: parts.append(answered(form, *said, **more)))
    return "".join(parts)


def looked(mgr, looks=LOOKS):
    return "".join(told(mgr, prefix, **arguments) for prefix, arguments in looks)


def chapters():
    """Name and text of each stage of the main job."""
    mgr = a_mgr()
    now_and_then = [looked(mgr, LOOKS_NOW_AND_THEN)]
    yield "1-nothing-measured", looked(mgr) + told(
        mgr, "campaign start", dry_run=True, loads="depth1"
    ) + told(mgr, "plan") + "".join(
        (told(mgr, "option ls"), told(mgr, "option show", option="scheduler"),
         told(mgr, "option show", option="fua"),
         told(mgr, "ab", option="scheduler=none,kyber"), told(mgr, "ab", option="fua=0,1"))
    )
    campaign_id = start(mgr)
    mgr.step()
    yield "2-measuring", looked(mgr) + told(mgr, "campaign show", campaign_id=campaign_id)
    settled(mgr)
    yield "3-measured", looked(mgr) + told(mgr, "campaign show", campaign_id=campaign_id)
    now_and_then.append(looked(mgr, LOOKS_NOW_AND_THEN))
    ok(mgr.command("plan"))
    yield "4-planned", looked(mgr) + told(mgr, "plan show", plan_id="p1")
    ok(mgr.command("apply", plan_id="p1"))
    settled(mgr)
    yield "5-applied", looked(mgr) + told(mgr, "plan show", plan_id="p1")
    now_and_then.append(
        looked(mgr, LOOKS_NOW_AND_THEN) + told(mgr, "rollout show", plan_id="p1")
    )
    ok(mgr.command("rollback"))
    settled(mgr)
    yield "6-rolled-back", looked(mgr) + told(mgr, "plan show", plan_id="p1")
    yield "7-refused", "".join((
        told(mgr, "plan rm", plan_id="p1"),
        told(mgr, "apply", plan_id="p9"), told(mgr, "rollback", plan_id="p9"),
        told(mgr, "rollback"), told(mgr, "campaign show", campaign_id="c9"),
        told(mgr, "campaign start", scope="osd.99"), told(mgr, "recommend", scope="class:zzz"),
    ))
    yield "8-help", "".join(f"{c.prefix}  [{c.perm}]  {c.help}\n" for c in COMMANDS)
    yield "9-mclock", mclock()
    yield "10-now-and-then", "".join(now_and_then)
    for name, tell in STORIES.items():
        yield name, story(tell, FORMS)
    yield "16-records", story(records, ("plain", "json"))


def at_300_osds():
    """What is grouped where drives are many, from what is measured to the middle of a rollout."""
    mgr = FakeMgr(*(
        (f"h{h:02}", tuple(
            make.drive(
                f"sd{chr(97 + i)}", 10 * h + i, domain_id=f"d{h:02}{i}", drive_id=f"w{h:02}{i}",
                drive_model=DriveModel("ACME", "HD1" if h % 2 else "HD2", "1.0"),
            ) for i in range(10)
        )) for h in range(30)
    ))
    with_osds_on(mgr, "h90", "h91")
    mgr.report_all()
    start(mgr, seed=1)
    settled(mgr)
    parts = [in_short(mgr, prefix, **more) for prefix, more in (*LOOKS, *LOOKS_NOW_AND_THEN)]
    parts += [
        in_short(mgr, "plan"), in_short(mgr, "apply", plan_id="p1", dry_run=True),
        in_short(mgr, "campaign show", campaign_id="c1"), in_short(mgr, "explain", scope="osd.1"),
    ]
    ok(mgr.command("apply", plan_id="p1"))
    mgr.steps(150)
    mgr.now_s += 95.0  # no probe called meanwhile
    parts += [
        in_short(mgr, prefix, **more) for prefix, more in (
            ("plan show", {"plan_id": "p1"}), ("rollout show", {"plan_id": "p1"}),
            ("agent ls", {}), ("status", {}),
        )
    ]
    return "".join(parts)


def in_short(mgr, prefix, **arguments):
    """Plain as it is; of JSON the first row of each long list, and how many follow."""
    code, out, error = mgr.command(prefix, format="json", **arguments)
    short = json.dumps(_first_rows(json.loads(out)), indent=1) if code == 0 else error
    return (
        answered("plain", mgr, prefix, **arguments)
        + f"$ ceph wcache {prefix} --format json  -> {code}\n{short}\n"
    )


def _first_rows(value):
    if isinstance(value, dict):
        return {key: _first_rows(item) for key, item in value.items()}
    if isinstance(value, list):
        more = [f"and {len(value) - 1} more"] if len(value) > 3 else []
        return [_first_rows(item) for item in (value[:1] if more else value)] + more
    return value


def mclock():
    """mClock's capacities from forecast to rollback."""
    mgr = FakeMgr(*((f"h{i}", (make.drive("sda", i),)) for i in range(4)))
    mgr.report_all()
    mgr.config.kept[("osd.0", "osd_mclock_max_capacity_iops_hdd")] = "120.500000"
    mgr.step()
    asked = {"loads": "capacity", "calls": 3}
    parts = [
        told(mgr, "campaign start", dry_run=True, **asked), told(mgr, "campaign start", **asked),
        told(mgr, "plan", knob="mclock"),
    ]
    ok(mgr.command("campaign start", accept_cost=True, **asked))
    mgr.step()
    parts += [told(mgr, "mclock show"), told(mgr, "campaign stop", campaign_id="c1")]
    mgr.step()
    ok(mgr.command("campaign start", accept_cost=True, **asked))
    mgr.settle()
    parts += [told(mgr, "mclock show")]
    ok(mgr.command("plan", knob="mclock"))
    parts.append(told(mgr, "apply", plan_id="p1"))
    mgr.settle()
    parts += [told(mgr, "mclock show")]
    parts += [told(mgr, "plan", knob="mclock"), told(mgr, "rollback")]
    mgr.settle()
    parts += [told(mgr, "mclock show"), told(mgr, "history")]
    return "".join(parts)


@pytest.fixture(scope="module")
def said_now():
    return {name: masked(text) for name, text in chapters()}


NAMES = (
    "1-nothing-measured", "2-measuring", "3-measured", "4-planned", "5-applied",
    "6-rolled-back", "7-refused", "8-help", "9-mclock", "10-now-and-then", *STORIES, "16-records",
)
AT_300 = "24-at-300-osds"
each = pytest.mark.parametrize("name", [*NAMES, pytest.param(AT_300, marks=pytest.mark.slow)])


@pytest.fixture(scope="module")
def said_at_300_osds():
    return {AT_300: masked(at_300_osds())}


@pytest.fixture
def text(request, name):
    """What is told under a name now."""
    return request.getfixturevalue("said_at_300_osds" if name == AT_300 else "said_now")[name]


@each
def test_every_command_prints_what_it_printed(text, name):
    path = FOLDER / f"{name}.txt"
    if os.environ.get("GOLDEN") == "write":
        FOLDER.mkdir(exist_ok=True)
        path.write_text(text)
    assert text == path.read_text()


def wide_lines(text):
    """Lines that are wider than 120 columns, of plain answers: scripts and errors are none."""
    for part in re.split(r"(?m)^(?=\$ ceph )", text):
        command, _, answer = part.partition("\n")
        if command.endswith("--format plain  -> 0") and not answer.startswith(("#", "{")):
            yield from (line for line in answer.split("\n") if len(line) > 120)


@each
def test_only_what_is_pasted_is_wider_than_a_terminal(text, name):
    assert [line for line in wide_lines(text) if not PASTED.fullmatch(line)] == []


def test_each_file_is_of_a_stage():
    assert {path.stem for path in FOLDER.glob("*.txt")} == {*NAMES, AT_300}


def declared(command):
    """The names of a command's arguments."""
    items = (dict(part.split("=", 1) for part in one.split(",")) for one in command.arguments)
    return [item["name"] for item in items]


@pytest.mark.parametrize("form", ["plain", "json"])
def test_every_command_succeeds_with_each_of_its_arguments_in_some_story(said_now, form):
    wanted = {(c.prefix, name) for c in COMMANDS for name in ("", *declared(c))}
    told = {(prefix, name) for prefix, how in GIVEN if how == form for name in GIVEN[prefix, how]}
    assert sorted(wanted - told) == []
