"""Lists the scorers that verify traces (a teacher's responses), and applies the scorer settings of a config.

A scorer checks one property of a response. A config can add scorers to the list, and change their arguments.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from groundtrace.config.errors import ConfigError
from groundtrace.config.settings import build
from groundtrace.rewards.registry import SCORERS, scorers_named
from groundtrace.rewards.scorer import Scorer
from groundtrace.rewards.scorers import boxes, boxes_counted
from groundtrace.schemas.registry import RegistryError

TRACE_SCORERS = scorers_named("outcome", "format", "spatial", "counting", "temporal", "reasoning")
"""The scorers that verify traces unless a recipe uses others, in the order of their verdicts."""

STREAM_SCORERS = (
    *scorers_named("outcome", "format"),
    boxes.OF_TRACES,
    *scorers_named("boxes_located"),
    boxes_counted.SCORER,
    *scorers_named("temporal", "reasoning"),
)
"""The scorers that verify traces in the pipeline of the paper iVGR.

In this pipeline, each trace (a teacher's response) answers one of two prompts for a question, called streams. One
prompt requests reasoning with boxes, the other reasoning only in words. The scorers of boxes run only if boxes were
requested.
"""

ScorerArguments = Mapping[str, Mapping[str, Any]]
"""The arguments of scorers, by the scorer's name in the registry or ``module:NAME``; {} if there are no arguments."""


def configured(scorers: Sequence[Scorer], given: ScorerArguments, key: str) -> tuple[Scorer, ...]:
    """Return the scorers (checks of a response) with the arguments that a config gives them.

    ``given`` is the value of the config key ``key``: it maps the names of scorers to their arguments. If it names a
    scorer that is not in ``scorers``, this scorer is added at the end. Raises ConfigError if a scorer cannot be used,
    or if it does not take the given arguments.
    """
    found = {scorer.name: scorer for scorer in scorers}
    if len(found) < len(scorers):
        return tuple(scorers)  # two scorers have the same name, which the caller rejects
    for name, arguments in given.items():
        where = f"{key}.{name}"
        try:
            scorer = found[name] if name in found else SCORERS.named(name)
        except RegistryError as error:
            raise ConfigError(f"{where} {error}") from error
        if name != scorer.name and found.get(scorer.name, scorer) != scorer:
            raise ConfigError(f"{where}: another scorer already has the name {scorer.name}: rename this scorer")
        found[scorer.name] = with_arguments(scorer, arguments, where)
    return tuple(found.values())


def with_arguments(scorer: Scorer, arguments: Mapping[str, Any], where: str) -> Scorer:
    """Return the scorer (a check of a response) with these arguments, or unchanged if ``arguments`` is empty.

    ``where`` is the config key of the arguments, which the error message contains. Raises ConfigError for an argument
    that the scorer does not take.
    """
    if not arguments:
        return scorer
    if scorer.arguments is None:
        raise ConfigError(
            f"{where}: the scorer {scorer.name!r} does not accept arguments: remove {' and '.join(arguments)} from "
            "this section"
        )
    return replace(scorer, arguments=build(type(scorer.arguments), arguments, where))
