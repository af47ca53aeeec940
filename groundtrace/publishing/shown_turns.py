"""Prepares the turns of a trajectory for the report: text and code of the model, and the results of the sandbox."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

from groundtrace.grading.responses.turns import Turn, read_trajectory
from groundtrace.pages.response_parts import ResponsePart, spans_of
from groundtrace.pages.shown_images import Image, ImageRoom, shown_image

MAX_TURNS = 12
MAX_IMAGES_OF_CODE = 6
MAX_CHARS = 12_000
"""The maximum number of characters of a trajectory's texts, codes and outputs together."""
MAX_TEXT_CHARS, MAX_CODE_CHARS, MAX_OUTPUT_CHARS = 3000, 3000, 1500
_NOT_FAILED = ("", "ok", "silent")
_FIELDS = {each.name for each in fields(Turn)}


@dataclass(frozen=True)
class Clipped:
    """Holds the beginning of a text, and the number of characters left out."""

    text: str
    more: int = 0


@dataclass(frozen=True)
class ShownTurn:
    """Holds a turn of a trajectory as the page shows it.

    The model wrote ``text`` and ``code``. ``status`` ("" if it is unknown), ``output`` and ``images`` are the result of
    the code. ``hidden`` is the number of images of the result that are left out.
    """

    text: tuple[ResponsePart, ...]
    code: Clipped
    status: str
    output: Clipped
    images: tuple[Image, ...]
    hidden: int

    @property
    def has_failed(self) -> bool:
        """Return whether the code ended with an error or was stopped."""
        return self.status not in _NOT_FAILED


@dataclass
class _Allowance:
    """Holds the number of further characters of a trajectory that the page may show."""

    chars: int = MAX_CHARS

    def clip(self, text: str, most: int) -> Clipped:
        shown = text[: min(most, self.chars)]
        self.chars -= len(shown)
        return Clipped(shown, len(text) - len(shown))


def executed_turns(row: Mapping[str, Any]) -> tuple[Turn, ...]:
    """Return the turns in the row's column ``turns``; () if no turn has code.

    Also returns () if the column has other fields than a trajectory, as in runs of older versions.
    """
    held = row.get("turns") or []
    if not all(isinstance(each, dict) and each.keys() == _FIELDS for each in held):
        return ()
    turns = tuple(Turn(**{"text": "", **{name: value for name, value in each.items() if value}}) for each in held)
    return turns if any(turn.code for turn in turns) else ()


def written_turns(text: str) -> list[dict[str, Any]]:
    """Return the turns of a response in the form of the column ``turns``. Their status is "", which means unknown."""
    return [{each.name: getattr(turn, each.name) for each in fields(Turn)} for turn in read_trajectory(text)]


def shown_turns(turns: Sequence[Turn], images: Sequence[bytes], room: ImageRoom) -> tuple[ShownTurn, ...]:
    """Return the first turns of a trajectory, at most :data:`MAX_TURNS`.

    ``images`` are the images that the trajectory's code showed, in order. The list is empty if these images were not
    kept. ``room`` limits the size of the images on the page.
    """
    allowance, found, start = _Allowance(), list[ShownTurn](), 0
    for number, turn in enumerate(turns[:MAX_TURNS], 1):
        end = start + max(turn.images, 0)
        datas = images[start : min(end, MAX_IMAGES_OF_CODE)]
        text = spans_of(turn.text, min(MAX_TEXT_CHARS, allowance.chars)) if turn.text else ()
        allowance.chars -= min(len(turn.text), MAX_TEXT_CHARS, allowance.chars)
        found.append(
            ShownTurn(
                text,
                allowance.clip(turn.code, MAX_CODE_CHARS),
                turn.status,
                allowance.clip(turn.output, MAX_OUTPUT_CHARS),
                tuple(shown_image(data, f"shown by the code of turn {number}", room) for data in datas),
                end - start - len(datas),
            )
        )
        start = end
    return tuple(found)
