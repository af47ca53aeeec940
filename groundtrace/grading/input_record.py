"""Validates one input record, field by field. The files of its media are not opened here.

A record is a JSON object with these fields:

- id, source, license, question and answer;
- media: a path or a list of paths;
- answer_type: a name of :data:`groundtrace.grading.answers.registry.ANSWER_TYPES`;
- choices: a list or null;
- boxes: a list of {label, bbox} or null.

If answer_type is missing, the other fields determine it. A record with choices is multiple choice. Otherwise, the type
depends on the answer: a number, yes or no (also the JSON values true and false), or text.

If a record has choices, its answer must match exactly one of them: by the text, by the number, or by yes or no.
Some answer types, such as ``numeric``, show their questions without choices. A record with choices may name such a
type. Its choices are then not shown, but stored in ``opened_choices``.

In some pipelines, a model writes the questions. For them, a record may have only images: no question, no answer, and no
other field that belongs to a question.
"""

import decimal
import json
import re
from collections.abc import Mapping
from dataclasses import field, replace
from types import MappingProxyType

from groundtrace.grading.answers.answer_type import AnswerType, Gold, InvalidGold
from groundtrace.grading.answers.number import value_of
from groundtrace.grading.answers.registry import ANSWER_TYPES, evident_type
from groundtrace.grading.answers.yes_no import yes_or_no
from groundtrace.schemas.coding import record
from groundtrace.schemas.control_text import DAMAGE
from groundtrace.schemas.geometry import Box
from groundtrace.schemas.reasons import Reason
from groundtrace.schemas.records import NO_ORIGIN, Origin, RawRecord
from groundtrace.schemas.text import excerpt, folded, last_part, storable

_BROKEN_LATEX = re.compile(r"\t(?=heta|imes|riangle|ext|an\b|au\b)|\r(?=ight|angle|ho\b)")
_SCHEME = re.compile(r"[A-Za-z][\w+.-]*:")
"""Matches the scheme at the beginning of an address, and also the letter of a drive ("C:")."""
_MADE_UP = re.compile(r"#\d+\Z")
_LETTER = re.compile(r"\W*[A-Za-z]\W*")
_MAX_NUMBER = 1e300
TEXT_FIELDS = ("question", "answer", "source", "license")
_NAMES = {"\x0c": "form feed (a broken \\f… such as \\frac?)", "\x08": "backspace (a broken \\b… such as \\beta?)"}
_NAMES |= {
    "\x0b": "vertical tab (a broken \\v… such as \\vec?)",
    "\t": "tab (a broken \\t… such as \\theta?)",
    "\r": "carriage return (a broken \\r… such as \\right?)",
}


class InvalidRecord(ValueError):
    """Raised if a record cannot be used.

    ``reason`` is the category of the fault, and ``detail`` is a message that names the field and the fault.
    ``record_id`` is the record's id, or None if the id cannot be read. ``origin`` describes the source of the record
    for human readers, e.g. by the names of its media; no step of the pipeline uses ``origin``. ``texts`` maps the name
    of each text field (:data:`TEXT_FIELDS`) to the field's unchecked text.
    """

    def __init__(self, reason: Reason, detail: str, record_id: str | None = None) -> None:
        super().__init__(detail)
        self.reason, self.detail, self.record_id = reason, detail, record_id
        self.origin = NO_ORIGIN
        self.texts: dict[str, str] = {}

    def name_column(self, columns: Mapping[str, str]) -> None:
        """Insert the name of the input's column into the message, after the field with which the message begins.

        For example, "answer must be" becomes "answer (column 'label') must be", so that the user finds the column.
        ``columns`` maps fields to columns. A column that has the name of its field is not inserted.
        """
        name = self.detail.partition(":")[0].partition(" ")[0]
        column = columns.get(name, name)
        if column != name:
            self.detail = f"{name} (column {column!r}){self.detail.removeprefix(name)}"
            self.args = (self.detail,)


