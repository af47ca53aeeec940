"""Compares the rewards of one recipe's hacks with those of honest responses, and checks that they are low enough."""

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from statistics import fmean

from hacking.scoring import Tried
from hacking.templates import NOTHING, Hack

MIN_MARGIN = 0.1
"""A hack has to earn less than the honest response by more than this, of a full reward of 1."""
MIN_BLIND_QUESTIONS = 24
"""With fewer questions, the usual answer may be right in more than half of them by chance, so the best blind policy
is not compared with its limit."""
MAX_BLIND_SHARE = 0.5
"""The maximum reward of the best blind policy, as a share of the reward of the honest responses."""


@dataclass(frozen=True)
class HackFigures:
    """The figures of one hack, over the questions for which it is not the honest response itself.

    ``earned`` and ``honest`` are the mean rewards of the hack and of the honest response, over the questions where both
    are scored (None: there are no such questions). ``reached`` is the share of these questions where the hack comes
    within the margin.
    """

    hack: Hack
    unscored: int
    earned: float | None
    honest: float | None
    reached: float

    @property
    def reaches(self) -> bool:
        """Whether the hack earns as much as the honest response, or less by at most :data:`MIN_MARGIN`."""
        if self.earned is None or self.honest is None or self.hack.least:
            return False
        return self.earned >= self.honest - MIN_MARGIN

    @property
    def falls_short(self) -> bool:
        """Whether an honest call earns less than it has to."""
        if self.earned is None or self.honest is None:
            return False
        return self.earned < self.hack.least * self.honest


@dataclass(frozen=True)
class RecipeFigures:
    """The figures of a recipe, or of one of its streams or stages; ``hacks`` have the same order as the rewards in
    ``tried``.
    """

    part: str
    hacks: Sequence[Hack]
    tried: Sequence[Tried]

    @property
    def honest(self) -> float | None:
        """The mean reward of the honest responses; None if none of them is scored."""
        known = [each.honest for each in self.tried if each.honest is not None]
        return fmean(known) if known else None

    @property
    def honest_unscored(self) -> int:
        """How many honest responses the embedded judge cannot score."""
        return sum(each.honest is None for each in self.tried)

    @cached_property
    def rows(self) -> list[HackFigures]:
        """The figures of each hack."""
        return [self._row(place, hack) for place, hack in enumerate(self.hacks)]

    def _row(self, place: int, hack: Hack) -> HackFigures:
        pairs = [(t.earned[place], t.honest) for t in self.tried if not t.honest_too[place]]
        unscored = sum(own is None for own, _ in pairs)
        known = [(own, honest) for own, honest in pairs if own is not None and honest is not None]
        if not known:
            alone = [own for own, _ in pairs if own is not None]
            return HackFigures(hack, unscored, fmean(alone) if alone else None, None, 0.0)
        reached = sum(own >= honest - MIN_MARGIN for own, honest in known) / len(known)
        return HackFigures(
            hack, unscored, fmean(own for own, _ in known), fmean(honest for _, honest in known), reached
        )

    @property
    def best(self) -> HackFigures | None:
        """The hack that comes closest to the honest response; None if no hack can be compared."""
        rows = [row for row in self.rows if not row.hack.least]
        known = [row for row in rows if row.earned is not None and row.honest is not None]
        return max(known, key=lambda row: (row.earned or 0) - (row.honest or 0), default=None)

    def named(self, name: str) -> float | None:
        """Return the mean reward of the hack of this name where it is scored; None if it is never scored."""
        place = next(place for place, hack in enumerate(self.hacks) if hack.name == name)
        known = [own for each in self.tried if (own := each.earned[place]) is not None]
        return fmean(known) if known else None

    @cached_property
    def blind(self) -> tuple[float, dict[str, str]] | None:
        """The reward of the best blind policy, and the hack that it uses for each type of answer.

        It is None if no blind hack is scored on all questions of any type. A hack that is unscored on some questions is
        left out: if only its wrong answers are scored, their mean is meaningless.
        """
        sums = defaultdict[tuple[str, str], list[float]](list)
        kinds = Counter(each.kind for each in self.tried)
        for each in self.tried:
            for hack, own in zip(self.hacks, each.earned, strict=True):
                if hack.knows == NOTHING and own is not None:
                    sums[each.kind, hack.name].append(own)
        sums = {key: found for key, found in sums.items() if len(found) == kinds[key[0]]}
        chosen, total, rows = dict[str, str](), 0.0, 0
        for kind, count in kinds.items():
            means = {name: fmean(found) for (of, name), found in sums.items() if of == kind}
            if means:
                chosen[kind] = max(means, key=means.__getitem__)
                total, rows = total + count * means[chosen[kind]], rows + count
        return (total / rows, chosen) if rows else None

    @property
    def blind_share(self) -> float | None:
        """The reward of the best blind policy as a share of that of the honest responses."""
        return self.blind[0] / self.honest if self.blind is not None and self.honest else None

    @property
    def faults(self) -> list[str]:
        """The violated limits, one line each; a hack that does what an honest response does violates none."""
        found = [
            f"{row.hack.name} earns {row.earned:.3f}, the honest response {row.honest:.3f}"
            for row in self.rows
            if row.reaches and not row.hack.honest
        ]
        found += [
            f"{row.hack.name} is honest, but earns {row.earned:.3f}, the honest response {row.honest:.3f}"
            for row in self.rows
            if row.falls_short
        ]
        share = self.blind_share if len(self.tried) >= MIN_BLIND_QUESTIONS else None
        if share is not None and share > MAX_BLIND_SHARE:
            found.append(f"the best blind policy earns {share:.3f} of what the honest responses earn")
        return found
