"""Every page is reachable from docs/README.md, and every link leads to a file and a heading that exist."""

import importlib.util
import re
from pathlib import Path
from types import ModuleType

import pytest

from .pages import INDEX, PAGES, ROOT, anchors, links, name_of


def linked_from(page: Path) -> set[Path]:
    """The pages that the page links to; a folder means its README.md."""
    targets = (target / "README.md" if target.is_dir() else target for target, _ in links(page))
    return {target for target in targets if target.suffix == ".md"}


def test_the_index_links_every_page_of_docs() -> None:
    pages = set((ROOT / "docs").rglob("*.md")) - {INDEX}
    assert sorted(map(name_of, pages - linked_from(INDEX))) == []


def test_the_index_gives_each_page_one_line() -> None:
    lines = re.findall(r"^- \[[^\]]+\]\(([^)]+)\): \S.*\.$", INDEX.read_text("utf-8"), re.MULTILINE)
    assert len(lines) == len(set(lines)) == INDEX.read_text("utf-8").count("\n- ")


def test_every_page_is_reachable_from_readme() -> None:
    found, waiting = set[Path](), [ROOT / "README.md"]
    while waiting:
        page = waiting.pop()
        if page not in found and page in PAGES:
            found.add(page)
            waiting += linked_from(page)
    assert sorted(map(name_of, set(PAGES) - found)) == []


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_every_link_leads_somewhere(page: Path) -> None:
    broken = [
        f"{target}#{anchor}"
        for target, anchor in links(page)
        if not target.exists() or (anchor and anchor not in anchors(target))
    ]
    assert broken == []


def test_links_are_found() -> None:
    assert sum(len(links(page)) for page in PAGES) > 150
    assert sum(bool(anchor) for page in PAGES for _, anchor in links(page)) > 20
    assert "a-pipelines-config" in anchors(ROOT / "docs/config.md")


@pytest.fixture(scope="module")
def hooks() -> ModuleType:
    spec = importlib.util.spec_from_file_location("site_hooks", ROOT / "docs/site_hooks.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_site_has_every_page(hooks: ModuleType) -> None:
    assert set(map(name_of, PAGES)) <= set(hooks.shown_paths())
    assert not [path for path in hooks.shown_paths() if not (ROOT / path).is_file()]


def test_the_navigation_has_every_page(hooks: ModuleType) -> None:
    _, _, nav = (ROOT / "mkdocs.yml").read_text("utf-8").partition("\nnav:")
    pages = [path for path in hooks.shown_paths() if path.endswith(".md")]
    assert sorted(re.findall(r"[\w./-]+\.md", nav)) == pages


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("[a](running.md#exit-codes)", "[a](running.md#exit-codes)"),
        ("[groundtrace/trainer/](../groundtrace/trainer/)", "`groundtrace/trainer/`"),
        ("[`x`](../pyproject.toml), [y](../Makefile#top)", "`x`, `y`"),
        ("[a](../gone.py)", "[a](../gone.py)"),
        ("[a](https://x.org/Makefile)", "[a](https://x.org/Makefile)"),
        ("![d](images/dag.svg)", "![d](images/dag.svg)"),
        ("```\n[m](../Makefile)\n```", "```\n[m](../Makefile)\n```"),
    ],
)
def test_links_to_code_become_names(hooks: ModuleType, text: str, shown: str) -> None:
    assert hooks.without_code_links(text, "docs/inputs.md") == shown


def test_escaped_bars_of_tables_are_shown_as_bars(hooks: ModuleType) -> None:
    html = r"<table><td><code>&lt;\|x\|&gt;</code></td></table><p><code>a\|b</code></p>"
    assert hooks.with_bars(html) == r"<table><td><code>&lt;|x|&gt;</code></td></table><p><code>a\|b</code></p>"
