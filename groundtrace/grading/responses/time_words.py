"""Reads the words that name frames and times of a video clip in a text.

The text is split into tokens, and the tokens are parsed into statements such as "frame 3 at 1.66 s".
:mod:`groundtrace.grading.responses.times` uses this module; its docstring describes the forms that are read. The parser
reads only a few tokens ahead, and a list in square brackets ends at the next bracket. So reading takes time linear in
the length of the text.
"""

from __future__ import annotations

import re
from typing import NamedTuple, TypeVar

from groundtrace.grading.responses.tags import scan_tags
from groundtrace.schemas.patterns import compile_late

_GAP = r"[ \t\n]{1,3}"
_END = r"(?!\w|[.:][0-9])"
_CLOCK = rf"(?:[0-9]{{1,2}}:[0-5][0-9]|[0-9]{{1,3}}):[0-5][0-9](?:\.[0-9]{{1,20}})?{_END}(?![ \t]?[ap]\.?m\b)"
_DECIMAL = r"[0-9]{1,7}(?:\.[0-9]{1,20})?"
_UNIT = rf"(?:[ \t]?|-)(?:seconds?|secs?|s){_END}"
_LEX = compile_late(
    rf"""(?<!\w)(?<![0-9][.:])(?:
      (?P<stated>t[ ]?=[ ]?(?:{_CLOCK}(?:{_UNIT})?|{_DECIMAL}(?:{_UNIT}|{_END})))
    | (?P<clock>{_CLOCK}(?:{_UNIT})?)
    | (?P<time>(?:{_DECIMAL}{_UNIT}|seconds?{_GAP}{_DECIMAL}{_END}(?!{_UNIT}))(?P<mark>[ ]mark\b)?)
    | (?P<frame>(?:frame(?P<plural>s)?[ \t\n]{{0,3}}(?:no\.[ ]?|number[ ]|\#)?F?|F)[0-9]{{1,7}}{_END})
    | (?P<number>{_DECIMAL}{_END})
    | (?P<onwards>(?:onwards?|forward|(?:to|until|till){_GAP}the{_GAP}end)\b|on(?=[ ]?(?:[.,;)]|$)))
    | (?P<until>(?:until|till|up{_GAP}to|up{_GAP}until)\b)
    | (?P<before>before\b) | (?P<after>(?:after|since)\b) | (?P<from>from\b) | (?P<between>between\b)
    | (?P<to>(?:to|through|thru)\b) | (?P<and>and\b) | (?P<at>(?:at|timestamp)\b)
    | (?P<filler>(?:the|about|around|approximately|roughly|exactly|time)\b))
    | (?P<filler2>[~≈]) | (?P<at2>@) | (?P<and2>&) | (?P<to2>→|->) | (?P<dash>[-‐‑–—−]) | (?P<comma>[,;])
    | (?P<open>\((?=[^()\[\]]{{0,40}}[0-9])) | (?P<close>\)) | (?P<left>\[(?=[^()\[\]]{{0,40}}[0-9]))
    | (?P<right>\]) | (?P<other>\w+|[^\w\s])""",
    re.IGNORECASE | re.VERBOSE,
)
_STAMP = compile_late(rf"{_CLOCK}|{_DECIMAL}", re.IGNORECASE)
_DURING = compile_late(r"\b(?:for|within|every|another|takes?|took|last(?:s|ed|ing))\s+(?:\w+\s+|~)?$", re.IGNORECASE)
_LASTING = compile_late(r"[ -](?:later|earlier|long|ago|apart|per|each)\b", re.IGNORECASE)
_TIMES, _LINKS = ("stated", "clock", "time"), ("to", "dash", "until")
_NUMBERS = (*_TIMES, "number")


class TimeStatement(NamedTuple):
    """Holds one statement about frames or times of a clip, such as "frame 3 at 1.66 s" or "from 1 s to 4 s".

    ``is_span`` is True for a span of time, and False for a single moment. A moment has only ``first_frame`` and
    ``start_s``. Frames are numbers, and times are in seconds. Values that the text does not state are None. ``start``
    and ``end`` are the offsets of the statement in the text.
    """

    is_span: bool
    first_frame: int | None
    last_frame: int | None
    start_s: float | None
    end_s: float | None
    start: int
    end: int


