"""Writes the text of a question for a model: the question, its choices, and instructions for the response.

This text is the user's message in a shard (a Parquet file of training rows).
"""

from groundtrace.grading.answers.registry import answer_type_named
from groundtrace.grading.messages import clip_line
from groundtrace.grading.responses.image_mentions import INSTRUCTION
from groundtrace.grading.responses.times import format_moment
from groundtrace.schemas.records import MediaRef, Question

POINTS, JUDGE, BOXES, TEXTUAL, PLAIN, CODE = "points", "judge", "boxes", "textual", "plain", "code"
"""The forms in which a response can be requested.

They are, in this order: reasoning with points (Argos), a judgement and then reasoning (judge-think-answer, SAIL-RL),
reasoning with boxes and reasoning in words alone (the two ways of answering in iVGR), reasoning of any kind (RuCL), and
reasoning with executed code (CodeDance).
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
"""Maps the name of each form to the instruction that requests this form in the user's message."""
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
    """Return the sentence that requests the final answer in the right form, such as "Answer yes or no."

    The sentence depends only on the question's answer type. It is "" if the answer type is unknown.
    """
    return answer_type_named(question.answer_type).form


def lettered_choices(question: Question) -> str:
    """Return the choices of a question as text, with one line per choice: "A. red", then "B. blue", and so on.

    Returns "" if the question has no choices.
    """
    return "\n".join(f"{chr(65 + index)}. {choice}" for index, choice in enumerate(question.choices or ()))


def image_hints(question: Question) -> list[str]:
    """Return the sentence that asks the model to name the image of each point or box, if there are several images.

    The result is a list with this one sentence. The list is empty if the question has only one image, or a video clip.
    """
    several = len(question.media) > 1 and not any(medium.frames for medium in question.media)
    return [INSTRUCTION] if several else []


def instruction(question: Question, form: str = POINTS) -> str:
    """Return the instruction that requests one form of response, such as reasoning with points.

    ``form`` is a key of :data:`INSTRUCTIONS`:

    - ``points`` or ``boxes``: reasoning with points or boxes;
    - ``textual``: reasoning in words only, without coordinates;
    - ``judge``: first a judgement whether the question needs reasoning, then the reasoning;
    - ``code``: reasoning with Python code that is executed;
    - ``plain``: reasoning of any kind.

    For points or boxes in several images, the instruction also explains how to name the image of each position. For
    points in a video clip, it explains how to name the frame. Raises KeyError for an unknown form.
    """
    parts = [INSTRUCTIONS[form]]
    if form in (POINTS, BOXES):
        parts += image_hints(question)
    if form == POINTS and any(medium.frames for medium in question.media):
        parts.append(CLIP_INSTRUCTION)
    return " ".join(parts)


def user_text(question: Question, form: str = POINTS) -> str:
    """Return the user's message for a question: its images, its text, its choices and the instructions.

    The message has one placeholder ``<image>`` per image or frame. For a video clip, the number and the time of each
    frame are written before its placeholder. ``form`` is the name of the requested form of response, such as ``points``
    (:func:`instruction` lists all forms). Raises KeyError for an unknown form.
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
