"""`agent add` makes limited keys and prints one paste; `agent rm` leaves nothing changed behind."""

import errno
import re
import subprocess
import threading
from contextlib import nullcontext
from dataclasses import replace

import pytest
from mgr_fakes import builders as make
from mgr_fakes.module import FakeMgr
from module_world import a_mgr, applied, fine, ok, refused, said, settled, start, with_osds_on
from wcache.ceph.command import CommandFailed
from wcache.core.drive.saved_off import how_to_name
from wcache.core.errors import Refusal, RefusalKind
from wcache.core.host_report import JournalNote, KeptPrior
from wcache.core.model import CacheMode, CachePage, Transport
from wcache.services.deploying import KeyWork

IMAGE = "quay.io/ceph/ceph:v20.2.4"
FORMS = ("cephadm", "rook", "systemd")
EVERY = {"all": True, "hosts_read": True}


def contained(mgr, namespace=""):
    """The mgr runs in a container."""
    mgr.surroundings.own_image, mgr.surroundings.own_namespace = IMAGE, namespace
    return mgr


def texts(mgr):
    """Everything that the module keeps or tells: the store, the log and all that looks."""
    told = [mgr.command(name, format="json")[1] for name in ("status", "history", "agent ls")]
    return " ".join([*told, *(mgr.store.get(key) or "" for key in mgr.store.keys(""))])


def test_each_host_gets_a_key_for_its_own_two_commands():
    mgr = a_mgr()
    data = said(mgr, "agent add", **EVERY)
    assert [row["key"] for row in data["hosts"]] == ["made", "made"]
    assert set(mgr.keys.held) == {"client.wcache.h1", "client.wcache.h2"}
    caps = mgr.keys.held["client.wcache.h1"]
    assert caps["mon"] == "profile crash"
    assert re.findall('"([^"]*)" with hostname=([a-z0-9]*)', caps["mgr"]) == [
        ("wcache agent poll", "h1"), ("wcache agent post", "h1"),
    ]


def off(name, osd_id, saved=CacheMode.WRITE_THROUGH):
    """A SAS drive that is off and that the boot rule does not name."""
    state = replace(make.state(CacheMode.WRITE_THROUGH), page=CachePage(True, None, saved))
    drive = make.drive(name, osd_id, state=state, transport=Transport.SAS)
    return replace(drive, refusals=(Refusal(RefusalKind.NOT_PREPARED, how_to_name(drive)),))


def test_it_says_which_drives_a_pin_will_make_flush_and_which_are_left_as_they_are():
    by_itself, saves_nothing = off("sdb", 1), off("sdc", 2, saved=None)
    named_before, journalled = replace(off("sdd", 3), refusals=()), off("sde", 4)
    mgr = FakeMgr(("h1", (saves_nothing, by_itself, named_before, journalled)))
    probe = mgr.probes["h1"]
    report, kept = probe.report, (KeptPrior("d", CacheMode.WRITE_BACK),)
    note = JournalNote("a", journalled.domain_id, drives=kept)
    probe.report = lambda: replace(report(), journal=(note,))
    mgr.report_all()
    notes = said(mgr, "agent add", hostname="h1", run_by="systemd")["notes"]
    assert "h1: left as they are: sdb" in notes
    (line,) = [line for line in notes if line.startswith("h1: off, and flushed all the same")]
    assert "sdc, sdd, sde;" in line
    assert "pays for a flush" in ok(mgr.command("agent add", hostname="h1", run_by="systemd"))


@pytest.mark.parametrize("form", FORMS)
def test_again_nothing_is_changed_and_the_same_is_printed(form):
    mgr = contained(a_mgr())
    first = said(mgr, "agent add", run_by=form, **EVERY)
    stored = texts(mgr)
    again = said(mgr, "agent add", run_by=form, **EVERY)
    assert again["script"] == first["script"]
    assert {row["key"] for row in again["hosts"]} <= {"there", "rook"}
    assert texts(mgr) == stored
    mgr.restart()
    assert said(mgr, "agent ls")["agents"][0]["form"] == form


@pytest.mark.parametrize(
    ("backend", "namespace", "form"),
    [("", "", "systemd"), ("cephadm", "", "cephadm"), ("", "rook-ceph", "rook"),
     ("rook", "", "rook"), ("test_orchestrator", "", "systemd")],
)
def test_who_runs_the_clusters_daemons_is_found_and_said(backend, namespace, form):
    mgr = contained(a_mgr(), namespace)
    mgr.surroundings.backend = backend
    data = said(mgr, "agent add", hostname="h1")
    assert data["form"] == form
    assert form in ok(mgr.command("agent add", hostname="h1")).splitlines()[1]
    assert said(mgr, "agent add", hostname="h1", **{"run_by": "systemd"})["form"] == "systemd"


