"""The documentation is whole: its pages are in the navigation, built ones have every name, and its code is code.

`scripts/docs` runs the code and builds the site; here is what can be seen without either.
"""

import importlib
import inspect
import re
import subprocess

import pytest

import tpack
from tests.helpers.source import ROOT, assert_none
from tools.docs import api_pages, built_pages, docs_code, docs_pages, trainer_pictures, travel_picture
from tools.docs.docs_pages import DOCS, LANGUAGES
from tpack.compat.private_names import NEWEST, OLDEST, TESTED

SITE = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")


def test_every_page_is_in_the_navigation_once():
    listed = re.findall(r"^ +- (?:.*: )?([\w./]+\.md)$", SITE, re.M)
    listed += [path for entry in built_pages.reference() for path in entry.values()]
    kept = [str(path.relative_to(DOCS)) for path in DOCS.rglob("*.md")]
    assert sorted(listed) == sorted([*kept, *built_pages.files()])


def test_pages_name_the_versions_that_are_taken():
    setup = (ROOT / "setup.py").read_text(encoding="utf-8")
    pythons = re.findall(r"Programming Language :: Python :: (3\.\d+)", setup)
    pages = ["README.md", "docs/index.md", "docs/start.md", "docs/coming_from_tensorpack.md", "docs/versions.md"]
    texts = {page: (ROOT / page).read_text(encoding="utf-8") for page in pages}
    assert_none(page for page, text in texts.items() if f"TensorFlow {TESTED}" not in text)
    assert f"Python {pythons[0]} to {pythons[-1]}" in texts["docs/versions.md"]
    rows = re.findall(r"^\| (2\.\d+)[.\w]* \| (3\.\d+)\.\d+ \|", texts["docs/versions.md"], re.M)
    assert {"{}.{}".format(*version) for version in (OLDEST, NEWEST)} <= {row[0] for row in rows}
    assert {pythons[0], pythons[-1]} <= {row[1] for row in rows}


def test_built_pages_are_not_kept():
    assert_none(path for path in built_pages.files() if (DOCS / path).exists())


def test_reference_covers_every_public_name():
    pages, text = api_pages.pages(), built_pages.files()
    assert "::: tpack.train.config.TrainConfig\n" in text["api/train_it.md"]
    paths = {path for page in pages for path in page.members}
    constants = {name for page in pages for name in page.constants}
    values = {name: getattr(tpack, name) for name in tpack.__all__}
    assert_none(name for name, value in values.items() if name not in constants and not _has_a_page(value, paths))
    for page in pages:
        assert_none(f"{page.file}: {path}" for path in page.members if path not in text[f"api/{page.file}"])
        assert f"({page.file})" in text["api/index.md"]
    assert set(tpack.__all__) <= set(re.findall(r"^\| `(\w+)` \| `", text["names.md"], re.M))


def _has_a_page(value, paths):
    """Return whether a class or function is in the reference under any name, or belongs to a package without a page."""
    if inspect.ismodule(value) or value.__module__.startswith(api_pages.WITHOUT_PAGE):
        return True
    return f"{value.__module__}.{value.__qualname__}" in paths


def documents():
    """Return the path and the text of each document that names files; changelog and trials tell of earlier trees."""
    paths = [
        *(ROOT / "docs").glob("*.md"),
        *(ROOT / "tests").glob("**/README.md"),
        ROOT / "README.md",
        ROOT / "CONTRIBUTING.md",
    ]
    return [
        (path.name, path.read_text(encoding="utf-8"))
        for path in paths
        if path.name not in ("trials.md", "CHANGELOG.md")
    ]


def test_files_that_documents_name_are_there():
    found = [
        (name, path) for name, text in documents() for path in re.findall(r"`((?:tpack|tests|tools)/[\w/]+\.py)", text)
    ]
    assert len(found) > 40
    example = ("tpack/a/", "tests/a/")
    assert_none(
        f"{name} names {path}" for name, path in found if not (path.startswith(example) or (ROOT / path).exists())
    )


def test_modules_that_documents_name_are_there():
    found = [(name, module) for name, text in documents() for module in re.findall(r"`(tpack(?:\.\w+)+)", text)]
    assert len(found) > 40
    assert_none(f"{name} names {module}" for name, module in found if not _is_there(module))


def _is_there(dotted):
    """Return whether a dotted name is a module of tpack, or an attribute of one."""
    value = importlib.import_module("tpack")
    for part in dotted.split(".")[1:]:
        try:
            value = getattr(value, part)
        except AttributeError:
            try:
                value = importlib.import_module(f"{value.__name__}.{part}")
            except (AttributeError, ImportError):
                return False
    return True


