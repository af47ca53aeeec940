"""Checks whether the training rows have the data that the reward needs, and writes notes for the user.

A row is one question with its prompt, its images and the data for the reward. A note states how many rows lack some of
this data. The checks need no images and no model.
"""

from collections import Counter
from collections.abc import Callable, Collection

from groundtrace.config.errors import ConfigError
from groundtrace.grading.answers.registry import ANSWER_TYPES
from groundtrace.inference.endpoint import is_real
from groundtrace.rewards.blindness import blind_figures, blind_text
from groundtrace.rewards.recipes.base import Recipe
from groundtrace.rewards.rows.records import Records
from groundtrace.rewards.rows.row import TrainingRow, UnusableRow
from groundtrace.rewards.rows.settings import RewardSettings
from groundtrace.rewards.rows.shards import Shards
from groundtrace.rewards.rubrics import PLACE, RUBRICS, empty_stratum
from groundtrace.rewards.scorers.outcome import needs_judge
from groundtrace.schemas.text import counted

BLIND_UNKNOWN = (
    "What a policy earns that never looks is not known for this reward: to compare the training with it, define "
    "`blind_shares` in the recipe's class."
)
"""The note for the user if a recipe does not declare its :class:`groundtrace.rewards.recipes.base.BlindShares`."""


def check_recipe(settings: RewardSettings, gives: Callable[[str], bool]) -> None:
    """Raise ConfigError if the recipe needs a model role without an endpoint, or a field that no training row has.

    ``settings`` are the settings of the reward, with the recipe (which turns verdicts into rewards) and the endpoints.
    ``gives`` is a function that takes the name of a field of :class:`groundtrace.rewards.case.Context`, such as
    ``stream``, and returns whether any row has this field.
    """
    recipe = settings.make_recipe()
    absent = [role for role in recipe.roles if role not in settings.played]
    if absent:
        raise ConfigError(
            f"reward.recipe = {recipe.name!r} calls the model role {absent[0]}, which has no endpoint: "
            f"set reward.roles.{absent[0]} to the name of an endpoint"
        )
    recipe.check_served(settings.roles)
    if missing := missing_need(recipe, gives):
        raise ConfigError(
            f"reward.recipe = {recipe.name!r} cannot score the rows, because none of them has this: {missing}. Use "
            "other data or another recipe"
        )


def missing_need(recipe: Recipe, gives: Callable[[str], bool]) -> str | None:
    """Return a description of the first field that the recipe needs and no training row has.

    The result is None if there is no such field. The recipe turns verdicts into rewards. ``gives`` is a function that
    takes the name of a field of :class:`groundtrace.rewards.case.Context`, such as ``stream``, and returns whether any
    row has this field.
    """
    return next((what for name, what in recipe.needs.items() if not gives(name)), None)


def reads_text(settings: RewardSettings) -> bool:
    """Return whether the config has a judge that can grade free text.

    Only a real model can grade free text. The embedded engine, which is a program with OpenCV that replaces models,
    cannot.
    """
    judge = settings.played.get("judge")
    return judge is not None and is_real(settings.endpoints[judge])


def check_judge(settings: RewardSettings, shards: Shards) -> str | None:
    """Return a note for the user on the rows that are left out for lack of a judge; None if no row is left out.

    If the config has no judge that grades free text, the trainer leaves out the rows whose gold answer is free text.
    For such a row, the trainer could score only answers that equal the gold answer. Raises ConfigError if the trainer
    would leave out all rows.
    """
    found = 0 if reads_text(settings) else shards.count_free_text()
    if not found:
        return None
    problem = f"{found} of {counted(len(shards), 'row')} with free text as gold answer cannot be scored"
    if found == len(shards):
        raise ConfigError(
            f"the gold answer is free text in all {counted(found, 'row')}, but the config names no judge that can "
            "grade free text: set reward.roles.judge to an endpoint with a language model, for example of the kind "
            "openai"
        )
    return f"{problem} and are left out, since no judge grades text: set reward.roles.judge to a model"


def note_free_text(settings: RewardSettings, data: Records | Shards) -> str | None:
    """Return a note for the user on the questions of an evaluation that need a judge, if there is no judge.

    These are the questions whose gold answer is free text. Without a judge that grades free text, an answer in other
    words than the gold answer is unscored. The result is None if the config has such a judge, or if no gold answer in
    ``data`` is free text.
    """
    found = 0 if reads_text(settings) else data.count_free_text()
    if not found:
        return None
    return (
        f"{found} of {counted(len(data), 'question')} in the data have free text as gold answer: answers in other "
        "words are unscored, since no judge grades text: set reward.roles.judge to a model"
    )


