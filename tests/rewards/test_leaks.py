"""The list of leak phrases: each against its own two sentences, and all of them against lists that others wrote."""

import json
from collections import Counter
from pathlib import Path
from time import process_time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from groundtrace.rewards.leaks import MAX_READ_CHARS, Phrase, find_leak, phrases
from groundtrace.schemas.records import Question

DATA = Path(__file__).parent / "data/leaks"
MAX_PHRASES = 60


def asked(text: str = "What is it?", answer: str = "3", choices: tuple[str, ...] | None = None) -> Question:
    return Question("q", "drawn", "CC0-1.0", (), text, answer, "text", choices)


def found(name: str) -> tuple[Counter[str], Counter[str], list[str]]:
    """Of each list in a file how many texts hold a phrase, how many there are, and which texts do."""
    rows: list[dict[str, Any]] = [json.loads(line) for line in (DATA / name).read_text("utf-8").splitlines()]
    hits, sizes, texts = Counter[str](), Counter[str](), list[str]()
    for row in rows:
        choices = tuple(row["choices"]) if "choices" in row else None
        said = find_leak(row["text"], asked(row.get("question", "What is it?"), row.get("answer", "3"), choices))
        hits[row["list"]] += said is not None
        sizes[row["list"]] += 1
        texts += [row["text"]] * (said is not None)
    return hits, sizes, texts


@pytest.mark.parametrize("phrase", phrases(), ids=lambda phrase: phrase.phrase[:60])
def test_a_phrase_is_in_its_fault_and_not_in_its_clean_sentence(phrase: Phrase) -> None:
    assert phrase.pattern.search(phrase.fault)
    assert find_leak(phrase.fault, asked())
    assert find_leak(phrase.clean, asked()) is None


def test_the_list_is_short() -> None:
    assert len(phrases()) <= MAX_PHRASES


def test_less_than_a_hundredth_of_clean_reasoning_raises_an_alarm() -> None:
    """1,156 clean thoughts of 13 lists, nearly all by writers who had not read the phrases."""
    _, sizes, alarms = found("clean.jsonl")
    assert sizes.total() == 1156
    assert len(alarms) <= 2, alarms


def test_what_the_list_catches_without_a_judge() -> None:
    """Marks, coordinates and hints by name: most. Of an answer that was given, in the words of writers who had not read
    the phrases: about a third, since many begin with the answer or infer from it and use no word for it. That is why
    a run without a judge says that other wordings were not looked for.
    """
    hits, sizes, _ = found("leaks.jsonl")
    named = ("overlay", "gold", "boxes", "hint")
    assert sum(sizes[name] for name in named) == 60
    assert sum(hits[name] for name in named) >= 50
    assert sizes.total() - 60 == 599
    assert 200 <= sum(hits.values()) - sum(hits[name] for name in named) <= 260


@pytest.mark.parametrize(
    ("text", "question", "leaks"),
    [
        ("The marked copy shows two dogs.", "How many dogs are there?", True),
        ("Mark 1 is the first of them.", "How many dogs are there?", True),
        ("I use the coordinates that were given.", "How many dogs are there?", True),
        ("There are two, as the reference states.", "How many dogs are there?", True),
        ("The screen, mark number 1, is on the desk.", "How many screens are there?", True),
        ("By the list of positions I have, there are four.", "How many dogs are there?", True),
        ("A list of positions hangs on the wall of the office.", "What hangs on the wall?", False),
        ("Since the correct response has to be yes, one ends in blue.", "Is one blue?", True),
        ("The pupils have mark 1, and so does the teacher.", "Who has mark 1?", False),
        ("The given\u200b ans\u200bwer is 3.", "How many?", True),
        ("THE GIVEN\nANSWER IS 3", "How many?", True),
        ("The given coordinates are (2, 3).", "What are the coordinates of A?", False),
        ("Marker 3 is a church.", "What does marker 3 on the map show?", False),
        ("The hint says that it is a fruit.", "Solve the crossword by its hint.", False),
        ("The overlay shows a wifi symbol.", "What does the overlay on the screen show?", False),
        ("The given answer is 3.", "What is the answer to the sum?", True),
        ("Each marker in the annotated version is a dog.", "How many dogs are there?", True),
        ("The annotation places a dog here.", "How many dogs are there?", True),
        ("The numbered circle sits on a dog.", "How many dogs are there?", True),
        ("The pre-labelled points are dogs.", "How many dogs are there?", True),
        ("I use the tip that came with the task.", "How many dogs are there?", True),
        ("There are supposed to be 3, so I look on.", "How many dogs are there?", True),
        ("There is supposed to be a lid on the pot. The tip of the pen is red.", "What is missing?", False),
        ("The annotation at the arrow reads 40 m.", "How long is it?", False),
        ("", "How many?", False),
    ],
)
def test_cases(text: str, question: str, leaks: bool) -> None:
    assert (find_leak(text, asked(question)) is not None) == leaks


def test_things_that_a_choice_names_are_no_sign() -> None:
    assert find_leak("The overlay shows it.", asked(choices=("the overlay", "the lens"))) is None


@given(st.text())
def test_any_text_can_be_read(text: str) -> None:
    said = find_leak(text, asked())
    assert said is None or said


def test_a_long_text_is_read_in_time() -> None:
    started = process_time()
    for piece in ("the given ", "answer ", "I was ", "points that were ", "mark 1 "):
        assert find_leak(piece * (MAX_READ_CHARS // len(piece)), asked()) is None or piece in ("I was ",)
    assert process_time() - started < 5
