"""Compares evaluations of the same questions: ``trainer compare EVAL EVAL [EVAL …]``.

Each of the other evaluations is compared with the first one. The differences are paired: for each question, the value
in the first evaluation is subtracted from the value in the other evaluation. The result is the mean over the questions.
:mod:`groundtrace.trainer.evaluation.comparison` computes it, with a 95 % interval.
"""

import dataclasses
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from groundtrace.rewards.recipes.registry import complete_options
from groundtrace.schemas.errors import UserError
from groundtrace.schemas.registry import installed_code_only
from groundtrace.schemas.revision import own_code_in
from groundtrace.schemas.safe_files import read_regular
from groundtrace.schemas.text import counted
from groundtrace.schemas.toml_text import MAX_CONFIG_BYTES, read_toml
from groundtrace.trainer.evaluation.comparison import (
    ACCURACY,
    POINT_F1,
    REWARD,
    Answered,
    Estimate,
    difference,
    estimate,
    estimate_text,
    read_answers,
)
from groundtrace.trainer.evaluation.few_questions import few_in_comparison
from groundtrace.trainer.output_folder import recorded_run

MEASURES = {ACCURACY: "accuracy", POINT_F1: "point F1", REWARD: "reward"}
"""Maps the name of each measure to its title."""
Figures = Mapping[str, Estimate | None]


class CompareError(UserError):
    """Raised if evaluations cannot be compared. The message names the folder and the remedy."""


@dataclass(frozen=True)
class Evaluation:
    """Holds a finished evaluation.

    Attributes:
        name: its folder, as the user wrote it.
        model: the model that was evaluated.
        answered: the answers of the model.
        reward: the name of the recipe (the code that computed the rewards), its options, and the digest of the user's
            code; "" without such code. The rewards of two evaluations are compared only if all three are equal.
    """

    name: str
    model: str
    answered: Answered
    reward: tuple[str, Mapping[str, Any], str]

    @property
    def questions(self) -> set[tuple[str, frozenset[str]]]:
        """Return the questions of the evaluation, each as its id and its gold answers."""
        return set(self.answered.golds.items())


@dataclass(frozen=True)
class Comparison:
    """Holds the estimated measures of several evaluations, and their differences to the first evaluation.

    The measures are accuracy, point F1 and reward.

    Attributes:
        evaluations: the evaluations.
        questions: the number of questions that are compared.
        groups: the number of media groups (sets of questions with common images); None if it is unknown.
        figures: for each evaluation, the estimate of each measure; None for a measure without a value.
        differences: for each evaluation but the first, the paired difference of each measure to the first evaluation.
        notes: sentences that a reader needs to interpret the estimates.
    """

    evaluations: Sequence[Evaluation]
    questions: int
    groups: int | None
    figures: Sequence[Figures]
    differences: Sequence[Figures]
    notes: Sequence[str]

    @property
    def is_worse(self) -> bool:
        """Return whether any evaluation is worse than the first.

        An evaluation is worse if the 95 % interval of its difference in accuracy to the first is entirely below 0.
        """
        bounds = [found.high for each in self.differences if (found := each[ACCURACY]) is not None]
        return any(high is not None and high < 0 for high in bounds)


def read_evaluation(folder: str) -> Evaluation:
    """Return the finished evaluation in an output folder of ``trainer eval``.

    Raises CompareError if the folder has no finished evaluation, and UnsafeFile if one of its files is a pipe or a
    device.
    """
    path = Path(folder)
    run = recorded_run(path) or {}
    if run.get("command") != "eval" or run.get("ended") != "done":
        raise CompareError(
            f"{folder} does not hold a finished evaluation: give the --output folder of a finished `trainer eval`"
        )
    try:
        reward = read_toml(read_regular(path / "config.toml", MAX_CONFIG_BYTES).decode("utf-8")).get("reward", {})
        answered = read_answers(path / "responses.jsonl")
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        line = " ".join(str(error).split())[:200]
        raise CompareError(f"the evaluation {folder} is damaged ({line}): evaluate the model again") from error
    repeated = next((key for key, golds in answered.golds.items() if len(golds) > 1), None)
    if repeated is not None:
        raise CompareError(
            f"{folder} has several questions with the id {repeated[:100]!r}, so they cannot be paired: give each "
            "question an id of its own, and evaluate again"
        )
    code = own_code_in(str(run.get("revision", "")))
    rewarded = reward.get("recipe", ""), _options(reward), code
    return Evaluation(folder, str(run.get("model", "")), answered, rewarded)


def _options(reward: Mapping[str, Any]) -> Any:
    """Return all options of the recipe that ``reward``, a section of a config, names, including those with defaults.

    A recipe is the code that computes the rewards of one paper. The defaults are added because ``reward`` may lack
    them, e.g. if an earlier version of Groundtrace wrote it. If the recipe cannot be loaded here, only the options in
    ``reward`` are returned.

    Only recipes and scorers of Groundtrace and of installed packages are loaded, because somebody else may have made
    the folder of the evaluation.
    """
    options = reward.get("options", {})
    try:
        with installed_code_only("by no comparison"):
            return complete_options(str(reward.get("recipe", "")), options)
    except (UserError, ValueError, TypeError, AttributeError):  # of a damaged or foreign config
        return options


