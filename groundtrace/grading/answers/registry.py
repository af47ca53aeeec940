"""Lists the answer types by name. A new type needs a file in this package and a line here."""

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
    """Return the answer type with this name.

    For an unknown name, return a type that leaves every answer unscored. Input records of an unknown type are refused
    (:mod:`groundtrace.grading.input_record`). But a trainer may read the rows of a run that used a plug-in's type,
    without having this plug-in.
    """
    return ANSWER_TYPES[name] if name in ANSWER_TYPES else _unknown(name)


def evident_type(answer: str, choices: tuple[str, ...] | None) -> AnswerType:
    """Return the type of a record without ``answer_type``, by its answer and choices.

    It is the first type of the registry whose ``is_evident`` returns True. If no type returns True, it is free text.
    """
    return next((kind for kind in ANSWER_TYPES.values() if kind.is_evident(answer, choices)), ANSWER_TYPES["text"])


@functools.lru_cache(256)
def _unknown(name: str) -> AnswerType:
    """Return a type for an unknown name; this type leaves every answer unscored."""
    reason = f"the answer type {name!r:.80} is not known here: name it in the config, as [plugins] answer_types"
    return AnswerType(name, "", lambda predicted, gold, choices: Grade(None, "unknown", reason))
