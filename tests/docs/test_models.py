"""docs/models.md says of each family what its file says."""

import re
from pathlib import Path

import pytest

from groundtrace.inference.families.registry import FAMILIES

PAGE = (Path(__file__).resolve().parents[2] / "docs/models.md").read_text("utf-8")
ROWS = {row[0]: row[1:] for row in re.findall(r"^\| `([\w.-]+)` \| `([\w.-]+)`([^|]*)\| (.*) \|$", PAGE, re.MULTILINE)}


def test_every_family_has_a_row() -> None:
    assert ROWS.keys() == FAMILIES.ours.keys()


@pytest.mark.parametrize("name", FAMILIES)
def test_a_row_is_true(name: str) -> None:
    family, (frame, _, rest) = FAMILIES.named(name), ROWS[name]
    points, boxes, *_ = re.split(r"(?<!\\) ?\| ?", rest)
    assert frame == family.frame.value
    assert (boxes == "none") == (not family.box_prompt)
    assert ("middles of its boxes" in points) == (not family.point_prompt)


def test_the_families_with_their_own_rules_are_named() -> None:
    families = {name: FAMILIES.named(name) for name in FAMILIES}
    [reversed_too] = re.findall(r"corners are reversed, but for (.*?)\.\n", PAGE, re.DOTALL)
    assert set(re.findall(r"`([\w.-]+)`", reversed_too)) == {n for n, family in families.items() if family.any_corners}
