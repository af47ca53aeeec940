"""Finds traces (responses of a teacher model) that mention things that only the teacher saw.

Besides the question, the teacher may see coordinates, marks on a copy of the image, the gold answer, and hints. With
these additions, the teacher can write a trace that is grounded in the image (Argos App. G: overlays), or a trace with
the right answer (SAIL-RL App. A.1: guided prompting). A trace that mentions the additions is a leak: a model that is
trained on it learns to mention things that it will not see.

The short list of phrases in ``leak_phrases.yaml`` covers the clear cases. It misses many wordings, so a judge also
searches for leaks (:mod:`groundtrace.stages.reject_leaks`). Deviation: the papers do not describe how they avoid leaks.
"""

import functools
import re
from dataclasses import dataclass
from importlib import resources

from groundtrace.schemas.labels import words_of
from groundtrace.schemas.quoting import visible
from groundtrace.schemas.records import Question
from groundtrace.schemas.yaml_text import read_yaml

MAX_READ_CHARS = 20_000
"""Only this many characters from the beginning of a text are searched."""
_THINGS = frozenset(
    {"annotation", "box", "coordinate", "detection", "ground", "guidance", "hint", "instruction", "key", "label"}
    | {"list", "mark", "marker", "metadata", "overlay", "point", "prompt", "reference", "region", "user"}
)
_CJK = re.compile(r"[\u3040-\u30ff\u3400-\u9fff]")


@dataclass(frozen=True)
class Phrase:
    """Holds a phrase of ``leak_phrases.yaml``, and two example sentences that test the phrase.

    A trace (a teacher's response) with this phrase has a leak: it mentions things that only the teacher saw.

    ``phrase`` is a regular expression. It must match the sentence ``fault``, and must not match the sentence ``clean``.
    """

    phrase: str
    fault: str
    clean: str

    @functools.cached_property
    def pattern(self) -> re.Pattern[str]:
        """Return the regular expression with which the phrase is searched: only whole words match, and case is ignored.

        The words may be separated by any white space. A phrase in Chinese or Japanese also matches inside a longer
        text, because these languages have no spaces between words.
        """
        spaced = self.phrase.replace(" ", r"\s+")
        whole = rf"(?:{spaced})" if _CJK.search(spaced) else rf"(?<!\w)(?:{spaced})(?!\w)"
        return re.compile(whole, re.IGNORECASE)


@functools.cache
def phrases() -> tuple[Phrase, ...]:
    """Return the phrases of ``leak_phrases.yaml``, in the order of the file. The file is read only once.

    A phrase finds leaks: words in a trace (a teacher's response) about things that only the teacher saw.
    """
    text = resources.files("groundtrace.rewards").joinpath("leak_phrases.yaml").read_text("utf-8")
    return tuple(Phrase(**entry) for entry in read_yaml(text))


def find_leak(text: str, question: Question) -> str | None:
    """Return the first leak in a trace: words about things that only the teacher saw; None if no leak is found.

    ``text`` is the trace (a response of the teacher model), and ``question`` is its question. A leak is a match of a
    phrase of ``leak_phrases.yaml``. Exception: a match is ignored if the question or its choices mention the same
    thing, such as "the given coordinates" for a question about coordinates. The function never raises.
    """
    shown = visible(text[:MAX_READ_CHARS])
    asked = frozenset(words_of("\n".join([question.question, *(question.choices or ())])))
    for phrase in phrases():
        for found in phrase.pattern.finditer(shown):
            if not asked & _THINGS & frozenset(words_of(found.group())):
                return " ".join(found.group().split())
    return None
