"""Prepares the turns of a trajectory for the report: the model's text and code, and the results of the code.

A trajectory is a trace (reasoning with answer) in several turns with code.
"""

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
    """Holds the beginning of a text that may be too long for a page. ``more`` is the number of characters left out."""

    text: str
    more: int = 0


@dataclass(frozen=True)
class ShownTurn:
    """Holds one turn of a trajectory (a trace in several turns with code) as the page shows it.

    Attributes:
        text: the parts of the text that the model wrote before its code, such as plain text, points and boxes.
        code: the code that the model wrote.
        status: how the execution of the code ended, such as "ok"; "" if it is unknown.
        output: the text that the code printed.
        images: the images that the code displayed.
        hidden: the number of images that the code displayed and that the page leaves out.
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
    """Holds how many more characters of a trajectory the page may show."""

    chars: int = MAX_CHARS

    def clip(self, text: str, most: int) -> Clipped:
        """Return the beginning of the text: at most ``most`` characters, and not more than the page may still show.

        :attr:`chars` is the number of characters that the page may still show. The method subtracts the length of the
        returned text from this number.
        """
        shown = text[: min(most, self.chars)]
        self.chars -= len(shown)
        return Clipped(shown, len(text) - len(shown))


def executed_turns(row: Mapping[str, Any]) -> tuple[Turn, ...]:
    """Return the turns in the row's column ``turns``, each with its code and the result of the code.

    ``row`` is a row of a shard (Parquet file of a run). The result is () if no turn has code. It is also () if a turn
    lacks a field such as the status of the code, as in runs of older versions.
    """
    held = row.get("turns") or []
    if not all(isinstance(each, dict) and each.keys() == _FIELDS for each in held):
        return ()
    turns = tuple(Turn(**{"text": "", **{name: value for name, value in each.items() if value}}) for each in held)
    return turns if any(turn.code for turn in turns) else ()


def written_turns(text: str) -> list[dict[str, Any]]:
    """Return the turns in the text of a response, as dicts with the fields of a turn, such as ``text`` and ``code``.

    The dicts have the same form as in the column ``turns`` of a row. The status of the code of each turn is ""
    (unknown), because the text does not state how the code ended.
    """
    return [{each.name: getattr(turn, each.name) for each in fields(Turn)} for turn in read_trajectory(text)]


def shown_turns(turns: Sequence[Turn], images: Sequence[bytes], room: ImageRoom) -> tuple[ShownTurn, ...]:
    """Return the first turns of a trajectory in the form that the page shows, at most :data:`MAX_TURNS`.

    A trajectory is a trace in several turns with code. ``turns`` are all its turns. ``images`` are the encoded images
    that the code of the turns displayed, in order; it is empty if they were not kept. ``room`` is the number of images
    and bytes that the page may still embed.
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
