"""Whatever a probe, an OSD or a device class is called, no view prints it outside of quotes.

Each foreign string of a world is hostile, and every command answers over it; what then stands in a
line that is a command, outside of quotes, is what a terminal would run.
"""

import re
from dataclasses import replace

import pytest
from mgr_fakes import builders as make
from mgr_fakes.module import FakeMgr
from module_world import ok, said, settled
from wcache.commands.commands import COMMANDS
from wcache.core.drive.manual import by_hand, turn_off
from wcache.core.figures.prometheus_text import gauge
from wcache.core.hardware import BcacheState, Controller, OptionValue, advice
from wcache.core.model import (
    CacheMode,
    DeviceCache,
    DriveModel,
    Finding,
    FindingCode,
    Severity,
    Transport,
)
from wcache.core.options.entries import OPTIONS
from wcache.core.text import arguments, chained, command, commented, typed
from wcache.knobs.mclock.plan import _cure
from wcache.knobs.options.plan import by_hand as options_by_hand

MARK = "PWND"
WORDS = (
    f"a b;{MARK}", f"$({MARK})", f"`{MARK}`", f"'{MARK}", f"\"{MARK}\"", f"x|{MARK}&", f"#{MARK}",
    f"*{MARK}", f"x;curl${{IFS}}{MARK}|sh;#",
)
# what cannot come in by a report, and must not matter if it does
CONTROL = (f"a\n{MARK}", f"\x1b[2J{MARK}", f"\x00{MARK}", f"a\r{MARK}", f"\u202e{MARK}")
DASHES = (f"-{MARK}", f"--conf={MARK}")
PROGRAM = re.compile(
    r"\b(?:(?:ceph|wcache-probe|kubectl) [a-z]|(?:echo|cat|sdparm|hdparm|nvme|for f in) )"
)


def bare(line):
    """What of a command is outside of quotes; it ends where a backtick outside of them does."""
    out, quote, escaped = "", "", False
    for char in line:
        if escaped:
            escaped = False
        elif char == "\\" and quote != "'":
            escaped = True
        elif quote:
            quote = "" if char == quote else quote
            out += char if quote == '"' else ""  # a shell still runs what is in these
        elif char in "'\"":
            quote = char
        elif char == "`":
            break
        else:
            out += char
    return out


def run_by_a_shell(text):
    """The lines in which a word of ours would be more than a word."""
    found = []
    for line in text.splitlines():
        for start in PROGRAM.finditer(line):
            before = line[: start.start()]
            if MARK in before and bare(before) != before:
                continue  # a hostile word in a sentence looks like a command itself
            if MARK in bare(line[start.start():]):
                found.append(line)
    return found


def spoiled(osd_id, word):
    """A drive of which all words are hostile."""
    found = make.drive(
        "sda", osd_id, domain_id=f"{word[:40]}d", drive_id=f"{word[:40]}w{osd_id}",
        dev_name=word[:30], drive_model=DriveModel(word[:20], word[:20], word[:8]),
        serial=word, wwn=word, wwid=word, host_driver=word[:20], foreign_uses=(),
        bcache=(BcacheState(word[:60], False, word[:16]),),
        findings=(Finding(FindingCode.CARRYOVER, Severity.WARNING, word, word),),
    )
    return replace(found, state=replace(found.state, options=(
        OptionValue("cache_mode", word[:32]), OptionValue("scheduler", word[:32]),
        OptionValue("writeback_rate_minimum", word[:32]), OptionValue("dirty_data", word[:32]),
    )))


def a_world(word):
    mgr = FakeMgr(*((f"h{i}", (spoiled(i, word),)) for i in range(3)))
    mgr.view.state = make.cluster(
        make.osd(i, f"h{i}", device_class=word[:20]) for i in range(3)
    )
    for name in ("osd_mclock_max_capacity_iops_hdd", "osd_memory_target"):
        mgr.config.kept[(f"osd/class:{word[:20]}", name)] = "9.0"
    mgr.report_all()
    mgr.step()
    return mgr


ANSWERS = {
    "plan_id": "p1", "campaign_id": "c1", "what": "p1", "scope": "osd.0",
    "option": "cache_mode=writethrough", "knob": "options", "hostname": "h0", "dry_run": True,
    "loads": "depth1",
}