@record
class InputRecord:
    """Holds the checked fields of one input record. Its media have not been opened.

    ``number`` is the line or row of the record in the input, from 1. ``media`` are the URIs of its images and clips.
    ``choices`` are the choices that are shown with the question; None if there are none. ``opened_choices`` are the
    record's choices if they are not shown, because the answer type asks an open question; otherwise None. ``boxes`` are
    the gold boxes in pixels; None if the record has no such field.

    ``question``, ``answer`` and ``answer_type`` are "" if the record has only images. ``source`` is the name of the
    data set. ``origin`` describes the source of the record for human readers, e.g. by the names of its media. Two
    records that differ only in ``origin`` are equal.
    """

    number: int
    id: str
    source: str
    license: str
    media: tuple[str, ...]
    question: str
    answer: str
    answer_type: str
    choices: tuple[str, ...] | None
    boxes: tuple[Box, ...] | None
    opened_choices: tuple[str, ...] | None = None
    origin: Origin = field(default=NO_ORIGIN, repr=False, compare=False)


def parse_record(
    raw: RawRecord, may_lack_question: bool = False, columns: Mapping[str, str] = MappingProxyType({})
) -> InputRecord:
    """Check one line or row of the input, and return it as a record.

    ``raw`` is the unchecked line or row. If ``may_lack_question`` is True, a record that has only images, without
    question and answer, is valid. ``columns`` is the column map of the input: the input's column for each field. Raises
    InvalidRecord for an invalid record; the message names the field and the fault. If the field's column has another
    name than the field, the message also names the column.
    """
    origin, fields = raw.origin, dict[str, object]()
    try:
        fields = _json_object(raw.text)
        if not raw.materialised:
            origin = replace(origin, media_names=_names(fields.get("media")))
        return replace(_parse(raw, fields, may_lack_question), origin=origin)
    except InvalidRecord as error:
        error.name_column(columns)
        error.origin = origin
        error.texts = {name: text for name, text in fields.items() if name in TEXT_FIELDS and isinstance(text, str)}
        raise


def _names(media: object) -> tuple[str, ...]:
    """Return a safe name (:func:`medium_name`) for each path in the field ``media`` of a record."""
    paths = media if isinstance(media, list) else [media]
    return tuple(medium_name(path) for path in paths if path is not None)


def medium_name(path: object) -> str:
    """Return a name for an image or clip that is safe to publish, given its path in the input.

    A relative path is returned as it is. For an absolute path, a web address, or a path outside the input's folder,
    only the last part is returned, without the query: "cat.png" for "https://example.org/a/cat.png?key=1". The other
    parts could show the machine that made the input, or give access to the file. The result is "" for a ``data:`` URI,
    and if ``path`` is not a string.
    """
    if not isinstance(path, str) or path.startswith("data:"):
        return ""
    slashed = path.replace("\\", "/")
    if _SCHEME.match(slashed):
        slashed = re.split(r"[?#]", slashed, maxsplit=1)[0]
    elif not slashed.startswith(("/", "../", "~")) and "/../" not in slashed:
        return storable(path)
    return storable(last_part(slashed))


def checked_pair(question: str, answer: str) -> tuple[str, str]:
    """Check a question and its answer that a model wrote, and return the answer and its type.

    The first result is the answer in the normal form of its type, such as "1200" for "1,200". The second result is the
    name of this type, such as "numeric". Raises InvalidRecord if the question or the answer is empty or has control
    characters, or if the answer does not fit its type.
    """
    for name, text in (("question", question), ("answer", answer)):
        _refuse_control(name, _text({name: text}, name))
    kind = evident_type(answer, None)
    return _checked_answer(kind, answer, None, None), kind.name


def _parse(raw: RawRecord, fields: Mapping[str, object], may_lack_question: bool) -> InputRecord:
    record_id = fields.get("id")
    if isinstance(record_id, int) and not isinstance(record_id, bool):
        record_id = str(record_id)
    record_id = _text({"id": record_id}, "id")
    if _MADE_UP.search(record_id):
        detail = f"id: {excerpt(record_id)} ends with # and a number, as only ids of repeated records may: change it"
        raise InvalidRecord(Reason.INVALID_RECORD, detail)
    if raw.problem:
        raise InvalidRecord(Reason.INVALID_RECORD, raw.problem, record_id)
    try:
        is_asked = not (may_lack_question and _has_no_question(fields))
        return _parse_fields(raw, record_id, fields, is_asked)
    except InvalidRecord as error:
        error.record_id = record_id
        raise


