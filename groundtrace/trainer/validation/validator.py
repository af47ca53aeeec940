"""Validates the model during training: asks held-out questions, saves the best checkpoint, and detects overfitting.

Held-out questions are those on which the model is not trained. A validation does not change the training: the weights,
the position in the data and the random state stay as they are. Some rewards also have a state, which they have learnt
in earlier training steps. This state does not change either. A validation scores its answers with the initial state of
the reward, as ``trainer eval`` does. So the rewards of all validations are comparable.
"""

import contextlib
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch

from groundtrace.config.errors import ConfigError
from groundtrace.rewards.recipes.base import Memory
from groundtrace.rewards.rows.checks import check_recipe, row_check
from groundtrace.rewards.rows.reward import Reward
from groundtrace.rewards.rows.row import TrainingRow, UnusableRow
from groundtrace.rewards.rows.shards import ShardError
from groundtrace.trainer.checkpoint import checkpoints, export_command
from groundtrace.trainer.credit import as_sample
from groundtrace.trainer.encode import MARK, sft_sample
from groundtrace.trainer.evaluation.examiner import Examiner
from groundtrace.trainer.evaluation.few_questions import note_few
from groundtrace.trainer.evaluation.figures import EvaluatedQuestion
from groundtrace.trainer.model import VisionLanguageModel
from groundtrace.trainer.rollouts import make_sampler
from groundtrace.trainer.row_sampler import Drawn, LengthLimit
from groundtrace.trainer.sample import Sample
from groundtrace.trainer.settings import TRAJECTORY, TrainerSettings
from groundtrace.trainer.training import BEST, Overfitted, Training
from groundtrace.trainer.validation.best import LOWEST, best_of, overfitting
from groundtrace.trainer.validation.figures import Figures, Likelihood, answer_figures, blind_lines
from groundtrace.trainer.validation.held_out import HeldOut
from groundtrace.trainer.watching.answers import save_answers, save_questions

QUESTIONS_AT_ONCE = 64
SHOWN = ("accuracy", "blind_accuracy", "reward", "point_f1", "loss", "entropy", "response_tokens", "logprob_gap")
"""The names of the metrics that are printed after each validation."""


@contextlib.contextmanager
def validating(
    vlm: VisionLanguageModel,
    settings: TrainerSettings,
    held: HeldOut | None,
    training: Training,
    output: Path,
    reward: Reward | None = None,
) -> Iterator["Validator | NoValidation"]:
    """Yield an object that validates the model when it is called, if a validation is due.

    Call the object at the start of the training and after each training step. To validate is to ask the model questions
    on which it is not trained. ``held`` holds these questions. If it is None, a call does nothing. ``training`` is the
    training that is validated, and ``output`` is its output folder. ``reward`` scores the answers. If it is None, a
    reward is made from the settings, and closed at the end.

    Raises NotServed if a model server for the reward does not serve the configured model, and ConfigError if a setting
    does not fit the data or the other settings. Raises SamplerError if answers cannot be sampled, and ShardError if
    none of the validation's questions can be used.
    """
    if held is None:
        yield NoValidation()
        return
    print(f"trainer: {held.note}", file=sys.stderr)
    with contextlib.ExitStack() as stack:
        if reward is None:
            reward = stack.enter_context(contextlib.closing(Reward(settings.reward, output)))
            reward.check_endpoints()
        yield Validator(vlm, settings, held, training, output, reward)


class NoValidation:
    """Replaces a :class:`Validator` in a training without validation.

    A call of a :class:`Validator` validates the model. A call of this object does nothing.
    """

    def __call__(self) -> None:
        """Do nothing, because this training has no validation."""


@dataclass(frozen=True)
class Question:
    """Holds a row of the validation (a question with its images) and its prompts.

    The prompts request different forms of response, such as reasoning with boxes or with text only
    (``eval.streams``). ``prompts`` holds one pair for each prompt: the row with only this prompt, and the prompt as
    tokens. ``target`` is the row with its response as tokens, on which the loss of SFT is computed. ``target`` is None
    if the row has no response to learn, as in GRPO.
    """

    row: TrainingRow
    prompts: Sequence[Drawn]
    target: Sample | None


