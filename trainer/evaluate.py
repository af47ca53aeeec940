"""Evaluation: sampled answers to every question of a run's shards or of a folder of records, scored as in training."""

import json
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from trainer.drawing import Room
from trainer.eval_figures import Answered, figures, mean, page
from trainer.gallery import as_line
from trainer.grpo import answer_text
from trainer.model import VisionLanguageModel, load_model
from trainer.monitor import Monitor
from trainer.records import Records
from trainer.reward import Reward, check_recipe
from trainer.rollouts import make_sampler
from trainer.sample import BadRow, Sample
from trainer.sampling import Rollout
from trainer.settings import TrainerSettings
from trainer.shards import ShardError, Shards, TrainingRow, prompt_sample, side_of

QUESTIONS_AT_ONCE = 128
SHOWN = ("accuracy",)
Rows = Records | Shards


def evaluate(settings: TrainerSettings, data: Path, output: Path) -> Path:
    """Evaluate, write ``eval.json``, ``responses.jsonl`` and ``eval.html``, and return the first.

    ``data`` is a run (its RL rows, else its SFT rows) or a folder with ``records.jsonl``. Raises what training raises.
    """
    vlm = load_model(settings.model)
    vlm.model.requires_grad_(False)
    rows = Records(data) if (data / "records.jsonl").is_file() else _shards(data, output)
    check_recipe(settings.reward, rows.gives)
    sampler = make_sampler(vlm, settings.rollout, str(output / "served"))
    reward = Reward(settings.reward, output)
    answered: list[Answered] = []
    with Monitor(output, "eval", settings, str(data), settings.eval.questions or len(rows)) as monitor:
        monitor.resume_at(0)
        sampler.sync()
        try:
            for chunk in _chunks(_usable(vlm, rows, settings, monitor.leave_out)):
                answered += _answer(vlm, sampler.sample, reward, chunk, settings, len(answered))
                monitor.log(len(answered) - 1, {"accuracy": mean([o for a in answered for o in a.outcomes])}, SHOWN)
        finally:
            reward.close()
    report = figures(answered, settings.eval.k)
    (output / "responses.jsonl").write_text("".join(f"{line}\n" for line in _lines(answered)), "utf-8")
    (output / "eval.html").write_text(page(report, answered), "utf-8")
    path = output / "eval.json"
    path.write_text(json.dumps(report, indent=1, ensure_ascii=False) + "\n", "utf-8")
    return path


def _lines(answered: Sequence[Answered]) -> Iterator[str]:
    for each in answered:
        for scored, rollout in zip(each.scored, each.rollouts, strict=True):
            line = {"id": each.row.id, "gold": each.row.question.answer, "tokens": len(rollout.ids), **as_line(scored)}
            yield json.dumps(line, ensure_ascii=False)


def _answer(
    vlm: VisionLanguageModel,
    sample: Callable[[Sequence[Sample], int, int], list[list[Rollout]]],
    reward: Reward,
    chunk: Sequence[tuple[TrainingRow, Sample]],
    settings: TrainerSettings,
    done: int,
) -> list[Answered]:
    rows, prompts = [row for row, _ in chunk], [prompt for _, prompt in chunk]
    rollouts = sample(prompts, settings.eval.samples, settings.seed + done)
    texts = [[answer_text(vlm, rollout) for rollout in group] for group in rollouts]
    scored = reward.score(vlm, rows, prompts, texts)
    return [Answered(row, tuple(r), tuple(s)) for row, r, s in zip(rows, rollouts, scored, strict=True)]


def _usable(
    vlm: VisionLanguageModel, rows: Rows, settings: TrainerSettings, left_out: Callable[[str, str], None]
) -> Iterator[tuple[TrainingRow, Sample]]:
    """The rows that can be asked, up to ``eval.questions``."""
    count, room = 0, Room(settings.batch.max_tokens, settings.rollout.max_new_tokens)
    for index in range(len(rows)):
        if settings.eval.questions and count == settings.eval.questions:
            return
        try:
            row = rows[index]
            prompt = prompt_sample(vlm, row)
        except BadRow as error:
            left_out(f"row {index}", str(error))
            continue
        if (reason := room.refusal(prompt)) is not None:
            left_out(f"row {index}", reason)
            continue
        count += 1
        yield row, prompt
    if not count:
        raise ShardError("no question can be asked; left_out.jsonl says why")


def _chunks(rows: Iterator[tuple[TrainingRow, Sample]]) -> Iterator[list[tuple[TrainingRow, Sample]]]:
    chunk: list[tuple[TrainingRow, Sample]] = []
    for row in rows:
        chunk.append(row)
        if len(chunk) == QUESTIONS_AT_ONCE:
            yield chunk
            chunk = []
    if chunk:
        yield chunk


def _shards(data: Path, output: Path) -> Shards:
    return Shards(data, side_of(data), output / "rows")