@pytest.mark.parametrize("hostname", [
    "$(reboot)", "a;b", "a b", "-oProxyCommand=x", "h1\n- x", '"', "a'b", "`x`", "..", "",
    "END_OF_WCACHE\nrm", "x" * 254, "h#1", "h/1",
])  # fmt: skip
@pytest.mark.parametrize("form", FORMS)
def test_a_host_name_that_means_something_to_a_shell_comes_into_no_script(hostname, form):
    mgr = contained(with_osds_on(a_mgr(), hostname))
    data = said(mgr, "agent add", run_by=form, **EVERY)
    assert [row["hostname"] for row in data["hosts"]] == ["h1", "h2"]
    assert len(data["left_out"]) == (1 if hostname else 0)  # an OSD may name no host at all
    plain = ok(mgr.command("agent add", run_by=form, **EVERY))
    done = subprocess.run(
        ["/bin/sh"], input=plain, capture_output=True, text=True, timeout=20, check=False,
        env={"PATH": "/nonexistent"},
    )
    assert not hostname or "left out: " in done.stderr  # told, and every character of it
    assert done.stdout == ""
    code, out, error = mgr.command("agent add", hostname=hostname, **{"run_by": form})
    assert (code, out) == (-errno.EINVAL, "")
    assert "\n" not in error


@pytest.mark.parametrize(
    ("image", "namespace", "word"),
    [("x; reboot", "", "image"), ("-v", "", "image"), ("", "", "--image"),
     (IMAGE, "a b", "namespace"), (IMAGE, "A", "namespace")],
)
def test_what_the_mgr_has_of_its_container_is_checked_too(image, namespace, word):
    mgr = a_mgr()
    mgr.surroundings.own_image, mgr.surroundings.own_namespace = image, namespace
    for form in ("cephadm", "rook") if not namespace else ("rook",):
        error = refused(mgr, "agent add", hostname="h1", **{"run_by": form})
        assert word in error


def test_no_key_is_in_any_answer_log_or_store():
    mgr = contained(a_mgr())
    secret = "AQDsecretsecretsecret=="

    class Leaky:
        def make(self, entity, caps):
            raise CommandFailed(f"{entity} cannot be made")

        def remove(self, entity):
            raise ValueError(secret)

    answers = [ok(mgr.command("agent add", run_by=form, **EVERY)) for form in FORMS]
    mgr.service.agents._keys = KeyWork(Leaky())
    answers.append(refused(mgr, "agent rm", errno.EAGAIN, hostname="h1"))
    assert secret not in " ".join(answers) + texts(mgr)
    assert "key =" not in " ".join(answers) + texts(mgr)


def test_a_host_without_osds_is_refused_by_name():
    error = refused(a_mgr(), "agent add", errno.ENOENT, hostname="nowhere")
    assert "h1, h2" in error
    refused(a_mgr(), "agent add", errno.EINVAL, hostname="h1", **{"run_by": "docker"})
    refused(a_mgr(), "agent add", errno.EINVAL, hostname="h1", image=IMAGE)


@pytest.mark.parametrize(("form", "name"), [("cephadm", "Host_1"), ("rook", "Host_1")])
def test_a_name_that_the_orchestrator_cannot_have_is_left_out(form, name):
    mgr = contained(with_osds_on(a_mgr(), name))
    data = said(mgr, "agent add", run_by=form, **EVERY)
    assert [row["hostname"] for row in data["hosts"]] == ["h1", "h2"]
    assert name in data["left_out"][0]
    refused(mgr, "agent add", errno.EINVAL, hostname=name, **{"run_by": form})
    ok(mgr.command("agent add", hostname=name, **{"run_by": "systemd"}))


def test_a_cephadm_that_cannot_is_told_of():
    mgr = contained(a_mgr())
    mgr.surroundings.backend = "cephadm"
    mgr.surroundings.takes_arguments = False
    assert "--run-by systemd" in refused(mgr, "agent add", errno.EPERM, **EVERY)


def test_mons_that_refuse_are_told_of_and_nothing_counts_as_added():
    mgr = a_mgr()
    mgr.keys.error = "the mons refused `auth get`: access denied"
    assert "access denied" in refused(mgr, "agent add", errno.EAGAIN, **EVERY)
    assert said(mgr, "agent ls")["agents"][0]["form"] == ""
    error = refused(mgr, "agent rm", errno.EAGAIN, hostname="h1")
    assert "the key is still there" in error
    assert [a["hostname"] for a in said(mgr, "agent ls")["agents"]] == ["h1", "h2"]


