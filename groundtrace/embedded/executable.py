"""Implements the embedded engine (no model) as teacher and judge of :mod:`groundtrace.pipelines.executable_cot`.

As the teacher, the engine writes real OpenCV and PIL code. The prompt requires one of these kinds of code:

- A computation: the code finds the objects in the pixels, and the answer is the last line that the code prints. The
  code does not contain the answer. If it runs on another image, it prints the answer for that image.
- A drawing or a crop: the engine finds the objects that its answer is based on, and then writes code that marks or
  crops these objects and displays the result. The answer follows in the next turn.
"""

import json
import re

import numpy as np

from groundtrace.embedded.scenes import CANNOT_READ, Scene, question_of, read_scene
from groundtrace.embedded.sight.answer import SightAnswer
from groundtrace.embedded.sight.labels import Noun
from groundtrace.embedded.sight.query import CountQuery, ObjectStatement, Query
from groundtrace.grading.messages import MediaPart, TextPart
from groundtrace.grading.responses.response import parse_response
from groundtrace.grading.responses.turns import read_trajectory
from groundtrace.prompts.loader import RenderedPrompt

ACT, JUDGE, REASON, REWRITE = "act", "judge_trajectory", "reason", "rewrite"
_OF_CODE = frozenset((ACT, JUDGE))
_RESULT = re.compile(r"<interpreter>\n(.*?)\n?</interpreter>", re.DOTALL)
_PICTURE = re.compile(r"\[result picture \d+\]")
_DRAWING, _TRANSFORM = "drawing", "transform"
_PLACES = re.compile(r"at x = ([\d, ]+|nowhere)\.")
_MARGIN_PX = 6
_ENLARGED = 3

_FIND = """\
import cv2
import numpy as np

HUES = {
    8: "red", 21: "orange", 35: "yellow", 83: "green", 96: "cyan", 128: "blue", 145: "purple", 169: "pink", 181: "red"
}
image = np.asarray(input_image)
hue, saturation, value = (cv2.cvtColor(image, cv2.COLOR_RGB2HSV)[:, :, index].astype(int) for index in range(3))
names = np.array(list(HUES.values()))[np.searchsorted(list(HUES), hue, side="right")]
names[saturation * value < 38 * 255] = "background"
names[value < 51] = "black"
shapes = []
for colour in np.unique(names):
    mask = (names == colour).astype(np.uint8)
    if colour == "background" or mask.mean() > 0.4:
        continue
    count, _, stats, _ = cv2.connectedComponentsWithStats(mask, connectivity=4)
    for x, y, width, height, area in stats[1:]:
        if min(width, height) < 6:
            continue
        fill = area / (width * height)
        kind = "square" if fill > 0.9 else "circle" if fill > 0.65 else "triangle"
        if kind == "square" and max(width, height) > 1.2 * min(width, height):
            kind = "rectangle"
        shapes.append((str(colour), kind, int(x), int(y), int(width), int(height)))
"""
_LIST = """\
for colour, kind, x, y, width, height in shapes:
    print(f"{colour} {kind} at ({x}, {y}), {width} x {height}")
print(len(shapes), "shapes")
"""
_SELECT = """\
found = [each for each in shapes if {condition}]
print(len(found))
"""
_DECIDE = """\
print("yes" if len(found) {operator} {amount} else "no")
"""
_DRAW = """\
from PIL import ImageDraw

marked = input_image.copy()
draw = ImageDraw.Draw(marked)
for box in {boxes}:
    draw.rectangle(box, outline=(255, 0, 255), width=2)
display(marked)
"""
_CROP = """\
part = input_image.crop({box})
display(part.resize((part.width * {scale}, part.height * {scale})))
"""
_OPERATORS = {"exactly": "==", "at least": ">=", "at most": "<=", "bare": "=="}


