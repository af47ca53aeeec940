"""Every file, folder and module that the pages of docs/ and the pages at the root name is there."""

import re
import typing
from collections import ChainMap
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path

import pytest

from groundtrace.config.fields import section_class
from groundtrace.pipelines.grounded_cot import Settings
from groundtrace.trainer.settings import TrainerSettings

ROOT = Path(__file__).resolve().parents[2]
PAGES = [*sorted((ROOT / "docs").rglob("*.md")), *(ROOT / name for name in ("README.md", "CONTRIBUTING.md"))]
PACKAGES = {path.parent.name for path in ROOT.glob("groundtrace/*/__init__.py")}
FOLDERS = {*PACKAGES, "groundtrace", "benchmarks", "data", "docs", "tests"}
SUFFIXES = ("py", "md", "yaml", "toml", "jinja", "svg", "txt", "jsonl")
OF_A_READER = {"prompts/short_trace.v1.yaml", "prompts/spot.v1.yaml"}
"""Files of the folder that docs/extend.md has its reader make."""


def named(text: str) -> set[str]:
    """What looks like a path from the root or from the page, or like one of our modules, outside code blocks."""
    prose = re.sub(r"^```.*?^```$", "", text, flags=re.MULTILINE | re.DOTALL)
    spans = {span.strip("*") for span in re.findall(r"`([^`\n]+)`", prose)}
    links = {link.split("#")[0] for link in re.findall(r"\]\(([^)\s]+)\)", prose) if "://" not in link}
    return {link for link in links if link} | {span for span in spans if _is_path(span) or _is_module(span)}


def _is_path(span: str) -> bool:
    top = span.split("/")[0]
    return bool(re.fullmatch(r"[\w./-]+", span)) and "/" in span and top in FOLDERS and not re.search("[A-Z]{4}", span)


def _is_module(span: str) -> bool:
    parts = span.split(".")
    return len(parts) > 1 and all(map(str.isidentifier, parts)) and parts[0] in FOLDERS and parts[-1] not in SUFFIXES


def exists(name: str, page: Path) -> bool:
    """Whether there is such a file or folder, or such a module, or a name in such a module."""
    if (ROOT / name).exists() or (page.parent / name).exists():
        return True
    parts = name.split(".")
    if parts[0] in PACKAGES:  # it is imported as groundtrace.…
        return False
    places = [ROOT.joinpath(*parts[:length]) for length in range(len(parts), 1, -1)]
    return places[:1] != [] and (places[0].is_dir() or any(place.with_suffix(".py").is_file() for place in places))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_what_a_page_names_is_there(page: Path) -> None:
    found = named(page.read_text("utf-8")) - OF_A_READER
    assert sorted(name for name in found if not exists(name, page)) == []


def test_the_journeys_name_their_files() -> None:
    found = named((ROOT / "docs/architecture.md").read_text("utf-8"))
    assert len([name for name in found if name.endswith(".py")]) > 60
    assert {name.removeprefix("groundtrace/").split("/")[0] for name in found} >= PACKAGES


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("see `stages/x.py` and `schemas.gone.py`", {"stages/x.py"}),
        ("in `groundtrace.stages.plumbing.gone`, not in `a.b` or `attempt.k`", {"groundtrace.stages.plumbing.gone"}),
        ("[a](gone.md#part) [b](https://x.org/y)", {"gone.md"}),
        ("```\nstages/block.py\n```\n`tests/docs/`", {"tests/docs/"}),
        ("`stages/VERB_NOUN.py` and `runs/mine`", set()),
    ],
)
def test_what_a_page_names(text: str, found: set[str]) -> None:
    assert named(text) == found


@pytest.mark.parametrize(
    "name",
    ["stages/gone.py", "groundtrace.stages.gone", "stages.plumbing", "trainer/loss.py", "schemas/gone/", "gone.md"],
)
def test_what_is_not_there_is_found_out(name: str) -> None:
    assert not exists(name, ROOT / "docs/x.md")


def renamed(settings: type, where: str = "") -> Iterator[tuple[str, str]]:
    """The keys of a config that have another name now, old and new in full."""
    for old, new in ChainMap(*(vars(base).get("RENAMED", {}) for base in settings.__mro__)).items():
        yield f"{where}{old}", f"{where}{new}"
    hints = typing.get_type_hints(settings)
    for field in fields(settings):
        section, _ = section_class(hints[field.name])
        if section is not None:
            yield from renamed(section, f"{where}{field.name}.")


@pytest.mark.parametrize("settings", [Settings, TrainerSettings])
def test_the_changelog_names_every_key_that_was_renamed(settings: type) -> None:
    rows = re.findall(r"\| `([\w.]+)`[^|]*\| `([\w. ]+)` \|", (ROOT / "CHANGELOG.md").read_text("utf-8"))
    found = list(renamed(settings))
    assert found
    assert set(found) <= set(rows)