class Validator:
    """Validates the model when it is called, if a validation is due at the present step of the training.

    A validation asks the model questions on which it is not trained. It is due at the start, after every
    ``validation.every`` steps, and at the end. A step that is already validated is not validated again.
    ``training.monitor.validations`` holds all finished validations, including those before an interruption. The
    constructor's argument ``held`` holds the questions.
    """

    def __init__(
        self,
        vlm: VisionLanguageModel,
        settings: TrainerSettings,
        held: HeldOut,
        training: Training,
        output: Path,
        reward: Reward,
    ) -> None:
        self._vlm, self._training, self._output, self._reward = vlm, training, output, reward
        self._own, settings = settings.validation, settings.at_validation()
        self._settings = settings
        settings.check_environment()
        check_recipe(settings.reward, lambda name: name == TRAJECTORY or held.rows.gives(name))
        stops = settings.environment.make().stops
        self._sampler = make_sampler(vlm, settings.rollout, str(output / "served"), stops, settings.batch.max_tokens)
        self._examiner = Examiner(vlm, self._sampler, reward, settings)
        cap, tokens = settings.grpo.importance_cap, settings.batch.tokens
        self._likelihood = Likelihood(vlm, settings.rollout.temperature, tokens, cap)
        self._questions = self._usable(held)
        if note := note_few(len(self._questions), "validation"):
            print(f"trainer: {note}", file=sys.stderr)
        if self._own.best_by in LOWEST and not any(each.target for each in self._questions):
            raise ConfigError(
                f"validation.best_by = {self._own.best_by!r} needs responses, but the held-out rows have none: set "
                'validation.best_by = "accuracy"'
            )
        self._blind = blind_lines([each.row for each in self._questions], reward.recipe)
        save_questions(output, [drawn for each in self._questions for drawn in each.prompts])

    def __call__(self) -> None:
        """Validate the model if a validation is due, and save a checkpoint if this validation is the best one.

        The metric ``validation.best_by``, such as the accuracy, decides which validation is the best. If the training
        has ended, and the best validation is an earlier one, a note about it is printed. Raises Overfitted
        if the reward rose while the accuracy fell in each of the last ``validation.stop_after`` validations, JudgesDown
        if the judges do not answer, and SamplerError if answers cannot be sampled.
        """
        monitor, step = self._training.monitor, self._training.progress.step
        is_due = step % self._own.every == 0 or not self._training.goes_on
        if is_due and all(line["step"] != step for line in monitor.validations):
            answered, figures = self._validate()
            save_answers(self._output, step, answered)
            if best_of([*monitor.validations, {"step": step, **figures}], self._own.best_by) == step:
                self._training.save_best()
            monitor.validated(step, figures, SHOWN)  # at the end: an interrupted validation is repeated as a whole
        if problem := overfitting(monitor.validations, self._own.stop_after):
            best = checkpoints(self._output / BEST)
            where = f"; the best validation is that of {best[-1]}" if best else ""
            raise Overfitted(
                f"the training overfits, because {problem}{where}. Correct the reward, or set validation.stop_after = "
                "0 to continue the training anyway"
            )
        if not self._training.goes_on:
            self._print_best(step, best_of(monitor.validations, self._own.best_by))

    def _print_best(self, step: int, best: int | None) -> None:
        """Print which checkpoint is the best, if this is not that of the last step.

        ``step`` is the last step, and ``best`` is the step of the best validation; None if it is unknown.
        """
        found = checkpoints(self._output / BEST)
        if best == 0:
            print(f"trainer: {self._note_useless()}", file=sys.stderr)
        elif best not in (None, step) and found:
            command = export_command(found[-1], self._settings.model.path)
            by = f"validation.best_by = {self._own.best_by!r}"
            print(
                f"trainer: the best checkpoint by {by} is of step {best}: `{command}` makes a model of it",
                file=sys.stderr,
            )

    def _note_useless(self) -> str:
        """Return a note for the user: no later validation is better than the one before the first step."""
        return (
            "the best checkpoint is the model before the training: no later validation is better by "
            f"validation.best_by = {self._own.best_by!r}. {self._output / 'model'} holds the model after the last "
            f"step: use {self._settings.model.path} instead, whose weights {self._output / BEST} holds, too; for a "
            "better model, train for more steps, or change the learning rate, the data or the reward"
        )

    def _validate(self) -> tuple[list[EvaluatedQuestion], Figures]:
        started = time.perf_counter()
        prompts = [drawn for each in self._questions for drawn in each.prompts]
        with self._leaving_no_trace():
            self._sampler.sync()
            answered = []
            for start in range(0, len(self._questions), QUESTIONS_AT_ONCE):
                part = [drawn for each in self._questions[start : start + QUESTIONS_AT_ONCE] for drawn in each.prompts]
                answered += self._examiner.answer(part, self._settings.seed + start)
            figures = answer_figures(answered, self._reward.recipe.shown) | self._blind
            figures |= self._likelihood.figures(_samples(prompts, answered))
            targets = [each.target for each in self._questions if each.target is not None]
            figures |= {"loss": self._likelihood.loss(targets)} if targets else {}
        return answered, figures | {"wall_s": time.perf_counter() - started}

    @contextlib.contextmanager
    def _leaving_no_trace(self) -> Iterator[None]:
        """Set the reward to its initial state while the body of the ``with`` runs.

        The state of the reward is what it has learnt in earlier training steps (the attribute ``memory``). At the end
        of the body, this state and torch's random state are restored.
        """
        kept, self._reward.memory = self._reward.memory, Memory()
        devices = [self._vlm.device] if self._vlm.device.type == "cuda" else []
        try:
            with torch.random.fork_rng(devices=devices):
                yield
        finally:
            self._reward.memory = kept

    def _usable(self, held: HeldOut) -> list[Question]:
        """Return the questions of the validation that can be asked.

        ``held`` holds all these questions; the model is not trained on them. A row that cannot be used, e.g. because
        its prompt is too long, is recorded in ``left_out.jsonl`` with the reason. Raises ShardError if no row can be
        used.
        """
        check, room = (
            row_check(self._settings.reward),
            LengthLimit(self._settings.batch.max_tokens, self._settings.rollout.max_new_tokens),
        )
        found: list[Question] = []
        for index in held.order:
            if self._own.questions and len(found) == self._own.questions:
                break
            try:
                found.append(self._question(held.rows[index], check, room))
            except UnusableRow as error:
                self._training.monitor.leave_out(f"held-out row {index}", str(error))
        if not found:
            raise ShardError(
                "none of the held-out rows can be used: see the reasons in left_out.jsonl of the output folder"
            )
        return found

    def _question(self, row: TrainingRow, check: Any, room: LengthLimit) -> Question:
        check(row)
        asked, trained = first_prompt(row), row.messages[-1]["role"] == "assistant"
        prompts = self._examiner.prompts(asked)
        target = sft_sample(self._vlm, row) if trained else None
        problems = [refusal for _, prompt in prompts if (refusal := room.refusal(prompt))]
        if target is not None and (refusal := LengthLimit(room.max_tokens).refusal(target)):
            problems.append(refusal)
        if problems or not prompts:
            raise UnusableRow(
                problems[0] if problems else f"{row.id}: the row has no prompt in any stream of eval.streams"
            )
        return Question(row, prompts, target)


def first_prompt(row: TrainingRow) -> TrainingRow:
    """Return the row (a conversation with images) with only the turns before the assistant's first turn.

    In a validation, the model itself writes the assistant's turns. A row without an assistant's turn is returned
    unchanged. The images of later turns, such as images that code displayed, are left out.
    """
    roles = [message["role"] for message in row.messages]
    if "assistant" not in roles:
        return row
    messages = row.messages[: roles.index("assistant")]
    return replace(row, messages=messages, images=row.images[: sum(each["content"].count(MARK) for each in messages)])


def _samples(prompts: Sequence[Drawn], answered: Sequence[EvaluatedQuestion]) -> list[Sample]:
    """Return the sampled answers with their prompts, without empty and lost answers.

    An answer is lost if the environment that executes its code failed.
    """
    return [
        as_sample(prompt, rollout, f"validation/{place}/{row.id}")
        for place, ((row, prompt), each) in enumerate(zip(prompts, answered, strict=True))
        for rollout in each.rollouts
        if rollout.ids and not rollout.lost
    ]
