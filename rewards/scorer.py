"""What a scorer is: a value that says when it runs, what it asks of which models, and how it scores.

A scorer of one's own is such a value in a file of one's own; it runs where it is among the scorers that are passed to
:func:`rewards.verifier.verify`. Those of this package are listed in :mod:`rewards.registry`.
"""

from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass

from inference.asking import Asks
from rewards.case import Case
from schemas.config import ConfigError
from schemas.records import Verdict

Need = tuple[Callable[[Case], bool], str]
"""A test of a case, and what is said where it fails."""


@dataclass(frozen=True)
class Scorer:
    """One scorer.

    Attributes:
        name: of its verdicts, and of its weight and floor in a config.
        why: why it runs, where it does.
        score: from a case that meets the needs to a verdict of that name. Raises BudgetUsedUp; a model that fails
            gives an unscored verdict.
        needs: what a case must have, tested in order; the verdict names the first that fails.
        asks: the roles that it asks, with its prompts; it runs only where all required ones have an endpoint.
        floor: the least value at which a trace is kept, unless a config says otherwise; None is no floor.
        is_grounding: whether a low value means that what is said is not in the media.
    """

    name: str
    why: str
    score: Callable[[Case], Awaitable[Verdict]]
    needs: tuple[Need, ...] = ()
    asks: tuple[Asks, ...] = ()
    floor: float | None = None
    is_grounding: bool = False


LOCATABLE: Need = (lambda case: case.locatable, "no detector and segmenter are configured")
NO_CLIPS: Need = (lambda case: not case.clips, "the points of a clip are scored with its times")


def check_names(key: str, names: Iterable[str], scorers: Sequence[Scorer]) -> None:
    """Raises ConfigError where one of the names under ``key`` of a config is not the name of a scorer."""
    known = list(dict.fromkeys(scorer.name for scorer in scorers))
    unknown = next((name for name in names if name not in known), None)
    if unknown is not None:
        raise ConfigError(f"{key}.{unknown}: there is no such scorer; there are {', '.join(known)}")
