"""The facts about a publication in its card: the run's digest, and which sources are published or left out."""

from collections.abc import Mapping
from dataclasses import dataclass

from groundtrace.publishing.licences import Terms, hub_id, terms_of


@dataclass(frozen=True)
class SourceUse:
    """The number of rows of one source under one licence, by set, and whether they are published.

    ``asked`` is whether the user named the source so that it is published whatever its licence is.
    """

    source: str
    licence: str
    rows: Mapping[str, int]
    asked: bool

    @property
    def terms(self) -> Terms:
        """The terms of the licence."""
        return terms_of(self.licence)

    @property
    def total(self) -> int:
        """The number of rows in all sets."""
        return sum(self.rows.values())

    @property
    def is_published(self) -> bool:
        """Whether the rows are published."""
        return self.asked or self.terms.may_be_published


@dataclass(frozen=True)
class Publication:
    """The facts about the publication in a card.

    These are the run's digest, the ``uses`` of all sources, the published source with the ``strictest`` licence, and
    further configs by name with their file patterns.
    """

    run_sha256: str
    uses: tuple[SourceUse, ...]
    strictest: SourceUse | None
    configs: Mapping[str, str]

    @property
    def left_out(self) -> list[SourceUse]:
        """The sources whose rows are not published."""
        return [use for use in self.uses if not use.is_published]

    @property
    def share_alike(self) -> list[str]:
        """The published share-alike licences; empty if the strictest licence is the only one."""
        asking = (Terms.SHARE_ALIKE, Terms.NON_COMMERCIAL_SHARE_ALIKE)
        found = {hub_id(use.licence) for use in self.uses if use.is_published and use.terms in asking}
        return sorted(found) if self.strictest and found - {hub_id(self.strictest.licence)} else []

    @property
    def included(self) -> list[SourceUse]:
        """The sources published at the user's request although their licence does not allow it."""
        return [use for use in self.uses if use.is_published and not use.terms.may_be_published]
