"""Defines the type of a scorer, which checks one property of a response and returns a verdict (its result).

A scorer holds the conditions on which it runs, the model roles that it calls, and its function. To use a scorer of your
own, define a :class:`Scorer` in your own file and pass it to :func:`groundtrace.rewards.verifier.verify`.
:mod:`groundtrace.rewards.registry` lists the scorers of this package.
"""

import inspect
import math
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from groundtrace.config.errors import ConfigError
from groundtrace.inference.role_calls import Asks
from groundtrace.rewards.case import Case
from groundtrace.schemas.errors import naming_response
from groundtrace.schemas.records import Verdict

Need = tuple[Callable[[Case], bool], str]
"""A condition on which a scorer runs: a test of a case (a response with its question), and a text that is the reason
if the test fails."""


@dataclass(frozen=True)
class Scorer:
    """Holds a function that returns a verdict on a response, and the conditions on which this function runs.

    Attributes:
        name: the scorer's name. Its verdicts have this name, and a config uses it for the scorer's weight and floor.
        why: the reason for running the scorer; it is added to the verdict as evidence.
        score: a function that returns the verdict on a case (a response with its question), if all tests in ``needs``
            succeed. The verdict must have the scorer's name. The function may raise BudgetUsedUp. If a model fails, the
            function returns a verdict that has failed.
        needs: the conditions on which the scorer is applicable. Each condition is a pair: a test and a text. The test
            is a function of the case. If a test fails, the scorer is not applicable. The verdict then has the text of
            the first failed test as its reason.
        means: the conditions on which the scorer can run. They are pairs of the same kind as in ``needs``, and are
            tested after ``needs``. If a test fails, the verdict has failed.
        asks: the model roles that the scorer calls, and the prompts that it sends to each role. If a required role has
            no endpoint, the verdict has failed.
        floor: the minimum value that a trace (a teacher's response) needs to be kept; None if there is no minimum. A
            config can change it.
        is_grounding: whether a low value means that the images contradict the response.
        is_gate: whether a value of 0 makes the whole score of the response 0.
        arguments: the default settings of the scorer, which a config can change; ``score`` takes them as its second
            argument. Their class is made by :func:`groundtrace.config.settings.settings`. None if ``score`` takes only
            the case.
    """

    name: str
    why: str
    score: Callable[..., Awaitable[Verdict]]
    needs: tuple[Need, ...] = ()
    means: tuple[Need, ...] = ()
    asks: tuple[Asks, ...] = ()
    floor: float | None = None
    is_grounding: bool = False
    is_gate: bool = False
    arguments: Any = None

    async def verdict(self, case: Case) -> Verdict:
        """Run the scorer on a case, which is a response with its question, and return its verdict.

        The caller has checked that all tests in ``needs`` and ``means`` succeed for the case. Raises BudgetUsedUp if
        the run's budget for model calls is used up.

        Raises ValueError if ``score`` is not asynchronous, if it does not return a verdict, or if the name or the value
        of the verdict is not valid. A wrong name would change the term of another scorer, and a wrong value would move
        the score out of its range.
        """
        with naming_response(case.text):
            scored = self.score(case) if self.arguments is None else self.score(case, self.arguments)
            if not inspect.isawaitable(scored):
                raise ValueError(
                    f"the function of the scorer {self.name} is not asynchronous: define it with `async def`"
                )
            verdict = await scored
        if not isinstance(verdict, Verdict) or verdict.name != self.name or not _is_value(verdict.value):
            raise ValueError(
                f"the scorer {self.name} of the module {self.score.__module__} returned {verdict!r:.200}: return a "
                "Verdict with this name, whose value is None or a number of at most 1 (below 0 only as a penalty)"
            )
        return verdict


def _is_value(value: object) -> bool:
    """Return whether a verdict (the result of a scorer) can have this value: None, or a finite number of at most 1.

    The number is negative if a response has only wrong points.
    """
    return value is None or (isinstance(value, int | float) and math.isfinite(value) and value <= 1)


LOCATABLE: Need = (lambda case: case.locatable, "no endpoint is configured that finds objects")
ASKED_FOR_BOXES: Need = (lambda case: case.form.boxes, "no boxes were asked for")
NO_CLIPS: Need = (lambda case: not case.clips, "the points of a clip are scored with its times")


def check_served(scorers: Sequence[Scorer], skip: Sequence[str], roles: Iterable[str], key: str) -> None:
    """Raise ConfigError if a scorer (a check of responses) requires a model role (such as judge) that has no endpoint.

    Such a scorer would fail on every response, so the error is raised before the first response is scored.

    Args:
        scorers: the scorers that can run.
        skip: the names of scorers that do not run. They are not checked.
        roles: the roles that have an endpoint.
        key: the config key of ``skip``, which the error message contains.
    """
    known = frozenset(roles)
    unserved = {
        scorer.name: ask.role
        for scorer in scorers
        for ask in scorer.asks
        if ask.required and ask.role not in known and scorer.name not in skip
    }
    finds_objects = "detector" in known or {"pointer", "segmenter"} <= known
    blind = [scorer.name for scorer in scorers if LOCATABLE in scorer.means and scorer.name not in skip]
    unserved |= {} if finds_objects else dict.fromkeys(blind, "detector")
    if unserved:
        role, names = next(iter(unserved.values())), ", ".join(f'"{name}"' for name in unserved)
        raise ConfigError(
            f"roles.{role} names no endpoint, but some scorers need one: set it to the name of an endpoint, or skip "
            f"these scorers with {key} = [{names}]"
        )


def check_names(key: str, names: Iterable[str], scorers: Sequence[Scorer]) -> None:
    """Raise ConfigError if one of ``names`` is not the name of a scorer in ``scorers``.

    A scorer is a check of responses. ``names`` are names of scorers from a config. ``key`` is the config key of these
    names, which the error message contains.
    """
    known = list(dict.fromkeys(scorer.name for scorer in scorers))
    unknown = next((name for name in names if name not in known), None)
    if unknown is not None:
        raise ConfigError(f"{key}.{unknown}: the scorer is unknown: use one of {', '.join(known)}")
