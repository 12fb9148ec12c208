"""What cephadm makes of our specs can be started by podman."""

import subprocess

import pytest
import yaml
from wcache.deployment.scripts import script

# cephadm's own arguments come first (cephadmlib/container_types.py), and the last one counts.
CEPHADMS = ["--init"]


def install(program_inside=False):
    return script(
        "cephadm", hostnames=["h1"], image="image", program_inside=program_inside,
        ceph_user_id=64045,
    ).text


def remove():
    return script("removal", form="cephadm", hostname="h1", gone=False).text


def test_the_clusters_folder_goes_to_cephs_user():
    (spec,) = yaml.safe_load_all(
        install().partition("---\n")[2].partition("END_OF_WCACHE")[0]
    )
    assert (spec["spec"]["uid"], spec["spec"]["gid"]) == (64045, 64045)


def test_a_probes_container_has_no_init_where_it_has_the_hosts_processes():
    """Podman: "cannot add init binary as PID 1 (PID namespace isn't private)"."""
    (spec,) = yaml.safe_load_all(
        install().partition("---\n")[2].partition("END_OF_WCACHE")[0]
    )
    given = [*CEPHADMS, *spec["extra_container_args"]]
    init = [each for each in given if each.partition("=")[0] == "--init"][-1]
    assert "--pid=host" in given
    assert init == "--init=false"


def test_what_was_made_on_a_host_is_removed_there_and_only_once_it_is_not_prepared():
    made = install()
    (removal,) = [line for line in remove().splitlines() if "unprepare" in line]
    for path in ("/run/wcache", "/etc/tmpfiles.d/wcache.conf"):
        assert path in made
        assert path in removal.partition("wcache-probe unprepare; } && rm -rf ")[2]


def run(script, folder, **programs):
    """Run a script with these programs and no others; its end, and what it has `ceph` do."""
    folder.mkdir()
    programs.setdefault("ceph", 'echo "$@" >>"$0.asked"; cat >/dev/null')
    for name, text in programs.items():
        (folder / name).write_text(f"#!/bin/sh\n{text}\n")
        (folder / name).chmod(0o755)
    done = subprocess.run(
        ["/bin/sh", "-c", script], env={"PATH": f"{folder}:/nowhere"}, input="",
        capture_output=True, text=True, check=False,
    )
    asked = folder / "ceph.asked"
    return done, asked.read_text() if asked.exists() else ""


def test_a_host_that_cannot_be_prepared_gets_its_probe_and_is_named(tmp_path):
    made = install()
    cat = "exec /bin/cat"
    done, asked = run(made, tmp_path / "refused", ssh="exit 1", cat=cat)
    assert "orch client-keyring set client.wcache.h1 h1" in asked
    assert "orch apply -i -" in asked
    assert done.stderr == "NOT done on: h1\n"
    assert done.returncode == 1
    done, asked = run(made, tmp_path / "prepared", ssh="exit 0", cat=cat)
    assert "orch client-keyring set client.wcache.h1 h1" in asked
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("verb", ["prepare", "unprepare"])
def test_a_host_without_the_program_needs_none_where_the_image_has_it(tmp_path, verb):
    made = {"prepare": install(program_inside=True), "unprepare": remove()}
    (line,) = [line for line in made[verb].splitlines() if f"wcache-probe {verb}" in line]
    on_host = "! command -v" + line.partition("! command -v")[2].partition(";")[0].split('"')[0]
    done, _ = run(on_host, tmp_path / "without")
    assert (done.returncode, done.stderr) == (0, "")
    for code in (0, 1):
        probe = {"wcache-probe": f'[ "$1" = {verb} ] && exit {code}; exit 9'}
        done, _ = run(on_host, tmp_path / f"with{code}", **probe)
        assert done.returncode == code
