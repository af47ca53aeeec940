"""Configs that extend others."""

from collections.abc import Mapping
from dataclasses import field
from pathlib import Path
from typing import Any, ClassVar

import pytest

from groundtrace.config.config_file import MAX_DEPTH, merged, read_config
from groundtrace.config.errors import ConfigError
from groundtrace.config.settings import settings


def write(folder: Path, **texts: str) -> None:
    folder.mkdir(exist_ok=True)
    for name, text in texts.items():
        (folder / f"{name}.toml").write_text(text, "utf-8")


def test_a_config_changes_the_keys_that_it_sets(tmp_path: Path) -> None:
    write(
        tmp_path,
        base='a = 1\n[s]\nx = 1\ny = [1, 2]\n[s.deep]\nz = 1\nw = 2\n[t]\nu = "u"\n',
        mine='extends = "base.toml"\na = 2\n[s]\ny = [3]\n[s.deep]\nz = 5\n[v]\nnew = true\n',
    )
    found = read_config(str(tmp_path / "mine.toml"))
    assert found == {"a": 2, "s": {"x": 1, "y": [3], "deep": {"z": 5, "w": 2}}, "t": {"u": "u"}, "v": {"new": True}}


def test_a_chain_of_configs(tmp_path: Path) -> None:
    write(tmp_path / "sub", middle='extends = "../base.toml"\nb = 2\nc = 2\n')
    write(tmp_path, base="a = 1\nb = 1\nc = 1\n", mine='extends = "sub/middle.toml"\nc = 3\n')
    assert read_config(str(tmp_path / "mine.toml")) == {"a": 1, "b": 2, "c": 3}


def test_a_bundled_config_is_named_without_its_ending(tmp_path: Path) -> None:
    write(tmp_path / "bundled", argos="a = 1\n", small='extends = "argos"\nb = 2\n')
    write(tmp_path / "own", mine='extends = "small"\nc = 3\n')
    mine = str(tmp_path / "own" / "mine.toml")
    assert read_config(mine, tmp_path / "bundled") == {"a": 1, "b": 2, "c": 3}
    (tmp_path / "own" / "small").write_text("b = 7\n", "utf-8")
    assert read_config(mine, tmp_path / "bundled") == {"b": 7, "c": 3}, "a file of that name goes first"
    with pytest.raises(ConfigError, match=r"cannot read the config .*own/small"):
        (tmp_path / "own" / "small").unlink()
        read_config(mine)


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("tinny", "one of argos, tiny: did you mean tiny?"),
        ("runs/tinny.toml", "one of argos, tiny: did you mean tiny?"),
        ("mine.toml", "one of argos, tiny"),
    ],
)
def test_a_missing_config_where_some_are_bundled(name: str, said: str, tmp_path: Path) -> None:
    write(tmp_path / "bundled", argos="a = 1\n", tiny="a = 2\n")
    with pytest.raises(ConfigError) as refused:
        read_config(name, tmp_path / "bundled")
    assert str(refused.value) == f"cannot read the config {name}: No such file or directory: name a TOML file or {said}"


@pytest.mark.parametrize(
    ("extended", "said"),
    [
        ("argoss", "or one of argos, tiny: did you mean argos?"),
        ("../argos.toml", "or one of argos, tiny: did you mean argos?"),
        ("base.toml", "or one of argos, tiny"),
    ],
)
def test_a_missing_config_that_another_extends(extended: str, said: str, tmp_path: Path) -> None:
    write(tmp_path / "bundled", argos="a = 1\n", tiny="a = 2\n")
    write(tmp_path / "own", mine=f'extends = "{extended}"\n')
    mine, missing = tmp_path / "own" / "mine.toml", tmp_path / "own" / extended
    with pytest.raises(ConfigError) as refused:
        read_config(str(mine), tmp_path / "bundled")
    assert str(refused.value) == (
        f"cannot read the config {missing}, which {mine} extends: No such file or directory: extends must name a TOML "
        f"file {said}"
    )


def test_a_missing_config_of_a_run() -> None:
    with pytest.raises(ConfigError, match=r"No such file or directory; `beam init DATA --output FILE` writes one$"):
        read_config("tinny.toml")


@pytest.mark.parametrize(
    ("values", "changes", "expected"),
    [
        ({}, {"a": 1}, {"a": 1}),
        ({"a": {"b": 1, "c": 2}}, {"a": {"b": 3}}, {"a": {"b": 3, "c": 2}}),
        ({"a": {"b": 1}}, {"a": 2}, {"a": 2}),
        ({"a": 2}, {"a": {"b": 1}}, {"a": {"b": 1}}),
        ({"a": [1, 2]}, {"a": [3]}, {"a": [3]}),
    ],
)
def test_merged(values: dict[str, Any], changes: dict[str, Any], expected: dict[str, Any]) -> None:
    kept = repr(values)
    assert merged(values, changes) == expected
    assert repr(values) == kept


@settings
class Part:
    """A part with options, as the reward recipe."""

    OPTIONS_OF: ClassVar[Mapping[str, str]] = {"options": "recipe"}

    recipe: str = "first"
    options: Mapping[str, Any] = field(default_factory=dict)
    other: int = 0


@settings
class Whole:
    """A config with the section of a part."""

    part: Part = field(default_factory=Part)


TAU = {"options": {"tau": 1}, "other": 3}


@pytest.mark.parametrize(
    ("values", "changes", "expected"),
    [
        ({"recipe": "first", **TAU}, {"recipe": "second"}, {"recipe": "second", "other": 3}),
        (
            {"recipe": "first", **TAU},
            {"recipe": "second", "options": {"x": 2}},
            {"recipe": "second", "options": {"x": 2}, "other": 3},
        ),
        (TAU, {"recipe": "second"}, {"recipe": "second", "other": 3}),
        (TAU, {"recipe": "first"}, {"recipe": "first", **TAU}),
        ({"recipe": "first", **TAU}, {"other": 4}, {"recipe": "first", "options": {"tau": 1}, "other": 4}),
        (
            {"recipe": "first", **TAU},
            {"recipe": "first", "options": {"x": 2}},
            {"recipe": "first", "options": {"tau": 1, "x": 2}, "other": 3},
        ),
    ],
)
def test_the_options_of_another_part_are_not_inherited(
    values: dict[str, Any], changes: dict[str, Any], expected: dict[str, Any]
) -> None:
    assert merged({"part": values}, {"part": changes}, Whole) == {"part": expected}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("extends = 3", "extends must be the path of a config in quotes, got 3"),
        ('extends = " "', "extends must be the path of a config in quotes"),
        (
            'extends = "mine.toml"',
            f"more than {MAX_DEPTH} configs extend one another, perhaps in a cycle: remove the key extends",
        ),
        (
            'extends = "none.toml"',
            r"cannot read the config .*none.toml, which .*mine.toml extends: .*: extends must name a TOML file$",
        ),
        ('extends = "a\\u0000b"', r"extends must be the path of a config in quotes, got 'a\\x00b'"),
        (f'extends = "{"a" * 5000}"', r"mine.toml: extends must be the path of a config, .*File name too long"),
        ('extends = "~nobody-of-this-name/a.toml"', r"mine.toml: extends must be the path of a config"),
    ],
)
def test_what_cannot_be_extended(text: str, said: str, tmp_path: Path) -> None:
    write(tmp_path, mine=text)
    with pytest.raises(ConfigError, match=said):
        read_config(str(tmp_path / "mine.toml"), tmp_path / "bundled")
