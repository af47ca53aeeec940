"""Redundancy (SAIL-RL App. A.1, Quality Filtering): reasoning that only repeats the answer is dropped.

In: verified drafts. Out: those with at most ``max_overlap`` of the words of the think section in the final answer. An
empty think section repeats nothing and passes. The paper names the measure, "token overlap between the thought process
and the final answer", but neither its form nor its threshold. Here it is the share of the *different* content words of
the thought that are in the answer too, so that repetition changes nothing; it never falls if the answer gets one more
word, or the thought one more of the answer's words, and never rises if the thought gets another word.
"""

import re
from dataclasses import dataclass
from functools import partial
from typing import Annotated

from groundtrace.config.settings import Share, settings
from groundtrace.grading.answers.number_words import WORDS
from groundtrace.grading.responses.response import parse_response
from groundtrace.schemas.quoting import visible
from groundtrace.schemas.records import Draft
from groundtrace.stages.plumbing.stage import DraftStage, Reject, Stage, Work

REDUNDANT = "redundant"
_TOKEN = re.compile(r"\d+(?:[.,]\d+)*|[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]|[^\W\d_]+")
_NUMBERS = {word: str(number) for word, number in WORDS.items()}
_EMPTY_WORDS = frozenset(
    re.findall(
        r"\w+",
        "a an the this that these those it its is are was were be been am do does did has have had of in on at to for "
        "from by with and or so as if then than there here i we you he she they me us my our your his her their will "
        "would can could should must may might thus hence therefore because since answer answers final correct right "
        "result solution option choice conclude conclusion obviously clearly just simply",
    )
)


@settings
class RedundancySettings:
    """How much of a thought may repeat its answer."""

    max_overlap: Annotated[Share, "the maximum share of the thought's words that are also in the answer"] = 0.5


def content_words(text: str) -> frozenset[str]:
    """The different content words of a text, in lower case; numbers as digits, Chinese by the character."""
    words = (match.group().lower() for match in _TOKEN.finditer(visible(text)))
    return frozenset(_NUMBERS.get(word, word) for word in words if word not in _EMPTY_WORDS)


def overlap(thought: str, answer: str) -> float:
    """The share of the thought's content words that the answer has, in [0, 1]; 1 for a thought without any."""
    words = content_words(thought)
    return len(words & content_words(answer)) / len(words) if words else 1.0


def filter_redundant(draft: Draft, settings: RedundancySettings) -> Draft:
    """The draft, unchanged. Raises :class:`Reject` if the thought repeats its answer, ValueError without a trace."""
    if draft.best is None:
        raise ValueError(f"{draft.id}: FilterByRedundancy needs a verified trace")
    trace = draft.traces[draft.best]
    thought = parse_response(trace.text).think
    if not thought:
        return draft
    share = overlap(thought, trace.answer or "")
    if share > settings.max_overlap:
        raise Reject(REDUNDANT, f"{share:.2f} of the thought's words are the answer's, over {settings.max_overlap:g}")
    return draft


STAGE = Stage(
    "redundancy",
    "reasoning that only repeats the answer is dropped",
    reasons={REDUNDANT: "too much of the reasoning is the answer"},
    settings=RedundancySettings,
)


@dataclass
class FilterByRedundancy(DraftStage):
    """Drops reasoning that repeats its answer; see the module."""

    settings: RedundancySettings
    stage = STAGE

    def work(self) -> Work:
        """See :func:`filter_redundant`."""
        return partial(filter_redundant, settings=self.settings)
