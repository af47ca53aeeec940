"""What licences let a publisher do."""

import pytest

from groundtrace.publishing.front_matter import HUB_LICENCES
from groundtrace.publishing.licences import TERMS, Terms, hub_id, terms_of


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
    assert terms.text


@pytest.mark.parametrize(
    ("licence", "known"),
    [
        ("CC BY 4.0", "cc-by-4.0"),
        ("CC BY-NC-SA 4.0 International", "cc-by-nc-sa-4.0"),
        ("CC-BY-ND 4.0", "cc-by-nd-4.0"),
        ("Creative Commons Attribution 4.0", "cc-by-4.0"),
        ("Creative Commons Attribution-NonCommercial-NoDerivs 3.0", "cc-by-nc-nd-3.0"),
        ("Creative Commons Attribution-ShareAlike 4.0 International", "cc-by-sa-4.0"),
        ("https://creativecommons.org/licenses/by/4.0/", "cc-by-4.0"),
        ("http://creativecommons.org/licenses/by-nc-nd/4.0/legalcode", "cc-by-nc-nd-4.0"),
        ("https://creativecommons.org/publicdomain/zero/1.0/", "cc0-1.0"),
        ("CC0 1.0", "cc0-1.0"),
        ("MIT  License", "mit"),
        ("Apache License 2.0", "apache-2.0"),
        ("BSD 3-Clause", "bsd-3-clause"),
        ("GPL-3.0-or-later", "gpl-3.0"),
        ("ODbL-1.0", "odbl"),
    ],
)
def test_other_names_of_a_licence(licence: str, known: str) -> None:
    assert hub_id(licence) == known
    assert terms_of(licence) is TERMS[known]


@pytest.mark.parametrize(
    "licence",
    [
        "cc-by-4.0, cc-by-nc-nd-4.0",
        "CC BY 4.0 (non-commercial)",
        "CC BY 4.0 AND CC BY-ND 4.0",
        "not MIT License",
        "Creative Commons",
        "Creative Commons ShareAlike NoDerivatives 4.0",
        "creativecommons.org.example/licenses/by/4.0/",
        "https://creativecommons.org/licenses/by/9.9/",
        "cc-by",
        "GPL",
        "public domain",
        "mit OR proprietary",
    ],
)
def test_what_is_not_quite_a_licence_states_nothing(licence: str) -> None:
    assert terms_of(licence) is Terms.UNSTATED