def test_names_in_the_table_of_mirrored_variables_are_there():
    text = (ROOT / "docs" / "strategies.md").read_text(encoding="utf-8")
    pairs = re.findall(r"`([\w/]+\.py): ([\w., ]+)`", text)
    assert len(pairs) > 12
    for path, names in pairs:
        file = next(each for each in (ROOT / "tpack" / "distribute" / path, ROOT / path) if each.exists())
        source = file.read_text(encoding="utf-8")
        missing = [
            name
            for name in re.findall(r"\w+", names)
            if not re.search(rf"\b(def|class) {name}\b|^{name}\b", source, re.M)
        ]
        assert missing == [], path


def test_pictures_of_trainers_are_those_of_their_graphs():
    made = dict(trainer_pictures.files())
    drawn = trainer_pictures.FOLDER.glob("trainer_*.svg")
    assert {path.name: path.read_text(encoding="utf-8") for path in drawn} == made
    assert made["trainer_replicated.svg"].count(">mean ∂w<") == 1
    assert made["trainer_async.svg"].count(">update w 2×<") == 1


def test_picture_of_what_travels_has_the_bytes_of_the_codecs():
    assert travel_picture.FILE.read_text(encoding="utf-8") == travel_picture.picture()
    shares = {choice.name: choice.share for choice in travel_picture.choices()}
    assert shares["no argument"] == shares["shard_optimizer=True"] == 1
    assert shares['exchange="int8"'] == pytest.approx(1 / 4 + 1 / 1024)
    assert shares['exchange="power_sgd:4"'] == pytest.approx(4 * 2 / 3072)
    assert shares["accumulate=4"] == 1 / 4
    assert shares["sync_every_steps=8"] == 1 / 8


@pytest.mark.parametrize("page", docs_pages.pages(), ids=lambda page: page.name)
def test_code_of_a_page_is_code_and_its_links_lead_somewhere(page):
    blocks = docs_pages.blocks(page)
    assert_none(f"{block}: '{block.language}'" for block in blocks if block.language not in LANGUAGES)
    assert_none(f"{block}: not run, and no reason" for block in blocks if block.mark == "not run" and not block.reason)
    compile(docs_code.program(page), str(page), "exec")
    inside = [link.partition("#")[0] for link in docs_pages.links(page) if "://" not in link]
    there = [link for link in inside if (page.parent / link).exists() or link in built_pages.files()]
    assert_none(f"{page.name}: {link}" for link in inside if link not in there)


def test_blocks_are_run_where_they_stand(tmp_path):
    page = tmp_path / "page.md"
    before = "<!-- before:\none = 1\n-->\n```python\nprint(one + 1)\n```\n"
    bash = "<!-- not run: no -->\n```bash\nfalse\n```\n```bash\necho three\n```\n"
    page.write_text(f"# Page\n{before}{bash}<!-- printed -->\n```text\n2\nth...e\n```\n", encoding="utf-8")
    lines = docs_code.program(page).splitlines()
    assert (lines[2], lines[5]) == ("one = 1", "print(one + 1)")
    assert [block.mark for block in docs_pages.blocks(page)] == ["before", "", "not run", "", "printed"]
    assert docs_code.run(page) == ""
    assert docs_code.missing_lines(page, "three\n2\n") == ["page.md:18: th...e"]
    page.write_text("# Page\n```python\nraise ValueError('no')\n```\n", encoding="utf-8")
    assert 'page_md.py", line 3' in docs_code.run(page)
    page.write_text("# Page\n<!-- printed -->\nNothing.\n", encoding="utf-8")
    with pytest.raises(ValueError, match=r"page.md:2: no block of code follows '<!-- printed -->'"):
        docs_pages.blocks(page)


def test_script_refuses_what_it_does_not_know():
    done = subprocess.run([ROOT / "scripts" / "docs", "--fast"], capture_output=True, text=True, check=False)
    assert (done.returncode, "'--fast' is unknown" in done.stderr) == (2, True)


def test_the_figures_of_outside_code_are_those_of_its_table():
    text = (ROOT / "docs" / "trials.md").read_text(encoding="utf-8")
    part = text[text.index("### TensorFlow 1\n") : text.index("### tensorpack\n")]
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in part.splitlines() if "/" in line[:60]]
    rows = [row for row in rows if len(row) == 4]
    figures = re.search(
        r"Of (\d+) programs of (\d+) repositories in this table, (\d+) trained after `tpack migrate` alone "
        r"and (\d+) with what is forced;\s(\d+) stopped in both ways, and (\d+) were not run",
        part,
    )
    assert figures is not None

    def number(wanted):
        """Return the number of programs whose cells are as wanted; a row may have several."""
        return sum(len(row[1].split("; ")) for row in rows if wanted(row))

    assert [int(figure) for figure in figures.groups()] == [
        number(lambda row: True),
        len({row[0] for row in rows}),
        number(lambda row: row[2].startswith("trained")),
        number(lambda row: "trained" in (row[2][:7], row[3][:7])),
        number(lambda row: row[2].startswith("stops") and row[3].startswith("stops")),
        number(lambda row: row[2] == "not run"),
    ]