def test_mons_that_are_slow_keep_nobody_waiting_for_long():
    mgr = a_mgr()
    held = mgr.service.agents._keys = KeyWork(mgr.keys, wait_s=0.0)
    original, gate = mgr.keys.make, threading.Event()

    def slow(entity, caps):
        gate.wait(20)
        return original(entity, caps)

    mgr.keys.make = slow
    data = said(mgr, "agent add", hostname="h1")
    assert data["hosts"][0]["key"] == "pending"
    gate.set()
    held._wait_s = 20.0
    assert said(mgr, "agent add", hostname="h1")["hosts"][0]["key"] == "there"


def test_a_host_that_was_added_is_shown_before_it_is_heard():
    mgr = with_osds_on(FakeMgr(), "h7")
    assert "agent add --all" in ok(mgr.command("agent ls"))
    ok(mgr.command("agent add", hostname="h7"))
    assert "never" in ok(mgr.command("agent ls"))
    (row,) = said(mgr, "agent ls")["agents"]
    assert (row["hostname"], row["heard_s_ago"], row["form"]) == ("h7", None, "systemd")
    ok(mgr.command("agent rm", hostname="h7"))
    assert said(mgr, "agent ls")["agents"] == []


def test_whoever_is_faster_than_the_first_probe_is_told_to_wait():
    mgr = with_osds_on(FakeMgr(), "h7")
    for command in ("try", "campaign start"):
        assert "agent add --all" in refused(mgr, command, errno.EAGAIN)
    ok(mgr.command("agent add", hostname="h7"))
    for command in ("try", "campaign start"):
        assert "wait some seconds" in refused(mgr, command, errno.EAGAIN)


# ---- rm


def test_removing_a_host_ends_what_is_measured_there_and_restores_first():
    mgr = a_mgr()
    ok(mgr.command("agent add", **EVERY))
    start(mgr)
    while not mgr.probes["h1"].leased:
        mgr.step()
    way = {"hostname": "h1", "host_is_gone": True, "dry_run": True}
    assert "end run c1." in ok(mgr.command("agent rm", **way))
    assert mgr.probes["h1"].leased
    error = refused(mgr, "agent rm", errno.EAGAIN, hostname="h1")
    assert "run the same command again" in error
    assert "client.wcache.h1" in mgr.keys.held
    mgr.steps(20)
    assert mgr.probes["h1"].leased == {}
    data = said(mgr, "agent rm", hostname="h1")
    assert data["stays"] == []
    assert set(mgr.keys.held) == {"client.wcache.h2"}
    mgr.settle()
    fine(mgr)


@pytest.mark.slow
def test_an_applied_change_keeps_its_host_until_it_is_rolled_back():
    mgr = applied()
    error = refused(mgr, "agent rm", errno.EPERM, hostname="h1")
    assert "`ceph wcache rollback p1`" in error
    assert "sda is write through" in error
    ok(mgr.command("rollback"))
    settled(mgr)
    assert said(mgr, "agent rm", hostname="h1")["stays"] == []


@pytest.mark.slow
def test_a_dead_host_has_to_be_called_gone_and_what_stays_is_listed():
    mgr = applied()
    del mgr.probes["h1"]
    mgr.now_s += 600.0
    error = refused(mgr, "agent rm", errno.EAGAIN, hostname="h1")
    assert "has not called" in error
    assert "--host-is-gone" in error
    data = said(mgr, "agent rm", hostname="h1", host_is_gone=True)
    assert [line for line in data["stays"] if "sda remains in write through" in line]
    assert "wcache-probe prepare" in data["stays"][-1]
    assert "wcache-probe unprepare" in data["script"]


def test_a_journal_that_is_not_empty_keeps_its_host():
    mgr = a_mgr()
    report = mgr.inside.hosts.reports["h1"]
    note = JournalNote("action/p9.0", "domain-sda")
    mgr.inside.hosts.reports["h1"] = replace(report, journal=(note,))
    assert refused(mgr, "agent rm", errno.EPERM, hostname="h1")


# ---- the scripts are run, with stand-ins for what they call


def run(script, folder, fails=""):
    """Run it in a shell whose ssh, ceph and kubectl write down what they are asked for."""
    asked = folder / "asked"
    asked.write_text("")
    for name in ("ssh", "ceph", "kubectl"):
        tool = folder / name
        tool.write_text(
            f'#!/bin/sh\necho "{name} $*" >>{asked}\n'
            f'case "{name} $*" in *"{fails or "no such thing"}"*) exit 1;; esac\n'
            + ("" if name == "ceph" else "[ \"$1\" = -n ] || cat >/dev/null\n")
        )
        tool.chmod(0o755)
    done = subprocess.run(
        ["/bin/sh"], input=script, capture_output=True, text=True, timeout=60, check=False,
        env={"PATH": f"{folder}:/usr/bin:/bin"},
    )
    return done, asked.read_text().splitlines()


