"""What `mkdocs` calls while it builds the site: links to the examples lead to copies of them in the site.

Pages link to ``../examples/NAME``, where readers of the repository find it. On the site it is a text beside the pages.
"""

import re
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

ROOT = Path(__file__).resolve().parents[2]
_LINK = re.compile(r"\]\(\.\./(examples/[\w./-]+)\)")


def on_files(files: Files, *, config: Any) -> Files:
    """Add the examples that pages link to."""
    linked = {path for page in files.documentation_pages() for path in _LINK.findall(page.content_string)}
    for path in sorted(linked):
        files.append(File.generated(config, f"{path}.txt", abs_src_path=str(ROOT / path)))
    return files


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Let links to examples lead to their copies."""
    return _LINK.sub(r"](\1.txt)", markdown)