def one_image(prompt: RenderedPrompt) -> bool:
    """Return whether a prompt is about exactly one image, and requests code or a judgement of code.

    Only the images before the prompt's first text are counted, since later images are results of code. The result is
    False for a prompt that requests something else.
    """
    if prompt.name.split(".")[0] not in _OF_CODE:
        return False
    first_text = next((index for index, part in enumerate(prompt.user) if isinstance(part, TextPart)), 0)
    return sum(isinstance(part, MediaPart) for part in prompt.user[:first_text]) == 1


def act(prompt: RenderedPrompt, scene: Scene, rng: np.random.Generator, strength: float) -> str:
    """Return the next turn of a response with code: code, or the final answer.

    The prompt requires one kind of code: a computation, a drawing or a crop. The turn is the answer if earlier code has
    already printed or shown the result. The answer is "cannot read" if the embedded engine (OpenCV, no model) cannot
    read the question or the image, or if it can write no code of the required kind for the question.

    ``prompt`` holds the question and the earlier turns, and ``scene`` holds the image. The image can be coarsened
    (scaled down and blurred) at random: ``rng`` is the random generator, and ``strength`` is the degree (0: not
    coarsened).
    """
    written = "".join(part.text for part in prompt.user[1:] if isinstance(part, TextPart))
    results, operation = _RESULT.findall(written), prompt.variable("operation")
    query, reading = question_of(prompt), read_scene(prompt, scene, scene.seen_as(rng, strength))
    if operation.startswith((_DRAWING, _TRANSFORM)):
        return _shown(reading, operation, bool(results))
    code = _program(query)
    if code is None:
        return _answer("No program that I can write answers this question.", CANNOT_READ)
    if not results:
        if rng.random() < 0.5:  # in two turns
            return _turn("I look for all shapes in the picture first.", _FIND + _LIST)
        return _turn("I find the shapes by their colour and count those asked for.", _FIND + code)
    if "found = [" not in written:
        return _turn("The shapes are listed. Now I count those asked for.", code)
    last = results[-1].strip().split("\n")[-1]
    return _answer(f"The code printed {last}. That is enough.", last)


def _program(query: Query | None) -> str | None:
    """Return code that counts the objects of a question and prints the answer; None if no such code can be written.

    ``query`` is the parsed question. It must ask for a number of objects, or whether a statement about this number is
    true. It must not have a condition such as "touching the edge".
    """
    if not isinstance(query, CountQuery | ObjectStatement) or query.touch is not None:
        return None
    code = _SELECT.format(condition=_condition(query.noun))
    if isinstance(query, ObjectStatement):
        code += _DECIDE.format(operator=_OPERATORS[query.amount.op], amount=query.amount.n)
    return code


def _condition(noun: Noun) -> str:
    parts = [f"each[0] in {noun.colours!r}"] if noun.colours else []
    parts += [f"each[1] in {noun.kinds!r}"] if noun.kinds else []
    return " and ".join(parts) or "True"


def _shown(reading: SightAnswer | None, operation: str, is_shown: bool) -> str:
    """Return a turn of a response: code that marks or crops the objects on which the answer is based, or the answer.

    ``reading`` holds the answer and these objects. If ``reading`` is None, the turn is the answer "cannot read".
    ``operation`` is the required kind of code: a drawing marks the objects, and a transform crops the image. If
    ``is_shown`` is True (an earlier turn has shown the objects), the turn is the answer.
    """
    if reading is None:
        return _answer("I cannot read this question or this picture.", CANNOT_READ)
    if is_shown:
        return _answer(f"The result shows the objects. {reading.reason}", reading.answer)
    boxes = [tuple(round(side) for side in shape.box_px) for shape in reading.evidence]
    if operation.startswith(_DRAWING):
        return _turn("I mark the objects that the question asks about.", _DRAW.format(boxes=boxes))
    left, top = (min((box[side] for box in boxes), default=0) for side in (0, 1))
    right, bottom = (max((box[side] for box in boxes), default=1) for side in (2, 3))
    around = (max(0, left - _MARGIN_PX), max(0, top - _MARGIN_PX), right + _MARGIN_PX, bottom + _MARGIN_PX)
    return _turn("I enlarge the part that the question asks about.", _CROP.format(box=around, scale=_ENLARGED))


