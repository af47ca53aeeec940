"""The answer types by name: a new one is a file in this room and one line here.

A type from outside this repository is added where its module is imported: ``ANSWER_TYPES[ANGLE.name] = ANGLE``.
"""

from groundtrace.schemas.answers.answer_type import AnswerType
from groundtrace.schemas.answers.free_text import FREE_TEXT
from groundtrace.schemas.answers.gold_boxes import GOLD_BOXES
from groundtrace.schemas.answers.multiple_choice import MULTIPLE_CHOICE
from groundtrace.schemas.answers.number import NUMBER
from groundtrace.schemas.answers.yes_no import YES_NO

_BUILT_IN = (
    MULTIPLE_CHOICE,
    NUMBER,
    FREE_TEXT,
    YES_NO,
    GOLD_BOXES,
)

ANSWER_TYPES: dict[str, AnswerType] = {kind.name: kind for kind in _BUILT_IN}


def answer_type_named(name: str) -> AnswerType:
    """Returns the type of that name; free text for a name that is not known here."""
    return ANSWER_TYPES.get(name, FREE_TEXT)


def evident_type(answer: str, choices: tuple[str, ...] | None) -> AnswerType:
    """Returns the type of a record that does not name one: the first that its answer and choices show, or free text."""
    return next((kind for kind in ANSWER_TYPES.values() if kind.is_evident(answer, choices)), FREE_TEXT)
