"""Holds facts about a publication on the Hub, such as its sources. The data card is written from these facts."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from groundtrace.publishing.licences import Terms, hub_id, terms_of
from groundtrace.schemas.run_summary import TRAINING_SETS
from groundtrace.schemas.text import counted

if TYPE_CHECKING:
    from groundtrace.publishing.view.audit_figures import AuditFigures


@dataclass(frozen=True)
class SourceUse:
    """Holds how many rows a run has from one source under one licence, and decides whether they are published.

    Attributes:
        source: the data set from which the rows come; "" if the rows do not name it.
        licence: the licence that the rows name; "" if they name none.
        rows: the number of rows of each output set (sft, rl or rejected).
        asked: True if the user named the source. Its rows are then published whatever their licence is.
    """

    source: str
    licence: str
    rows: Mapping[str, int]
    asked: bool

    @property
    def terms(self) -> Terms:
        """Return what this source's licence demands of a person who publishes the rows.

        For example, ``Terms.SHARE_ALIKE`` demands that adapted material has the same licence.
        """
        return terms_of(self.licence)

    @property
    def total(self) -> int:
        """Return the number of rows from this source under this licence: the sum over all output sets (sft, rl and
        rejected).
        """
        return sum(self.rows.values())

    @property
    def is_published(self) -> bool:
        """Return whether the rows are published.

        They are published if the user named this data set for publication (``asked``), or if its licence allows it.
        """
        return self.asked or self.terms.may_be_published


@dataclass(frozen=True)
class FlaggedRows:
    """Holds how many rows of the published sources have a record that a reviewer has flagged in ``beam view``.

    Attributes:
        rows: the number of these rows of each output set (sft, rl or rejected).
        are_left_out: True if these rows are left out of the publication, False if they are published.
        outdated: the number of left-out rows whose flag was set on another version of the row.
    """

    rows: Mapping[str, int] = field(default_factory=dict[str, int])
    are_left_out: bool = False
    outdated: int = 0

    @property
    def total(self) -> int:
        """Return the number of flagged rows of all output sets (sft, rl and rejected) together."""
        return sum(self.rows.values())

    @property
    def text(self) -> str:
        """Return the numbers of flagged rows, such as "2 SFT rows, 1 RL row"."""
        return rows_text(self.rows)

    @property
    def left_out(self) -> Mapping[str, int]:
        """Return for each output set (e.g. sft) the number of rows that are left out only because of a flag."""
        return self.rows if self.are_left_out else dict.fromkeys(self.rows, 0)


@dataclass(frozen=True)
class Publication:
    """Holds the facts about a publication on the Hub that its data card states.

    Attributes:
        repo: the data set's repository on the Hub, as ORG/NAME.
        run_sha256: the digest of the run's config, code and training shards (Parquet files).
        uses: all sources of the run (data sets from which its rows come) with their licences, published or not.
        strictest: the published source with the strictest licence; None if no source is published.
        configs: the published configs other than the training sets, such as ``rejected``. A config is a named part of
            a data set on the Hub. The dict maps its name to the pattern of its files.
        audit: the result of the run's audit, in which a person judged traces (reasoning with answer); None if it is not
            published.
        flagged: the rows whose records a reviewer has flagged.
    """

    repo: str
    run_sha256: str
    uses: tuple[SourceUse, ...]
    strictest: SourceUse | None
    configs: Mapping[str, str]
    audit: "AuditFigures | None" = None
    flagged: FlaggedRows = FlaggedRows()

    @property
    def left_out(self) -> list[SourceUse]:
        """Return the sources whose rows are not published."""
        return [use for use in self.uses if not use.is_published]

    @property
    def left_out_rows(self) -> int:
        """Return the number of training rows that are not published, because of their licence or a flag."""
        flagged = self.flagged.left_out
        return sum(use.total for use in self.left_out) + sum(flagged.get(side, 0) for side in TRAINING_SETS)

    @property
    def flagged_text(self) -> str:
        """Return how many rows are left out because of a flag, such as "2 SFT rows, 1 RL row"; "" for none."""
        left_out = self.flagged.left_out
        return rows_text(left_out) if any(left_out.values()) else ""

    @property
    def share_alike(self) -> list[str]:
        """Return the Hub's ids of the share-alike licences that a sentence of the data card must name.

        These are the share-alike licences of the published rows. Such a licence demands that adapted material has the
        same licence. The list is empty, and the card lacks the sentence, in two cases:

        - No published row has a share-alike licence.
        - There is only one share-alike licence, and it is the strictest licence of all published rows. The card always
          names the strictest licence, so the sentence is not needed.
        """
        asking = (Terms.SHARE_ALIKE, Terms.NON_COMMERCIAL_SHARE_ALIKE)
        found = {hub_id(use.licence) for use in self.uses if use.is_published and use.terms in asking}
        return sorted(found) if self.strictest and found - {hub_id(self.strictest.licence)} else []

    @property
    def included(self) -> list[SourceUse]:
        """Return the sources that are published only because the user named them.

        The licence of each of these sources does not allow the publication.
        """
        return [use for use in self.uses if use.is_published and not use.terms.may_be_published]


def rows_text(rows: Mapping[str, int]) -> str:
    """Return numbers of rows as text, such as "2 SFT rows, 1 RL row". ``rows`` maps the name of each output set (sft,
    rl or rejected) to its number of rows. Output sets without rows are left out.

    The result is "0 rows" if no set has rows.
    """
    titles = {"sft": "SFT row", "rl": "RL row", "rejected": "rejected row"}
    return ", ".join(counted(count, titles[name]) for name, count in rows.items() if count) or counted(0, "row")