def note_strata(settings: RewardSettings, shards: Shards) -> str | None:
    """Return a note for the user on the training rows that have only easy or only hard rubrics (criteria of grading).

    If some rows have only easy rubrics and other rows only hard ones, the note is about the larger of these two sets of
    rows. The result is None if both sets are empty, or if the recipe uses no rubrics.
    """
    if "rubrics" not in settings.make_recipe().needs:
        return None
    single = Counter(strata for strata in shards.strata if len(strata) == 1)
    if not single:
        return None
    [(strata, found)] = single.most_common(1)
    whose = "" if found == len(shards) else f"{found} of {counted(len(shards), 'row')}: "
    return f"{whose}{empty_stratum(strata)}"


def note_detected(shards: Shards) -> str | None:
    """Return a note for the user on the training rows whose gold boxes a detector made; None if there are none."""
    found = shards.count_detected()
    return f"{counted(found, 'row')} of {len(shards)} use a detector's boxes as gold boxes" if found else None


def row_check(settings: RewardSettings) -> Callable[[TrainingRow], None]:
    """Return a function that checks a training row, and raises UnusableRow if responses to it cannot be scored.

    ``settings`` are the settings of the reward.
    """
    is_read, needs = reads_text(settings), settings.make_recipe().needs

    def check(row: TrainingRow) -> None:
        if (named := row.question.answer_type) not in ANSWER_TYPES:
            raise UnusableRow(
                f"{row.id}: the answer type {named!r:.40} is unknown: add it to plugins.answer_types in the config"
            )
        if not is_read and needs_judge(row.question):
            raise UnusableRow(
                f"{row.id}: the gold answer is free text, which only a judge model can grade: set reward.roles.judge "
                "to a model"
            )
        if "stream" in needs and not row.streams:
            raise UnusableRow(
                f"{row.id}: the row has no streams (ways to answer: with boxes, or only in words), but reward.recipe = "
                f"{settings.recipe!r} needs them: use other data or another recipe"
            )
        if "rubrics" in needs and any(rubric.id == PLACE.id for rubric in row.context.added(RUBRICS) or ()):
            raise UnusableRow(
                f"{row.id}: a rubric has the id {PLACE.id!r}, which is reserved for the reward: give this "
                "rubric another id in the data"
            )

    return check


def blind_reward(shards: Shards, recipe: Recipe, only: Collection[str] = ()) -> tuple[float | None, str]:
    """Return the mean reward of the best blind policy, and a text for the user with its reward and its answers.

    The blind policy does not use the images: it gives the same answer to all questions of one kind, such as "yes" to
    all yes/no questions (:mod:`groundtrace.rewards.blindness`). No responses are sampled: the reward is computed from
    the gold answers. Rows are left out if only a judge can grade them, or if their answer is boxes. The reward is None
    if no rows remain, or if the recipe does not define the reward for an answer without looking at the images. If a
    trained policy has a higher reward than the blind policy, the trained policy uses the images. If its reward is equal
    or lower, it may or may not use them.

    ``shards`` holds the training rows, and ``recipe`` computes the reward. ``only`` holds the streams in which the rows
    are asked (with boxes, or only in words); if it is empty, each row is asked in all of its streams.
    """
    figures = blind_figures(shards.rewarded_questions(only), type(recipe), recipe.settings)
    if figures is None:
        return None, BLIND_UNKNOWN
    reward = None if figures.share is None else figures.share * recipe.full_reward
    return reward, blind_text(figures)


def note_start(reward: float | None, blind: float | None) -> str | None:
    """Return a warning if the reward at the start of a training is not above the reward of a blind policy; else None.

    ``reward`` is the reward of the initial policy. ``blind`` is the reward of a policy that answers without using the
    images (:func:`blind_reward`). If one of them is None (unknown), the result is None.
    """
    if reward is None or blind is None or reward > blind:
        return None
    return (
        f"the reward at the start, {reward:.3f}, is not above {blind:.3f}, the reward of a policy that never looks at "
        "the images: up to that value, a rise need not come from looking"
    )
