"""What `leave` and `agent rm` print is run: a host whose part fails holds up no other.

And what asks the mgrs for something has to run while the module is still there.
"""

import subprocess

import pytest
from module_world import a_mgr, ok, with_osds_on
from test_leaving import leave, with_ends, with_keys
from wcache.core.errors import NotReadyError

HOSTS = ("h1", "h2", "h3")
CEPH = """#!/bin/sh
echo "ceph $*" >>"$ASKED"
case "$*" in *"orch ps"*wcache-h1*) echo '[{"daemon_id": "wcache-h1"}]' ;; esac
"""
SSH = """#!/bin/sh
echo "ssh $2" >>"$ASKED"
"""


def printed(form, command="leave", **arguments):
    """The script of a mgr to whose hosts the probes were brought."""
    mgr = with_osds_on(a_mgr(), *HOSTS)
    ok(mgr.command("agent add", all=True, hosts_read=True, run_by=form, image="ceph"))
    return ok(mgr.command(command, **arguments))


def run(script, folder, **programs):
    """Run it by a shell that waits for nothing; what it ended with and what it has asked for."""
    asked = folder / "asked"
    asked.write_text("", encoding="utf-8")
    for name, text in {"ceph": CEPH, "ssh": SSH, "sleep": "#!/bin/sh\n", **programs}.items():
        (folder / name).write_text(text, encoding="utf-8")
        (folder / name).chmod(0o755)
    done = subprocess.run(
        ["/bin/sh"], input=script, capture_output=True, text=True, timeout=60, check=False,
        env={"PATH": f"{folder}:/usr/bin:/bin", "ASKED": str(asked)},
    )
    return done, asked.read_text(encoding="utf-8").splitlines()


def test_a_probe_that_never_goes_holds_up_neither_the_other_hosts_nor_the_disable(tmp_path):
    script = printed("cephadm", keep=True)
    assert "\necho 'wcache has left" in script, "doc/leave.md looks for it there"
    done, asked = run(script, tmp_path)
    assert done.returncode != 0
    assert "the probe of h1 still runs" in done.stderr
    assert done.stderr.splitlines()[-1] == "NOT done on: h1"
    assert [line for line in asked if "ssh" in line or "keyring" in line] == [
        line for host in ("h2", "h3")
        for line in (f"ceph orch client-keyring rm client.wcache.{host}", f"ssh root@{host}")
    ]
    assert asked[-1] == "ceph mgr module disable wcache"


def test_a_host_that_failed_in_an_earlier_script_of_the_file_is_named_at_its_end(tmp_path):
    script = printed("cephadm", keep=True)
    done, _ = run(f"{script}\n{script.replace('h1', 'h4')}", tmp_path)
    assert (done.returncode, done.stderr.splitlines()[-1]) == (1, "NOT done on: h1")


@pytest.mark.parametrize("refuses", ["ssh", "ceph"])
def test_a_host_that_does_not_answer_and_mons_that_refuse_are_told_at_the_end(refuses, tmp_path):
    text = {
        "ssh": "#!/bin/sh\n[ $2 != root@h2 ]\n",
        "ceph": '#!/bin/sh\n[ "$1" != mgr ]\n',
    }
    done, _ = run(printed("cephadm", keep=True), tmp_path, **{refuses: text[refuses]})
    last = {"ssh": "NOT done on: h1 h2", "ceph": "NOT done on: the mgrs"}[refuses]
    assert (done.returncode, done.stderr.splitlines()[-1]) == (1, last)


@pytest.mark.parametrize("gone", [True, False])
def test_nothing_waits_for_the_container_of_a_host_that_is_gone(gone, tmp_path):
    for command, said in (
        ("leave", {"keep": True, "host_is_gone": "h1" if gone else None}),
        ("agent rm", {"hostname": "h1", "host_is_gone": gone}),
    ):
        done, asked = run(printed("cephadm", command, **said), tmp_path)
        assert (done.returncode == 0) is gone, done.stderr
        waited = [line for line in asked if "orch ps" in line and "wcache-h1" in line]
        assert (not waited) is gone
        assert ("ssh root@h1" in asked) is gone


def test_a_script_that_asks_the_mgrs_for_something_disables_it_at_its_end():
    mgr = a_mgr()
    ok(mgr.command("agent add", hostname="h1", run_by="systemd"))
    ok(mgr.command("agent add", hostname="h2", run_by="cephadm", image="ceph"))
    ends = with_ends(mgr)
    told = leave(mgr, keep=True)
    assert (told["left"], ends) == (True, [])
    disable, told_of = told["script"].splitlines()[-2:]
    assert disable.partition(" || ")[0] == told["next"].partition("  #")[0]
    assert "NOT done on" in told_of


def test_a_script_that_asks_the_mgrs_is_not_cut_off_by_a_later_call():
    mgr = a_mgr()
    ok(mgr.command("agent add", hostname="h2", run_by="cephadm", image="ceph"))
    ends = with_ends(mgr)
    mgr.store.fails = lambda key: key == "version"
    assert "ceph orch rm" in leave(mgr, keep=True)["script"]
    mgr.store.fails = lambda key: False
    told = leave(mgr, keep=True)
    assert (told["left"], told["hosts"], ends) == (True, [], [])
    assert told["script"].startswith("ceph mgr module disable wcache || ")


def test_what_hosts_are_to_run_is_printed_though_the_options_are_still_there():
    mgr = with_keys(a_mgr())

    def refuse():
        raise NotReadyError("the mons gave no answer to `config dump` within 30 s")

    mgr.service.leaving._drop_options = refuse
    told = leave(mgr, back=True)
    assert told["hosts"] == ["h1", "h2"]
    assert "client.wcache.h1.keyring" in told["script"]
    assert not told["left"]
    assert "config dump" in told["waits"][0]
    mgr.service.leaving._drop_options = lambda: 0
    assert leave(mgr, back=True)["left"]
