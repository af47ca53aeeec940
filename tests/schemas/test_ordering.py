"""Draws and orders that depend on text alone."""

import hashlib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from groundtrace.schemas.ordering import order_key, unit_hash

DRAWS = [("a", 0, "split"), ("a", 1, "split"), ("a", 0, "sample"), ("b", 0, "split"), ("", 0, "")]


@pytest.mark.parametrize(("text", "seed", "purpose"), DRAWS)
def test_a_draw_is_the_leading_64_bits_of_a_hash(text: str, seed: int, purpose: str) -> None:
    digest = hashlib.sha256(f"{seed}\0{purpose}\0{text}".encode()).hexdigest()
    assert unit_hash(text, seed, purpose) == int(digest[:16], 16) / 2**64


def test_seed_purpose_and_text_each_change_a_draw() -> None:
    assert len({unit_hash(*draw) for draw in DRAWS}) == len(DRAWS)


@settings(max_examples=100)
@given(st.text(), st.integers(), st.text(max_size=10))
def test_a_draw_is_in_the_unit_interval_and_repeatable(text: str, seed: int, purpose: str) -> None:
    assert 0 <= unit_hash(text, seed, purpose) < 1
    assert unit_hash(text, seed, purpose) == unit_hash(text, seed, purpose)


def test_draws_are_uniform() -> None:
    draws = [unit_hash(f"q{number}", 0, "split") for number in range(4000)]
    tenths = [sum(low / 10 <= draw < (low + 1) / 10 for draw in draws) for low in range(10)]
    assert sum(tenths) == 4000
    assert all(abs(count - 400) < 5 * 19 for count in tenths), "five standard deviations of 19"


@pytest.mark.parametrize(
    ("text", "key"),
    [
        ("", "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"),
        ("abc", "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"),
    ],
)
def test_the_key_is_sha256(text: str, key: str) -> None:
    assert order_key(text) == key


def test_text_that_is_no_unicode_has_a_key_too() -> None:
    assert order_key("\ud800") != order_key("\ud801")
    assert unit_hash("\ud800", 0, "split") != unit_hash("\ud801", 0, "split")
