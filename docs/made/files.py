"""A hook of MkDocs: files of the repository to which pages link become files of the site."""

import re
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

ROOT = Path(__file__).parents[2]
LINK = re.compile(r"(?<=\]\()(?:\.\./)+((?:deploy|examples)/[\w./-]+)(?=\))")
"""A link from a page to a file that is not of the manual."""


def on_files(files: Files, config: Any) -> Files:
    """Add the files to which pages link."""
    for page in files.documentation_pages():
        for path in LINK.findall(page.content_string):
            if not files.get_file_from_path(f"files/{path}"):
                files.append(File.generated(config, f"files/{path}.txt", abs_src_path=str(ROOT / path)))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Let links lead to the files of the site."""
    up = "../" * page.file.src_uri.count("/")
    return LINK.sub(rf"{up}files/\1.txt", markdown)
