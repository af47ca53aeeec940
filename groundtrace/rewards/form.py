"""Checks the form of a response: which parts its text must have and which it may have. It does not check the content.

Other scorers (checks) check the content, but only in the part of the response where it belongs. For example, points
belong in the reasoning. So content in another part is a fault in the form. Examples of faults are a second answer, a
tag that cannot be parsed, coordinates outside of tags, points after the answer, and reasoning whose conclusion differs
from the final answer. A recipe (the reward of one paper) requests one of several forms, and the response must have this
form.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from groundtrace.grading.answers.grading import grade_answer
from groundtrace.grading.answers.registry import answer_type_named
from groundtrace.grading.answers.wrapping import without_answer_phrase
from groundtrace.grading.question_text import BOXES, JUDGE, POINTS, TEXTUAL
from groundtrace.grading.responses.boxed import all_boxed
from groundtrace.grading.responses.conclusions import contradiction
from groundtrace.grading.responses.response import (
    MAX_RESPONSE_CHARS,
    Response,
    has_unread_parts,
    outside_think,
    parse_boxes,
    parse_points,
)
from groundtrace.grading.responses.tag_prose import plain_proses, proses_of, tag_texts
from groundtrace.grading.responses.tags import is_number_only, scan_tags
from groundtrace.rewards.written_places import place_in_prose, place_in_words
from groundtrace.schemas.control_text import find_control
from groundtrace.schemas.records import Question


@dataclass(frozen=True)
class Form:
    """Describes the form that a response must have: which parts are allowed, and which are required.

    Attributes:
        points: whether the response may have tags that mark points in the image.
        boxes: whether the response may have tags that mark boxes in the image.
        reasoning: whether the think section must contain words.
        judged: whether the response must begin with a judge section and end with a boxed answer. A judge section
            (``<judge>``) holds the decision to think or to answer directly.
    """

    points: bool = False
    boxes: bool = False
    reasoning: bool = True
    judged: bool = False


GROUNDED_FORM = Form(points=True)
"""Reasoning with points (Argos)."""
BOXED_FORM = Form(boxes=True)
"""Reasoning with boxes (iVGR's grounded stream)."""
TEXTUAL_FORM = Form()
"""Reasoning only in words."""
JUDGED_FORM = Form(reasoning=False, judged=True)
"""A judge section, then reasoning only in words, then a boxed answer (SAIL-RL). The reasoning may be empty, since a
simple question is answered directly.
"""
FORMS = {POINTS: GROUNDED_FORM, JUDGE: JUDGED_FORM, BOXES: BOXED_FORM, TEXTUAL: TEXTUAL_FORM}
"""The forms of traces, by the name with which a form is requested."""

_OPENED = re.compile(r"[<‹＜]\s*(?:point|box|boxe)s?\b", re.IGNORECASE)
_CLOSED = re.compile(r"<\s*/\s*(?:point|box|boxe)s?\s*>", re.IGNORECASE)
_OTHER_TAG = re.compile(
    r"<\s*(?!/?(?:points?|box|think|answer|judge)\b)[A-Za-z][\w:.-]{0,40}"
    r"(?:\s[^<>]{0,200}=\s*[\"'“]?\s*-?\d|[^<>]{0,200}>\s*[(\[]?-?\d[\d\s,.;]{0,80}[)\]]?\s*</)",
    re.IGNORECASE,
)
_FOREIGN = re.compile(
    r"\"?\b(?:point_2d|bbox_2d|box_2d|bbox|xyxy)\b\"?\s*[:=]|<\|?(?:box_start|box_end|point_start|quad_start|ref)\b|<loc_?\d"
    r"|&lt;\s*/?\s*(?:points?|box)\b",
    re.IGNORECASE,
)
_EXPLAINS = re.compile(r"\b(?:because|since|therefore|hence|thus)\b|\w[.;!?]\s+\w+\s+\w", re.IGNORECASE)
MAX_ANSWERS, MAX_LABELS = 16, 64
"""The maximum number of different boxed answers, and of different point labels, in a response."""
_ANSWER = re.compile(r"<answer\s*>(.*)</answer\s*>", re.DOTALL | re.IGNORECASE)
_THOUGHT_ENDS = re.compile(r"</think\s*>", re.IGNORECASE)
_STATED = re.compile(r"\banswer\s*(?:is|must be|would be|[:=])\s*([^.;:\n]{1,80})", re.IGNORECASE)
_BOX_MARKS = re.compile(r"</?boxed>|<\|(?:begin|end)_of_box\|>|\\+boxed|[${}*]")
_INSTANCE = re.compile(r"\s(?:no|nr)\.\s?\d{1,3}$", re.IGNORECASE)
"""Matches the number of an object at the end of a label, such as " no. 1" in "black circle no. 1".

The number is removed before labels are checked, because its full stop does not end a sentence.
"""
_GLM_BOX = re.compile(r"<\|(?:begin|end)_of_box\|>")
_OF_COORDINATES = re.compile(
    r"\b(?:coordinates?|coordinate plane|ordered pairs?|axis|axes|graph|function|vertex|vertices|vector|matrix|"
    r"interval|tuple|slope|equation|origin|parabola|"
    r"(?:lines|curves) (?:\w+ )?(?:intersect|meet|cross))\b|[(\[]\s*-?[\d.]+\s*,\s*-?[\d.]+\s*[)\]]",
    re.IGNORECASE,
)
_OF_AXES = re.compile(r"\b(?:[xy]|charts?|plots?|diagrams?|histograms?)\b", re.IGNORECASE)


def form_fault(text: str, response: Response, question: Question, form: Form) -> str | None:
    """Return a description of the first fault in the form of a response; None if the form has no fault.

    The function never raises.

    Args:
        text: the response, with its points and boxes written in the tags of this project.
        response: the parsed ``text``.
        question: the question. The response has a fault if its reasoning concludes another answer than
            ``question.answer``. But a wrong answer alone is not a fault in the form. So before the call, the caller
            replaces the gold answer in ``question.answer`` by the final answer of the response. The caller keeps the
            gold answer in two cases: the answer of the response was graded as right, or the response has no answer.
        form: the form that was requested.
    """
    faults = (fault for check in _CHECKS if (fault := check(text, response, question, form)) is not None)
    return next(faults, None)


def _length(text: str, response: Response, question: Question, form: Form) -> str | None:
    """Return a description of the fault if the text of the response has more than ``MAX_RESPONSE_CHARS`` characters,
    else None. The other arguments are not used.
    """
    if len(text) <= MAX_RESPONSE_CHARS:
        return None
    return f"the response has {len(text):,} characters, and at most {MAX_RESPONSE_CHARS:,} are read"


def _sections(text: str, response: Response, question: Question, form: Form) -> str | None:
    if not response.has_format:
        return "the sections are not as asked for"
    if form.judged and (response.judge is None or _ANSWER.search(text) is not None):
        return "the sections are not as asked for: a judge section, a think section and a box"
    if form.judged and _answers_already(response.judge or "", question):
        return "the judge section gives the answer"
    if form.reasoning and not any(map(str.isalpha, _without_tags(response.think or ""))):
        return "there is no reasoning"
    return None


def _answers_already(judge: str, question: Question) -> bool:
    """Return whether a judge section, which should only decide to think or not, already gives an answer.

    ``judge`` is the text of the section. The result is True if ``judge`` contains any boxed answer. It is also True if
    ``judge`` contains a phrase such as "the answer is 5", and this answer equals ``question.answer``, which is the
    final answer of the response or an equal gold answer. For a response without an answer, ``question.answer`` is the
    gold answer (:func:`form_fault`).
    """
    stated = (match.group(1) for match in _STATED.finditer(judge))
    kind, choices = question.answer_type, question.choices
    return bool(all_boxed(judge)) or any(
        grade_answer(each, question.answer, kind, choices).value == 1 for each in stated
    )


def _tags(text: str, response: Response, question: Question, form: Form) -> str | None:
    """Return the first fault in the tags of a response; None if there is no fault.

    A fault is a tag that cannot be parsed, is not closed, is not allowed, or is outside the reasoning. Coordinates in
    tags of other models, and points of more than ``MAX_LABELS`` labels, are faults too.
    """
    read = {tag.start: tag for tag in scan_tags(text)}
    for opened in _OPENED.finditer(text):
        tag = read.get(opened.start())
        written = "" if tag is None else text[tag.start : tag.end]
        if tag is None or has_unread_parts(tag) or not (parse_points(written) or parse_boxes(written)):
            return f"a tag cannot be read: {text[opened.start() : opened.start() + 60]!r}"
        if tag.is_open:
            return f"a tag is not closed: {written[:60]!r}"
    if len(_OPENED.findall(text)) != len(_CLOSED.findall(text)):
        return "a tag is not closed, or closed without being opened"
    foreign = _FOREIGN.search(text) or _OTHER_TAG.search(text)
    if foreign is not None:
        return f"coordinates are outside of tags: {foreign.group()!r}"
    if len({point.label for point in response.points}) > MAX_LABELS:
        return f"points of more than {MAX_LABELS} labels"
    if response.points and not form.points:
        return "points, where none were asked for"
    if response.boxes and not form.boxes:
        return "boxes, which nothing checks here"
    inside = response.think or ""
    if (response.points, response.boxes) != (parse_points(inside), parse_boxes(inside)):
        return "points or boxes are outside of the reasoning"
    return None


def _places(text: str, response: Response, question: Question, form: Form) -> str | None:
    """Return a description of the fault if coordinates, such as "(120, 45)", are outside of tags; else None.

    Questions about coordinates are not checked.
    """
    if _is_of_coordinates(question):
        return None
    found = next(filter(None, map(place_in_prose, proses_of(text))), None)
    return None if found is None else f"coordinates are outside of tags: {found!r}"


def _is_of_coordinates(question: Question) -> bool:
    asked = "\n".join([question.question, question.answer, *(question.choices or ())])
    return _OF_COORDINATES.search(asked) is not None


def _answers(text: str, response: Response, question: Question, form: Form) -> str | None:
    """Return the first fault in the answers that a response contains; None if there is no fault.

    The faults are: an explanation or other text beside the final answer, too many boxed answers, a boxed answer that
    differs from ``question.answer``, and reasoning that concludes another answer. ``question.answer`` is the final
    answer of the response or an equal gold answer. For a response without an answer, it is the gold answer
    (:func:`form_fault`). Questions whose answer is boxes are not checked.
    """
    if answer_type_named(question.answer_type).is_boxes:
        return None
    behind = _behind_the_thought(text) if form.judged else ""
    if _EXPLAINS.search(behind.replace(response.answer or "", " ")) and not _EXPLAINS.search(question.answer):
        return "more than the answer follows the think section"
    section = _ANSWER.search(text)
    boxed = all_boxed(section.group(1)) if section is not None else ()
    if section is not None and boxed and _beside_boxes(section.group(1), boxed):
        return "the answer section holds more than its box"
    if section is not None and _EXPLAINS.search(section.group(1)) and not _EXPLAINS.search(question.answer):
        return "the answer section holds more than the answer"
    put_forward = list(dict.fromkeys(all_boxed(text)))
    if len(put_forward) > MAX_ANSWERS:
        return f"more than {MAX_ANSWERS} answers are put forward"
    for stated in put_forward:
        if grade_answer(stated, question.answer, question.answer_type, question.choices).value == 0:
            return f"another answer is put forward: {stated!r:.60}"
    thought = response.think or ""
    stated = [_INSTANCE.sub("", written) for written in tag_texts(thought) if not is_number_only(written)]
    read = (*plain_proses(thought), *stated, *proses_of(behind))
    contradicted = next(filter(None, (contradiction(prose, question) for prose in read)), None)
    return None if contradicted is None else f"the reasoning concludes otherwise: {contradicted!r:.120}"


def _behind_the_thought(text: str) -> str:
    """Return the text after the think section.

    In a response with a judge section (:data:`JUDGED_FORM`), this text contains the boxed answer.
    """
    return text[max((end.end() for end in _THOUGHT_ENDS.finditer(text)), default=0) :]


def _beside_boxes(section: str, boxed: Sequence[str]) -> str:
    """Return the text of an answer section without its boxed answers and phrases such as "The answer is"."""
    for content in boxed:
        section = section.replace(content, " ")
    return without_answer_phrase(_BOX_MARKS.sub(" ", section)).strip(" .:")


def _written_out(text: str, response: Response, question: Question, form: Form) -> str | None:
    """Return a description of the fault if the text contains coordinates in an unusual form, such as "at 120, 45"; else
    None.

    Examples of other unusual forms are "(120; 45)" and numbers in words. The usual form "(120, 45)" is found by
    :func:`_places`. If the response may have points or boxes, their tags are not checked. Questions about coordinates
    are not checked.
    """
    if _is_of_coordinates(question):
        return None
    is_of_axes = _OF_AXES.search(question.question) is not None
    proses = proses_of(text) if form.points or form.boxes else (text,)
    found = next(filter(None, (place_in_words(prose, is_of_axes=is_of_axes) for prose in proses)), None)
    return None if found is None else f"coordinates are written in words: {found!r}"


def _control(text: str, response: Response, question: Question, form: Form) -> str | None:
    """Return an error message if the response contains a model's special token or a control character; else None.

    In the tags of points and boxes, a token or character that is escaped (such as ``&lt;`` for <) is found as well.
    Exception: GLM's box marks, which are special tokens, are allowed outside the think section.
    """
    read = (response.think or "", *tag_texts(text), _GLM_BOX.sub(" ", outside_think(text)))
    found = next(filter(None, map(find_control, read)), None)
    return None if found is None else f"the response has a special token or control character: {found!r}"


_CHECKS = (_length, _sections, _tags, _control, _places, _written_out, _answers)


def _without_tags(text: str) -> str:
    for tag in reversed(scan_tags(text)):
        text = text[: tag.start] + text[tag.end :]
    return text
