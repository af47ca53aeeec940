"""Every recipe of pipelines/ is shown by `make demo` or `make demo-recipes`, and stands in the index of the recipes."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
RECIPES = sorted(
    file.stem for file in (ROOT / "pipelines").glob("*.py") if re.search(r"^RECIPE = ", file.read_text("utf-8"), re.M)
)
INDEX = (ROOT / "docs/recipes/README.md").read_text("utf-8")


@pytest.mark.parametrize("name", [name for name in RECIPES if name != "grounded_cot"])
def test_a_recipe_has_its_demo(name: str) -> None:
    [listed] = re.findall(r"^RECIPES := (.*)$", (ROOT / "Makefile").read_text("utf-8"), re.M)
    assert name in listed.split()


def test_the_index_names_every_recipe() -> None:
    assert {"grounded_cot", "rubric_curriculum"} <= set(RECIPES)
    assert [name for name in RECIPES if f"`{name}`" not in INDEX] == []
