"""A card is held against the fields that the Hub documents."""

import pytest
import yaml

from groundtrace.publishing.hub.card_check import problems_of

RIGHT = {
    "license": "cc-by-4.0",
    "pretty_name": "grounded_cot on nlvr",
    "task_categories": ["visual-question-answering"],
    "size_categories": ["n<1K"],
    "tags": ["groundtrace"],
    "configs": [{"config_name": "sft", "data_files": "sft/*.parquet"}],
}
FILES = ["README.md", "sft/train-00000-of-00001.parquet"]


def card(**changes: object) -> str:
    front = {name: value for name, value in (RIGHT | changes).items() if value is not None}
    return f"---\n{yaml.safe_dump(front)}---\n# Title\n"


@pytest.mark.parametrize("changes", [{}, {"license": ["mit", "cc-by-4.0"]}, {"license": "other", "license_name": "x"}])
def test_a_right_card(changes: dict[str, object]) -> None:
    assert problems_of(card(**changes), FILES) == []


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"license": "CC BY 4.0"}, "license: 'CC BY 4.0'"),
        ({"license": 3}, "license: 3"),
        ({"license": "other"}, "needs a license_name"),
        ({"licence": "mit"}, "the field licence is not documented"),
        ({"task_categories": ["grounding"]}, "task_categories: 'grounding'"),
        ({"size_categories": ["few"]}, "size_categories: 'few'"),
        ({"pretty_name": ""}, "pretty_name must have"),
        ({"pretty_name": None}, "pretty_name must have"),
        ({"tags": ["x" * 65]}, "tags: "),
        ({"tags": [["nested"]]}, "tags: "),
        ({"configs": [{"config_name": "rl", "data_files": "rl/*.parquet"}]}, "rl matches no published file"),
        ({"configs": [{"config_name": "rl", "data_files": "rl.parquet"}]}, "rl matches no published file"),
        ({"configs": [{"config_name": "sft"}]}, "sft matches no published file"),
        ({"configs": RIGHT["configs"] * 2}, "two have the same name"),
        ({"configs": "sft"}, "configs is not a list"),
    ],
)
def test_a_wrong_card(changes: dict[str, object], said: str) -> None:
    assert any(said in problem for problem in problems_of(card(**changes), FILES))


@pytest.mark.parametrize("text", ["", "# no front matter", "---\n- a\n- b\n---\n", "---\na: [\n---\n"])
def test_no_front_matter(text: str) -> None:
    assert len(problems_of(text, FILES)) == 1