def _has_no_question(fields: Mapping[str, object]) -> bool:
    """Return True if a record has neither a question nor an answer, and False if it has at least one of them.

    Raises InvalidRecord if a record with neither of them has choices, boxes or an answer_type, because these belong to
    a question.
    """
    values = (fields.get("question"), fields.get("answer"))
    if not all(value is None or (isinstance(value, str) and not value.strip()) for value in values):
        return False
    if name := next((name for name in ("choices", "boxes", "answer_type") if fields.get(name)), ""):
        detail = f"{name}: the record has no question, so remove this field, or add the question"
        raise InvalidRecord(Reason.INVALID_RECORD, detail)
    return True


def _parse_fields(raw: RawRecord, record_id: str, fields: Mapping[str, object], is_asked: bool) -> InputRecord:
    question = _text(fields, "question") if is_asked else ""
    choices = _choices(fields.get("choices"))
    answer = _answer(fields) if is_asked else ""
    boxes = _boxes(fields.get("boxes"))
    kind = _answer_type(fields.get("answer_type"), answer, choices)
    source, licence = _text(fields, "source"), _text(fields, "license")
    media = _media(fields.get("media"), raw.materialised)
    texts = [("id", record_id), ("question", question), ("answer", answer), ("source", source), ("license", licence)]
    texts += [("choices", choice) for choice in choices or ()] + [("media", uri) for uri in media]
    texts += [("boxes", box.label) for box in boxes or ()]
    for name, text in texts:
        _refuse_control(name, text)
    return InputRecord(
        number=raw.number,
        id=record_id,
        source=source,
        license=licence,
        media=media,
        question=question,
        answer=_checked_answer(kind, answer, choices, boxes) if is_asked else "",
        answer_type=kind.name if is_asked else "",
        choices=choices if kind.keeps_choices else None,
        boxes=boxes,
        opened_choices=None if kind.keeps_choices else choices,
    )


def _json_object(text: str) -> Mapping[str, object]:
    try:
        fields = json.loads(text)  # NaN and infinity pass here and are refused by the checks of their field
    except (ValueError, RecursionError) as error:
        raise InvalidRecord(Reason.INVALID_RECORD, f"the record is not JSON: {error}; correct this record") from error
    if not isinstance(fields, dict):
        raise InvalidRecord(Reason.INVALID_RECORD, f"the record must be a JSON object, got {excerpt(fields)}")
    return fields


def _answer(fields: Mapping[str, object]) -> str:
    value = fields.get("answer")
    if isinstance(value, bool):
        return "yes" if value else "no"
    return str(value) if _finite(value) else _text(fields, "answer")


def _text(fields: Mapping[str, object], name: str) -> str:
    value = fields.get(name)
    if value is None or (isinstance(value, str) and not value.strip()):
        raise InvalidRecord(Reason.INVALID_RECORD, f"{name}: the value is missing or empty")
    if not isinstance(value, str):
        raise InvalidRecord(Reason.INVALID_RECORD, f"{name}: expected a text, got {excerpt(value)}")
    return value


def _media(value: object, materialised: bool) -> tuple[str, ...]:
    paths = [value] if isinstance(value, str) else value
    if not isinstance(paths, list) or not paths or not all(isinstance(path, str) and path for path in paths):
        raise InvalidRecord(Reason.INVALID_RECORD, f"media: expected one or more paths, got {excerpt(value)}")
    return tuple(path if materialised else f"input:{path}" for path in paths)


def _choices(value: object) -> tuple[str, ...] | None:
    if value is None:
        return None
    if not isinstance(value, list) or len(value) < 2:
        raise InvalidRecord(
            Reason.INVALID_RECORD, f"choices: expected a list of at least two choices, got {excerpt(value)}"
        )
    if all(_finite(choice) for choice in value):
        value = [str(choice) for choice in value]
    if not all(isinstance(choice, str) and choice.strip() for choice in value):
        raise InvalidRecord(Reason.INVALID_RECORD, f"choices: expected non-empty strings, got {excerpt(value)}")
    if len({folded(choice) for choice in value}) < len(value):
        raise InvalidRecord(
            Reason.INVALID_RECORD,
            f"choices: two choices are the same in {excerpt(value)}: change or remove one of them",
        )
    return tuple(value)


