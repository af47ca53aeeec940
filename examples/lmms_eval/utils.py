"""Lets lmms-eval ask a model the questions of a Groundtrace run, and grades the model's answers.

A run is the output folder of a pipeline. Its rows (questions with images and right answers) are in Parquet files.
Groundtrace need not be installed in the environment of lmms-eval.

The grading rules are a small, strict part of those of Groundtrace (``groundtrace/grading/answers``). They compare yes
and no, numbers, letters of choices, and words. Groundtrace's own command ``trainer eval`` understands more notations,
such as units, and asks a model (the judge) about free text.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Any

FAILED = "[LMMS_EVAL_"
"""The first characters of the text that lmms-eval uses as the reply if the server did not answer."""
_ANSWER = re.compile(r"<answer\s*>(.*?)</answer\s*>", re.DOTALL | re.IGNORECASE)
_BOXED = re.compile(r"\\boxed\{((?:[^{}]|\{[^{}]*\})*)\}")


def doc_to_visual(doc: Mapping[str, Any]) -> list[Any]:
    """Return the images of a question, converted to RGB, in the order of their ``<image>`` placeholders.

    ``doc`` is the row of the question: a mapping of column names to values.
    """
    return [image.convert("RGB") for image in doc["images"]]


def doc_to_text(doc: Mapping[str, Any], lmms_eval_specific_kwargs: Mapping[str, Any] | None = None) -> str:
    """Return the text of a question (the user's turn), without the ``<image>`` placeholders.

    ``doc`` is the row of the question: a mapping of column names to values. ``lmms_eval_specific_kwargs`` is not used.
    """
    return doc["prompt"][0]["content"].replace("<image>", "")


def doc_to_messages(
    doc: Mapping[str, Any], lmms_eval_specific_kwargs: Mapping[str, Any] | None = None
) -> list[dict[str, Any]]:
    """Return a question (the user's turn) as chat messages, in which images replace the ``<image>`` placeholders.

    ``doc`` is the row of the question: a mapping of column names to values. ``lmms_eval_specific_kwargs`` is not used.
    """
    images = doc_to_visual(doc)
    content: list[dict[str, Any]] = []
    for place, text in enumerate(doc["prompt"][0]["content"].split("<image>")):
        if place:
            content.append({"type": "image", "url": images[place - 1]})
        if text:
            content.append({"type": "text", "text": text})
    return [{"role": "user", "content": content}]


def answer_of(response: str) -> str | None:
    """Return the final answer in a response: the content of its last ``<answer>`` section or ``\\boxed{}``.

    The result is None if the response has neither.
    """
    found = [*_ANSWER.finditer(response), *_BOXED.finditer(response)]
    if not found:
        return None
    text = max(found, key=lambda match: match.end()).group(1)
    boxed = _BOXED.findall(text)
    return (boxed[-1] if boxed else text).strip()


def is_right(answer: str, gold: str, answer_type: str, choices: Sequence[str] | None) -> bool:
    """Return whether an answer equals the gold answer (the right answer). Case is ignored.

    If ``answer_type`` is ``numeric``, both answers must be numbers with the same value, e.g. "1,000" and "1000".
    ``choices`` are the texts of the choices of a multiple-choice question: "B" or "(b)" is then the same answer as the
    text of the second choice. For any other question, ``choices`` is None or empty, and the texts must be equal.
    """
    answer, gold = _plain(answer), _plain(gold)
    if answer_type == "numeric":
        numbers = _number(answer), _number(gold)
        return None not in numbers and numbers[0] == numbers[1]
    if choices:
        letters = {chr(ord("a") + place): _plain(choice) for place, choice in enumerate(choices)}
        return letters.get(answer.strip("()"), answer) == letters.get(gold.strip("()"), gold)
    return answer == gold


def process_results(doc: Mapping[str, Any], results: Sequence[str]) -> dict[str, float | None]:
    """Return the metrics of one response: ``accuracy`` and ``has_answer``, each 1 or 0.

    ``accuracy`` is 1 if the response's final answer is right, and ``has_answer`` is 1 if the response has a final
    answer. ``doc`` is the row of the question, with the right answer: a mapping of column names to values. The only
    item of ``results`` is the text of the response. Both metrics are None if the server did not reply.
    """
    if results[0].startswith(FAILED):
        return {"accuracy": None, "has_answer": None}
    answer = answer_of(results[0])
    right = answer is not None and is_right(answer, doc["answer"], doc["answer_type"], doc["choices"])
    return {"accuracy": float(right), "has_answer": float(answer is not None)}


def mean_of_scored(values: Sequence[float | None]) -> float:
    """Return the mean of ``values``, which holds the value of one metric for each response.

    A value is None if the server did not reply to the question. Raises RuntimeError if at least one value is None.
    """
    missing = sum(value is None for value in values)
    if missing:
        raise RuntimeError(
            f"{missing} of {len(values)} replies are missing: correct the errors that the model's server reports, and "
            "run lmms-eval again"
        )
    return sum(value for value in values if value is not None) / len(values)


def _plain(text: str) -> str:
    return " ".join(text.lower().split()).rstrip(".").strip()


def _number(text: str) -> float | None:
    try:
        return float(text.replace(",", ""))
    except ValueError:
        return None