class _Token(NamedTuple):
    """Holds the kind of a token and its offsets in the text.

    ``value`` is the number, the time in seconds, or the number of the frame that the token names. For other tokens, it
    is 0. ``plural`` is True if the token has the word "frames" instead of "frame". ``mark`` is True if the token is a
    time with the word "mark" after it.
    """

    kind: str
    start: int
    end: int
    value: float
    plural: bool
    mark: bool


class _End(NamedTuple):
    """Holds one frame or time that a text names: a moment, or the start or the end of a span.

    ``frame`` is the frame number, and ``t_s`` is the time in seconds; each is None if the text does not state it.
    ``at`` is the index of the first token after the words that name the frame or time.
    """

    frame: int | None
    t_s: float | None
    at: int


_T = TypeVar("_T", int, float)
_Pair = tuple[_T | None, _T | None]
_Read = tuple[list[TimeStatement], int]


def read_statements(text: str) -> list[TimeStatement]:
    """Find all statements of a text that name frames or times of a clip, in order. Statements do not overlap.

    Never raises; takes time linear in ``len(text)``.
    """
    reader = _Reader(text)
    found: list[TimeStatement] = []
    at = 0
    while at < reader.count:
        statements, at = reader.statement(at) or ([], at + 1)
        found += statements
    return found


def _is_below_zero(kind: str, match: re.Match[str], tokens: list[_Token]) -> bool:
    """Return whether a token is a number or a time with a minus sign. Such a token names no time of a clip.

    A minus sign is a dash directly before the token. There is one exception: the dash of a range ("3-5") is not a minus
    sign. ``kind`` is the kind of the token, ``match`` is its match in the text, and ``tokens`` are the tokens before
    it.
    """
    if kind not in _NUMBERS or not tokens or tokens[-1].kind != "dash" or tokens[-1].end != match.start():
        return False
    return len(tokens) < 2 or tokens[-2].kind not in (*_NUMBERS, "frame", "close", "right")


def _tokens(text: str) -> list[_Token]:
    """Return the tokens of a text, without filler words.

    A tag is one token of the kind ``other``, and so is a sequence of words that name no frame and no time.
    """
    tokens: list[_Token] = []
    done = 0
    for start, end in [*((tag.start, tag.end) for tag in scan_tags(text)), (len(text), len(text))]:
        for match in _LEX.finditer(text, done, start):
            kind = (match.lastgroup or "").rstrip("2")
            if _is_below_zero(kind, match, tokens):
                tokens[-1] = _Token("other", tokens[-1].start, match.end(), 0.0, False, False)
            elif kind != "filler" and (kind != "other" or not tokens or tokens[-1].kind != "other"):
                tokens.append(_token(kind, match))
        tokens.append(_Token("other", start, end, 0.0, False, False))
        done = end
    return tokens


def _token(kind: str, match: re.Match[str]) -> _Token:
    value = 0.0
    stamp = _STAMP.search(match.group()) if kind in (*_TIMES, "frame", "number") else None
    for part in stamp.group().split(":") if stamp else ():
        value = 60 * value + float(part)
    return _Token(kind, match.start(), match.end(), value, match["plural"] is not None, match["mark"] is not None)


