"""The pages of the site that are built, not kept in git: the reference, all names, the names of TensorFlow 1.

`tools.docs.site_hooks` adds them to the pages below ``docs``, so that nothing is written there.
"""

from functools import cache

from tools.docs import api_pages, names_page, tf1_page

REFERENCE = "api/index.md"
"""The first page of the reference, which `mkdocs.yml` lists; the others follow it in the navigation."""


@cache
def files() -> dict[str, str]:
    """Return {path below ``docs``: text} of all built pages."""
    made = {f"api/{name}": text for name, text in api_pages.files().items()}
    return {**made, "names.md": names_page.page(), "tf1_names.md": tf1_page.page()}


def reference() -> list[dict[str, str]]:
    """Return the entries of the navigation for the pages of the reference after the first."""
    pages = [(path, text) for path, text in files().items() if path.startswith("api/") and path != REFERENCE]
    return [{text.splitlines()[0].removeprefix("# "): path} for path, text in pages]
