"""Reads conversations: LLaVA's ``conversations`` and the ``messages`` of ShareGPT, with media in other columns.

A turn is ``{"from", "value"}`` or ``{"role", "content"}``, and a content may be a list of parts. Each user turn becomes
a record, with the next turn as its answer. The text of earlier turns is not part of the record, and system turns are
not read. A placeholder (``<image>`` or ``<video>``) in the text of a turn shows that one medium belongs to this turn. A
record has the media of its question and of the turns before its question. If no text has a placeholder, a record has
all media of the row.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from groundtrace.grading.responses.placeholders import without_placeholders
from groundtrace.schemas.text import excerpt
from groundtrace.stages.sources.options import has_options
from groundtrace.stages.sources.shapes.base import BadRow, Row, Shape, ShapeSettings, folder_line
from groundtrace.storage.places import Place

TURNS_COLUMNS = ("conversations", "messages")
_MEDIA_COLUMNS = ("images", "image", "videos", "video")
_ROLES = {"human": "user", "user": "user", "gpt": "assistant", "assistant": "assistant", "model": "assistant"}
_ROLES |= {"bot": "assistant", "system": "system"}
_MARK = re.compile(r"<(image|video)>")
_PART_MEDIA = ("image", "video")


@dataclass(frozen=True)
class Turn:
    """Holds one turn of a conversation as one text.

    ``role`` is "user", "assistant" or "system". ``media`` are the media in the content of the turn, not those in other
    columns of the row. In ``text``, each of them is replaced by ``<image>`` or ``<video>``.
    """

    role: str
    text: str
    media: tuple[Any, ...] = ()


class Conversations(Shape):
    """Implements the shape (layout) of rows that hold a conversation, as in LLaVA or ShareGPT."""

    name, title = "conversations", "conversations (LLaVA, ShareGPT)"
    gives = frozenset({"question", "answer", "media"})
    is_expanding = True
    list_columns = frozenset({*TURNS_COLUMNS, *_MEDIA_COLUMNS})

    def fits(self, columns: frozenset[str], first: Sequence[Row]) -> bool:
        """Return whether the input has a column with turns of a conversation, and no column ``question``.

        ``columns`` are the names of the input's columns, and ``first`` are its first rows.
        """
        column = next((name for name in TURNS_COLUMNS if name in columns), "")
        if not column or "question" in columns:
            return False
        return not first or any(_is_turns(row.get(column)) for row in first)

    def read(self, row: Row, settings: ShapeSettings, id_column: str) -> Iterator[Row]:
        """Yield one row for each question of a conversation, in order. If ``settings.turns`` is "first", yield only the
        first.

        ``row`` is a row of the input, and ``settings`` holds the settings of its layout. If a conversation has several
        questions, the suffixes -1, -2, … are added to the id in the column ``id_column``. Raises BadRow for a row
        without a valid conversation, and for a conversation without a question.
        """
        turns = read_turns(next((row[name] for name in TURNS_COLUMNS if row.get(name) is not None), None))
        asked = list(_questions(turns, _media(row, turns)))
        if not asked:
            raise BadRow("conversations: no turn of the conversation is a question of a user")
        for number, fields in enumerate(asked[: 1 if settings.turns == "first" else None], 1):
            own = row.get(id_column)
            is_named = isinstance(own, str | int) and not isinstance(own, bool) and len(asked) > 1
            yield {**row, **fields, **({id_column: f"{own}-{number}"} if is_named else {})}

    def template(self, columns: frozenset[str], first: Sequence[Row], folder: Place) -> list[str]:
        """Return the lines of a new config for the settings ``turns`` and ``media_folder``.

        ``columns`` are the names of the input's columns, ``first`` are its first rows, and ``folder`` is its folder. If
        a question in the ``first`` rows has answer options in its text, a line for ``choices_in_text`` is added.
        """
        texts = [text for row in first for text in _user_texts(row)]
        lines = ['turns = "each"  # every question of a conversation is a record; "first": only the first one']
        if any(has_options(text) for text in texts):
            lines.append('choices_in_text = true  # "A. cat" lines become choices, and an answer B the one it names')
        media = next((medium for row in first for medium in _listed(row, *_MEDIA_COLUMNS)), None)
        return [*lines, folder_line(folder, media)]


CONVERSATIONS = Conversations()


def read_turns(value: Any) -> list[Turn]:
    """Return the turns of a conversation without system turns.

    ``value`` is the cell of the row that holds the conversation. Raises :class:`BadRow` if it is not a list of turns in
    which user and assistant alternate.
    """
    if not isinstance(value, list) or not value:
        raise BadRow(f"conversations: expected a list of turns, got {excerpt(value)}")
    turns = [_turn(number, each) for number, each in enumerate(value, 1)]
    turns = [turn for turn in turns if turn.role != "system"]
    for number, turn in enumerate(turns, 1):
        if turn.role != ("user" if number % 2 else "assistant"):
            raise BadRow(f"conversations: user and assistant do not alternate at turn {number} ({turn.role})")
    return turns


def placed(text: str, shown_before: int, media_count: int) -> str:
    """Return the text of a turn without the placeholders ``<image>`` and ``<video>``.

    A placeholder inside a sentence is replaced by words, and any other placeholder is removed. ``shown_before`` is the
    number of media before this text. For example, if it is 1, "Is it larger in <image>?" becomes "Is it larger in
    picture 2?". ``media_count`` is the number of all media. If it is 1, the words are "the picture", without a number.
    """
    if media_count > 1:
        number = shown_before

        def numbered(found: re.Match[str]) -> str:
            nonlocal number
            number += 1
            return f"<{found[1]} {number}>"

        text = _MARK.sub(numbered, text)
    return without_placeholders(text, media_count).strip()


def _turn(number: int, value: Any) -> Turn:
    if not isinstance(value, Mapping):
        raise BadRow(f"conversations: turn {number} is not an object with 'from' and 'value': {excerpt(value)}")
    speaker = value.get("from") if value.get("from") is not None else value.get("role")
    content = value.get("value") if value.get("value") is not None else value.get("content")
    role = _ROLES.get(speaker.casefold()) if isinstance(speaker, str) else None
    if role is None:
        known = ", ".join(_ROLES)
        raise BadRow(f"conversations: turn {number} has the unknown role {excerpt(speaker)}: known roles are {known}")
    if isinstance(content, str):
        return Turn(role, content)
    if not isinstance(content, list):
        raise BadRow(f"conversations: the content of turn {number} is neither a text nor a list: {excerpt(content)}")
    texts, media = [], []
    for part in content:
        kind = part.get("type") if isinstance(part, Mapping) else None
        if kind == "text" and isinstance(part.get("text"), str):
            texts.append(part["text"])
        elif kind in _PART_MEDIA:
            texts.append(f"<{kind}>")
            media.append(_part_medium(number, part, kind))
        else:
            raise BadRow(f"conversations: turn {number} has a part of type {kind!r}: use only text, image and video")
    return Turn(role, "".join(texts), tuple(media))


def _part_medium(number: int, part: Mapping[str, Any], kind: str) -> Any:
    """Return the medium in a part of a turn, e.g. "a.jpg" for ``{"type": "image", "image": "a.jpg"}``.

    The library molmo-utils writes parts in this form. ``number`` is the number of the turn, for errors. ``kind`` is the
    part's type, "image" or "video". Other keys of the part, such as a number of frames, are ignored, because the run's
    settings decide how many frames are read. Raises BadRow for a video that is given as a list of frames or as a time
    span (``clip``) of a file.
    """
    if kind == "video" and (isinstance(part.get(kind), list | tuple) or part.get("clip") is not None):
        what = "a span of a video (clip)" if part.get("clip") is not None else "a video given as frames"
        raise BadRow(f"conversations: turn {number} has {what}, which cannot be read: save it as a video file")
    return part.get(kind)


def _media(row: Row, turns: Sequence[Turn]) -> list[Any]:
    """Return the media of a conversation in the order in which they are shown.

    The media are in the contents of the ``turns``, or in other columns of the ``row``. Raises BadRow if both hold
    media. Also raises BadRow if the questions have placeholders, but not one for each medium.
    """
    parts = [medium for turn in turns for medium in turn.media]
    by_kind = {"image": _listed(row, "images", "image"), "video": _listed(row, "videos", "video")}
    if any(part is not None for part in parts):
        if any(part is None for part in parts) or any(by_kind.values()):
            raise BadRow("conversations: media are both in the turns and in other columns: use only one of the two")
        return parts
    marks = [mark for turn in turns if turn.role == "user" for mark in _MARK.findall(turn.text)]
    beside = [*by_kind["image"], *by_kind["video"]]
    if not marks:
        return beside
    for kind, found in by_kind.items():
        if marks.count(kind) != len(found):
            raise BadRow(
                f"conversations: the questions have {marks.count(kind)} marks <{kind}>, but the row has "
                f"{len(found)} such media"
            )
    next_of = {kind: iter(found) for kind, found in by_kind.items()}
    return [next(next_of[mark]) for mark in marks]


def _listed(row: Row, *names: str) -> list[Any]:
    """Return the media of a row, from the first of the columns ``names`` that holds media. The result is empty if these
    columns hold no media.
    """
    for name in names:
        value = row.get(name)
        if value is not None and value != [] and value != "":
            return value if isinstance(value, list) else [value]
    return []


def _questions(turns: Sequence[Turn], media: Sequence[Any]) -> Iterator[dict[str, Any]]:
    marks = [len(_MARK.findall(turn.text)) if turn.role == "user" else 0 for turn in turns]
    for index in range(0, len(turns), 2):
        before, shown = sum(marks[:index]), sum(marks[: index + 1])
        own = list(media[:shown]) if any(marks) else list(media)
        answer = turns[index + 1].text.strip() if index + 1 < len(turns) else None
        yield {"question": placed(turns[index].text, before, len(own)), "answer": answer, "media": own}


def _is_turns(value: Any) -> bool:
    try:
        return bool(read_turns(value))
    except BadRow:
        return False


def _user_texts(row: Row) -> Iterator[str]:
    for name in TURNS_COLUMNS:
        if _is_turns(row.get(name)):
            yield from (turn.text for turn in read_turns(row[name]) if turn.role == "user")
