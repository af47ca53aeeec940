"""The commands of all pages are ones that ``beam`` and ``trainer`` accept."""

import re
import shlex
from pathlib import Path

import pytest

from groundtrace.pipelines.commands import cli
from groundtrace.pipelines.commands.dispatch import COMMANDS
from groundtrace.pipelines.running.plan.loading import bundled_names
from groundtrace.trainer.cli import make_parser as make_trainer_parser

from .pages import PAGES, ROOT, commands, name_of

OF_A_READER = {"docs/extend.md"}
"""Pages whose recipes are files that the reader makes; test_extend.py runs their commands."""

TRAINER_COMMANDS = ("sft", "grpo", "eval", "compare", "export", "tiny")


def found(program: str) -> list:
    return [
        pytest.param(page, line, id=f"{name_of(page)}-{number}")
        for page in PAGES
        for number, line in enumerate(commands(page, program))
    ]


def words_of(line: str) -> list[str]:
    """The arguments before those of Beam, without the comment."""
    return shlex.split(re.split(r" -- ", line)[0], comments=True)[1:]


@pytest.mark.parametrize(("page", "line"), found("trainer"))
def test_trainer(page: Path, line: str) -> None:
    assert make_trainer_parser().parse_args(words_of(line)).command in TRAINER_COMMANDS


@pytest.mark.parametrize(("page", "line"), found("beam"))
def test_beam(page: Path, line: str) -> None:
    parsed = cli.make_parser().parse_args(words_of(line))
    assert parsed.command in COMMANDS
    if parsed.command in ("run", "preview", "validate") and name_of(page) not in OF_A_READER:
        assert (ROOT / parsed.pipeline).is_file() or parsed.pipeline in bundled_names()


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_make(page: Path) -> None:
    targets = set(re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE))
    text = "\n".join(commands(page, "make"))
    assert set(re.findall(r"^make ([\w-]+)", text, re.MULTILINE)) <= targets


def test_commands_are_found() -> None:
    assert len(found("beam")) > 50
    assert len(found("trainer")) > 8
    assert commands(ROOT / "README.md", "make")
