"""Every script, spec and manifest that is printed, held to the letter, with hostile words in it.

`GOLDEN=write` writes the files anew, as for the commands' goldens.
"""

import os
from pathlib import Path

import pytest
from module_world import a_mgr, ok, with_osds_on
from wcache.core.fleet.foreign_rules import Reload
from wcache.deployment.scripts import reloading

FSID = "00000000-0000-4000-8000-000000000001"
FOLDER = Path(__file__).parent / "goldens"
# Texts that end a script, read as a number or as nothing, are longer than a label; and those that
# a shell runs, of which only the reason may stand in the script.
HOSTS = (
    "1e3", "null", "END_OF_WCACHE", f"n{'0' * 61}-.b", "$(reboot)", "h1'; reboot\n- x: {{ y }}",
)
IMAGES = {"of the mgr": {}, "with the probe": {"image": "quay.io:5000/a/b-c_d:v1@sha256:0f"}}


def added(form, **arguments):
    mgr = with_osds_on(a_mgr(), *HOSTS)
    mgr.surroundings.own_image = "quay.io/ceph/ceph:v20.2.4"
    every = {"all": True, "hosts_read": True, "run_by": form}
    texts = [ok(mgr.command("agent add", **every, **arguments))]
    return "\n".join([*texts, ok(mgr.command("agent rm", hostname="1e3", host_is_gone=True)), ""])


def reloads():
    hostile = "x'; reboot; {{ y }}\n\"`z`"
    return reloading([
        Reload("h1", 1, ("dm-0",), to_name=("sda", hostile)), Reload("h1", 2, ("dm-1",)),
        Reload(hostile, 3, ("dm-0",)), Reload("h2", 4, ("md0",), "$(reboot) `z` {{ y }} is md"),
        Reload("h2", 5, ("md1",), "md1 is md", ("sdb", hostile)),
    ], FSID) + "\n"


TEXTS = {
    **{f"{form} {name}": lambda form=form, given=given: added(form, **given)
       for form in ("cephadm", "rook") for name, given in IMAGES.items()},
    "systemd": lambda: added("systemd"),
    "reloading": reloads,
}


@pytest.mark.parametrize("name", TEXTS)
def test_what_is_printed_is_what_was_printed(name):
    text, path = TEXTS[name](), FOLDER / f"{name.replace(' ', '-')}.txt"
    if os.environ.get("GOLDEN") == "write":
        path.write_text(text, encoding="utf-8")
    assert text == path.read_text(encoding="utf-8")


def test_every_golden_belongs_to_a_text():
    names = {f"{name.replace(' ', '-')}.txt" for name in TEXTS}
    assert {path.name for path in FOLDER.iterdir()} == names