def reason(prompt: RenderedPrompt, scene: Scene, rng: np.random.Generator, strength: float) -> str:
    """Return a solution without code, which lists the x coordinates of the objects that the answer is based on.

    ``prompt`` holds the question, and ``scene`` holds the image. The image can be coarsened (scaled down and blurred)
    at random: ``rng`` is the random generator, and ``strength`` is the degree (0: not coarsened). The answer is
    "cannot read" if the embedded engine (OpenCV, no model) cannot read the question or the image.
    """
    reading = read_scene(prompt, scene, scene.seen_as(rng, strength))
    if reading is None:
        return _answer("I cannot read this question or this picture.", CANNOT_READ)
    places = ", ".join(f"{place:.0f}" for place in sorted(shape.point_px[0] for shape in reading.evidence))
    return _answer(
        f"From left to right, these objects are at x = {places or 'nowhere'}. {reading.reason}", reading.answer
    )


def rewrite(prompt: RenderedPrompt, _scene: Scene, _rng: np.random.Generator, _strength: float) -> str:
    """Return the solution in the prompt, rewritten so that code computes the answer.

    The solution (the variable ``reasoning`` of the prompt) contains a list of x coordinates. Code that counts the
    entries of this list replaces the sentences after the list. The solution is returned unchanged if it has no such
    list, or if the question neither asks for a number of objects nor contains a statement about this number. The other
    arguments are not used.
    """
    solution, query = prompt.variable("reasoning"), question_of(prompt)
    response, found = parse_response(solution), _PLACES.search(solution)
    if found is None or not isinstance(query, CountQuery | ObjectStatement):
        return solution
    code = f"found = [{found.group(1).replace('nowhere', '')}]\n"
    code += "print(len(found))\n"
    if isinstance(query, ObjectStatement):
        code += _DECIDE.format(operator=_OPERATORS[query.amount.op], amount=query.amount.n)
    counted = len(found.group(1).split(",")) if found.group(1) != "nowhere" else 0
    lines = [str(counted), *([response.answer or ""] if isinstance(query, ObjectStatement) else [])]
    before = _turn((response.think or "")[: (response.think or "").index(found.group()) + len(found.group())], code)
    printed = "\n".join(lines)
    return f"{before}\n<interpreter>\n{printed}\n</interpreter>\n" + _answer(f"So {lines[-1]}.", response.answer or "")


def _turn(thought: str, code: str) -> str:
    return f"<think>{thought}</think>\n<code>\n```python\n{code}```\n</code>"


def _answer(thought: str, answer: str) -> str:
    return f"<think>{thought}</think>\n<answer>{answer}</answer>"


def judge_trajectory(prompt: RenderedPrompt, scene: Scene, _rng: np.random.Generator, _strength: float) -> str:
    """Judge whether the answer of a trajectory (a response with code and the results of the code) is right.

    Returns JSON with a reason and ``"agrees"`` (true or false). The answer must equal the last line that the
    trajectory's code printed. If the code printed nothing, the answer must equal the embedded engine's own answer.
    ``prompt`` holds the question and the trajectory, and ``scene`` holds the image. The other arguments are not used.
    """
    trajectory = prompt.variable("trajectory")
    answer = parse_response(trajectory).answer or ""
    outputs = (_PICTURE.sub("", turn.output).strip() for turn in read_trajectory(trajectory))
    printed = [output for output in outputs if output]
    if printed:
        last = printed[-1].split("\n")[-1]
        return _judged(last == answer, f"the code printed {last!r:.40}, the answer is {answer!r:.40}")
    query = question_of(prompt)
    reading = None if query is None else read_scene(prompt, scene, scene.shapes)
    if reading is None:
        return _judged(False, "the engine cannot read this question or this picture")
    return _judged(reading.answer == answer, f"the picture shows {reading.answer}, the answer is {answer!r:.40}")


def _judged(agrees: bool, reason: str) -> str:
    return json.dumps({"reason": reason, "agrees": agrees})


HANDLERS = {ACT: act, JUDGE: judge_trajectory, REASON: reason, REWRITE: rewrite}
