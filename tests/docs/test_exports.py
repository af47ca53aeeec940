"""docs/exports.md tells of every format, option and reason that there is."""

import re
from pathlib import Path

from groundtrace.pipelines.commands.cli import make_parser
from groundtrace.publishing.exports.errors import REASONS
from groundtrace.publishing.exports.registry import FORMATS

PAGE = (Path(__file__).resolve().parents[2] / "docs/exports.md").read_text("utf-8")


def rows(title: str) -> list[list[str]]:
    """The cells of the table below a title."""
    below = PAGE.split(title, 1)[1]
    table = re.findall(r"^\|(.*)\|$", below.split("\n## ", 1)[0], re.MULTILINE)
    return [[cell.strip() for cell in re.split(r"(?<!\\)\|", line)] for line in table[2:]]


def named(cells: list[list[str]]) -> set[str]:
    """What stands in backticks in the first column."""
    return {name for row in cells for name in re.findall(r"`([^`]+)`", row[0])}


def test_every_format_is_told_of() -> None:
    assert named(rows("## Formats")) == set(FORMATS)


def test_every_reason_is_told_of() -> None:
    assert named(rows("## What is left out")) == set(REASONS)


def test_every_option_is_told_of() -> None:
    parser = make_parser()._subparsers._group_actions[0].choices["export"]  # type: ignore[union-attr,index,call-overload]
    options = {option for action in parser._actions for option in action.option_strings if option.startswith("--")}
    assert named(rows("# Exports")) == options - {"--help", "--verbose"}
