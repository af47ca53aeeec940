"""Writes the text of a question: its choices, its instructions, and the user turn of a shard."""

from groundtrace.grading.answers.registry import answer_type_named
from groundtrace.grading.messages import clip_line
from groundtrace.grading.responses.image_mentions import INSTRUCTION
from groundtrace.grading.responses.times import format_moment
from groundtrace.schemas.records import MediaRef, Question

POINTS, JUDGE, BOXES, TEXTUAL, PLAIN, CODE = "points", "judge", "boxes", "textual", "plain", "code"
"""The forms of a response.

They are, in this order: reasoning that points (Argos), judge-think-answer (SAIL-RL), reasoning with boxes and reasoning
in words alone (the two streams of iVGR), reasoning of any kind (RuCL), and reasoning with executed code (CodeDance).
"""

TRACE_INSTRUCTION = (
    "Think inside <think> and </think>, and point at the things that you rely on as "
    '<points x1="X" y1="Y" alt="label">label</points>. Then give only the final answer inside <answer> and </answer>.'
)
INSTRUCTIONS = {
    POINTS: TRACE_INSTRUCTION,
    JUDGE: (
        "Say inside <judge> and </judge> whether this question needs reasoning or can be answered directly. Then "
        "reason inside <think> and </think>, and leave that empty where the question can be answered directly. Then "
        "give only the final answer inside \\boxed{}."
    ),
    BOXES: (
        "Think inside <think> and </think>, and give the box of each object that you rely on as "
        '<box alt="label">[x1, y1, x2, y2]</box>. Then give only the final answer inside <answer> and </answer>.'
    ),
    TEXTUAL: (
        "Think inside <think> and </think>, in words alone, without coordinates. Then give only the final answer "
        "inside <answer> and </answer>."
    ),
    CODE: (
        "Think inside <think> and </think>. Where it helps, write Python code: a complete script with its imports, in "
        "a python fence inside <code> and </code>. It is executed on the image, which is the variable input_image, "
        "and you get its result before you go on. A question that needs neither can be answered directly. Give the "
        "final answer inside <answer> and </answer>."
    ),
    PLAIN: (
        "Reason inside <think> and </think>, and say where in the image you see what you rely on. Then give only the "
        "final answer inside <answer> and </answer>."
    ),
}
"""Maps each form to its instruction in the user turn of a shard."""
TOOL_INSTRUCTION = (
    "Think inside <think> and </think>. Where it helps, call the tool execute_python_code with Python code: a complete "
    "script with its imports. It is executed on the image, which is the variable input_image, and you get its result "
    "before you go on. A question that needs neither can be answered directly. Give the final answer inside <answer> "
    "and </answer>."
)
"""The instruction of :data:`CODE` for a model that writes its code as a tool call."""


CLIP_INSTRUCTION = (
    'Directly behind each point, name its frame as "in frame F (T s)"; for what takes several frames, say '
    '"from T1 s to T2 s". Name only frames that are shown.'
)


def answer_format(question: Question) -> str:
    """Return the sentence that requests the final answer in the form of its type, such as "Answer yes or no"."""
    return answer_type_named(question.answer_type).form


def lettered_choices(question: Question) -> str:
    """Return the choices as lines ``A. text``; "" if the question has no choices."""
    return "\n".join(f"{chr(65 + index)}. {choice}" for index, choice in enumerate(question.choices or ()))


def image_hints(question: Question) -> list[str]:
    """Return a list with the instruction to name the image of each tag.

    The list is empty if the question does not have several still images.
    """
    several = len(question.media) > 1 and not any(medium.frames for medium in question.media)
    return [INSTRUCTION] if several else []


def instruction(question: Question, form: str = POINTS) -> str:
    """Return the instruction for a form of response.

    If the form has coordinates and the question has several images or a clip, the instruction also explains how to
    name the image or frame of a position. Raises KeyError for an unknown form.
    """
    parts = [INSTRUCTIONS[form]]
    if form in (POINTS, BOXES):
        parts += image_hints(question)
    if form == POINTS and any(medium.frames for medium in question.media):
        parts.append(CLIP_INSTRUCTION)
    return " ".join(parts)


def user_text(question: Question, form: str = POINTS) -> str:
    """Return the user turn: an ``<image>`` mark per image or frame, the question, its choices and the instructions.

    ``form`` is the form of response that is requested. The number and time of each frame of a clip are written before
    its ``<image>``, as in the teacher's prompt.
    """
    parts = [_marks(question.media) + question.question, lettered_choices(question)]
    parts.append(f"{instruction(question, form)} {answer_format(question)}")
    return "\n".join(part for part in parts if part)


def _marks(media: tuple[MediaRef, ...]) -> str:
    """Return one ``<image>`` for each image; for a clip, one line with ``<image>`` for each of its frames."""
    marks = ""
    for index, medium in enumerate(media):
        lines = [f"{format_moment(frame.number, frame.t_s).capitalize()}: <image>\n" for frame in medium.frames]
        marks += f"{clip_line(medium, index, len(media))}\n{''.join(lines)}" if lines else "<image>"
    return marks
