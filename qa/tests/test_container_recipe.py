"""The recipe of the container: what it copies is there, and lies where packages put it."""

import ast
from pathlib import Path

import zipapps

PROJECT = Path(__file__).resolve().parents[2]
RECIPE = (PROJECT / "packaging" / "container" / "Containerfile").read_text()
PLACES = {
    "mgr_module/wcache": "/usr/share/ceph/mgr/wcache",
    "out/wcache-probe": "/usr/bin/wcache-probe",
}


def test_an_older_python_can_read_the_first_lines_of_a_program_which_say_so():
    for name in zipapps.APPS:
        starter = zipapps.contents(name)["__main__.py"].decode()
        check, imports, _ = ast.parse(starter, feature_version=(3, 4)).body[1:]
        assert isinstance(check, ast.If)
        assert isinstance(imports, ast.ImportFrom)


def test_it_copies_the_module_and_the_probe_to_where_packages_have_them():
    copied = dict(line.split()[1:] for line in RECIPE.splitlines() if line.startswith("COPY"))
    assert copied == PLACES
    assert (PROJECT / "mgr_module" / "wcache" / "module.py").is_file()
    # an executable file stays one when it is copied
    assert "wcache-probe" in zipapps.APPS


def test_the_image_starts_the_probe_itself_so_that_a_stop_reaches_it():
    # a shell in between would be the one that gets SIGTERM
    assert 'ENTRYPOINT ["/usr/bin/wcache-probe"]' in RECIPE
    assert "STOPSIGNAL SIGTERM" in RECIPE
