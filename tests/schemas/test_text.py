"""Text that UTF-8 can hold or a terminal only shows, and numbers of things."""

from hypothesis import given
from hypothesis import strategies as st

from schemas.text import counted, printable, storable


@given(st.text(st.characters()))
def test_any_text_can_be_encoded_and_good_text_is_left_alone(text: str) -> None:
    stored = storable(text)
    stored.encode("utf-8")
    if not any("\ud800" <= character <= "\udfff" for character in text):
        assert stored == text


def test_different_surrogates_stay_different() -> None:
    assert storable("id\ud800") == "id\\ud800"
    assert storable("id\ud800") != storable("id\ud801")


def test_one_thing_and_several() -> None:
    assert [counted(number, "record") for number in (0, 1, 2)] == ["0 records", "1 record", "2 records"]
    assert [counted(number, "reply", "replies") for number in (1, 3)] == ["1 reply", "3 replies"]


def test_what_a_terminal_would_obey_is_spelt_out() -> None:
    assert printable("\x1b[2J\ud800 [b] ä\n") == "\\x1b[2J\\ud800 [b] ä\\n"
