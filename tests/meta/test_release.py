"""What a release has beside the code: notice, citation, forms for issues, the page on security, and its own check."""

import re
from importlib import metadata

import pytest

from tests.helpers.source import ROOT, modules_under
from tools import release_check
from tpack.version import __version__

# Where pickles are loaded, and the words of SECURITY.md for it.
UNPICKLING = {
    "tpack.utils.child_process": "workers that it has started itself",
    "tpack.utils.process_map": "workers that it has started itself",
    "tpack.dataflow.parallel.codec": "workers that it has started itself",
    "tpack.ray": "workers that it has started itself",
    "tpack.horovod.movements": "`broadcast_object` and `allgather_object`",
    "tpack.tf1.contrib.learn.preprocessing": "`VocabularyProcessor.restore`",
    "tpack.utils.formats.pickled_arrays": "a reader that knows arrays, numbers and text alone",
}


def text(name):
    return (ROOT / name).read_text(encoding="utf-8")


def test_pickles_are_loaded_only_where_the_page_on_security_says():
    calls = re.compile(r"pickle\.(loads?|Unpickler)\b|allow_pickle=True")
    found = {module.name for module in modules_under("tpack") if calls.search(module.path.read_text(encoding="utf-8"))}
    assert found == UNPICKLING.keys()
    page = " ".join(text("SECURITY.md").split())
    assert [words for words in UNPICKLING.values() if words not in page] == []


def test_the_notice_names_each_dependency_with_its_licence():
    setup = text("setup.py")
    named = re.search(r"INSTALL_REQUIRES = \[(.*?)\]", setup, re.DOTALL)
    dependencies = ["tensorflow", *re.findall(r'"([a-z]+)"', named[1])]
    listed = dict(re.findall(r"^    (\w+) +(\S.*)$", text("NOTICE"), re.MULTILINE))
    assert list(listed) == dependencies
    # Of packages that declare one; a nightly TensorFlow has another name.
    for package in metadata.distributions():
        name, expression = package.metadata["Name"], package.metadata.get("License-Expression")
        if name in listed and expression:
            assert listed[name].split()[0] in expression, name


def test_the_citation_is_of_this_version():
    citation = dict(re.findall(r"^([\w-]+): (.+)$", text("CITATION.cff"), re.MULTILINE))
    assert (citation["version"], citation["license"]) == (__version__, "Apache-2.0")
    assert f"## [{__version__}] - {citation['date-released']}" in text("CHANGELOG.md")


def test_forms_for_issues_ask_for_the_report_of_the_doctor():
    yaml = pytest.importorskip("yaml", reason="PyYAML is not installed: pip install 'tpack[test]'")
    form = yaml.safe_load(text(".github/ISSUE_TEMPLATE/bug_report.yml"))
    (doctor,) = (part for part in form["body"] if part.get("id") == "doctor")
    assert doctor["validations"] == {"required": True}
    assert "`tpack doctor`" in doctor["attributes"]["label"]


def test_notes_are_the_section_of_a_version():
    changelog = (
        "# Changelog\n\n## [Unreleased]\n\n## [0.2.0] - 2026-01-02\n\n- New.\n\n## [0.1.0] - 2026-01-01\n\n- Old.\n"
    )
    assert release_check.notes(changelog, "0.2.0") == "- New."
    assert release_check.notes(changelog, "0.1.0") == "- Old."
    for version in ("0.3.0", "Unreleased", "0.2"):
        with pytest.raises(ValueError, match=f"has nothing on {version}: expected a section"):
            release_check.notes(changelog, version)
    assert len(release_check.notes(text("CHANGELOG.md"), __version__)) > 100


def test_faults_of_what_is_built_are_named():
    wheel = [f"tpack-1.dist-info{name}" if name.startswith("/") else name for name in release_check.IN_WHEEL]
    sdist = [f"tpack-1/{name}" for name in release_check.IN_SDIST]
    assert release_check.faults(wheel, sdist) == []
    assert release_check.faults([*wheel[1:], "tests/test_x.py"], [*sdist[1:], "tpack-1/tests/x.py"]) == [
        "the wheel has no tpack/__init__.pyi",
        "the wheel has tests/test_x.py",
        "the sdist has no LICENSE",
        "the sdist has tests/x.py",
    ]
