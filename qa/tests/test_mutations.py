"""The mutation run takes nothing for noticed that no test noticed."""

import pytest
from mutations.__main__ import PROJECT, Copy, Mutation, MutationError, load

CODE = "def safe():\n    return True\n"
TEST = "import code_under_test\n\ndef test_it():\n    assert code_under_test.safe()\n"


def result(folder, find, replace, tests=("test_code.py",)):
    """What the run says of one mutation in a project of two files."""
    (folder / "code_under_test.py").write_text(CODE)
    (folder / "test_code.py").write_text(TEST)
    (folder / "conftest.py").write_text("import sys\nsys.path.insert(0, '.')\n")
    said = Copy(folder, ()).result(Mutation("why", "code_under_test.py", find, replace, tests))
    assert (folder / "code_under_test.py").read_text() == CODE
    return said


@pytest.mark.slow
def test_a_mutation_that_fails_a_test_is_noticed(tmp_path):
    assert result(tmp_path, "True", "False") == ""


@pytest.mark.slow
def test_a_mutation_that_fails_no_test_is_named(tmp_path):
    assert result(tmp_path, "True", "1") == "no test fails with it"


@pytest.mark.slow
def test_tests_that_are_not_there_notice_nothing(tmp_path):
    assert "do not run" in result(tmp_path, "True", "False", ("test_code.py::test_gone",))


def test_a_mutation_that_is_no_python_is_refused(tmp_path):
    with pytest.raises(MutationError, match="no Python"):
        result(tmp_path, "True", "(")


@pytest.mark.parametrize("find", ["gone", "e"])
def test_a_text_that_does_not_stand_there_exactly_once_is_refused(tmp_path, find):
    with pytest.raises(MutationError, match="change the mutation along with the code"):
        result(tmp_path, find, "x")


@pytest.mark.parametrize("mutation", load(), ids=lambda mutation: mutation.why)
def test_every_mutation_of_the_list_has_its_text_and_its_tests(mutation):
    """Where code or a test has changed, its mutation in `qa/mutations/lists` is changed along."""
    mutation.apply((PROJECT / mutation.file).read_text())
    for test in mutation.tests:
        path, _, name = test.partition("::")
        text = (PROJECT / path).read_text()
        assert not name or f"def {name.split('[')[0]}(" in text, f"no {test}"
