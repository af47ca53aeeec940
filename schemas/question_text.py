"""How a question is put to a model in words: its choices, the form of its answer, and the user turn of a shard."""

from schemas.answers.registry import answer_type_named
from schemas.messages import clip_line
from schemas.records import MediaRef, Question
from schemas.responses.image_mentions import INSTRUCTION
from schemas.responses.times import format_moment

TRACE_INSTRUCTION = (
    "Think inside <think> and </think>, and point at the things that you rely on as "
    '<points x1="X" y1="Y" alt="label">label</points>. Then give only the final answer inside <answer> and </answer>.'
)


def answer_format(question: Question) -> str:
    """One sentence on the form of the final answer."""
    return answer_type_named(question.answer_type).form


def lettered_choices(question: Question) -> str:
    """The choices as lines ``A. text``, or an empty string."""
    return "\n".join(f"{chr(65 + index)}. {choice}" for index, choice in enumerate(question.choices or ()))


def hints_on_pictures(question: Question) -> list[str]:
    """How to say which picture is meant, where there are several still ones; else nothing."""
    several = len(question.media) > 1 and not any(medium.frames for medium in question.media)
    return [INSTRUCTION] if several else []


def user_text(question: Question) -> str:
    """The user's turn: one ``<image>`` per image or frame, the question, its choices, and the form of the answer.

    The frames of a clip stand with their numbers and times, as the teacher saw them.
    """
    parts = [_marks(question.media) + question.question, lettered_choices(question)]
    parts.append(" ".join([TRACE_INSTRUCTION, *hints_on_pictures(question), answer_format(question)]))
    return "\n".join(part for part in parts if part)


def _marks(media: tuple[MediaRef, ...]) -> str:
    """``<image>`` for each image, and a line with one for each frame of a clip."""
    marks = ""
    for index, medium in enumerate(media):
        lines = [f"{format_moment(frame.number, frame.t_s).capitalize()}: <image>\n" for frame in medium.frames]
        marks += f"{clip_line(medium, index, len(media))}\n{''.join(lines)}" if lines else "<image>"
    return marks
