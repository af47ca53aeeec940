"""Evaluates a model: samples answers to questions and scores them.

The questions are those of a run (a pipeline's output folder), or of a folder with the file ``records.jsonl``.

The configured reward computes the scores, as in training.
"""

import contextlib
import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from groundtrace.rewards.recipes.base import Recipe
from groundtrace.rewards.rows.checks import check_recipe, missing_need, note_free_text
from groundtrace.rewards.rows.records import Records
from groundtrace.rewards.rows.reward import Reward
from groundtrace.rewards.rows.row import UnusableRow
from groundtrace.rewards.rows.shards import ShardError, Shards, shards_to_evaluate
from groundtrace.schemas.media_groups import media_groups
from groundtrace.schemas.text import counted
from groundtrace.trainer.evaluation.examiner import Examiner, ExaminerWithCrops
from groundtrace.trainer.evaluation.few_questions import note_few
from groundtrace.trainer.evaluation.figures import EvaluatedQuestion, eval_figures, point_f1
from groundtrace.trainer.evaluation.page import eval_page
from groundtrace.trainer.evaluation.without_columns import WithoutColumns, form_asked
from groundtrace.trainer.group import mean
from groundtrace.trainer.identity import identity
from groundtrace.trainer.model import load_model
from groundtrace.trainer.monitor import Monitor, as_line
from groundtrace.trainer.output_folder import check_evaluation
from groundtrace.trainer.rollouts import make_sampler
from groundtrace.trainer.row_sampler import Drawn, LeftOut, LengthLimit
from groundtrace.trainer.settings import TRAJECTORY, TrainerSettings
from groundtrace.vision.hashing import sha256_bytes

QUESTIONS_AT_ONCE = 128
GROUP_CHARS = 16
"""The length of the name of a media group in responses.jsonl."""
SHOWN = ("accuracy",)
Rows = Records | Shards


def evaluate(settings: TrainerSettings, data: Path, output: Path) -> Path:
    """Evaluate a model: sample answers to the questions in ``data``, score them, and write the metrics to ``output``.

    Returns the path of ``eval.json``, which holds the metrics. The function also writes ``responses.jsonl`` and the
    page ``eval.html``. ``data`` is a folder with the file ``records.jsonl``, or the output folder of a run (a
    pipeline's execution). If the run has rows for reinforcement learning, these rows are used; otherwise, its SFT rows
    are used. If the data lack a column that the reward needs, only the outcome and the form of each answer are scored
    (:mod:`groundtrace.trainer.evaluation.without_columns`).

    Raises UserError if ``output`` holds an evaluation of other weights, of other data or with other settings. Raises
    ShardError if the data cannot be used, ConfigError if a setting is wrong, and ModelError if the model cannot
    be loaded. Raises NotServed if an endpoint (model server) of the reward does not serve its model, SamplerError if
    answers cannot be sampled, and JudgesDown if the judges (models that grade answers) do not answer.
    """
    is_records = (data / "records.jsonl").is_file()
    rows = Records(data, settings.eval.form) if is_records else shards_to_evaluate(data, output / "rows")
    own = identity("eval", settings, rows)
    check_evaluation(output, own)
    recipe = _recipe(settings, rows)
    if note := note_few(min(settings.eval.questions or len(rows), len(rows)), "evaluation"):
        print(f"trainer: {note}", file=sys.stderr)
    if note := note_free_text(settings.reward, rows):
        print(f"trainer: {note}", file=sys.stderr)
    settings.check_environment()
    settings = settings.at_evaluation()
    with contextlib.closing(Reward(settings.reward, output, recipe=recipe)) as reward:
        reward.check_endpoints()
        return _evaluate(settings, data, output, rows, reward, own)


def _recipe(settings: TrainerSettings, rows: Rows) -> Recipe:
    """Return the recipe that scores the responses: the configured one, or WithoutColumns if the data lack a column.

    A recipe is the code that computes the rewards of one paper. Raises ConfigError if the configured recipe needs a
    model role, such as ``judge``, for which the config has no endpoint (model server).
    """

    def gives(name: str) -> bool:
        return name == TRAJECTORY or rows.gives(name) or (settings.eval.crops and name == "stream")

    recipe = settings.reward.make_recipe()
    missing = missing_need(recipe, gives)
    if missing is None:
        check_recipe(settings.reward, gives)
        return recipe
    found = WithoutColumns(recipe, _form(settings, rows), missing)
    note = f"{found.reason}, which reward.recipe = {recipe.name!r} needs"
    print(f"trainer: {note}, so these are not applicable: {', '.join(found.not_applicable)}", file=sys.stderr)
    return found


def _form(settings: TrainerSettings, rows: Rows) -> str | None:
    """Return the name of the response form that the prompts request, e.g. text with boxes; None if it is unknown.

    If ``rows`` were read from ``records.jsonl``, the form is the setting ``eval.form``. Otherwise, it is read from the
    prompt of the first row.
    """
    if isinstance(rows, Records):
        return settings.eval.form
    with contextlib.suppress(UnusableRow):
        return form_asked(rows[0])
    return None


