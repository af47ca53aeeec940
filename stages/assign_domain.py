"""Sorts questions into STEM problems and general questions (SAIL-RL App. A.1, RL Data Curation).

The inputs are drafts (questions with their data). The outputs are drafts with the domain ``stem`` or ``general``. The
config may list the domain of each source (data set). For the questions of other sources, a rule decides. A question is
``stem`` if its answer is a number, or if its text contains words of maths or science. All other questions are
``general``.

The paper sorts by data set. Its STEM set holds maths, puzzles, science, OCR and counting with "verifiable reward".
Its general set holds "conversational and factual questions".

By the rule, a yes-or-no question is ``general`` if its text contains no words of maths or science. The pipeline filters
only ``stem`` questions by pass rate, so it does not filter these yes-or-no questions by pass rate. This is intended:
half of all guesses at a yes-or-no question are right, so the pass rate over four attempts hardly shows the difficulty
of such a question.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Annotated, Literal

import pyarrow as pa

from groundtrace.config.settings import settings
from groundtrace.grading.answers.registry import answer_type_named
from groundtrace.schemas.columns import Column
from groundtrace.schemas.records import Draft, Question
from groundtrace.stages.plumbing.stage import DraftStage, Route, Stage, Work

Domain = Literal["stem", "general"]
STEM: Domain = "stem"
GENERAL: Domain = "general"
DOMAIN = Column[str]("domain", pa.string(), "the class by which the recipe mixes questions", is_class=True)
_SCIENCE = re.compile(
    r"\b(?:calculat\w+|comput(?:e|ed)|equations?|solve"
    r"|perimeter|circumference|area of|volume of|radius|diameter|angles?"
    r"|degrees|hypotenuse|polygon|parallel|perpendicular|tangent|slope|derivative|integral|matrix|vectors?|probability"
    r"|theorem|proof|prove|velocity|acceleration|force|voltage|current|resistance|circuit|magnet\w*|electrons?|protons?"
    r"|molecul\w+|atoms?|chemical|reaction|solution of|enzymes?|genes?|genotype|phenotype|alleles?|dna|cells?|species"
    r"|organisms?|photosynthesis|tectonic|thermal energy|kinetic)\b|\bf\s*\(\s*x\s*\)|\\(?:frac|sqrt|angle)|[²³√π∠°]",
    re.IGNORECASE,
)


@settings
class DomainSettings:
    """Holds the domains of known sources (data sets)."""

    sources: Annotated[Mapping[str, Domain], "the domain of each source, by the records' source field"] = field(
        default_factory=dict, hash=False
    )


def domain_of(question: Question, settings: DomainSettings) -> Domain:
    """Return the domain of a question: ``stem`` (maths, science and similar) or ``general``.

    If the settings list the question's source (data set), they determine the domain. Otherwise the question is ``stem``
    if its answer is a number or its text contains words of maths or science.
    """
    listed = settings.sources.get(question.source)
    if listed is not None:
        return listed
    is_counted = answer_type_named(question.answer_type).is_number
    return STEM if is_counted or _SCIENCE.search(question.question) else GENERAL


def assign(draft: Draft, settings: DomainSettings) -> Route:
    """Return the draft (a question with its data) with its domain, as a route to the output ``stem`` or ``general``.

    A route holds a draft and names the output by which the draft leaves this stage (step of the pipeline). The output
    has the name of the domain. ``settings`` may give the domain of a source (data set); otherwise a rule decides.
    """
    domain = domain_of(draft.question, settings)
    return Route(domain, draft.with_added(DOMAIN, domain))


STAGE = Stage(
    "domain",
    "questions are STEM problems or general ones, by source or by rule",
    settings=DomainSettings,
    adds=(DOMAIN,),
)


@dataclass
class AssignDomain(DraftStage):
    """Stage (pipeline step) that divides the questions into the outputs ``stem`` and ``general``.

    The settings may give the domain of a source (data set). Any other question is ``stem`` if its answer is a number,
    or if its text contains words of maths or science.
    """

    settings: DomainSettings
    stage = STAGE
    routes = (STEM, GENERAL)

    def work(self) -> Work:
        """Return the function to run on each draft (a question with its data). The function sends the draft to the
        output ``stem`` or ``general`` (:func:`assign`).
        """
        return partial(assign, settings=self.settings)
