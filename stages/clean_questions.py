"""Cleans questions (SAIL-RL App. A.1): removes remnants of earlier prompts and data formats from their texts.

The inputs are drafts (questions with their data). The outputs are drafts whose questions hold no special tokens, media
placeholders or hidden characters. Instructions on the answer's form are removed too, because they conflict with the
instruction that this pipeline adds to the question. A draft is rejected if its cleaned question is empty or too long.
It is also rejected if a choice holds a special token or a media placeholder, or if the answer holds a special token. A
record of images without a question passes unchanged.
"""

import re
from dataclasses import dataclass, replace
from functools import partial
from typing import Annotated

from pydantic import PositiveInt

from groundtrace.config.settings import settings
from groundtrace.grading.responses.placeholders import has_remnants, without_remnants
from groundtrace.schemas.control_text import TOKEN, without_hidden
from groundtrace.schemas.records import Draft
from groundtrace.stages.plumbing.stage import DraftStage, Reject, Stage, Work

INVALID_RECORD, QUESTION_TOO_LONG = "invalid_record", "question_too_long"

_SYSTEM_TURN = re.compile(r"<\|im_start\|>\s*system\b[^<]*(?:<\|im_end\|>|$)", re.IGNORECASE)
# Atomic groups, since a text may hold thousands of these remnants, and must be read only once.
_ROLE = r"(?:system|user|human|assistant)[ \t]*+:?[ \t]*+\n"
_PERSONA = r"You are an? [^.\n]{0,120}\bassistant\b[^.\n]{0,120}\.\s*"
_OPENING = re.compile(rf"\A(?>\s*(?:{_ROLE}|{_PERSONA}))+", re.IGNORECASE)
_FORMAT_HINTS = (
    r"(?:please )?answer (?:the question )?(?:directly )?with the (?:option(?:'s|’s)?|correct|given) ?(?:option )?"
    r"letter"
    r"[^.\n]{0,80}",
    r"(?:hint: ?)?please answer the question (?:and provide|requiring)[^.\n]{0,160}",
    r"(?:please )?select the correct (?:answer|option) from (?:the )?(?:options|choices) (?:above|below)",
    r"(?:please )?put your (?:final )?answer (?:in|within|inside) [^.\n]{0,60}",
    r"(?:let's |let us )?think step[- ]by[- ]step",
)
_HINT = re.compile(rf"(?:(?<=^)|(?<=[.?!\n]))(?>[ \t]*(?:{'|'.join(_FORMAT_HINTS)})\.?)+", re.IGNORECASE)
_LINE_END = re.compile(r"(?<!\r)\r+\n")
_SPACES = re.compile(r"(?<![ \t])[ \t]++(?=\n|\Z)|(?<=\n)[ \t]+")
_BLANK_LINES = re.compile(r"\n{3,}")


def clean_text(text: str, media_count: int = 1) -> str:
    """Return a question's text without special tokens, media placeholders, hidden characters and answer instructions.

    An answer instruction requests a form of the answer, such as the letter of an option. Parts of an
    earlier prompt, such as a system message, are removed, too. The words of the question itself are never changed.
    Cleaning a cleaned text changes nothing.

    Media placeholders are removed, with one exception: inside a sentence, words replace the placeholder.
    ``media_count``, the number of the question's media, decides which words. For example, ``<image>`` becomes "the
    picture" if the question has one image, and "picture 1" if it has several.
    """
    before = None
    while text != before:
        before = text
        text = _LINE_END.sub("\n", text)  # again each time: a removal may leave a line end of two characters
        text = _SYSTEM_TURN.sub("", without_hidden(text))
        text = without_remnants(text, media_count)
        text = _HINT.sub("", _OPENING.sub("", text))
        text = _BLANK_LINES.sub("\n\n", _SPACES.sub("", text)).strip()
    return text


@settings
class CleanSettings:
    """Holds the maximum length of a cleaned question."""

    max_question_chars: Annotated[PositiveInt, "a longer question is rejected"] = 20_000


def clean(draft: Draft, settings: CleanSettings) -> Draft:
    """Return the draft (a question with its data) with the text of its question cleaned (:func:`clean_text`).

    Only hidden characters are removed from choices and answer, because other changes would change the gold answer.
    Raises :class:`Reject` in three cases: the cleaned question is empty or too long, a choice contains a media
    placeholder or a special token, or the gold answer contains a special token.
    """
    question = draft.question
    if not question.is_asked:
        return draft
    text = clean_text(question.question, len(question.media))
    if not text:
        raise Reject(INVALID_RECORD, "the question has no text apart from placeholders of media and special tokens")
    if len(text) > settings.max_question_chars:
        detail = (
            f"the question has {len(text)} characters, but clean.max_question_chars is {settings.max_question_chars}"
        )
        raise Reject(QUESTION_TOO_LONG, detail)
    choices = None if question.choices is None else tuple(map(without_hidden, question.choices))
    if choices is not None and any(has_remnants(choice) for choice in choices):
        raise Reject(INVALID_RECORD, "a choice holds a media placeholder or a special token")
    answer = without_hidden(question.answer)
    if TOKEN.search(answer):
        raise Reject(INVALID_RECORD, "the gold answer holds a special token")
    return replace(draft, question=replace(question, question=text, choices=choices, answer=answer))


STAGE = Stage(
    "clean",
    "records that cannot be used as questions are dropped, and what earlier users left in the text is removed",
    reasons={
        INVALID_RECORD: "nothing is left of the question, or a choice or the answer holds what only a template may",
        QUESTION_TOO_LONG: "the question exceeds clean.max_question_chars",
    },
    settings=CleanSettings,
)


@dataclass
class CleanQuestions(DraftStage):
    """Stage (pipeline step) that removes remnants of earlier prompts and data formats from every question's text."""

    settings: CleanSettings
    stage = STAGE

    def work(self) -> Work:
        """Return the function to run on each draft (a question with its data). The function removes special tokens,
        media placeholders and answer instructions from the question (:func:`clean`).
        """
        return partial(clean, settings=self.settings)
