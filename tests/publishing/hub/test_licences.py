"""What licences let a publisher do."""

import pytest

from publishing.front_matter import HUB_LICENCES
from publishing.hub.licences import TERMS, Terms, terms_of


def test_every_licence_of_the_hub_is_known() -> None:
    assert set(TERMS) == HUB_LICENCES


@pytest.mark.parametrize(
    ("licence", "terms", "goes_out"),
    [
        ("CC-BY-4.0", Terms.ATTRIBUTION, True),
        (" mit ", Terms.ATTRIBUTION, True),
        ("cc-by-sa-4.0", Terms.SHARE_ALIKE, True),
        ("cc-by-nc-4.0", Terms.NON_COMMERCIAL, True),
        ("CC-BY-NC-SA-4.0", Terms.NON_COMMERCIAL_SHARE_ALIKE, True),
        ("cc-by-nd-4.0", Terms.NO_DERIVATIVES, False),
        ("cc-by-nc-nd-4.0", Terms.NO_DERIVATIVES, False),
        ("unknown", Terms.UNSTATED, False),
        ("other", Terms.UNSTATED, False),
        ("", Terms.UNSTATED, False),
        (None, Terms.UNSTATED, False),
        ("MIT, but not for you", Terms.UNSTATED, False),
    ],
)
def test_terms(licence: str | None, terms: Terms, goes_out: bool) -> None:
    assert terms_of(licence) is terms
    assert terms.may_be_published is goes_out
    assert terms.said
