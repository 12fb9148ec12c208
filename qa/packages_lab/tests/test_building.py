"""The packages: the same bytes each time, nothing that lintian finds, the same in deb and rpm."""

from __future__ import annotations

import hashlib
import subprocess

import build_packages
import pytest

pytestmark = pytest.mark.packages

# what each kind of package has of its own
OWN = ("/usr/share/doc/", "/usr/share/licenses/", "/usr/share/python3/", "/usr/share/lintian/")


@pytest.fixture(scope="module")
def rpms(build_tools, tmp_path_factory):
    return build_packages.build_rpms(tmp_path_factory.mktemp("rpms"))


def said(*argv):
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def digests(paths):
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in paths}


def files_of_deb(path):
    listed = subprocess.run(
        ["dpkg-deb", "--fsys-tarfile", str(path)], capture_output=True, check=True
    ).stdout
    names = subprocess.run(["tar", "-t"], input=listed, capture_output=True, check=True).stdout
    return {name[1:] for name in names.decode().split() if not name.endswith("/")}


def installed(names):
    """Paths without what differs by kind: a manual's packing, where units and zsh's files are."""
    plain = (
        name.removesuffix(".gz").replace("/usr/lib/systemd", "/lib/systemd")
        .replace("/zsh/site-functions/", "/zsh/vendor-completions/")
        for name in names
    )
    return {name for name in plain if not name.startswith(OWN)}


def test_lintian_has_nothing_to_say(debs):
    argv = ["lintian", "--allow-root", "--display-info", "--pedantic", "--no-tag-display-limit"]
    assert said(*argv, *map(str, debs.values())) == ""


def test_a_second_build_of_debs_gives_the_same_bytes(debs, tmp_path):
    assert digests(build_packages.build_debs(tmp_path)) == digests(debs.values())


@pytest.mark.long
def test_a_second_build_of_rpms_gives_the_same_bytes(rpms, tmp_path):
    assert digests(build_packages.build_rpms(tmp_path)) == digests(rpms)


@pytest.mark.long
def test_a_deb_holds_what_the_rpm_of_its_name_holds(debs, rpms):
    for path in rpms:
        name = said("rpm", "-qp", "--queryformat", "%{NAME}", str(path))
        listed = said("rpm", "-qpl", str(path)).split()
        folders = {entry.rpartition("/")[0] for entry in listed}
        inside_rpm = installed(set(listed) - folders)
        assert inside_rpm == installed(files_of_deb(debs[name])), name


def test_the_unit_is_one_that_systemd_takes(debs, tmp_path):
    said("dpkg-deb", "-x", str(debs["wcache-probe"]), str(tmp_path))
    unit = tmp_path / "lib/systemd/system/wcache-probe.service"
    # systemd asks for the program where the unit says it is
    unit.write_text(unit.read_text().replace("/usr/bin", f"{tmp_path}/usr/bin"))
    assert said("systemd-analyze", "verify", "--man=no", str(unit)) == ""
    said("systemd-analyze", "security", "--offline=true", "--threshold=70", str(unit))
