"""Every command in every format, and no arguments that let an exception out."""

import errno
import json
import re

import pytest
from examples import examples
from hypothesis import given
from hypothesis import strategies as st
from mgr_fakes.module import FakeMgr
from module_world import a_mgr, measured, refused, with_osds_on
from wcache.commands import commands

# The options of the `ceph` tool itself (ceph/ceph, src/ceph.in, parse_cmdargs()); it takes what
# begins one of them for that one, by argparse's rule of abbreviations.
OF_THE_TOOL = (
    "help", "conf", "in-file", "out-file", "setuser", "setgroup", "id", "user", "name", "cluster",
    "admin-daemon", "status", "watch", "watch-debug", "watch-info", "watch-sec", "watch-warn",
    "watch-error", "watch-channel", "version", "verbose", "concise", "daemon-output-file",
    "format", "connect-timeout", "block", "period",
)


def everything(mgr):
    """Each command with good arguments, in an order in which all of them work."""
    return [
        ("", {}), ("status", {}), ("drive ls", {}), ("drive ls", {"scope": "host:h1"}),
        ("agent ls", {}), ("campaign start", {"dry_run": True}), ("campaign ls", {}),
        ("campaign show", {"campaign_id": "c1"}),
        ("campaign record", {"record_id": "c1.0.0"}), ("recommend", {}),
        ("explain", {"scope": ["model:ACME", "HD1", "1.0"]}), ("explain", {"scope": "osd.0"}),
        ("recommend", {"scope": "class:hdd"}), ("plan", {}), ("plan show", {"plan_id": "p1"}),
        ("plan rm", {"plan_id": "p1", "dry_run": True}),
        ("history", {"limit": 5}), ("apply", {"plan_id": "p1"}),
        ("rollout show", {"plan_id": "p1"}),
        ("rollout abort", {"plan_id": "p1"}),
        ("campaign stop", {"campaign_id": "c1"}), ("rollback", {"plan_id": "p1"}),
        ("freeze", {}), ("leave", {"back": True, "dry_run": True}), ("freeze", {"thaw": True}),
        ("campaign start", {"loads": "timer"}),
        ("plan ls", {}), ("auto", {"mode": "recommend"}), ("auto status", {}),
        ("auto", {"mode": "off"}), ("evidence export", {}), ("evidence ls", {}),
        ("load ls", {}), ("mclock show", {}), ("memory status", {}),
        ("memory recommend", {}),
        ("memory trial show", {}),
        ("try", {"accept_cost": True}), ("try", {}), ("drive-model ls", {}),
        ("controller ls", {}), ("drive reload", {}),
        ("option ls", {}), ("option show", {"option": "scheduler"}),
        ("drive-model trust", {"drive_model": "ACME HD1 1.0", "reason": "data sheet"}),
        ("drive-model trust", {"drive_model": "ACME HD1 1.0", "take_back": True}),
        ("agent add", {"hostname": "h2"}), ("agent rm", {"hostname": "h2"}),
    ]


def test_each_flag_is_explained_since_ceph_prints_no_more_than_its_name():
    for command in commands.COMMANDS:
        if "arguments as for" in command.help:
            continue
        for argument in command.arguments:
            flag = re.search(r"name=(\w+),type=CephBool", argument)
            if flag and flag[1] != "dry_run":  # every such command has it
                option = "--" + flag[1].replace("_", "-")
                assert option in command.help, f"{command.prefix} {option}"


def test_no_option_is_one_that_the_ceph_tool_takes_for_itself():
    named = {
        re.search(r"name=(\w+)", argument)[1].replace("_", "-"): "req=false" in argument
        for command in commands.COMMANDS for argument in command.arguments
    }
    # a target, as in `ceph tell`
    assert "host" not in named
    options = [name for name, optional in named.items() if optional]
    assert len(options) > 10
    assert [(name, own) for name in options for own in OF_THE_TOOL if own.startswith(name)] == []


@pytest.mark.slow
@pytest.mark.parametrize("form", ["plain", "json", "json-pretty", "yaml"])
@pytest.mark.parametrize("state", ["empty", "used"])
def test_every_command_answers_in_every_format(form, state):
    mgr = measured() if state == "used" else FakeMgr()
    tried = set()
    for prefix, arguments in everything(mgr):
        code, out, error = mgr.command(prefix, format=form, **arguments)
        tried.add(f"wcache {prefix}".strip())
        if code == 0:
            assert out
            if form == "yaml":  # JSON where PyYAML is missing
                assert out.startswith("{") or "\n" in out
            elif form != "plain" or prefix == "campaign record":
                versioned = "format_version" in json.loads(out)
                assert versioned or f"wcache {prefix}" in commands.FILES, prefix
        else:
            assert state == "empty"
            assert "\n" not in error
        mgr.settle()
    assert mgr.exceptions == []
    # what needs a probe, a file or a state that is in dispute is tried where those are
    files = {"wcache evidence import", "wcache evidence rm", "wcache memory trial start"}
    # "wcache web token" wants a page (tests/web)
    agent = {*files, "wcache web token", "wcache agent poll", "wcache agent post",
             "wcache drive accept", "wcache rollout pause", "wcache rollout resume",
             "wcache ab"}  # on drives with options (end_to_end)
    assert tried | agent == {command.prefix for command in commands.COMMANDS}


