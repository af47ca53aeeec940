"""Hooks of MkDocs (``mkdocs.yml``): they build the site from the repository's own Markdown files.

The site has the folders of the repository, so that a relative link leads to the same page on the site as in the
repository. Code files are not pages: a link to one becomes its name.
"""

import re
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mkdocs.config.defaults import MkDocsConfig
    from mkdocs.structure.files import Files
    from mkdocs.structure.pages import Page

ROOT = Path(__file__).resolve().parents[1]
OTHER_PAGES = ("README.md", "CONTRIBUTING.md", "CHANGELOG.md", "benchmarks/RESULTS.md", "data/sample/README.md")
"""The pages outside docs/ and examples/."""
SHOWN = (".md", ".png", ".svg")
"""The suffixes of pages and images; other files do not get into the site."""
_FENCE = re.compile(r"(^```.*?^```$)", re.MULTILINE | re.DOTALL)
_CELL = re.compile(r"<td.*?</td>", re.DOTALL)
_LINK = re.compile(r"(?<!!)\[([^\[\]]+)\]\(([^)\s#]+)(?:#[^)\s]*)?\)")


def shown_paths() -> list[str]:
    """Return the files of the site, as paths from the repository's root."""
    below = [*(ROOT / "docs").rglob("*"), *(ROOT / "examples").rglob("README.md")]
    found = [path.relative_to(ROOT).as_posix() for path in below if path.suffix in SHOWN]
    return sorted([*found, *OTHER_PAGES])


def without_code_links(markdown: str, page: str) -> str:
    """Return the Markdown with every link to a file or folder that is not in the site replaced by its text, as code.

    Args:
        markdown: the text of the page.
        page: its path from the repository's root.

    A link to nothing stays as it is: MkDocs reports it.
    """
    shown = {ROOT / path for path in shown_paths()}

    def replaced(link: re.Match[str]) -> str:
        text, target = link.groups()
        path = (ROOT / page).parent.joinpath(target).resolve()
        if "://" in target or path in shown or not path.exists():
            return link.group()
        return text if "`" in text else f"`{text}`"

    parts = _FENCE.split(markdown)
    return "".join(part if part.startswith("```") else _LINK.sub(replaced, part) for part in parts)


def on_files(files: "Files", config: "MkDocsConfig") -> "Files":
    """Replace what MkDocs found in docs/ by :func:`shown_paths`; the theme's own files stay."""
    from mkdocs.structure.files import File

    for file in list(files):
        if file.src_dir == config.docs_dir:
            files.remove(file)
    for path in shown_paths():
        files.append(File(path, str(ROOT), config.site_dir, config.use_directory_urls))
    return files


def on_page_markdown(markdown: str, page: "Page", config: "MkDocsConfig", files: "Files") -> str:
    """Replace the links to code files."""
    return without_code_links(markdown, page.file.src_uri)


def with_bars(html: str) -> str:
    r"""Return the page with ``\\|`` in tables shown as ``|``, as in the repository.

    Python-Markdown keeps the backslash within code.
    """
    return _CELL.sub(lambda cell: cell.group().replace(r"\|", "|"), html)


def on_page_content(html: str, page: "Page", config: "MkDocsConfig", files: "Files") -> str:
    """Mend the tables."""
    return with_bars(html)