def compare(evaluations: Sequence[Evaluation], is_shared: bool = False) -> Comparison:
    """Compare evaluations with the first of them.

    ``evaluations`` has at least two entries. If ``is_shared`` is True, only the questions that all of them have are
    compared. Raises CompareError if the evaluations have different questions and ``is_shared`` is False, or if no
    question is in all of them. Two questions are the same if their ids and their gold answers are equal.
    """
    first, *others = evaluations
    shared = first.questions.intersection(*(each.questions for each in others))
    different = next((each for each in others if each.questions != first.questions), None)
    if different is not None and (not is_shared or not shared):
        raise CompareError(_refusal(first, different, len(shared), len(evaluations)))
    keys = {key for key, _ in shared}
    groups = next((each.answered.groups for each in evaluations if keys <= each.answered.groups.keys()), None)
    rewarded = [each.reward == first.reward for each in evaluations]
    values = [
        {name: {key: value for key, value in each.answered.figures[name].items() if key in keys} for name in MEASURES}
        for each in evaluations
    ]
    known = groups or {}
    figures = [{name: estimate(own[name], known, is_share=name == ACCURACY) for name in MEASURES} for own in values]
    differences = [
        {
            name: difference(values[0][name], own[name], known, name == ACCURACY) if name != REWARD or is_same else None
            for name in MEASURES
        }
        for own, is_same in zip(values[1:], rewarded[1:], strict=True)
    ]
    names = None if groups is None else {groups[key] for key in keys}
    has_bare = any(
        found is not None and found.low is None for each in (*figures, *differences) for found in each.values()
    )
    count = None if names is None else len(names)
    notes = [*few_in_comparison(len(keys), count), *_notes(names is None, all(rewarded), has_bare)]
    return Comparison(evaluations, len(keys), count, figures, differences, notes)


def _refusal(first: Evaluation, other: Evaluation, shared: int, count: int) -> str:
    both = first.questions & other.questions
    difference_text = (
        f"{first.name} and {other.name} have different questions: {len(both)} are in both, "
        f"{len(first.questions - both)} only in {first.name}, and {len(other.questions - both)} only in {other.name}"
    )
    if not shared:
        nowhere = ", and no question is in all evaluations" if both else ""
        return f"{difference_text}{nowhere}: evaluate the models on the same --data"
    everywhere = f"the {counted(shared, 'question')} that {'both' if count == 2 else 'all'} have"
    return f"{difference_text}: compare {everywhere} with --shared, or evaluate the models on the same --data"


def _notes(is_ungrouped: bool, is_rewarded_alike: bool, has_bare: bool) -> list[str]:
    """Return the notes of a comparison: one for each of three problems that the comparison has.

    There is a problem if ``is_ungrouped`` is True: it is unknown which questions have common images. There is a problem
    if ``is_rewarded_alike`` is False: the evaluations have rewards of different recipes, options or code of the user.
    There is a problem if ``has_bare`` is True: an estimate has no interval.
    """
    found = []
    if is_ungrouped:
        found.append(
            "The evaluations do not state which questions have common images, because an earlier version wrote them. "
            "Each question counts as independent, so the intervals may be too narrow: evaluate one of the models again."
        )
    if not is_rewarded_alike:
        found.append(
            "Rewards of different recipes, options (reward.recipe, reward.options) or own code are not subtracted."
        )
    if has_bare:
        found.append(
            "A figure has no interval if there is only one media group, or if all media groups have the same value."
        )
    return found


def comparison_lines(found: Comparison) -> list[str]:
    """Return a comparison of evaluations as lines of text for the terminal.

    A measure, such as the accuracy, is left out if no evaluation has a value of it.
    """
    shown = [name for name in MEASURES if any(each[name] is not None for each in found.figures)]
    groups = "" if found.groups is None else f" in {counted(found.groups, 'media group')}"
    lines = [f"{counted(found.questions, 'question')}{groups}, 95 % intervals in brackets:"]
    first, *others = (each.name for each in found.evaluations)
    rows = [(name, each, False) for name, each in zip((first, *others), found.figures, strict=True)]
    rows += [(f"{name} − {first}", each, True) for name, each in zip(others, found.differences, strict=True)]
    for title, figures, is_difference in rows:
        texts = [
            f"{MEASURES[name]} {estimate_text(figures[name], is_difference)}{_zero_text(figures[name], is_difference)}"
            for name in shown
        ]
        lines.append(f"  {title}: {', '.join(texts)}")
    return [*lines, *found.notes]


def _zero_text(found: Estimate | None, is_difference: bool) -> str:
    """Return " (0 is inside)" for a difference whose 95 % interval contains 0, and "" otherwise.

    The printed bounds are rounded, so they do not show on which side of 0 a bound such as ``+0.000`` is.
    """
    if not is_difference or found is None or found.low is None or found.high is None:
        return ""
    return " (0 is inside)" if found.low <= 0 <= found.high else ""


def comparison_json(found: Comparison) -> str:
    """Return a comparison of evaluations as JSON text.

    An estimate is an object with ``value``, ``low``, ``high`` (the 95 % interval) and ``questions``. An estimate
    without data is null.
    """
    first, *others = found.evaluations
    plain = {
        "questions": found.questions,
        "media_groups": found.groups,
        "evaluations": [
            {"name": each.name, "model": each.model} | _plain(figures)
            for each, figures in zip(found.evaluations, found.figures, strict=True)
        ],
        "differences": [
            {"name": each.name, "minus": first.name} | _plain(figures)
            for each, figures in zip(others, found.differences, strict=True)
        ],
        "notes": list(found.notes),
    }
    return json.dumps(plain, indent=1, ensure_ascii=False)


def _plain(figures: Figures) -> dict[str, Any]:
    return {name: None if found is None else dataclasses.asdict(found) for name, found in figures.items()}
