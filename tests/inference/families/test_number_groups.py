import pytest

from groundtrace.inference.families.number_groups import groups_of
from groundtrace.inference.families.registry import FAMILIES
from groundtrace.inference.grounding import BadReply
from groundtrace.schemas.records import MediaRef


@pytest.mark.parametrize(
    ("text", "groups"),
    [
        ("[[1, 2], [3.5, -4]]", [[1, 2], [3.5, -4]]),
        ("(1 2), <3, 4> and {5,6}", [[1, 2], [3, 4], [5, 6]]),
        ("[]", []),
        (" [[ ]] ", []),
        ("[1, 2", BadReply),
        ("[1, 2, 3]", BadReply),
        ("[1, 2] of [3]", BadReply),
        ("[x, y]", BadReply),
        ("[[1, 2], [x, y]]", BadReply),
        ("(1, 2), (x, 4)", BadReply),
        ("[1.2.3, 4]", BadReply),
        ("1, 2", BadReply),
        (" ", BadReply),
    ],
)
def test_groups(text: str, groups: list[list[float]] | type[BadReply]) -> None:
    if isinstance(groups, list):
        assert groups_of(text, 2, "point") == groups
    else:
        with pytest.raises(BadReply):
            groups_of(text, 2, "point")


@pytest.mark.parametrize("name", FAMILIES)
@pytest.mark.parametrize(
    "piece",
    ["[", "[a", "[1,", "[1 ", "{'a", "[{a", "<box>", "</box>", "<|begin_of_box|>", "<points ", " ", "[1", "<ref>"],
)
def test_a_long_reply_is_refused_in_time(name: str, piece: str) -> None:
    """Replies come from a model: 100,000 characters of any piece take no time that grows with their square."""
    image = MediaRef("input:a.png", "image", "s", "p", "d", 640, 480, 1, 1)
    family = FAMILIES.named(name)
    for read in (family.points, family.boxes):
        with pytest.raises(BadReply):
            read(piece * (100_000 // len(piece)), "dog", image, 0)
