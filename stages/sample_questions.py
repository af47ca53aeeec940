"""Selects the sample of questions that the policy model attempts (RuCL §3.2: rollouts on a random subset of N
questions).

The inputs are drafts (questions with their data). The output ``kept`` has the sample: the ``size`` questions whose ids
have the lowest hashes. The output ``others`` has all other questions, which need no attempts. The hash replaces a
random choice, so that the sample depends on the ids alone.

If no judge can grade free text, questions whose gold answer is free text are rejected before the sample is selected. No
reward could be computed for these questions.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import apache_beam as beam
from apache_beam.pvalue import AsSingleton, PCollection

from groundtrace.rewards.rubrics import RubricSettings
from groundtrace.rewards.scorers.outcome import needs_judge
from groundtrace.schemas.ordering import order_key
from groundtrace.schemas.records import Draft
from groundtrace.stages.plumbing.metrics import count_in
from groundtrace.stages.plumbing.stage import (
    REJECTED,
    DraftStage,
    Reject,
    Route,
    Stage,
    apply,
    kept_output,
    rejected_output,
)

OTHERS = "others"
UNGRADABLE = "ungradable"
STAGE = Stage(
    "sample",
    "questions are drawn, in the order of a hash of their ids, for the policy to attempt; the others go on without",
    reasons={UNGRADABLE: "the gold answer is free text, and roles.judge names no endpoint that reads it"},
    settings=RubricSettings,
    max_kept=lambda settings: settings.sample,
)


class _Gradable(beam.DoFn):
    """Rejects questions whose answers cannot be graded: the gold answer is free text, and no judge grades free text."""

    def __init__(self, judged: bool) -> None:
        self._judged = judged

    def process(self, draft: Draft) -> Iterator[object]:
        """Emit the draft (question with its data), or its rejection if no answers to its question could be graded."""
        count_in(STAGE.name)
        if self._judged or not needs_judge(draft.question):
            yield draft
        else:
            why = Reject(UNGRADABLE, "the gold answer is free text, and no judge reads it")
            yield rejected_output(STAGE.rejected(draft, why, draft.calls))


class _Sample(beam.DoFn):
    """Sends each draft (a question with its data) with a low id hash to ``kept``, and all others to ``others``."""

    def process(self, draft: Draft, last_key: str) -> Iterator[object]:
        """Emit the draft (question with its data) to ``kept`` if the hash of its id is at most ``last_key``, else to
        ``others``.
        """
        yield kept_output(STAGE, draft if order_key(draft.id) <= last_key else Route(OTHERS, draft))


@dataclass
class SampleQuestions(DraftStage):
    """Stage (pipeline step) that selects a sample of ``size`` questions for the policy model to attempt. All others go
    to the output ``others``.

    ``judged`` is True if a judge model grades answers in free text. If it is False, questions whose gold answer is free
    text are rejected.
    """

    size: int
    judged: bool = True
    stage = STAGE
    routes = (OTHERS,)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.size < 1:
            raise ValueError(f"size must be at least 1 question, got {self.size}")

    def expand(self, drafts: PCollection) -> Any:
        """Select the sample of questions that the policy model attempts, and return the outputs ``kept``, ``others``
        and ``rejected``.

        ``drafts`` are the questions with their data. ``kept`` has the sample, and ``others`` all other questions.
        ``rejected`` has a rejection for each question that no rule or judge can grade.
        """
        gradable = apply(drafts, "Gradable", _Gradable(self.judged))
        last_key: Any = (
            gradable.kept
            | "Keys" >> beam.Map(lambda draft: order_key(draft.id)).with_output_types(str)
            | "LowestKeys" >> beam.combiners.Top.Smallest(self.size)
            | "LastKey" >> beam.Map(lambda keys: max(keys, default=""))
        )
        drawn = apply(gradable.kept, "Draw", _Sample(), AsSingleton(last_key), **{OTHERS: Draft})
        return {"kept": drawn.kept, OTHERS: drawn[OTHERS], REJECTED: gradable[REJECTED]}
