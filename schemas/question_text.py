"""The words in which a question is asked: its choices, the form of its answer, and the user turn of a shard."""

from schemas.answers.registry import answer_type_named
from schemas.messages import clip_line
from schemas.records import MediaRef, Question
from schemas.responses.image_mentions import INSTRUCTION
from schemas.responses.times import format_moment

TRACE_INSTRUCTION = (
    "Think inside <think> and </think>, and point at the things that you rely on as "
    '<points x1="X" y1="Y" alt="label">label</points>. Then give only the final answer inside <answer> and </answer>.'
)


CLIP_INSTRUCTION = (
    'Directly behind each point, name its frame as "in frame F (T s)"; for what takes several frames, say '
    '"from T1 s to T2 s". Name only frames that are shown.'
)


def answer_format(question: Question) -> str:
    """Returns the sentence that asks for the form of the final answer."""
    return answer_type_named(question.answer_type).form


def lettered_choices(question: Question) -> str:
    """Returns the choices as lines ``A. text``; an empty string where there are none."""
    return "\n".join(f"{chr(65 + index)}. {choice}" for index, choice in enumerate(question.choices or ()))


def image_hints(question: Question) -> list[str]:
    """Returns how to say which image is meant where there are several still images; else nothing."""
    several = len(question.media) > 1 and not any(medium.frames for medium in question.media)
    return [INSTRUCTION] if several else []


def trace_instruction(question: Question) -> str:
    """Returns how to reason, point and answer, with which image or frame a point is in where that must be said."""
    of_clip = [CLIP_INSTRUCTION] if any(medium.frames for medium in question.media) else []
    return " ".join([TRACE_INSTRUCTION, *image_hints(question), *of_clip])


def user_text(question: Question) -> str:
    """Returns the user's turn: one ``<image>`` per image or frame, the question, its choices, and the form of the
    answer.

    Each frame of a clip follows its number and time, as the teacher saw it.
    """
    parts = [_marks(question.media) + question.question, lettered_choices(question)]
    parts.append(f"{trace_instruction(question)} {answer_format(question)}")
    return "\n".join(part for part in parts if part)


def _marks(media: tuple[MediaRef, ...]) -> str:
    """``<image>`` for each image, and a line with one for each frame of a clip."""
    marks = ""
    for index, medium in enumerate(media):
        lines = [f"{format_moment(frame.number, frame.t_s).capitalize()}: <image>\n" for frame in medium.frames]
        marks += f"{clip_line(medium, index, len(media))}\n{''.join(lines)}" if lines else "<image>"
    return marks
