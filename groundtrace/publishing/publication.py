"""Holds the facts about a publication for its card: the run's digest, and which sources are published or left out."""

from collections.abc import Mapping
from dataclasses import dataclass

from groundtrace.publishing.licences import Terms, hub_id, terms_of


@dataclass(frozen=True)
class SourceUse:
    """Holds the number of rows of one source under one licence, by set.

    ``asked`` is True if the user named the source, so that its rows are published whatever their licence is.
    """

    source: str
    licence: str
    rows: Mapping[str, int]
    asked: bool

    @property
    def terms(self) -> Terms:
        """Return the terms of the licence."""
        return terms_of(self.licence)

    @property
    def total(self) -> int:
        """Return the number of rows in all sets."""
        return sum(self.rows.values())

    @property
    def is_published(self) -> bool:
        """Return whether the rows are published."""
        return self.asked or self.terms.may_be_published


@dataclass(frozen=True)
class Publication:
    """Holds the facts about a publication for its card.

    ``uses`` are all sources of the run. ``strictest`` is the published source with the strictest licence; None if no
    source is published. A config is a named part of a data set on the Hub. ``configs`` maps the names of configs other
    than the training sets to their file patterns.
    """

    run_sha256: str
    uses: tuple[SourceUse, ...]
    strictest: SourceUse | None
    configs: Mapping[str, str]

    @property
    def left_out(self) -> list[SourceUse]:
        """Return the sources whose rows are not published."""
        return [use for use in self.uses if not use.is_published]

    @property
    def share_alike(self) -> list[str]:
        """Return the share-alike licences of published rows.

        The list is empty if no published row has such a licence. It is also empty if the strictest licence is the only
        such licence.
        """
        asking = (Terms.SHARE_ALIKE, Terms.NON_COMMERCIAL_SHARE_ALIKE)
        found = {hub_id(use.licence) for use in self.uses if use.is_published and use.terms in asking}
        return sorted(found) if self.strictest and found - {hub_id(self.strictest.licence)} else []

    @property
    def included(self) -> list[SourceUse]:
        """Return the sources that are published because the user named them, although their licence forbids it."""
        return [use for use in self.uses if use.is_published and not use.terms.may_be_published]
