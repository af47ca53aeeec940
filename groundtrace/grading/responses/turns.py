"""Reads and writes trajectories: responses in several turns, in which code alternates with its results.

Two forms are read and written:

- the tags of the paper CodeDance (Tables 9, 10): ``<think>…</think>``, then ``<code>`` with a fenced block of Python,
  then its result in ``<interpreter>…</interpreter>``, and at the end ``<answer>…</answer>``;
- the tool calls of chat templates, which CodeDance's RL uses: ``<tool_call>{"name": "execute_python_code",
  …}</tool_call>``.

A turn of the model ends with its code or its answer. Only the sandbox, which executes the code, writes results. If the
model writes a result before its code, the turn has a fault. Text after the code, such as an invented result, is
removed. No function of this module raises an error for any text.
"""

import html
import json
import re
import textwrap
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from groundtrace.grading.responses.placeholders import as_written, has_remnants, without_remnants
from groundtrace.grading.responses.sections import Sections
from groundtrace.schemas.coding import record
from groundtrace.schemas.model_json import one_value_per_key
from groundtrace.schemas.text import whole

TOOL = "execute_python_code"
"""The name of the tool in a tool call; its only argument is ``code``."""
TOOL_SCHEMA = {
    "type": "function",
    "function": {
        "name": TOOL,
        "description": (
            "Executes Python code on the image, which is the variable input_image. Returns what the code printed and "
            "the images that it displayed."
        ),
        "parameters": {
            "type": "object",
            "properties": {"code": {"type": "string", "description": "a complete script with its imports"}},
            "required": ["code"],
        },
    },
}
"""The JSON schema of the tool, in the form that chat templates need."""
IMAGE = "<image>"
"""Marks the place of an image in a message."""

_FORGED = "the turn writes a result itself"
_CODE, _CALL, _ANSWER = map(Sections, ("code", "tool_call", "answer"))
_FENCE = re.compile(r"\s*```[ \t]*(?:python3?|py)?[ \t]*\n(.*?)\n?[ \t]*```\s*", re.DOTALL | re.IGNORECASE)
_RESULT = re.compile(
    r"[<\[{‹]\s*/?\s*(?:interpreter|tool_response)\s*[>\]}›]|```[ \t]*(?:output|interpreter|tool_response)\b",
    re.IGNORECASE,
)
"""Matches a mark by which a model writes the result of its code itself, although only the sandbox may write results.

The mark is a tag such as ``<interpreter>``, also in square or curly brackets or in ``‹›``. Or it is the start of a
fenced block, such as three backticks and ``output`` in ToRA's solutions.
"""
_MARKS = re.compile(
    r"<(?=/?(?:think|judge|answer|code|interpreter|tool_call|tool_response|points?|box)\b)", re.IGNORECASE
)
_THINK = re.compile(r"</?think\s*>", re.IGNORECASE)
_STATED = Sections("interpreter", "tool_response")
_OPENED = re.compile(r"<(?:code|tool_call)\s*>", re.IGNORECASE)
_RESULTS = re.compile(r"<interpreter>\n(.*?)\n?</interpreter>", re.DOTALL)


@record
class Turn:
    """Holds one turn of a response in several turns: the model's text, its code, and the result of executing the code.

    ``text`` is the model's text before its code. In a turn without code, ``text`` is the whole turn, and ``code`` is
    "". The other three fields describe the observation, which is the result of the code: ``status`` is its status
    (:data:`groundtrace.sandbox.observation.Status`), ``output`` is its text, and ``images`` is the number of its
    images. Without an observation, these three fields have their default values.
    """

    text: str
    code: str = ""
    status: str = ""
    output: str = ""
    images: int = 0


@dataclass(frozen=True)
class WrittenTurn:
    """Holds one turn as a model wrote it, before its code is executed.

    ``text`` is the text before the code. ``code`` is "" in a turn without code, such as the last turn. ``fault``
    describes what is wrong with the turn; "" if nothing is wrong. ``after`` is the text after the code, which is not
    part of the turn.
    """

    text: str
    code: str = ""
    fault: str = ""
    after: str = ""

    @property
    def is_forged(self) -> bool:
        """Return whether the model itself wrote a result of its code.

        Only the sandbox, which executes the code, may write a result.
        """
        return self.fault == _FORGED


def read_turn(reply: str) -> WrittenTurn:
    """Parse the first turn of a model's reply: its text up to and including its first code.

    The turn is the whole reply in two cases: the reply has no code, or all of its code is after an answer. Such code is
    not read as code. Text after the first code is returned only in the field ``after``, because the model did not know
    the code's result when it wrote this text.
    """
    found = min(filter(None, (_CODE.first(reply), _CALL.first(reply))), key=lambda each: each.start, default=None)
    answered = _ANSWER.first(reply)
    if found is None or (answered is not None and answered.start < found.start):
        text = as_written(reply).strip()
        return WrittenTurn(text, fault=_fault_of(text) or ("" if answered else _unfinished(text)))
    text = as_written(reply[: found.start]).strip()
    code = _fenced(found.content) if found.name == "code" else _called(found.content)
    if code is None:
        return WrittenTurn(text, fault="the tool call cannot be read")
    return WrittenTurn(text, code, _fault_of(text) or _fault_of_code(code), reply[found.end :].strip())