def answers(mgr):
    """What every command says, without and with each of its arguments."""
    for one in COMMANDS:
        prefix = one.prefix[len("wcache "):]
        names = [part[5:] for item in one.arguments for part in item.split(",")
                 if part.startswith("name=")]
        needed = {part[5:] for item in one.arguments if "req=false" not in item
                  for part in item.split(",") if part.startswith("name=")}
        if prefix.startswith("agent p") or not needed <= set(ANSWERS):
            continue
        wanted = {name: ANSWERS[name] for name in needed}
        for more in ({}, *({name: ANSWERS[name]} for name in names if name in ANSWERS)):
            dry = {"dry_run": True} if "dry_run" in names else {}
            _, out, error = mgr.command(prefix, **{**wanted, **more, **dry})
            yield prefix, f"{out}\n{error}"


@pytest.mark.slow
@pytest.mark.parametrize("word", WORDS)
def test_no_view_prints_a_foreign_word_outside_of_quotes(word):
    mgr = a_world(word)
    texts = [*answers(mgr)]
    said(mgr, "campaign start", loads="depth1", accept_cost=True)
    settled(mgr)
    ok(mgr.command("plan"))
    ok(mgr.command("plan", knob="options", option="cache_mode=writethrough"))
    texts += answers(mgr)
    assert sum(MARK in text for _, text in texts) > 20
    assert [(name, line) for name, text in texts for line in run_by_a_shell(text)] == []


@pytest.mark.parametrize("word", [*WORDS, *CONTROL, *DASHES])
def test_no_command_by_hand_has_a_foreign_word_outside_of_quotes(word):
    lines = []
    for transport in Transport:
        drive = replace(spoiled(0, word), transport=transport)
        for mode in CacheMode:
            state = replace(drive.state, device_cache=DeviceCache(mode.other.value))
            lines += by_hand(replace(drive, state=state), mode)
        lines.append(turn_off("h0", [drive]))
        for entry in OPTIONS:
            if entry.on_host:
                lines += options_by_hand([drive], entry, word, word)
    lines.append(_cure(word))
    for tool in ("ssacli", "arcconf", "storcli"):
        lines += advice(Controller(tool, "0", cache_policy="WB", drive_cache="enabled"))
    assert len(lines) > 60
    assert [line for line in lines if not line.isprintable()] == []
    assert [found for line in lines for found in run_by_a_shell(line) if word not in DASHES] == []


@pytest.mark.parametrize("word", [*WORDS, *CONTROL, *DASHES])
def test_a_word_of_a_template_stays_one_word(word):
    for line in (
        command("ceph wcache explain {}", word), command("cat /sys/block/{}/x", word),
        commented(command("cat x"), "it was {}", word), typed("ceph wcache ab x={},{}", word, 1),
        chained([command("ceph a {}", word), command("ceph b {}", word)]),
        arguments(["ceph", "wcache", "explain", f"x{word}"]),
    ):
        assert line.isprintable()
        assert word in DASHES or run_by_a_shell(line) == [], line
    # one that a program would take for an option names nothing
    assert not re.search(r" ['\"]?-", command("ceph wcache explain {}", word))


@pytest.mark.parametrize("word", [*WORDS, *CONTROL, "A\\", 'A"} 1\\nwcache_x{a="b"} 0 #', "\\n"])
def test_a_label_of_prometheus_holds_the_word_and_nothing_follows_it(word):
    """By the grammar of the text format: https://prometheus.io/docs/instrumenting/."""
    told = gauge("wcache_x", "help", ({"model": word, "device": word}, 1.0))
    *_, sample = told.splitlines()
    assert told.count("\n") == 3
    value = r'"((?:[^"\\\n]|\\[\\"n])*)"'
    found = re.fullmatch(rf"wcache_x\{{model={value},device={value}\}} 1", sample)
    assert found, sample
    clean = "".join(c if c.isprintable() else "?" for c in word)
    assert [re.sub(r"\\(.)", r"\1", one) for one in found.groups()] == [clean, clean]


def test_what_a_shell_would_run_is_found():
    for line in (
        f"next: ceph wcache explain {MARK}", f"see `ceph wcache ab x=1;{MARK}`",
        f"p1.0 by hand on h1: echo 1 > /sys/block/a;{MARK}/x", f'echo "$({MARK})"',
    ):
        assert run_by_a_shell(line), line
    assert not run_by_a_shell(f"the drive {MARK} is fine: `ceph wcache explain '{MARK}'`")
