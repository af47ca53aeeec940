"""Turning multiple choice into free response where that is possible (SAIL-RL App. A.1, against guessing).

In: drafts. Out: the same drafts; a question whose gold answer is a number or a short phrase that stands on its own
loses its choices and keeps the same gold answer, the others stay multiple choice. The former choices are kept beside
it.
"""

import re
from dataclasses import dataclass, replace
from typing import Any

import apache_beam as beam
from apache_beam.pvalue import PCollection

from schemas.records import Draft, Question
from stages.calling import MapDrafts, split

STAGE = "open_choices"

_NUMBER = re.compile(r"[+\-−]?\d+(?:\.\d+)?")
_WORDS = re.compile(r"[^\W\d_]+(?:[ '’-][^\W\d_]+){0,2}")
_REFERS_TO_CHOICES = re.compile(
    r"\b(?:which (?:of|one|option|choice|statement|answer|figure|graph|picture|diagram)|these|following|options?"
    r"|choices?|below|above"
    r"|best (?:describes|illustrates|represents|matches)|true|false|not true|correct statement|except)\b",
    re.IGNORECASE,
)
_ASKS_FREELY = re.compile(
    r"\b(?:how many|how much|how old|how far|what|who|where|when|find|calculate|compute|determine)\b", re.IGNORECASE
)
_META = re.compile(r"\b(?:none|all|both|neither|any|cannot|can't|not)\b", re.IGNORECASE)
_BLANK = re.compile(r"_{2,}|\(\s*\)|\.{3,}|…|\bis\s*[:.]?\s*$")


def can_be_opened(question: Question) -> bool:
    """Whether the gold answer can be given, and graded, without seeing the choices."""
    choices = question.choices
    if choices is None or any(_META.search(choice) for choice in choices):
        return False
    if _REFERS_TO_CHOICES.search(question.question) or _BLANK.search(question.question):
        return False
    if not _ASKS_FREELY.search(question.question):
        return False
    numbers = all(_NUMBER.fullmatch(choice.strip()) for choice in choices)
    words = all(_WORDS.fullmatch(choice.strip()) and len(choice.strip()) > 1 for choice in choices)
    return numbers or words


def open_question(draft: Draft) -> Draft:
    """The draft with its choices opened where they can be."""
    question = draft.question
    if not can_be_opened(question):
        return draft
    answer_type = "numeric" if _NUMBER.fullmatch(question.answer.strip()) else "text"
    opened = replace(question, choices=None, opened_choices=question.choices, answer_type=answer_type)
    return replace(draft, question=opened)


@dataclass
class OpenMultipleChoice(beam.PTransform):
    """Open what can be answered freely; see the module. ``enabled`` False lets everything pass as it is."""

    enabled: bool = True

    def __post_init__(self) -> None:
        super().__init__()

    def expand(self, drafts: PCollection) -> Any:
        """``kept`` drafts and an empty ``rejected``."""
        work = open_question if self.enabled else _pass
        return split(drafts, "Map", MapDrafts(STAGE, work))


def _pass(draft: Draft) -> Draft:
    return draft