@pytest.mark.parametrize("form", FORMS)
def test_a_script_that_is_piped_to_a_shell_does_it_all_and_tells_its_notes(form, tmp_path):
    mgr = contained(a_mgr())
    done, asked = run(ok(mgr.command("agent add", run_by=form, **EVERY)), tmp_path)
    assert (done.returncode, "NOT done" in done.stderr) == (0, False), done.stderr
    word = {"cephadm": "1 GiB", "rook": "First", "systemd": "root has ssh"}[form]
    assert word in done.stderr
    assert asked
    done, asked = run(ok(mgr.command("agent rm", hostname="h1")), tmp_path)
    assert (done.returncode, "NOT done" in done.stderr) == (0, False), done.stderr
    assert asked


@pytest.mark.parametrize(("form", "fails"), [
    ("systemd", "root@h1"), ("cephadm", "root@h1"), ("cephadm", "orch apply"), ("rook", "apply"),
])  # fmt: skip
def test_a_host_that_cannot_be_reached_fails_the_script_and_not_the_others(form, fails, tmp_path):
    script = ok(contained(a_mgr()).command("agent add", run_by=form, **EVERY))
    done, asked = run(script, tmp_path, fails)
    assert done.returncode == 1
    assert "NOT done on:" in done.stderr
    assert form == "rook" or any("root@h2" in line for line in asked)


def on_host(script, folder, prepared=True):
    """Run there what a script of systemd's form asks of the host, with stand-ins; its result."""
    _, asked = run(script.replace("/etc/ceph", str(folder)), folder)
    (there,) = [line for line in asked if line.startswith("ssh ")]
    for name, code in (("wcache-probe", 0 if prepared else 1), ("systemctl", 0)):
        told = f'echo "{name} $*" >>{folder}/done'
        (folder / name).write_text(f"#!/bin/sh\n{told}\nexit {code}\n")
        (folder / name).chmod(0o755)
    # the command, as the shell there would get it
    return subprocess.run(
        ["/bin/sh", "-c", there.partition("root@h1 ")[2]], input="[client]\n",
        capture_output=True, text=True, timeout=60, check=False,
        env={"PATH": f"{folder}:/usr/bin:/bin"},
    )


@pytest.mark.parametrize("prepared", [True, False])
def test_a_host_that_cannot_be_prepared_gets_its_probe_and_is_told_of(prepared, tmp_path):
    script = ok(a_mgr().command("agent add", hostname="h1", run_by="systemd"))
    done = on_host(script, tmp_path, prepared)
    assert (done.returncode == 0) is prepared
    assert (tmp_path / "done").read_text().splitlines() == [
        "wcache-probe prepare", "systemctl enable --now wcache-probe",
    ]


@pytest.mark.parametrize("before", [None, ".keyring", ".keyring.new"])
def test_nobody_else_can_read_the_key_whatever_was_there_before(before, tmp_path):
    if before is not None:
        old = tmp_path / f"ceph.client.wcache.h1{before}"
        old.write_text("old")
        old.chmod(0o644)
    script = ok(a_mgr().command("agent add", hostname="h1", run_by="systemd"))
    with old.open() if before is not None else nullcontext() as reader:
        assert on_host(script, tmp_path).returncode == 0
        assert reader is None or reader.read() == "old"
    (keyring,) = tmp_path.glob("*.keyring*")
    assert keyring.name == "ceph.client.wcache.h1.keyring"
    assert keyring.read_text() == "[client]\n"
    assert keyring.stat().st_mode & 0o777 == 0o600


def test_a_host_whose_key_was_not_made_is_named_and_left_out_of_the_script(tmp_path):
    mgr = contained(a_mgr())
    make = mgr.keys.make

    def refuses(entity, caps):
        if entity.endswith(".h1"):
            raise CommandFailed("access denied")
        return make(entity, caps)

    mgr.keys.make = refuses
    for form in ("systemd", "cephadm"):
        done, asked = run(ok(mgr.command("agent add", run_by=form, **EVERY)), tmp_path)
        assert "NO KEY for h1" in done.stderr
        assert not [line for line in asked if "h1" in line]


def test_with_cephadm_the_host_is_cleaned_once_the_service_is_gone(tmp_path):
    mgr = contained(a_mgr())
    ok(mgr.command("agent add", run_by="cephadm", **EVERY))
    done, asked = run(ok(mgr.command("agent rm", hostname="h1")), tmp_path)
    assert done.returncode == 0, done.stderr
    order = [line.split("container.wcache-h1")[0] for line in asked if "wcache-h1" in line]
    assert order == ["ceph orch rm ", "ceph orch ps --service_name "]
    assert "wcache-probe unprepare" in asked[-1]