@pytest.mark.parametrize(("prefix", "arguments"), [
    ("campaign show", {"campaign_id": "c9"}), ("campaign record", {"record_id": "../version"}),
    ("campaign stop", {"campaign_id": "c9"}), ("campaign start", {"scope": "osd.999"}),
    ("explain", {"scope": "model:SEAGATE"}), ("plan", {"scope": "class:tape"}),
    ("plan show", {"plan_id": "p9"}), ("apply", {"plan_id": "p9"}),
    ("rollback", {"plan_id": "p9"}), ("rollback", {}),
])
def test_what_there_is_not_gives_one_clear_line(prefix, arguments):
    mgr = a_mgr()
    assert refused(mgr, prefix, errno.ENOENT, **arguments)
    assert mgr.exceptions == []


def test_a_campaign_that_is_named_by_nothing_is_refused():
    mgr = measured()
    assert "--before names no campaign" in refused(
        mgr, "campaign show", errno.EINVAL, campaign_id="c1", before=""
    )
    assert mgr.exceptions == []


NEEDED = {"option": "cache_mode=writethrough", "mode": "off"}


def unloaded():
    mgr = a_mgr()
    mgr.starting = "the stored state cannot be read"
    return mgr


def frozen():
    mgr = a_mgr()
    assert mgr.command("freeze")[0] == 0
    return mgr


STATES = {"well": a_mgr, "frozen": frozen, "no probes": FakeMgr, "unreadable store": unloaded}
# Good ones of those that a command must have.
GOOD = {
    **NEEDED, "hostname": "h1", "domain_id": "domain-sda", "campaign_id": "c1", "before": "c1",
    "after": "c2", "record_id": "c1.0.0", "scope": "class:hdd", "drive_model": "ACME HD1 1.0",
    "reason": "data sheet", "plan_id": "p1", "cluster": "other",
}
GOOD_OF = {"ab": {"option": "nr_requests=64,256"}, "option show": {"option": "scheduler"}}
BAD = {
    "CephBool": ("perhaps", 2), "CephInt": ("many", True), "CephChoices": ("sideways",),
    "CephString": ("a\nb", 7, "x" * 2000),
}
BAD_OF = {
    "scope": ("moon", "osd.x", "rack:1", ""), "loads": ("fio", ",", "capacity,timer"),
    "override": ("luck",), "since": ("yesterday",), "image": ("not an image",),
    "hostname": ("a/b", "../x"), "reason": ("  ",),
    **dict.fromkeys(
        ("pairs", "drives_per_model", "limit", "calls", "osds", "blocks", "period_s", "seed"),
        (-1, 10**12),
    ),
}
TOGETHER = [
    ("campaign start", {"observe": True, "pairs": 8}), ("campaign start", {"calls": 3}),
    ("campaign start", {"loads": "capacity", "recheck": True}),
    ("campaign start", {"loads": "capacity", "calls": 2}), ("agent add", {}),
    ("agent add", {"hostname": "h1", "all": True}),
    ("agent add", {"hostname": "h1", "run_by": "systemd", "image": "quay.io/ceph/ceph:v20"}),
    ("campaign show", {"campaign_id": "c1", "before": "c1"}), ("ab", {"option": "nr_requests"}),
    ("ab", {"option": "nr_requests=64,64"}), ("ab", {"option": "nr_requests=64,9999999"}),
    ("ab", {"option": "nr_requests=64,256", "loads": "timer"}),
    ("ab", {"option": "nr_requests=64,256", "dirty_data": "clean"}),
    ("plan", {"option": "cache_mode=writethrough"}),
    ("plan", {"option": "cache_mode", "knob": "options"}),
    ("plan", {"option": "cache_mode=sideways", "knob": "options"}),
    ("drive-model trust", {"drive_model": "ACME HD1 1.0"}),
    ("plan", {"override": "client_load"}), ("leave", {}), ("leave", {"back": True, "keep": True}),
    ("leave", {"back": True, "host_is_gone": "h1,../x"}),
    ("memory trial start", {"scope": "cluster"}), ("memory trial start", {"scope": "osd.0"}),
    ("mclock show", {"scope": "osd.0"}), ("memory recommend", {"scope": "osd.0"}),
    ("auto", {"mode": "apply", "scope": "host:h1"}), ("status", {"format": "xml"}),
    ("status", {"format": ["json"]}), ("nonsense", {}), ("campaign start", {"pairs": 3}),
    ("plan", {"knob": "memory", "override": "client_load"}),
    ("plan", {"knob": "memory", "override": "autotuner:"}),
    ("explain", {"scope": ["model:a", "b\n"]}), ("explain", {"scope": []}),
    ("agent poll", {"hostname": "a#b"}), ("history", {"limit": 0}),
]


