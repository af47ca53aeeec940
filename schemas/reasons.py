"""Lists the reasons for which a record of the input is rejected when it is read."""

from enum import StrEnum


class Reason(StrEnum):
    """Lists the faults for which a record of the input is rejected. A member's value is the reason that the rejected
    rows (folder ``rejected/``) contain.
    """

    INVALID_RECORD = "invalid_record"
    CONTROL_CHARACTERS = "control_characters"
    ANSWER_NOT_IN_CHOICES = "answer_not_in_choices"
    INVALID_BOXES = "invalid_boxes"


MEANING: dict[Reason, str] = {
    Reason.INVALID_RECORD: "a field is missing, mistyped or not parsable",
    Reason.CONTROL_CHARACTERS: "control characters in the text, such as a form feed left of a broken \\frac",
    Reason.ANSWER_NOT_IN_CHOICES: "the gold answer is not one of the choices",
    Reason.INVALID_BOXES: "a gold box is empty, not finite or outside its image",
}
