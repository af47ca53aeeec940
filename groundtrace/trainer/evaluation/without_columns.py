"""Scores responses to questions that lack the columns of the configured reward, e.g. a user's own folder of questions.

For example, the reward of the paper SAIL-RL needs the complexity of each question, and that of RuCL needs rubrics
(grading criteria). Rows have such columns only if they were written by this project's pipelines for these papers.

If the columns are missing, an evaluation scores only the outcome (whether the answer is right) and the form of a
response. If the question has gold boxes (known right boxes), the evaluation also compares the points and boxes of the
response with the gold boxes (:mod:`groundtrace.trainer.evaluation.figures`). The reward and all verdicts (scores of one
aspect of a response) other than the outcome and the form cannot be computed. Their value is None, and never 0.
"""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

from groundtrace.grading.question_text import BOXES, INSTRUCTIONS, PLAIN, TEXTUAL
from groundtrace.rewards import streams
from groundtrace.rewards.case import Case
from groundtrace.rewards.form import FORMS, Form
from groundtrace.rewards.recipes.base import Earned, Memory, Recipe, verdicts_of
from groundtrace.rewards.registry import scorers_named
from groundtrace.rewards.rows.row import TrainingRow
from groundtrace.rewards.scorer import Scorer
from groundtrace.rewards.scorers import format, outcome
from groundtrace.schemas.records import Verdict

REWARD = "reward"
CHECKED_FORMS: Mapping[str, Form] = {**FORMS, PLAIN: Form(points=True, boxes=True)}
"""Maps the name of each response form that can be checked to the rules of this form.

The form ``plain`` requests reasoning of any kind, so a response in this form may have points and boxes.
"""
_OF_STREAMS = {streams.GROUNDED: FORMS[BOXES], streams.TEXTUAL: FORMS[TEXTUAL]}


def form_asked(row: TrainingRow) -> str | None:
    """Return the name of the response form that a question's prompt requests, such as reasoning with boxes.

    ``row`` holds the question. The result is None if its prompt does not contain the instruction that requests a known
    form.
    """
    text = row.messages[0]["content"]
    return next((form for form, instruction in INSTRUCTIONS.items() if instruction in text), None)


@dataclass(frozen=True)
class WithoutColumns(Recipe):
    """Scores only the outcome (whether the answer is right) and the form of responses.

    The evaluation uses this class instead of a recipe (the code that computes the rewards of one paper) if the data
    lack a column that the recipe needs.

    Attributes:
        replaced: the recipe that is not used, because the data lack its columns.
        form: the name of the response form that the prompts request, such as reasoning with boxes. If it is None, the
            form is unknown and is not scored. If a question has streams (several forms of response), a response is
            checked against the form of its own stream instead.
        missing: a text that names the data that the questions lack.
    """

    name: ClassVar[str] = "without_columns"
    Settings: ClassVar[type] = type(None)

    replaced: Recipe
    form: str | None
    missing: str
    settings: None = None

    @property
    def runs(self) -> Sequence[Scorer]:
        """Return the two scorers (checks) that run: of the outcome (whether the answer is right) and of the form."""
        return scorers_named(outcome.NAME, format.NAME)

    @property
    def reason(self) -> str:
        """Return the reason why the reward and most verdicts (scores of one aspect) cannot be computed, as a text."""
        return f"no row of the data has {self.missing}"

    @property
    def not_applicable(self) -> dict[str, str]:
        """Return the metrics that cannot be computed: a mapping from their names to the reason as a text.

        These metrics are the reward and all verdicts (scores of one aspect of a response) except the outcome and the
        form. If the prompts request a form that is unknown or cannot be checked, the verdict on the form is also one of
        these metrics.
        """
        absent = dict.fromkeys([REWARD, *self._absent], self.reason)
        if self.form in CHECKED_FORMS:
            return absent
        return absent | {format.NAME: "the prompts request a form that is not checked"}

    @property
    def _absent(self) -> list[str]:
        return [name for name in self.replaced.shown if name not in (outcome.NAME, format.NAME)]

    async def score(self, cases: Sequence[Case], memory: Memory) -> list[Earned]:
        """Score the outcome and the form of the responses to one question. The reward of each response is None.

        The reward cannot be computed, because the question lacks data (``missing``) that the configured reward needs.
        The form is scored only if the requested form is known. ``cases`` holds each response with its question. The
        result holds the verdicts (scores of one aspect) of each response, in the same order. ``memory``, the state of
        rewards that learn during a training, is not used. Raises BudgetUsedUp if the budget for model calls is used up.
        """
        return list(await asyncio.gather(*map(self._one, cases)))

    async def _one(self, case: Case) -> Earned:
        form = _OF_STREAMS.get(case.context.stream or "") or CHECKED_FORMS.get(self.form or "")
        runs = self.runs if form else scorers_named(outcome.NAME)
        found = await verdicts_of(runs, replace(case, form=form) if form else case)
        absent = tuple(Verdict(name, None, self.reason) for name in self._absent)
        return Earned(None, (*found, *absent))
