"""The reference of a config and its commented defaults: each key with what it takes and means."""

from collections.abc import Mapping
from dataclasses import field
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Literal

import pytest
from pydantic import Field, NonNegativeFloat, PositiveInt

from groundtrace.config.reference import commented_defaults, config_reference, sections
from groundtrace.config.settings import NonEmpty, OneOf, Share, load_config, settings
from groundtrace.pipelines.dual_stream import Settings as DualStream
from groundtrace.pipelines.grounded_cot import Settings
from groundtrace.trainer.settings import ModelSettings, TrainerSettings


class Colour(StrEnum):
    """An enum."""

    RED = "red"
    BLUE = "blue"


@settings
class Inner:
    """Prose with ``code`` and :class:`a.role`.

    A second paragraph
    of two lines.
    """

    share: Annotated[Share, "how | much"] = 0.5
    colour: Annotated[Colour, Field(strict=False)] = Colour.RED


@settings
class Named:
    """What a name stands for."""

    kind: Annotated[NonEmpty, "what it is"]
    size: PositiveInt = 3


@settings
class Whole:
    """A whole config."""

    path: Annotated[str, "where it is"]
    inner: Inner = field(default_factory=Inner)
    wait_s: Annotated[NonNegativeFloat | None, "how long to wait"] = None
    words: tuple[Literal["a", "b"], ...] = ("a",)
    ratio: Annotated[float, Field(gt=0, le=1)] = 0.25
    named: Annotated[Mapping[str, Named], "names of your own"] = field(default_factory=lambda: {"x": Named("k", 4)})
    roles: Annotated[Mapping[Annotated[str, OneOf(("p", "q"))], str], "who does what"] = field(
        default_factory=lambda: {"p": "x"}
    )
    empty: Mapping[str, Named] = field(default_factory=dict)


REFERENCE = """## Top level

A whole config.

| key | takes | default | meaning |
|---|---|---|---|
| `path` | text | *required* | where it is |
| `wait_s` | number ≥ 0 | *left out* | how long to wait |
| `words` | list (`"a"`, `"b"`) | `["a"]` |  |
| `ratio` | number > 0 and ≤ 1 | `0.25` |  |

## `[inner]`

Prose with `code` and `a.role`.

A second paragraph of two lines.

| key | takes | default | meaning |
|---|---|---|---|
| `share` | number, 0 to 1 | `0.5` | how \\| much |
| `colour` | `"red"`, `"blue"` | `"red"` |  |

## `[named.NAME]`

Names of your own.

What a name stands for.

| key | takes | default | meaning |
|---|---|---|---|
| `kind` | text, not empty | *required* | what it is |
| `size` | integer > 0 | `3` |  |

By default:

```toml
[named.x]
kind = "k"
size = 4
```

## `[roles]`

Who does what. Its keys are among `p`, `q`.

By default:

```toml
[roles]
p = "x"
```

## `[empty.NAME]`

What a name stands for.

| key | takes | default | meaning |
|---|---|---|---|
| `kind` | text, not empty | *required* | what it is |
| `size` | integer > 0 | `3` |  |
"""

DEFAULTS = """# A whole config.
# path = …  # where it is (text)
# wait_s = …  # how long to wait (number ≥ 0)
words = ["a"]  # (list ("a", "b"))
ratio = 0.25  # (number > 0 and ≤ 1)

# Prose with `code` and `a.role`.
# A second paragraph of two lines.
[inner]
share = 0.5  # how | much (number, 0 to 1)
colour = "red"  # ("red", "blue")

# Names of your own.
# What a name stands for.
# [named.NAME]
# kind = …  # what it is (text, not empty)
# size = 3  # (integer > 0)

[named.x]
kind = "k"
size = 4

# Who does what. Its keys are among `p`, `q`.
[roles]
p = "x"

# What a name stands for.
# [empty.NAME]
# kind = …  # what it is (text, not empty)
# size = 3  # (integer > 0)
"""


def test_the_reference_of_a_config() -> None:
    assert config_reference(Whole) == REFERENCE


def test_the_commented_defaults() -> None:
    assert commented_defaults(Whole) == DEFAULTS


@pytest.mark.parametrize(
    ("cls", "given", "expected"),
    [
        (Whole, ["path=x"], Whole("x")),
        (Settings, [], Settings()),
        (DualStream, [], DualStream()),
        (TrainerSettings, ["model.path=x"], TrainerSettings(ModelSettings("x"))),
    ],
)
def test_the_commented_defaults_are_the_defaults(cls: type, given: list[str], expected: object, tmp_path: Path) -> None:
    path = tmp_path / "c.toml"
    path.write_text(commented_defaults(cls), "utf-8")
    assert load_config(cls, str(path), given) == expected
    assert max(map(len, path.read_text("utf-8").splitlines())) <= 120


@pytest.mark.parametrize("cls", [Settings, TrainerSettings])
def test_no_section_is_missing(cls: type) -> None:
    paths = [section.path for section in sections(cls)]
    assert len(set(paths)) == len(paths)
    assert {"", "endpoints.NAME" if cls is Settings else "reward.endpoints.NAME"} <= set(paths)


@settings
class WithList:
    """Holds two numbers:

    - the first one, whose text
      has two lines
    - the second one

    The end.
    """

    first: int = 1


def test_the_items_of_a_list_keep_lines_of_their_own() -> None:
    items = ("- the first one, whose text has two lines", "- the second one")
    assert "\n\n{}\n{}\n\nThe end.\n".format(*items) in config_reference(WithList)
    assert "# {}\n# {}\n# The end.\n".format(*items) in commented_defaults(WithList)