def _evaluate(
    settings: TrainerSettings, data: Path, output: Path, rows: Rows, reward: Reward, own: Mapping[str, Any]
) -> Path:
    vlm = load_model(settings.model)
    vlm.model.requires_grad_(False)
    stops = settings.environment.make().stops
    sampler = make_sampler(vlm, settings.rollout, str(output / "served"), stops, settings.batch.max_tokens)
    examiner = (ExaminerWithCrops if settings.eval.crops else Examiner)(vlm, sampler, reward, settings)
    answered: list[EvaluatedQuestion] = []
    done = 0
    steps = settings.eval.questions or len(rows)
    with Monitor(output, "eval", settings, str(data), steps, identity=own) as monitor:
        monitor.resume_at(0)
        sampler.sync()
        for chunk in _chunks(_usable(examiner, rows, settings, monitor.leave_out)):
            answered += examiner.answer([each for prompts in chunk for each in prompts], settings.seed + done)
            done += len(chunk)
            outcomes = [outcome for each in answered for outcome in each.outcomes]
            monitor.log(done, {"accuracy": mean(outcomes)}, SHOWN, _unscored(answered))
    report = eval_figures(answered, settings.eval.ks)
    if isinstance(reward.recipe, WithoutColumns):
        report["not_applicable"] = reward.recipe.not_applicable
    page = eval_page(report, answered, settings.model.path, str(data))
    (output / "responses.jsonl").write_text("".join(f"{line}\n" for line in _lines(answered)), "utf-8")
    (output / "eval.html").write_text(page, "utf-8", errors="backslashreplace")
    path = output / "eval.json"
    path.write_text(json.dumps(report, indent=1, ensure_ascii=False) + "\n", "utf-8")
    return path


def _unscored(answered: Sequence[EvaluatedQuestion]) -> str:
    """Return the number of answers that were not scored, for the user, e.g. "3 of 8 answers unscored"; "" if none.

    For example, free text is not scored without a judge.
    """
    answers = sum(len(each.scored) for each in answered)
    unscored = answers - sum(len(each.outcomes) for each in answered)
    return f"{unscored} of {counted(answers, 'answer')} unscored" if unscored else ""


def _lines(answered: Sequence[EvaluatedQuestion]) -> Iterator[str]:
    for each, group in zip(answered, _media_groups(answered), strict=True):
        for scored, rollout in zip(each.scored, each.rollouts, strict=True):
            line = {"id": each.row.id, "gold": each.row.question.answer, "media_group": group}
            line |= {"tokens": rollout.own_tokens}
            line |= {"point_f1": found[0]} if (found := point_f1(each.row, scored)) else {}
            line |= {} if each.crops is None else {"crops": each.crops}
            line |= {} if rollout.trajectory is None else {"turns": len(rollout.turns)}
            line |= {"lost": rollout.lost} if rollout.lost else {}
            line |= {"limits": list(rollout.limits)} if rollout.limits else {}
            yield json.dumps(line | as_line(scored, each.row.context.stream), ensure_ascii=False)


def _media_groups(answered: Sequence[EvaluatedQuestion]) -> list[str]:
    """Return the name of each question's media group.

    Questions are in the same group if they have an image file in common, directly or through other questions. A
    question without images is a group of its own.
    """
    media = [tuple(sha256_bytes(data) for data, _ in each.row.images) for each in answered]
    alone = [(sha256_bytes(f"question {each.row.id}".encode()),) for each in answered]
    uses = [(str(place), own or other) for place, (own, other) in enumerate(zip(media, alone, strict=True))]
    return [name[:GROUP_CHARS] for _, name in media_groups(uses)]


def _usable(examiner: Examiner, rows: Rows, settings: TrainerSettings, left_out: LeftOut) -> Iterator[list[Drawn]]:
    """Yield the prompts of each usable row, until ``eval.questions`` rows have been used (0: no limit).

    A row is usable if three conditions hold. The row can be encoded. The setting ``eval.streams`` selects at least one
    of its prompts. Each of these prompts, together with ``rollout.max_new_tokens`` tokens for an answer, has at most
    ``batch.max_tokens`` tokens. ``left_out`` is called for each row that is not usable, with the row's name and the
    reason. Raises ShardError if no row is usable.
    """
    first, count, room = "", 0, LengthLimit(settings.batch.max_tokens, settings.rollout.max_new_tokens)
    for index in range(len(rows)):
        if settings.eval.questions and count == settings.eval.questions:
            return
        try:
            prompts = examiner.prompts(rows[index])
        except UnusableRow as error:
            first = first or str(error)
            left_out(f"row {index}", str(error))
            continue
        refusals = [reason for _, prompt in prompts if (reason := room.refusal(prompt)) is not None]
        if refusals or not prompts:
            reason = refusals[0] if refusals else "it is not asked in any of eval.streams"
            first = first or reason
            left_out(f"row {index}", reason)
            continue
        count += 1
        yield prompts
    if not count:
        raise ShardError(
            f"none of the {len(rows)} rows of the data can be used ({first[:300]}): see left_out.jsonl in the output "
            "folder for the reasons"
        )


def _chunks(rows: Iterator[list[Drawn]]) -> Iterator[list[list[Drawn]]]:
    """Yield the rows in chunks of ``QUESTIONS_AT_ONCE`` rows; the last chunk may be smaller.

    Each row is given as the list of its prompts.
    """
    chunk: list[list[Drawn]] = []
    for prompts in rows:
        chunk.append(prompts)
        if len(chunk) == QUESTIONS_AT_ONCE:
            yield chunk
            chunk = []
    if chunk:
        yield chunk
