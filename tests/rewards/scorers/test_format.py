"""The format reward: whether the sections of a response are as asked for."""

import pytest

from rewards.scorers.format import SCORER


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("<judge>simple</judge><think>\n\n</think>\\boxed{2}", 1.0),
        ("<judge>complex</judge><think>steps</think><answer>2</answer>", 1.0),
        ("<think>steps</think><answer>2</answer>", 1.0),
        ("<think>steps</think>2", 0.0),
        ("<answer>2</answer>", 0.0),
        ("", 0.0),
    ],
)
def test_sail_rl_eq1_format(run, case, text, value) -> None:
    verdict = run(SCORER.score(case(text)))
    assert (verdict.name, verdict.value) == ("format", value)
