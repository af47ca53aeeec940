"""Rubrics that ask for the right answer are known by what they say, in many wordings."""

from pathlib import Path

import pytest

from groundtrace.rewards.outcome_rubrics import asks_for_right_answer
from groundtrace.schemas.records import Rubric

DATA = Path(__file__).parent / "data"
ASK = [
    "The final number matches what the image shows.",
    "The final answer equals the reference.",
    "1 if the boxed value is right, else 0.",
    "The result agrees with the ground-truth label.",
    "The response's conclusion matches the expected one.",
    "The option chosen is the one the key lists.",
    "Selects the right option.",
    "Picks the correct choice letter.",
    "The student gets it right.",
    "The response is correct.",
    "The answer given coincides with the correct one.",
    "The count given at the end is the true count.",
    "Award 1 point if the final count is exact.",
    "The prediction equals the label.",
    "The output matches the target.",
    "Is the answer free of error?",
    "No mistake in the final answer.",
    "The final answer is not wrong.",
    "The final answer is valid.",
    "The final answer is accurate and matches the picture.",
    "Ends with the proper answer.",
    "The answer is what the CORRECT ANSWER line says.",
    "Answer == gold.",
    "Matches GT.",
    "The final value is identical to the solution's.",
    "The attempt reaches the right result.",
    "Arrives at the correct result.",
    "Correct outcome.",
    "The final answer would be marked as correct by a grader.",
    "Would a teacher accept the final answer?",
    "The answer agrees with the correct answer provided above.",
    "Yes or no is answered truthfully.",
    "The verdict on the statement is correct.",
    "The final yes/no decision is right.",
    "Gets the answer.",
    "Solves it correctly.",
    "The solution is right.",
    "最终答案正确。",
    "答案是否正确？",
    "答案与标准一致。",
    "La respuesta final es correcta.",
    "La réponse finale est correcte.",
    "Die endgültige Antwort ist richtig.",
    "最終的な答えが正しい。",
    "The answer is consistent with the gold.",
    "The final answer agrees with the given solution.",
    "The number in the answer tag is the number of objects in the picture.",
    "final_answer_accuracy",
    "outcome_correctness",
    "answer_matches_reference",
]
DO_NOT = [
    "The reasoning names each object that it counts.",
    "The final answer is a single number.",
    "The final answer follows from the reasoning.",
    "The answer is stated in the form that was asked for.",
    "Each colour that is named is right.",
    "The positions are described correctly.",
    "The response has exactly one final answer.",
    "The conclusion is consistent with the steps before it.",
    "Objects named in the reasoning are visible in the image.",
    "The reasoning does not contradict itself.",
    "Units are correct.",
    "Calculations are carried out correctly.",
    "The question is restated correctly.",
    "The response identifies the correct region of the picture.",
    "It reads the labels of the axes accurately.",
    "The reasoning leads to the answer that is given.",
    "The answer is given in the correct format.",
    "The response counts each object once.",
    "The intermediate results are correct.",
    "Shapes are named accurately.",
    "The response does not guess.",
    "The right half of the picture is described.",
    "The reasoning mentions left and right correctly.",
    "The final answer stands within the answer tags.",
    "Each step is justified by what is visible.",
    "The response addresses what the question asks.",
    "It explains why other options are ruled out.",
    "The final statement is derived and not only asserted.",
    "The reasoning is concise.",
    "The response keeps to the picture and makes no false claims about it.",
    "The answer type fits the question.",
    "The reasoning is free of arithmetic errors.",
    "The result of each sum is right.",
    "The response tells apart objects of the same shape.",
    "The response uses the given choices.",
    "The response considers all the given options.",
    "Whether each option is checked against the picture.",
    "推理步骤正确。",
    "The legend is matched to the bars correctly.",
    "The conclusion repeats the count that the reasoning reached.",
    "The response is consistent with the image.",
    "The response describes what the picture shows.",
    "The solution is well structured.",
    "The response is written in one language.",
    "The conclusion is the last sentence.",
]


@pytest.mark.parametrize(("wording", "asks"), [*((each, True) for each in ASK), *((each, False) for each in DO_NOT)])
def test_the_outcome_is_not_paid_for_twice_in_any_wording(wording: str, asks: bool) -> None:
    assert asks_for_right_answer(Rubric("c", wording, "1 when so, else 0.", 0.0, None, "")) is asks


def asks_in(name: str, size: int) -> list[str]:
    wordings = (DATA / name).read_text("utf-8").splitlines()
    assert len(set(wordings)) == size
    return [each for each in wordings if asks_for_right_answer(Rubric("c", each, "1 when so, else 0.", 0.0, None, ""))]


@pytest.mark.parametrize(
    ("name", "size", "found"), [("stranger", 54, 54), ("later", 25, 25), ("third", 25, 22), ("fourth", 20, 14)]
)
def test_rubrics_of_these_lists_are_kept_apart(name: str, size: int, found: int) -> None:
    """Each list was written before the rules were mended after it; the first by a writer who had not read them.

    At first sight 42 of 54, 13 of 25, 16 of 25 and, after the last mend, 14 of 20 were kept apart (the rules before
    all of these: 42, 12, 16 and 10). No rule was made after the fourth.
    """
    assert len(asks_in(f"rubrics_on_the_outcome_{name}.txt", size)) >= found


@pytest.mark.parametrize(("name", "size"), [("stranger", 83), ("later", 40), ("third", 40), ("fourth", 30)])
def test_less_than_two_percent_of_rubrics_on_reasoning_are(name: str, size: int) -> None:
    """At first sight 1 of 83, 2 of 40, 0 of 40 and 0 of 30 were."""
    alarms = asks_in(f"rubrics_on_reasoning_{name}.txt", size)
    assert len(alarms) / size < 0.02, alarms
