"""The Markdown pages of the repository, and what is in them."""

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
INDEX = ROOT / "docs/README.md"
PAGES = [
    *(ROOT / name for name in ("README.md", "CONTRIBUTING.md")),
    *sorted((ROOT / "docs").rglob("*.md")),
    *sorted((ROOT / "examples").rglob("README.md")),
]
_BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def name_of(page: Path) -> str:
    """The page's path from the root."""
    return page.relative_to(ROOT).as_posix()


def blocks(page: Path, language: str) -> list[str]:
    """The code blocks of that language, in their order."""
    return [text for found, text in _BLOCK.findall(page.read_text("utf-8")) if found == language]


def prose(page: Path) -> str:
    """The page without its code blocks."""
    return _BLOCK.sub("", page.read_text("utf-8"))


def links(page: Path) -> list[tuple[Path, str]]:
    """The file or folder and the anchor (or "") of each link and image that does not lead to another host."""
    found = re.findall(r"\]\(([^)\s]+)\)", prose(page))
    split = [target.partition("#") for target in found if "://" not in target]
    return [((page.parent / path).resolve() if path else page, anchor) for path, _, anchor in split]


def anchors(page: Path) -> set[str]:
    """The anchors of the page's headings, as GitHub makes them."""
    titles = re.findall(r"^#+ (.+)$", prose(page), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


def commands(page: Path, program: str) -> list[str]:
    """The lines of the shell blocks that call the program, each as one line."""
    text = "\n".join(blocks(page, "bash") + blocks(page, "sh")).replace("\\\n", " ")
    return [line for line in text.splitlines() if line.startswith(f"{program} ")]
