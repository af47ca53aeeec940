"""Keeps general questions diverse (SAIL-RL App. A.1): limits the number of questions that are nearly the same.

The inputs are drafts (questions with their data). At most ``max_alike`` drafts of each kind are kept: those with the
lowest hashes of their ids. All other drafts are rejected as over_quota. Two questions are of one kind if they have the
same source, answer and wording. Two wordings are equal if they differ only in the values of numbers, in upper and lower
case, in spaces or in punctuation. The paper does not say how it keeps its general questions diverse.
"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Annotated, Any

import apache_beam as beam
from apache_beam.pvalue import PCollection
from pydantic import PositiveInt

from groundtrace.config.settings import settings
from groundtrace.grading.answers.number_words import WORDS
from groundtrace.schemas.ordering import order_key
from groundtrace.schemas.quoting import visible
from groundtrace.schemas.records import Draft, Question
from groundtrace.stages.plumbing.keeping import OVER_QUOTA
from groundtrace.stages.plumbing.metrics import count_in
from groundtrace.stages.plumbing.stage import DraftStage, Reject, Stage, apply, kept_output, rejected_output

_TOKEN = re.compile(r"\d+(?:[.,]\d+)*|[^\W\d_]+")


@settings
class AlikeSettings:
    """Holds the maximum number of questions with the same source, answer and wording."""

    max_alike: Annotated[PositiveInt, "the maximum number of questions with the same source, wording and answer"] = 10


def template_of(text: str) -> str:
    """Return the wording of a question, for comparison: its words in lower case, with ``#`` in place of each number.

    For example, "How many of the 3 cats sleep?" gives ``how many of the # cats sleep``.
    """
    words = (match.group().lower() for match in _TOKEN.finditer(visible(text)))
    return " ".join("#" if word[0].isdigit() or word in WORDS else word for word in words)


def kind_of(question: Question) -> str:
    """Return a hash of the kind of ``question``. Questions with the same source, answer and wording are of one kind."""
    return order_key("\x00".join((question.source, template_of(question.question), question.answer.strip().lower())))


class _CapAlike(beam.DoFn):
    def __init__(self, settings: AlikeSettings) -> None:
        self._settings = settings

    def process(self, group: tuple[str, Iterable[Draft]]) -> Iterator[object]:
        """Emit at most ``max_alike`` drafts of a group, and a rejection for each other draft of the group.

        ``group`` is a pair: a key, and the drafts whose questions have the same source, answer and wording. The drafts
        with the lowest hashes of their ids are emitted.
        """
        for place, draft in enumerate(sorted(group[1], key=lambda draft: order_key(draft.id))):
            count_in(STAGE.name)
            if place < self._settings.max_alike:
                yield kept_output(STAGE, draft)
                continue
            why = Reject(OVER_QUOTA, f"one of more than {self._settings.max_alike} questions alike")
            yield rejected_output(STAGE.rejected(draft, why, draft.calls))


STAGE = Stage(
    "alike",
    "of general questions that differ in little more than numbers, only some are kept",
    reasons={OVER_QUOTA: "left over by a quota or ratio"},
    settings=AlikeSettings,
)


@dataclass
class CapAlike(DraftStage):
    """Stage (pipeline step) that keeps at most ``settings.max_alike`` questions with the same source, answer and
    wording.
    """

    settings: AlikeSettings
    stage = STAGE

    def expand(self, drafts: PCollection) -> Any:
        """Group the drafts (questions with their data) by source, answer and wording, and keep at most
        ``settings.max_alike`` of each group.

        Returns two outputs: ``kept`` has the kept drafts, and ``rejected`` has a rejection for each other draft.
        """
        keyed = drafts | "KeyByKind" >> beam.Map(lambda draft: (kind_of(draft.question), draft)).with_output_types(
            tuple[str, Draft]
        )
        return apply(keyed | "OfOneKind" >> beam.GroupByKey(), "Cap", _CapAlike(self.settings))
