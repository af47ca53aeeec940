"""Saves the answers of validations during a training, and reads the answers that its page (train.html) shows.

The page shows answers of the validation. In a training without validation, it shows sampled responses that were saved
during the training.
"""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from groundtrace.schemas.safe_files import MAX_TEXT_BYTES, is_elsewhere, read_json
from groundtrace.storage.files import write_atomically
from groundtrace.trainer.evaluation.figures import EvaluatedQuestion
from groundtrace.trainer.row_sampler import Drawn
from groundtrace.trainer.watching.entries import ShownAnswer, ShownQuestion
from groundtrace.trainer.watching.records import as_line, read_lines

FOLDER = "validation"
"""The name of the folder with the questions and answers of validations, in the output folder."""
QUESTIONS = "questions.json"
SHOWN_QUESTIONS, SHOWN_IMAGES, SHOWN_ANSWERS = 8, 3, 2


def save_questions(output: Path, drawn: Sequence[Drawn]) -> None:
    """Save the first ``SHOWN_QUESTIONS`` prompts of the validation with their images, for the page of the training.

    ``output`` is the output folder of the training. ``drawn`` holds pairs of a row and its prompt.
    """
    folder = output / FOLDER
    (folder / "images").mkdir(parents=True, exist_ok=True)
    questions: list[dict[str, Any]] = []
    for row, prompt in drawn[:SHOWN_QUESTIONS]:
        images = [(image.key, data) for image, (data, _) in zip(prompt.images, row.images, strict=True)]
        for key, data in images[:SHOWN_IMAGES]:
            write_atomically(folder / "images" / key, data)
        asked = row.question
        questions.append(
            {"id": row.id, "stream": prompt.stream, "question": asked.question, "gold": asked.answer}
            | {"choices": asked.choices or (), "images": [key for key, _ in images[:SHOWN_IMAGES]]}
        )
    write_atomically(folder / QUESTIONS, json.dumps(questions, ensure_ascii=False))


def save_answers(output: Path, step: int, answered: Sequence[EvaluatedQuestion]) -> None:
    """Save all answers of a validation to a file in the training's output folder, one JSON line for each answer.

    ``step`` is the number of training steps before this validation. ``answered`` holds the questions with their answers
    and scores.
    """
    lines = [
        {"id": each.row.id, "gold": each.row.question.answer, "tokens": rollout.own_tokens}
        | as_line(scored, each.row.context.stream)
        for each in answered
        for rollout, scored in zip(each.rollouts, each.scored, strict=True)
    ]
    text = "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines)
    write_atomically(output / FOLDER / f"step-{step:06d}.jsonl", text)


def shown_questions(output: Path, validated: Sequence[int]) -> list[ShownQuestion]:
    """Return the questions that the page of a training shows, with answers from the first and the last validation.

    ``output`` is the output folder of the training. ``validated`` holds, for each finished validation, the number of
    training steps before it. If there were no validations, the result holds the most recently saved sampled responses
    of the training, with their questions. If the training has not saved sampled responses either, the result is empty.
    """
    if not validated:
        return _rollouts(output)
    folder, steps = output / FOLDER, sorted({validated[0], validated[-1]}, reverse=True)
    questions = read_json(folder / QUESTIONS, MAX_TEXT_BYTES)
    given = {step: read_lines(folder / f"step-{step:06d}.jsonl") for step in steps}
    return [
        ShownQuestion(
            asked["id"],
            asked["stream"],
            asked["question"],
            asked["gold"],
            tuple(asked["choices"]),
            tuple(_bytes(output, folder / "images" / name) for name in asked["images"]),
            tuple(
                _answer(line, f"after {step} steps" if step else "before the training")
                for step in steps
                for line in given[step]
                if (line["id"], line.get("stream") or "") == (asked["id"], asked["stream"])
            )[: 2 * SHOWN_ANSWERS],
        )
        for asked in questions
    ]


def _rollouts(output: Path) -> list[ShownQuestion]:
    """Return the most recently saved sampled responses of the training, by question; empty if there are none."""
    folders = sorted(path.parent for path in (output / "rollouts").glob("step-*/rollouts.jsonl"))
    if not folders:
        return []
    found: dict[tuple[str, str], list[Mapping[str, Any]]] = {}
    for line in read_lines(folders[-1] / "rollouts.jsonl"):
        found.setdefault((line["id"], line.get("stream") or ""), []).append(line)
    when = f"in step {int(folders[-1].name.removeprefix('step-'))}"
    return [
        ShownQuestion(
            id,
            stream,
            lines[0].get("question", ""),
            lines[0]["gold"],
            (),
            tuple(_bytes(output, folders[-1] / name) for name in [lines[0].get("image")] if name),
            tuple(_answer(line, when) for line in lines),
        )
        for (id, stream), lines in found.items()
    ]


def _answer(line: Mapping[str, Any], when: str) -> ShownAnswer:
    verdicts = {name: verdict["value"] for name, verdict in line["verdicts"].items()}
    outcome = verdicts.pop("outcome", None)
    return ShownAnswer(when, line["text"], line["reward"], outcome, tuple(verdicts.items()))


def _bytes(output: Path, path: Path) -> bytes:
    """Return a file's bytes; empty if the file is missing, so that the page shows its image as missing.

    The training's output folder ``output`` may come from a stranger. So the result is also empty if ``path`` leads out
    of this folder, e.g. because it is a link.
    """
    return path.read_bytes() if path.is_file() and not is_elsewhere(path, output) else b""