def read_rewritten(reply: str) -> tuple[tuple[Turn, ...], str]:
    """Parse a solution that a teacher model has rewritten with code (paper CodeDance, Table 9).

    ``reply`` is the teacher's reply. After each code, the teacher writes the result that it expects. This result
    becomes the ``output`` of the turn. Whether it is right is known only after the sandbox has executed the code.

    Returns two values: the turns, and a text that describes what is wrong with the reply. This text is "" if nothing is
    wrong; otherwise, the tuple of turns is empty. In the reply, one pair of think tags may enclose several turns. Each
    returned turn has its own think tags. Think tags inside code are a fault.
    """
    turns, start = list[Turn](), 0
    for result in _STATED.all(reply):
        written = read_turn(reply[start : result.start])
        if written.fault or not written.code:
            return (), written.fault or "a result has no code before it"
        if _without_think(written.after):
            return (), "a result does not follow its code"
        turns.append(Turn(_as_thought(written.text), written.code, "", result.content.strip()))
        start = result.end
    last = read_turn(reply[start:])
    if last.fault or last.code:
        return (), last.fault or "the result of the last code is missing"
    text = _without_think(last.text)
    if text_after_answer(text):
        return (), "text follows the answer"
    found = _ANSWER.first(text)
    at = found.start if found else 0
    return (*turns, Turn(f"{_as_thought(text[:at])}\n{text[at:]}".strip())), ""


def text_after_answer(text: str) -> str:
    """Return the text after the last ``</answer>`` of a response.

    Returns "" if there is no answer section, or if only think sections, white space and punctuation follow the section.
    A grader does not read the text after the answer. But this text may withdraw the answer ("or rather B"). So the
    callers reject a response if the result is not "".
    """
    behind = [*_ANSWER.all(text)]
    rest = _without_think(text[behind[-1].end :]) if behind else ""
    return rest if any(char.isalnum() for char in rest) else ""


def _without_think(text: str) -> str:
    return _THINK.sub("", text).strip()


def _as_thought(text: str) -> str:
    return f"<think>{inner}</think>" if (inner := _without_think(text)) else ""


def _unfinished(text: str) -> str:
    return "the code is not closed" if _OPENED.search(text) else "there is neither code nor an answer"


def _fault_of(text: str) -> str:
    return _FORGED if _RESULT.search(unicodedata.normalize("NFKC", html.unescape(text))) else ""


def _fault_of_code(code: str) -> str:
    if _MARKS.search(code) or has_remnants(code):
        return "the code contains a tag or a special token"
    return "" if code.strip() else "the code is empty"


def _fenced(inner: str) -> str:
    """Return the code in ``inner``, which is the text between ``<code>`` tags.

    If the code is in a fence (between lines with three backticks), the fence is removed. If the fence is indented, the
    code is also unindented. Code without a fence keeps its indentation.
    """
    inner = inner.replace("\r\n", "\n").strip("\n")
    fence = _FENCE.fullmatch(inner)
    code = fence.group(1) if fence else inner
    return (textwrap.dedent(code) if fence and inner[:1].isspace() else code).strip("\n").rstrip()


def _called(inner: str) -> str | None:
    """Return the code of a tool call; None if it is not a call of the tool ``execute_python_code``.

    ``inner`` is the call as JSON. The result is None in two more cases:

    - The code has a lone surrogate (half of a character), which cannot be stored in a data set.
    - The JSON has two different values for one key. Some JSON parsers use the first value, and others the last value.
    """
    try:
        call = json.loads(inner, strict=False, object_pairs_hook=one_value_per_key)
    except (ValueError, RecursionError):
        return None
    if not isinstance(call, dict) or call.get("name") != TOOL:
        return None
    arguments = call.get("arguments")
    if isinstance(arguments, str):  # OpenAI's form has them as JSON text
        try:
            arguments = json.loads(arguments, strict=False, object_pairs_hook=one_value_per_key)
        except (ValueError, RecursionError):
            return None
    code = arguments.get("code") if isinstance(arguments, dict) else None
    if not isinstance(code, str) or code != whole(code):
        return None
    return code.strip("\n").rstrip()


def plain_output(text: str) -> str:
    """Return what code printed, changed so that no part of it can be read as a tag, a special token or an image.

    This is needed because code may print any text. For example, a printed ``</interpreter>`` would end the result too
    early. In each tag that this project uses in responses, ``<`` becomes ``‹``. Special tokens of models are removed.
    Placeholders of images and clips, such as ``<image>``, are removed or replaced by words (:func:`without_remnants`).
    """
    return _MARKS.sub("‹", without_remnants(text))


