"""An option names the interpreter of the analysis; what anybody could have put there is not run."""

import os
import sys

import pytest
from wcache.engine.evidence.analysis_child import why_not


@pytest.fixture
def program(tmp_path):
    """A program in a folder that only we can write."""
    folder = tmp_path / "bin"
    folder.mkdir(mode=0o755)
    found = folder / "python3"
    found.write_text("#!/bin/sh\n")
    found.chmod(0o755)
    return found


def test_the_interpreter_that_runs_these_tests_may_be_run(program):
    assert why_not(sys.executable) == ""
    assert why_not(str(program)) == ""


def test_a_path_that_is_no_program_is_refused(program):
    assert "not an absolute path" in why_not("python3")
    assert "cannot be looked at" in why_not("/nowhere/python3")
    assert "cannot be looked at" in why_not("/bin/sh\0x")
    assert "not a program" in why_not(str(program.parent))
    program.chmod(0o644)
    assert "not a program" in why_not(str(program))


@pytest.mark.parametrize("which", ["file", "folder", "folder above"])
def test_what_others_can_write_is_refused(program, which):
    place = {"file": program, "folder": program.parent, "folder above": program.parent.parent}
    place[which].chmod(0o777)
    said = why_not(str(program))
    assert str(place[which]) in said
    assert "can be written by others" in said


def test_a_link_is_judged_by_every_place_it_leads_through(program, tmp_path):
    between = tmp_path / "between"
    between.mkdir(mode=0o755)
    (between / "hop").symlink_to(program)
    link = program.parent / "link"
    link.symlink_to("../between/hop")
    assert why_not(str(link)) == ""
    between.chmod(0o777)
    assert str(between) in why_not(str(link))
    between.chmod(0o1777)  # where only the owner of an entry can replace it
    assert why_not(str(link)) == ""
    circle = tmp_path / "circle"
    circle.symlink_to("circle")
    assert "cannot be looked at" in why_not(str(circle))


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file away")
def test_what_belongs_to_somebody_else_is_refused(program):
    os.chown(program, 12345, 0)
    assert "belongs to neither root nor the mgr's user" in why_not(str(program))


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file away")
def test_a_group_of_others_that_can_write_is_others(program):
    program.chmod(0o775)
    os.chown(program, 0, 0)
    assert why_not(str(program)) == ""
    os.chown(program, 0, 12345)
    assert "can be written by others" in why_not(str(program))
