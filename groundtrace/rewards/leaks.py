"""Traces that speak of what their reader never sees: marks on a copy of the image, coordinates, the gold answer, hints.

A teacher is shown them so that it can write a grounded trace (Argos App. G: overlays), or one that ends right (SAIL-RL
App. A.1: guided prompting). A model that learns from a trace that names them learns to speak of what it will not have.
The short list of phrases in ``leak_phrases.yaml`` answers what is beyond doubt. It misses many wordings; finding these
is a judge's work (:mod:`groundtrace.stages.reject_leaks`). Deviation: the papers do not say how they keep them out.
"""

import functools
import re
from dataclasses import dataclass
from importlib import resources

import yaml

from groundtrace.schemas.labels import words_of
from groundtrace.schemas.quoting import visible
from groundtrace.schemas.records import Question

MAX_READ_CHARS = 20_000
"""How much of a text is read, from its beginning."""
_THINGS = frozenset(
    {"annotation", "box", "coordinate", "detection", "ground", "guidance", "hint", "instruction", "key", "label"}
    | {"list", "mark", "marker", "metadata", "overlay", "point", "prompt", "reference", "region", "user"}
)
_CJK = re.compile(r"[\u3040-\u30ff\u3400-\u9fff]")


@dataclass(frozen=True)
class Phrase:
    """A phrase of the list, with a sentence that it is for and a clean one that it must let pass."""

    phrase: str
    fault: str
    clean: str

    @functools.cached_property
    def pattern(self) -> re.Pattern[str]:
        """The phrase as whole words, in any case, with any white space for a blank. Chinese and Japanese have no blanks
        between words."""
        spaced = self.phrase.replace(" ", r"\s+")
        whole = rf"(?:{spaced})" if _CJK.search(spaced) else rf"(?<!\w)(?:{spaced})(?!\w)"
        return re.compile(whole, re.IGNORECASE)


@functools.cache
def phrases() -> tuple[Phrase, ...]:
    """The list."""
    text = resources.files("groundtrace.rewards").joinpath("leak_phrases.yaml").read_text("utf-8")
    return tuple(Phrase(**entry) for entry in yaml.safe_load(text))


def find_leak(text: str, question: Question) -> str | None:
    """Returns the first phrase of the list that stands in a text; None where there is none. Never raises.

    No sign is a phrase of things that the question or its choices speak of, too: "the given coordinates" where
    coordinates are asked for.
    """
    shown = visible(text[:MAX_READ_CHARS])
    asked = frozenset(words_of("\n".join([question.question, *(question.choices or ())])))
    for phrase in phrases():
        for found in phrase.pattern.finditer(shown):
            if not asked & _THINGS & frozenset(words_of(found.group())):
                return " ".join(found.group().split())
    return None
