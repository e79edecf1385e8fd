"""The documentation is whole: its pages are in the navigation, those that are made are current, and its code is code.

`scripts/docs` runs the code and builds the site; here is what can be seen without either.
"""

import re
import subprocess

import pytest

from tests.helpers.source import ROOT, assert_none
from tools.docs import api_pages, docs_code, docs_pages, trainer_pictures
from tools.docs.docs_pages import DOCS, LANGUAGES

SITE = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")


def test_every_page_is_in_the_navigation_once():
    listed = re.findall(r"^ +- (?:.*: )?([\w./]+\.md)$", SITE, re.M)
    assert sorted(listed) == sorted(str(path.relative_to(DOCS)) for path in DOCS.rglob("*.md"))


def test_pages_of_the_reference_are_current():
    made = api_pages.files()
    assert {path.name: path.read_text(encoding="utf-8") for path in api_pages.FOLDER.glob("*.md")} == made
    assert api_pages.navigation(SITE, made) == SITE
    assert "::: tpack.train.config.TrainConfig\n" in made["train_it.md"]


def test_pictures_of_trainers_are_those_of_their_graphs():
    made = dict(trainer_pictures.files())
    drawn = trainer_pictures.FOLDER.glob("trainer_*.svg")
    assert {path.name: path.read_text(encoding="utf-8") for path in drawn} == made
    assert made["trainer_replicated.svg"].count(">mean ∂w<") == 1
    assert made["trainer_async.svg"].count(">update w 2×<") == 1


@pytest.mark.parametrize("page", docs_pages.pages(), ids=lambda page: page.name)
def test_code_of_a_page_is_code_and_its_links_lead_somewhere(page):
    blocks = docs_pages.blocks(page)
    assert_none(f"{block}: '{block.language}'" for block in blocks if block.language not in LANGUAGES)
    assert_none(f"{block}: not run, and no reason" for block in blocks if block.mark == "not run" and not block.reason)
    compile(docs_code.program(page), str(page), "exec")
    inside = [link.partition("#")[0] for link in docs_pages.links(page) if "://" not in link]
    assert_none(f"{page.name}: {link}" for link in inside if not (page.parent / link).exists())


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
