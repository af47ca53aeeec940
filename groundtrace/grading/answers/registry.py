"""Lists the answer types by name. A new type needs a file in this package and an entry in the table below."""

import functools

from groundtrace.grading.answers.answer_type import AnswerType, Grade
from groundtrace.schemas.registry import Registry

ANSWER_TYPES: Registry[AnswerType] = Registry(
    "answer_types",
    "answer type",
    "groundtrace.grading.answers.answer_type:AnswerType",
    {
        "mcq": "groundtrace.grading.answers.multiple_choice:MULTIPLE_CHOICE",
        "numeric": "groundtrace.grading.answers.number:NUMBER",
        "text": "groundtrace.grading.answers.free_text:FREE_TEXT",
        "bool": "groundtrace.grading.answers.yes_no:YES_NO",
        "boxes": "groundtrace.grading.answers.gold_boxes:GOLD_BOXES",
    },
)


def answer_type_named(name: str) -> AnswerType:
    """Return the answer type with this name, such as "numeric" or "mcq".

    For an unknown name, the function returns a type that gives every answer the grade None (unscored). Input records of
    an unknown type are refused earlier (:mod:`groundtrace.grading.input_record`). But a user's plug-in can add a type.
    A trainer without this plug-in may then read training rows of this type.
    """
    return ANSWER_TYPES[name] if name in ANSWER_TYPES else _unknown(name)


def evident_type(answer: str, choices: tuple[str, ...] | None) -> AnswerType:
    """Return the answer type that follows from an answer and its choices, for a record that names no answer type.

    ``choices`` is None if the record has no choices. Each answer type has a function ``is_evident``, which gets the
    answer and the choices. The result is the first type in :data:`ANSWER_TYPES` whose function returns True. If none
    does, the result is free text.
    """
    return next((kind for kind in ANSWER_TYPES.values() if kind.is_evident(answer, choices)), ANSWER_TYPES["text"])


@functools.lru_cache(256)
def _unknown(name: str) -> AnswerType:
    """Return an answer type for an unknown name; this type gives every answer the grade None (unscored)."""
    reason = f"the answer type {name!r:.80} is not known here: name it in the config, as [plugins] answer_types"
    return AnswerType(name, "", lambda predicted, gold, choices: Grade(None, "unknown", reason))