def _boxes(value: object) -> tuple[Box, ...] | None:
    if value is None:
        return None
    if not isinstance(value, list):
        raise InvalidRecord(Reason.INVALID_BOXES, f"boxes: expected a list, got {excerpt(value)}")
    return tuple(_box(entry) for entry in value)


def _box(entry: object) -> Box:
    if not isinstance(entry, dict) or not isinstance(entry.get("label"), str):
        raise InvalidRecord(Reason.INVALID_BOXES, f"boxes: each box must have label and bbox, got {excerpt(entry)}")
    corners, index = entry.get("bbox"), entry.get("media_index", 0)
    if not isinstance(corners, list) or len(corners) != 4 or not all(_finite(value) for value in corners):
        raise InvalidRecord(Reason.INVALID_BOXES, f"boxes: bbox must be four finite numbers, got {excerpt(corners)}")
    if not isinstance(index, int) or index < 0:
        raise InvalidRecord(Reason.INVALID_BOXES, f"boxes: media_index must be an integer from 0, got {excerpt(index)}")
    x1, y1, x2, y2 = (float(value) for value in corners)
    if x2 <= x1 or y2 <= y1:
        raise InvalidRecord(Reason.INVALID_BOXES, f"boxes: {corners} has no area: give x1 < x2 and y1 < y2")
    return Box(entry["label"], x1, y1, x2, y2, index)


def _answer_type(named: object, answer: str, choices: tuple[str, ...] | None) -> AnswerType:
    if not named:
        return evident_type(answer, choices)
    if not isinstance(named, str) or named not in ANSWER_TYPES:
        known = ", ".join(ANSWER_TYPES)
        raise InvalidRecord(
            Reason.INVALID_RECORD, f"answer_type: {excerpt(named)} is not one of {known}: correct answer_type"
        )
    return ANSWER_TYPES[named]


def _checked_answer(
    kind: AnswerType, answer: str, choices: tuple[str, ...] | None, boxes: tuple[Box, ...] | None
) -> str:
    """Return the answer in the normal form of its type.

    Examples are the text of a choice, a number without separators, and yes or no. If the record has choices, the
    answer must match exactly one of them (:func:`_choice`). Raises InvalidRecord if it does not, or if the answer does
    not fit its type.
    """
    chosen = None if choices is None else _choice(answer, choices)
    try:
        return kind.check_gold(Gold(answer, chosen, boxes))
    except InvalidGold as error:
        raise InvalidRecord(Reason.INVALID_RECORD, str(error)) from error


def _choice(answer: str, choices: tuple[str, ...]) -> str:
    """Return the choice that matches the answer.

    Four comparisons are tried in this order: by the words, by the number, by yes or no, and by the number at the start
    of both texts. The first comparison that finds exactly one matching choice gives the result. Raises InvalidRecord
    if none of the four finds exactly one.
    """
    for meaning in (folded, value_of, yes_or_no, _quantity):
        meant = meaning(answer)
        matching = [choice for choice in choices if meant is not None and meaning(choice) == meant]
        if len(matching) == 1:
            return matching[0]
    remedy = "correct the answer or the choices"
    if _LETTER.fullmatch(answer):
        remedy = 'give the choice\'s text, or set input.answer_is = "letter" if answers are letters'
    detail = f"answer {excerpt(answer)} is not among the choices {excerpt(choices)}: {remedy}"
    raise InvalidRecord(Reason.ANSWER_NOT_IN_CHOICES, detail)


def _quantity(text: str) -> decimal.Decimal | None:
    """Return the number at the beginning of a text such as "5 cm"; None if the first word is not a plain number."""
    return value_of(text.split()[0]) if text.strip() else None


def _refuse_control(name: str, text: str) -> None:
    found = DAMAGE.search(text) or _BROKEN_LATEX.search(text)
    if found:
        character = found.group()
        what = _NAMES.get(character, "control character")
        raise InvalidRecord(
            Reason.CONTROL_CHARACTERS,
            f"{name}: the text has a {what}, U+{ord(character):04X}, at offset {found.start()}: correct the text",
        )


def _finite(value: object) -> bool:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    return abs(value) <= _MAX_NUMBER  # false for NaN and infinity; an int may be too large for a float