class _Reader:
    """Parses the tokens of one text into statements about frames or times.

    Most methods read the statement that begins at the token with the index ``at``. They return a list of
    statements, and the index of the token after the last statement. They return None if no statement of their form
    begins at ``at``.
    """

    def __init__(self, text: str) -> None:
        tokens = _tokens(text)
        self._text, self.count = text, len(tokens)
        # Looking a few tokens ahead never leaves the list.
        self._tokens = tokens + [_Token("end", len(text), len(text), 0.0, False, False)] * 8

    def statement(self, at: int) -> _Read | None:
        """Return the statements about moments or time spans that begin at the token ``at``.

        Also returns the index of the token after the statements. Returns None if no statement begins at ``at``.
        """
        kind = self._tokens[at].kind
        if kind == "other":
            return None
        if kind == "left":
            return self._bracketed(at)
        if kind == "open" and self._kinds(at) == ["open", "clock", "close"]:
            return self._moment(at, at + 3, None, self._tokens[at + 1].value)
        if kind in ("after", "until", "before"):
            return self._open_sided(at)
        return self._span(at) or self._onwards(at) or self._single(at)

    def _kinds(self, at: int) -> list[str]:
        return [token.kind for token in self._tokens[at : at + 3]]

    def _moment(self, at: int, after: int, frame: int | None, t_s: float | None) -> _Read:
        """Return a statement about one moment of a clip, such as "frame 3 at 1.66 s", and the index ``after``.

        The tokens of the statement have the indices from ``at`` to ``after`` - 1. ``frame`` is the number of the frame,
        and ``t_s`` is the time in seconds. Each of them is None if the text does not state it.
        """
        return [
            TimeStatement(False, frame, None, t_s, None, self._tokens[at].start, self._tokens[after - 1].end)
        ], after

    def _spanning(self, at: int, after: int, frames: _Pair[int], times: _Pair[float]) -> _Read:
        """Return a statement about a time span of a clip, such as "from 2 s to 5 s", and the index ``after``.

        The tokens of the statement have the indices from ``at`` to ``after`` - 1. ``frames`` holds the numbers of the
        first and last frame, and ``times`` the first and last time in seconds.
        """
        return [TimeStatement(True, *frames, *times, self._tokens[at].start, self._tokens[after - 1].end)], after

    def _end(self, at: int) -> _End | None:
        """Read the start or the end of a time span: a frame, perhaps with its time ("frame 3 at 2 s"), or only a time.

        ``at`` is the index of its first token. Returns None if this token is neither a frame nor a time.
        """
        token = self._tokens[at]
        if token.kind == "frame":
            return _End(int(token.value), *self._time_of_frame(at + 1))
        return _End(None, token.value, at + 1) if token.kind in _TIMES else None

    def _time_of_frame(self, at: int) -> tuple[float | None, int]:
        """Read the time that a text states directly after a frame's number, such as "at 3 s" in "frame 7 at 3 s".

        Other forms are "frame 7 @ t=3", "frame 7 (3 s)" and "(frame 7, 3 s)". ``at`` is the index of the token after
        the frame. Returns the time in seconds, and the index of the token after the time; None and ``at`` if no time
        follows.
        """
        opened = self._tokens[at].kind in ("open", "left")
        comma = self._tokens[at].kind == "comma"
        place = at + (opened or comma)
        has_at = self._tokens[place].kind == "at"
        place += has_at
        time = self._tokens[place]
        closed = self._tokens[place + 1].kind in ("close", "right")
        joined = closed if opened else has_at or time.kind == "stated" or (comma and closed)
        return (time.value, place + 1 + opened) if joined and time.kind in _TIMES else (None, at)

    def _span(self, at: int, bracketed: bool = False) -> _Read | None:
        """Read a span such as "from A to B", "between A and B" or "A to B", where A and B are frames or times.

        ``at`` is the index of the span's first token. ``bracketed`` is True if the span is in square brackets. Returns
        None if no such span begins at ``at``.
        """
        prefixed = self._tokens[at].kind in ("from", "between", "at")
        link = (*_LINKS, "and") if self._tokens[at].kind == "between" else _LINKS
        begin = at + prefixed
        if self._tokens[begin].kind == "frame":
            t_s, after = self._time_of_frame(begin + 1)
            return self._frames(at, begin, t_s, after, prefixed) if self._tokens[after].kind in link else None
        if self._tokens[begin].kind in (*_TIMES, "number") and self._tokens[begin + 1].kind in link:
            return self._seconds(at, begin, prefixed or bracketed)
        return None

    def _frames(self, at: int, begin: int, start_s: float | None, link: int, prefixed: bool) -> _Read | None:
        """Read a span of time that begins with a frame, such as "frame 3 to frame 5" or "frames 3-5 (1 s to 2 s)".

        ``at``, ``begin`` and ``link`` are indices of tokens: ``at`` is the index of the span's first token, ``begin``
        is the index of its first frame, and ``link`` is the index of the "to" or dash between its start and its end.
        ``start_s`` is the time of the first frame in seconds; None if the text does not state it. ``prefixed`` is True
        if a word such as "from" is before the first frame.
        """
        first, last, after = self._tokens[begin], self._tokens[link + 1], link + 2
        if last.kind in _TIMES:
            return self._spanning(at, after, (int(first.value), None), (start_s, last.value))
        if last.kind == "number":
            # In "frame 3 - 5 people stand" the dash does not mean a range.
            spaced = self._tokens[link].kind == "dash" and self._tokens[link].end < last.start
            if self._is_decimal(last) or (spaced and not (first.plural or prefixed)):
                return None
        elif last.kind != "frame":
            return None
        frames = (int(first.value), int(last.value))
        both = self._two_times(after) if start_s is None else None
        if both is not None:
            return self._spanning(at, both[1], frames, both[0])
        end_s, after = self._time_of_frame(after)
        return self._spanning(at, after, frames, (start_s, end_s))

    def _two_times(self, at: int) -> tuple[tuple[float, float], int] | None:
        """Read two times after two frames: ``@ t=1-4``, ``(1-4 s)`` or ``from 1 s to 4 s``.

        ``at`` is the index of the first token after the frames. Returns the two times in seconds, and the index of the
        token after them. Returns None if no two times follow.
        """
        begin = at + (self._tokens[at].kind == "comma")
        opened = self._tokens[begin].kind in ("open", "left")
        begin += opened or self._tokens[begin].kind in ("at", "from")
        first, link, last, close = self._tokens[begin : begin + 4]
        if begin == at or link.kind not in (*_LINKS, "and") or not self._are_times(first, last):
            return None
        if opened and close.kind not in ("close", "right"):
            return None
        return (first.value, last.value), begin + 3 + opened

    def _seconds(self, at: int, begin: int, is_placed: bool) -> _Read | None:
        """Read a time span that begins with a time: "1 s to 4 s", "1 s to 4 s (frames 2-5)" or "1 s to frame 5".

        ``at`` is the index of the span's first token, and ``begin`` that of its first time. ``is_placed`` is True if a
        word such as "from" is before this time, or if the span is in square brackets. If it is False, the text may
        state a duration ("for 3 to 5 seconds") instead of a span.

        Returns a list with one statement, and the index of the token after the span. The list is empty if the text
        states a duration. Returns None if neither a span nor a duration begins at ``at``.
        """
        first, last, after = self._tokens[begin], self._tokens[begin + 2], begin + 3
        if last.kind == "frame" and first.kind in _TIMES:
            return self._spanning(at, after, (None, int(last.value)), (first.value, None))
        if not self._are_times(first, last):
            return None
        if not is_placed and first.kind in ("time", "number") and self._is_duration(at, after):
            return [], after
        frames: tuple[int | None, int | None] = (None, None)
        opened, one, _, other, closed = self._tokens[after : after + 5]
        if (opened.kind, one.kind, closed.kind) == ("open", "frame", "close") and other.kind in ("number", "frame"):
            frames, after = (int(one.value), int(other.value)), after + 5
        return self._spanning(at, after, frames, (first.value, last.value))

    def _onwards(self, at: int) -> _Read | None:
        """Read a span of time without an end, such as "from 5 s onwards" or "frame 3 onwards".

        ``at`` is the index of the span's first token. Returns None if no span of this form begins at ``at``.
        """
        first = self._end(at + (self._tokens[at].kind in ("from", "at")))
        if first is None or self._tokens[first.at].kind != "onwards":
            return None
        return self._spanning(at, first.at + 1, (first.frame, None), (first.t_s, None))

    def _open_sided(self, at: int) -> _Read | None:
        """Read a span of time with only a start or an end: ``after A``, ``until A`` or ``before A``.

        A is a frame or a time. ``at`` is the index of the span's first token. Returns a list with one statement, and
        the index of the token after the span. The list is empty if the text states a duration instead of a span.
        Returns None if no frame or time follows.
        """
        one = self._end(at + 1)
        if one is None:
            return None
        if one.frame is None and self._is_duration(at, one.at):
            return [], one.at
        if self._tokens[at].kind == "after":
            return self._spanning(at, one.at, (one.frame, None), (one.t_s, None))
        return self._spanning(at, one.at, (None, one.frame), (None, one.t_s))

    def _single(self, at: int, bracketed: bool = False) -> _Read | None:
        """Read one moment ("frame 3", "at 2 s"), or all moments of a list after the word "frames" ("frames 3, 5").

        ``at`` is the index of the first token. ``bracketed`` is True if the moment is in square brackets. Returns None
        if no moment begins at ``at``.
        """
        token = self._tokens[at]
        if token.kind == "frame":
            t_s, after = self._time_of_frame(at + 1)
            if t_s is None and not bracketed and self._text[token.start + 1].isdigit():
                return None
            one = self._moment(at, after, int(token.value), t_s)
            return self._listed(one) if token.plural else one
        place = at
        while self._tokens[place].kind == "at" and place < at + 2:
            place += 1
        time = self._tokens[place]
        if time.kind not in _TIMES or not (place > at or bracketed or time.kind == "stated" or time.mark):
            return None
        if self._kinds(place + 1) == ["open", "frame", "close"]:
            return self._moment(at, place + 4, int(self._tokens[place + 2].value), time.value)
        return self._moment(at, place + 1, None, time.value)

    def _listed(self, first: _Read) -> _Read:
        """Read the rest of a list such as ``frames 3, 5 and 7``, after its first moment has been read.

        ``first`` holds this first moment, and the index of the token after it. Each frame may have its time. Returns
        all moments of the list, and the index of the token after the list.
        """
        found, at = first
        while True:
            begin = at + (self._tokens[at].kind == "comma")
            begin += self._tokens[begin].kind == "and"
            if begin == at or self._tokens[begin].kind != "number" or self._is_decimal(self._tokens[begin]):
                return found, at
            t_s, at = self._time_of_frame(begin + 1)
            found += self._moment(begin, at, int(self._tokens[begin].value), t_s)[0]

    def _bracketed(self, at: int) -> _Read | None:
        """Read square brackets with frames or times: ``[3 s]``, ``[frame 3, frame 5]`` or ``[1-4 s]``.

        Returns the statements, and the index of the token after the brackets; None if the brackets hold anything else.
        ``at`` is the index of the opening bracket. If the brackets hold only one statement, ``start`` and ``end`` of
        this statement (its offsets in the text) include the brackets.
        """
        found: list[TimeStatement] = []
        place = at + 1
        while True:
            read = self._span(place, bracketed=True) or self._single(place, bracketed=True)
            if read is None:
                return None
            found += read[0]
            place = read[1]
            if self._tokens[place].kind != "comma":
                break
            place += 1
        if self._tokens[place].kind != "right":
            return None
        if len(found) == 1:
            found = [found[0]._replace(start=self._tokens[at].start, end=self._tokens[place].end)]
        return found, place + 1

    def _are_times(self, first: _Token, last: _Token) -> bool:
        """Return whether the two tokens of a range are times, as in "1-4 s" and "t=1-4".

        This is the case if both are numbers or times, and the last one has a unit or the first one has ``t=``.
        """
        numbers = (*_TIMES, "number")
        return (last.kind in _TIMES and first.kind in numbers) or (first.kind == "stated" and last.kind in numbers)

    def _is_decimal(self, token: _Token) -> bool:
        return not self._text[token.start : token.end].isdigit()

    def _is_duration(self, at: int, after: int) -> bool:
        start, end = self._tokens[at].start, self._tokens[after - 1].end
        led = _DURING.search(self._text, max(0, start - 24), start)
        return led is not None or _LASTING.match(self._text, end) is not None
