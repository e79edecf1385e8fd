"""Hooks of `mkdocs`: pages that are built, and links from pages to the examples.

Pages link to ``../examples/NAME``, where readers of the repository find it. On the site it is a text beside the pages.
`mkdocs` runs in the root of the repository, as ``python -m mkdocs``.
"""

import re
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

from tools.docs import built_pages

ROOT = Path(__file__).resolve().parents[2]
_LINK = re.compile(r"\]\(\.\./(examples/[\w./-]+)\)")


def on_config(config: Any) -> Any:
    """Add the pages of the reference to the navigation, after its first one."""
    for section in config.nav:
        for pages in section.values():
            if built_pages.REFERENCE in pages:
                pages += built_pages.reference()
    return config


def on_files(files: Files, *, config: Any) -> Files:
    """Add the built pages, and the examples that pages link to."""
    for path, text in built_pages.files().items():
        files.append(File.generated(config, path, content=text))
    linked = {path for page in files.documentation_pages() for path in _LINK.findall(page.content_string)}
    for path in sorted(linked):
        files.append(File.generated(config, f"{path}.txt", abs_src_path=str(ROOT / path)))
    return files


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Let links to examples lead to their copies."""
    return _LINK.sub(r"](\1.txt)", markdown)
