"""False arithmetic in a reasoning: where it is asserted, and where it is asked, reported, denied or corrected."""

import pytest

from groundtrace.embedded.pointed_facts import contradicted_fact
from groundtrace.schemas.records import Question

QUESTION = Question("q", "", "", (), "Are there more black squares than yellow squares in the image?", "yes", "bool")


@pytest.mark.parametrize(
    ("reasoning", "is_wrong"),
    [
        ("2 + 2 = 3 black squares.", True),
        ("One plus one equals three.", True),
        ("3 < 2, so yes.", True),
        ("There is no circle, and 4 - 2 = 3.", True),
        ("Zwei plus eins ergibt vier.", True),
        ("2 + 1 = 4, so the statement is true.", True),
        ("Wait, there is one more. 2 + 1 = 4.", True),
        ("2 + 1 = 3 black squares.", False),
        ("3 < 2 is false.", False),
        ("3 is not < 2, so yes.", False),
        ("2 > 3. No.", False),
        ("2 > 3, so no.", False),
        ("Is 3 < 2? No.", False),
        ("If 3 < 2, the answer is no.", False),
        ("The question asks whether 3 < 2.", False),
        ('It says "2 + 2 = 3".', False),
        ("2 + 2 = 3. This is wrong.", False),
        ("2 + 2 = 5. Wait, 2 + 2 = 4.", False),
        ("3 < 2 would be needed.", False),
    ],
)
def test_arithmetic(reasoning: str, is_wrong: bool) -> None:
    assert (contradicted_fact(reasoning, QUESTION, None) is not None) == is_wrong
