"""The test runner cannot turn a crash, an empty run or a failure into success."""

import importlib.util
import pathlib
import sys

import pytest

pytestmark = pytest.mark.host_only
ROOT = pathlib.Path(__file__).parents[2]
spec = importlib.util.spec_from_file_location("run_tests", ROOT / "tools" / "run_tests.py")
run_tests = importlib.util.module_from_spec(spec)
sys.modules["run_tests"] = run_tests
spec.loader.exec_module(run_tests)

PASSED, FAILED = '<testcase name="a"/>', '<testcase name="b"><failure/></testcase>'
SKIPPED = '<testcase name="c"><skipped/></testcase>'


def run(tmp_path, cases, code=0):
    """A suite that writes `cases` (None: no report at all) and exits with `code`."""
    write = "" if cases is None else f"open(sys.argv[1], 'w').write('<testsuite>{cases}</testsuite>')"
    script = f"import os, sys; {write or 'pass'}; os._exit({code})"
    suite = run_tests.Suite("one", [sys.executable, "-c", script, "{report}"])
    return str(run_tests.run_suite(suite, tmp_path))


def test_cases_are_counted(tmp_path):
    assert run(tmp_path, PASSED + PASSED + SKIPPED) == "2 passed, 0 failed, 1 skipped"
    assert run(tmp_path, PASSED + FAILED, code=1) == "1 passed, 1 failed, 0 skipped"


def test_a_crash_counts_as_a_failure(tmp_path):
    assert run(tmp_path, None, code=139) == "0 passed, 1 failed, 0 skipped"
    assert run(tmp_path, PASSED, code=139) == "1 passed, 1 failed, 0 skipped"


def test_a_run_without_tests_is_a_failure(tmp_path):
    assert run(tmp_path, "") == "0 passed, 1 failed, 0 skipped"
    assert run(tmp_path, SKIPPED) == "0 passed, 1 failed, 1 skipped"


def test_an_old_report_is_not_read_again(tmp_path):
    (tmp_path / "one.xml").write_text(f"<testsuite>{PASSED}</testsuite>")
    assert run(tmp_path, None, code=1) == "0 passed, 1 failed, 0 skipped"


def test_each_suite_has_a_cache_folder_of_its_own(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", "/of/the/user")
    script = (
        "import os, sys; own = os.environ['XDG_CACHE_HOME'] == sys.argv[1]; "
        f"open(sys.argv[2], 'w').write('<testsuite>{PASSED}</testsuite>' if own else '<testsuite/>')"
    )
    suite = run_tests.Suite("two", [sys.executable, "-c", script, str(tmp_path / "cache-two"), "{report}"])
    assert str(run_tests.run_suite(suite, tmp_path)) == "1 passed, 0 failed, 0 skipped"
    assert not (tmp_path / "cache-two").exists()
