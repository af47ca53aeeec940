"""Conclusions in so many words, against the gold answer."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from groundtrace.grading.responses.conclusions import conclusions, contradiction
from groundtrace.schemas.records import Question


def asked(question: str, answer: str, kind: str, choices: tuple[str, ...] | None = None) -> Question:
    return Question("q", "", "", (), question, answer, kind, choices)


COUNT = asked("How many yellow squares are there in the image?", "6", "numeric")
VALUE = asked("What is the value of the tallest bar?", "45", "numeric")
TRUE = asked('Is the following statement about the image true? "There is a box"', "yes", "bool")
FALSE = asked('Is the following statement about the image true? "There is a box"', "no", "bool")
CHOICE = asked("Which colour is it?", "red", "mcq", ("blue", "red", "green"))


@pytest.mark.parametrize(
    ("reasoning", "question"),
    [
        ("so there are 5", COUNT),
        ("So there are five yellow squares.", COUNT),
        ("There are 7 yellow squares in the image.", COUNT),
        ("The total is 5.", COUNT),
        ("that makes 6. that makes 7.", COUNT),
        ("5 yellow squares in total", COUNT),
        ("Hence, there is a total of 5 yellow squares.", COUNT),
        ("So the answer is 5.", COUNT),
        ("I look at them. I will go with 5.", COUNT),
        ("I see them all. Let's say 5.", COUNT),
        ("They are here. My verdict: 5.", COUNT),
        ("They are here. 5, then.", COUNT),
        ("They are here. The count stands at 5.", COUNT),
        ("They are here → 5", COUNT),
        ("The answer is 6 or 5.", COUNT),
        ("There are between 5 and 7.", COUNT),
        ("I would say 6 to 7.", COUNT),
        ("I count 5 yellow squares: here, there and there.", COUNT),
        ("Es sind also 5.", COUNT),
        ("Das macht insgesamt 5.", COUNT),
        ("Cela fait 5 au total.", COUNT),
        ("The answer is not 6", COUNT),
        ("There are 7 yellow squares in the image. Looking again, there are 6 yellow squares.", COUNT),
        ("The final answer: 44", VALUE),
        ("So the statement is false.", TRUE),
        ("the statement isn't true", TRUE),
        ("the claim does not hold", TRUE),
        ("Therefore, no.", TRUE),
        ("So the statement is true.", FALSE),
        ("So the answer is no", TRUE),
        ("所以答案是5。", COUNT),
        ("La respuesta es 5.", COUNT),
        ("the answer is blue", CHOICE),
        ("so option C is correct", CHOICE),
        ("Option B is not correct", CHOICE),
        ("Damit ist die Aussage falsch.", TRUE),
        ("Die Aussage trifft nicht zu.", TRUE),
        ("Das macht die Aussage falsch.", TRUE),
        ("Die Aussage ist somit wahr.", FALSE),
        ("Die Antwort lautet daher nein.", TRUE),
        ("Somit lautet die Antwort nein.", TRUE),
        ("Also ja.", FALSE),
        ("Donc la réponse est non.", TRUE),
        ("L'affirmation est donc fausse.", TRUE),
        ("Cette phrase n'est pas vraie.", TRUE),
        ("La afirmación no es cierta.", TRUE),
    ],
)
def test_a_conclusion_that_is_not_the_answer(reasoning: str, question: Question) -> None:
    assert contradiction(reasoning, question) is not None


@pytest.mark.parametrize(
    ("reasoning", "question"),
    [
        ("Looking over the whole picture, there are 6 yellow squares.", COUNT),
        ("So there are six.", COUNT),
        ("They are here. I will go with 6.", COUNT),
        ("Is it 5 or 6? It is 6.", COUNT),
        ("Es sind also 6.", COUNT),
        ("I look at 2 boxes and go on to the next. So 6.", COUNT),
        ("What the statement describes is not what I see.", FALSE),
        ("The statement describes this incorrectly.", FALSE),
        ("In the left box there are 2 yellow squares. In the right there are 4 yellow squares. So there are 6.", COUNT),
        ("There are 2 yellow squares in the left box and 4 in the right one, which makes 6 in total.", COUNT),
        ("that makes 2. that makes 6", COUNT),
        ("there are 3 blue circles and 6 yellow squares", COUNT),
        ("There are 3 more in the corner.", COUNT),
        ("if the answer were 5, one would be missing", COUNT),
        ("So there are 7 yellow squares. Wait, one is orange. So there are 6.", COUNT),
        ("The total is 100; 45 % of it is 45.", VALUE),
        ("So there are 3 bars.", VALUE),
        ("Thus the statement is true.", TRUE),
        ("So no box is empty, and the statement holds.", TRUE),
        ("the answer is yes, since no box is empty", TRUE),
        ("The statement is not true.", FALSE),
        ("Damit ist die Aussage wahr.", TRUE),
        ("Die Aussage ist nicht falsch.", TRUE),
        ("Damit die Aussage wahr ist, muss es zwei geben.", FALSE),
        ("Wenn die Aussage falsch ist, gibt es drei.", TRUE),
        ("La phrase est vraie si on voit deux boîtes.", FALSE),
        ("Donc la réponse est oui.", TRUE),
        ("The answer is B.", CHOICE),
        ("The answer is not A.", CHOICE),
        ("so option B is right, option C is not correct", CHOICE),
    ],
)
def test_what_agrees_or_is_no_conclusion(reasoning: str, question: Question) -> None:
    assert contradiction(reasoning, question) is None


def test_conclusions_come_in_order_with_their_places() -> None:
    text = "So there are 5. The answer is 6."
    found = conclusions(text, COUNT)
    assert [(text[each.start : each.end], each.right) for each in found] == [
        ("So there are 5", False),
        ("The answer is 6", True),
    ]


@given(st.text(), st.sampled_from([COUNT, VALUE, TRUE, FALSE, CHOICE]))
@example("0\r", COUNT)
def test_any_text_is_read(reasoning: str, question: Question) -> None:
    for each in conclusions(reasoning, question):
        assert reasoning[each.start : each.end] == each.text


def test_a_word_that_is_repeated_takes_little_time() -> None:
    assert conclusions("the " * 49_000 + "die " * 10_000, COUNT) == []


WHOLE = [
    "So we have 7 yellow squares here.",
    "I add them up for a total of 7.",
    "Count: 7 Looking over the whole picture, there are 6 yellow squares.",
    "So there is 1. Looking over the whole picture, there are 6 yellow squares.",
    "Total: 7",
    "**7**",
    "They add up to seven.",
    "3 + 4 = 7.",
    "$$3 + 4 = 7$$",
    "Therefore, 7.",
    "So 7.",
    "All told, 7 yellow squares.",
    "The image shows seven yellow squares.",
    "7 yellow squares can be seen.",
    "There are 7 of them altogether.",
    "There are ⁷ yellow squares.",
    "There are 𝟟 yellow squares.",
    "𝕋𝕙𝕖𝕣𝕖 are seven yellow squares.",
    "Looking at all of it, there are 7 yellow squares.",
    "One, so 1. Another, so 2. So 7. Looking over the whole picture, there are 6 yellow squares.",
]
SUMS = [
    "Total: 3 + 3 = 6",
    "Total: 3 + 3 = 6.",
    "Total: $3 + 3 = 6$",
    "Total: **3** + **3** = **6**",
    "Total: 2 * 3 = 6",
    "Total (4 + 2): 6",
    "Result: 4 and 2 make 6",
    "Number of yellow squares: 7 - 1 = 6",
    "There are 4 on the left + 2 on the right = 6 yellow squares.",
    "I count 4 yellow squares + 2 yellow squares = 6 yellow squares.",
    "Total: 3 + 3 = 6. Therefore, there are 6 yellow squares.",
]
WRONG_SUMS = [
    "Total: 3 + 4 = 7",
    "Total: 7 + 0 = 6",
    "Total: 7 + squares",
    "Total: 3 + 3 = 6. So there are 7.",
    "There are 4 on the left + 3 on the right = 7 yellow squares.",
    "There are 5 and 2, making 7.",
]
PARTS = [
    "One here, so 1. Another one, so 2. With the others that makes 6.",
    "There is one yellow square here and another one there.",
    "Of all 20 objects, 6 are yellow squares.",
    "There are 3 yellow squares on the left. There are 3 more on the right, so 6.",
    "1. A yellow square. 2. Another one.",
    "There are 9 objects in the image. There are 6 yellow squares.",
    "I see 2 yellow squares so far.",
    "2 + 4 = 6.",
    "So there are 5 yellow squares. I missed one. So there are 6 yellow squares.",
    "So there are 5 yellow squares. I overlooked one. So there are 6 yellow squares.",
]


@pytest.mark.parametrize("reasoning", WHOLE)
def test_a_count_of_the_whole_that_is_not_the_answer(reasoning: str) -> None:
    assert contradiction(reasoning, COUNT) is not None


@pytest.mark.parametrize("reasoning", WRONG_SUMS)
def test_a_sum_that_is_not_the_answer(reasoning: str) -> None:
    assert contradiction(reasoning, COUNT) is not None


@pytest.mark.parametrize("reasoning", SUMS)
def test_the_parts_of_a_sum_are_no_counts(reasoning: str) -> None:
    assert contradiction(reasoning, COUNT) is None


@pytest.mark.parametrize("reasoning", PARTS)
def test_counts_of_parts_and_of_other_things(reasoning: str) -> None:
    assert contradiction(reasoning, COUNT) is None


@pytest.mark.parametrize(
    ("reasoning", "question"),
    [
        ("The statement cannot be true.", TRUE),
        ("The statement matches the image.", FALSE),
        ("It is therefore not true.", TRUE),
        ("So the answer is yes. No, it does not hold.", TRUE),
        ("So there are 7. Actually, let me see.", COUNT),
    ],
)
def test_sides_and_what_is_not_taken_back(reasoning: str, question: Question) -> None:
    assert contradiction(reasoning, question) is not None


@pytest.mark.parametrize(
    ("reasoning", "question"),
    [
        ("I would say the answer is 5.", COUNT),
        ("So there are clearly 5 yellow squares.", COUNT),
        ('So there are "5" yellow squares.', COUNT),
        ("So there are 5 of them.", COUNT),
        ("So there's only 1 yellow square.", COUNT),
        ("The answer's 5.", COUNT),
        ("Number of yellow squares: 5.", COUNT),
        ("The statement is certainly true.", FALSE),
        ("The statement's true.", FALSE),
        ("So: yes.", FALSE),
        ("It is seen. Yes", FALSE),
    ],
)
def test_wordings_of_a_wrong_conclusion(reasoning: str, question: Question) -> None:
    assert contradiction(reasoning, question) is not None


@pytest.mark.parametrize(
    ("reasoning", "question"),
    [
        ("The answer is clearly 6, not 5.", COUNT),
        ("The answer is therefore the sum of 2 and 4, which is 6.", COUNT),
        ("The answer should be a number. There are 6.", COUNT),
        ("The answer is simple: 6", COUNT),
        ("One makes 1, another makes 2, and four others make 6.", COUNT),
        ("Total circles = 8; total yellow squares = 6.", COUNT),
        ("The total number of objects is 8. Hence 6.", COUNT),
        ("Image 1: there are 5 yellow squares. Image 2: there is 1 yellow square. So 6.", COUNT),
        ("The statement holds for the first box but not for the last, so it is false.", FALSE),
        ("The statement is true only if no square touches the bottom. One does, so no.", FALSE),
        ("The first part of the statement is true, but the second is not. So no.", FALSE),
        ("The answer is yes for box 1 and no for box 2. So the statement is false.", FALSE),
        ("Is any box missing one? No, all have one.", TRUE),
        ("The answer is B, not A", CHOICE),
        ("The answer is red, since blue is absent", CHOICE),
        ("The answer is red (not blue or green)", CHOICE),
    ],
)
def test_wordings_that_conclude_nothing_wrong(reasoning: str, question: Question) -> None:
    assert contradiction(reasoning, question) is None
