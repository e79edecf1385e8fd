"""The tests of a change are those of the core, and of the annexes that the change reaches by imports."""

import re

import pytest

from tests.helpers.source import ROOT, modules_under
from tools import select_tests


def test_every_test_is_in_one_ring_and_in_one_job():
    files = select_tests.test_files()
    rings = [select_tests.named([ring]) for ring in ("core", "annexes")]
    jobs = [select_tests.named([job]) for job in (*select_tests.JOBS, "rest")]
    assert sorted(sum(rings, [])) == sorted(sum(jobs, [])) == files
    assert jobs[0] == rings[0]
    assert min(map(len, jobs)) > 10


def test_the_workflow_runs_every_job():
    workflow = (ROOT / ".github" / "workflows" / "test.yml").read_text(encoding="utf-8")
    (parts,) = re.findall(r"^ +part: \[(.+)\]$", workflow, re.M)
    assert parts.split(", ") == [*select_tests.JOBS, "rest"]


def test_ring_of_a_test_is_that_of_what_it_mirrors():
    core = [module for module in modules_under("tpack") if select_tests.is_core(str(module))]
    assert {module.name for module in core} > {"tpack", "tpack.errors", "tpack.tower.context", "tpack.train.trainer"}
    assert select_tests.is_core("tests/train/test_trainer.py")
    assert not select_tests.is_core("tests/cli/test_main.py")
    assert not select_tests.is_core("tests/test_ray.py")


@pytest.mark.parametrize(
    ("changed", "in_it", "not_in_it"),
    [
        # A test sees itself, helpers of its helpers, its module, and a module of the core that its annex imports.
        ("tests/cli/test_watch.py", "tests/cli/test_watch.py", "tests/cli/test_plot.py"),
        ("tests/helpers/preloaded.py", "tests/cli/test_profile.py", "tests/tf1/test_package.py"),
        ("tpack/cli/watch.py", "tests/cli/test_watch.py", "tests/estimator/test_spec.py"),
        ("tpack/graph_builder/base.py", "tests/integration/test_equivalence.py", "tests/cli/test_watch.py"),
        # What is behind that module is the core's business.
        ("tpack/tower/devices.py", "tests/distribute/test_strategies_mirrored.py", "tests/cli/test_plot.py"),
        # Outside of the package, and in no graph.
        ("examples/digits.py", "tests/integration/test_digits.py", "tests/cli/test_watch.py"),
        ("tests/tf1/data/names_1_15.txt", "tests/tf1/test_package.py", "tests/cli/test_watch.py"),
    ],
)
def test_a_change_reaches_the_annexes_that_import_it(changed, in_it, not_in_it):
    found = select_tests.reached([changed])
    assert in_it in found
    assert not_in_it not in found


def test_changes_of_documents_reach_no_annex_and_those_of_the_installation_all():
    assert select_tests.reached(["docs/start.md", "README.md"]) == []
    assert select_tests.reached(["setup.py"]) == select_tests.named(["annexes"])


def test_command_line_selects(monkeypatch):
    monkeypatch.setattr(select_tests, "changed_files", lambda: ["tests/cli/test_watch.py"])
    core = select_tests.named(["core"])
    assert select_tests.main([]) == [*core, "tests/cli/test_watch.py"]
    assert select_tests.main(["--all"]) == ["tests"]
    assert select_tests.main(["tower"]) == [file for file in core if file.startswith("tests/tower/")]
    assert select_tests.main(["tests/cli/runs", "test_errors.py"])[-1] == "tests/test_errors.py"
    with pytest.raises(SystemExit, match="select_tests got 'towers': expected annexes, core, tf1, processes, rest"):
        select_tests.main(["towers"])


def test_changed_files_are_compared_with_the_main_branch(monkeypatch):
    answers = {"merge-base HEAD origin/main": [], "merge-base HEAD main": ["abc"], "diff --name-only abc": ["a.py"]}
    answers["ls-files --others --exclude-standard"] = ["new.py"]
    monkeypatch.setattr(select_tests, "_git", lambda *arguments: answers[" ".join(arguments)])
    assert select_tests.changed_files() == ["a.py", "new.py"]
    answers |= {"merge-base HEAD main": [], "diff --name-only HEAD": ["b.py"]}
    assert select_tests.changed_files() == ["b.py", "new.py"]