def malformed():
    """Each argument of each command with what it cannot be, beside good ones of the others."""
    for one in commands.COMMANDS:
        declared = [dict(part.split("=", 1) for part in item.split(",")) for item in one.arguments]
        prefix = one.prefix[len("wcache "):]
        good = {
            item["name"]: GOOD_OF.get(prefix, {}).get(item["name"], GOOD[item["name"]])
            for item in declared if item.get("req") != "false"
        }
        for item in declared:
            name = item["name"]
            for bad in (*BAD[item["type"]], *BAD_OF.get(name, ())):
                yield prefix, {**good, name: bad}
            if name in good:
                yield prefix, {key: value for key, value in good.items() if key != name}
    yield from TOGETHER


@pytest.mark.parametrize("state", STATES)
def test_a_malformed_argument_is_told_before_anything_is_looked_at(state):
    mgr, tried = STATES[state](), 0
    for prefix, arguments in malformed():
        code, out, error = mgr.command(prefix, **arguments)
        assert (code, out) == (-errno.EINVAL, ""), (prefix, arguments, error)
        assert error
        assert "\n" not in error
        # the mgr does not check all choices; `ceph tell` and modules may send what they like
        assert "sideways" not in arguments.values() or " must be one of " in error
        tried += 1
    assert tried > 300
    assert mgr.exceptions == []


@pytest.mark.parametrize(("prefix", "arguments", "number"), [
    ("explain", {"scope": "osd.0"}, errno.EAGAIN), ("evidence export", {}, errno.EAGAIN),
    ("plan", {"knob": "options"}, errno.EAGAIN), ("plan", {"knob": "mclock"}, errno.EAGAIN),
    ("memory trial start", {"scope": "class:hdd"}, errno.EAGAIN),
    ("explain", {"scope": "osd.99"}, errno.ENOENT),
    ("option show", {"option": "wishes"}, errno.ENOENT),
    ("ab", {"option": "wishes=1,2"}, errno.ENOENT), ("ab", {"option": "fua=0,1"}, errno.EPERM),
])
def test_what_is_not_yet_there_is_no_unknown_name(prefix, arguments, number):
    assert a_mgr().command(prefix, **arguments)[0] == -number


def test_a_host_of_the_cluster_may_yet_report():
    mgr = with_osds_on(a_mgr(), "h9")
    for prefix in ("drive ls", "drive reload"):
        assert mgr.command(prefix, scope="host:h9")[0] == -errno.EAGAIN
        assert mgr.command(prefix, scope="host:nowhere")[0] == -errno.ENOENT


def test_while_the_stored_state_cannot_be_read_every_command_may_succeed_later():
    mgr = unloaded()
    for prefix, arguments in everything(mgr):
        code, out, error = mgr.command(prefix, **arguments)
        assert (code, out) == (-errno.EAGAIN, ""), prefix
        assert error == "the stored state cannot be read: try again in a moment"


def test_words_for_true_and_false_mean_what_they_say():
    mgr = a_mgr()
    assert mgr.command("campaign start", loads="depth1", accept_cost="false")[0] == -errno.EPERM
    assert mgr.command("campaign start", loads="depth1", accept_cost="true")[0] == 0


def test_an_input_that_a_command_does_not_take_is_ignored():
    assert a_mgr().command("plan ls", inbuf="junk")[0] == 0


FUZZED = a_mgr()


@pytest.mark.slow
@examples(150)
@given(
    st.sampled_from([command.prefix[len("wcache "):] for command in commands.COMMANDS]),
    st.dictionaries(
        st.sampled_from(["hostname", "what", "campaign_id", "record_id", "plan_id", "scope",
                         "loads", "pairs", "seed", "limit", "thaw", "format", "device_class",
                         "persist"]),
        st.one_of(st.text(max_size=6), st.integers(), st.booleans(), st.none(),
                  st.floats(), st.lists(st.text(max_size=2), max_size=2)),
        max_size=4,
    ),
    st.text(max_size=20),
)
def test_no_arguments_whatever_let_an_exception_out(prefix, arguments, inbuf):
    mgr = FUZZED
    code, _, error = mgr.command(prefix, inbuf=inbuf, **arguments)
    assert mgr.exceptions == []
    assert (code == 0) is (error == "")
    assert "\n" not in error
    mgr.settle()
