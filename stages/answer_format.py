"""What a prompt says of the choices and of the form of the answer; shared by attempts and traces."""

from schemas.records import Question

_FORMS = {
    "mcq": "Answer with the text of the right choice.",
    "numeric": "Answer with a number alone.",
    "bool": "Answer yes or no.",
    "text": "Answer as briefly as the question allows.",
    "boxes": "Answer with one <box>[x1,y1,x2,y2]</box> for each object, in pixels.",
}


def answer_format(question: Question) -> str:
    """One sentence on the form of the final answer."""
    return _FORMS[question.answer_type]


def lettered_choices(question: Question) -> str:
    """The choices as lines ``A. text``, or an empty string."""
    return "\n".join(f"{chr(65 + index)}. {choice}" for index, choice in enumerate(question.choices or ()))