def as_tags(turns: Sequence[Turn]) -> str:
    """Return a trajectory as one text in the paper CodeDance's tags, with ``<image>`` for each image of a result.

    A trajectory is a response in several turns, in which code alternates with its results. ``turns`` are these turns.
    """
    return "\n".join(part for turn in turns for part in (_written(turn), result_text(turn)) if part)


def _written(turn: Turn) -> str:
    code = f"<code>\n```python\n{turn.code}\n```\n</code>" if turn.code else ""
    return "\n".join(part for part in (turn.text, code) if part)


def result_text(turn: Turn) -> str:
    """Return the result of a turn's code, enclosed in ``<interpreter>`` tags, with ``<image>`` for each of its images.

    A response can have several turns (messages), each with code to execute. Returns "" if this turn has no code.
    """
    if not turn.code:
        return ""
    inner = "\n".join(part for part in (turn.output, IMAGE * turn.images) if part)
    return f"<interpreter>\n{inner}\n</interpreter>"


def read_trajectory(text: str) -> tuple[Turn, ...]:
    """Parse a trajectory (a response in several turns with code) from a text in the paper CodeDance's tags.

    Returns the turns. ``text`` has the form that :func:`as_tags` writes: ``<think>``, ``<code>``, ``<interpreter>``
    with the result of the code, and at the end ``<answer>``. The status of each returned turn is "", because the text
    does not contain it.
    """
    turns, start = list[Turn](), 0
    for result in _RESULTS.finditer(text):
        written = read_turn(text[start : result.start()])
        lines = result.group(1).split("\n")
        images = lines[-1].count(IMAGE)
        turns.append(Turn(written.text, written.code, "", "\n".join(lines[:-1] if images else lines), images))
        start = result.end()
    rest = text[start:].strip()
    return (*turns, Turn(rest)) if rest else tuple(turns)


def one_answer(asked: str, response: str) -> list[dict[str, str]]:
    """Return the two chat messages of a training row whose response has only one turn.

    ``asked`` is the user's message, and ``response`` is the model's message. Each returned message has the keys
    ``role`` and ``content``.
    """
    return [{"role": "user", "content": asked}, {"role": "assistant", "content": response}]


def conversation(asked: str, response: str) -> list[dict[str, str]]:
    """Split a trajectory (a response in several turns with code) into chat messages, for training.

    ``asked`` is the user's first message, and ``response`` is a trajectory as a text in the paper CodeDance's tags
    (:func:`as_tags`). The model's turns become its messages. Each result of code becomes a message of the user, so that
    a trainer computes its loss only on the model's own text.
    """
    messages = [{"role": "user", "content": asked}]
    start = 0
    for result in _RESULTS.finditer(response):
        messages += [
            {"role": "assistant", "content": response[start : result.start()].strip("\n")},
            {"role": "user", "content": result.group()},
        ]
        start = result.end()
    return [*messages, {"role": "assistant", "content": response[start:].strip("\n") if start else response}]


def with_code_apart(messages: Sequence[Mapping[str, str]]) -> list[dict[str, str]]:
    """Return the chat messages of a response in several turns, with the code separate from the text.

    ``messages`` have the keys ``role`` and ``content``: the model's messages contain code in ``<code>`` tags, and the
    user's messages contain its results (:func:`conversation`). A message with code gets the code under the key
    ``code``, and the text before it under ``content``. Results become messages of the role ``tool``. Code after an
    answer stays in the text, because it was not executed.
    """
    found = list[dict[str, str]]()
    for message in messages:
        content, results = message["content"], _RESULTS.fullmatch(message["content"])
        code = _CODE.first(content) if message["role"] == "assistant" else None
        if message["role"] == "user" and results is not None:
            found.append({"role": "tool", "content": results.group(1)})
        elif code is not None and not _ANSWER.first(content[: code.start]):
            text = content[: code.start].strip()
            found.append({"role": "assistant", "content": text, "code": _fenced(code.content)})
        else:
            found.append(dict(message))
    return found


def call_of(code: str) -> str:
    """Return the tool call that executes this Python code, as JSON with the tool's name and its arguments."""
    return json.dumps({"name": TOOL, "arguments": {"code": code}}, ensure_ascii=False)


def as_tool_call(message: Mapping[str, str]) -> dict[str, str]:
    """Return a chat message in which the code is a tool call at the end of the text.

    ``message`` has its code under the key ``code``, and the text before the code under ``content``
    (:func:`with_code_apart`). A message without the key ``code`` is returned unchanged.
    """
    if "code" not in message:
        return dict(message)
    text = f"{message['content']}\n<tool_call>\n{call_of(message['code'])}\n</tool_call>".strip()
    return {"role": message["role"], "content": text}


def as_tool_calls(messages: Sequence[Mapping[str, str]]) -> list[dict[str, str]]:
    """Return the chat messages of a response in several turns, with its code as tool calls.

    The results of the code become messages of the role ``tool``. ``messages`` have the keys ``role`` and ``content``:
    the model's messages contain code in ``<code>`` tags, and the user's messages contain its results
    (:func:`conversation`).
    """
    return [as_tool_call(message) for message in with_code_apart(messages)]
