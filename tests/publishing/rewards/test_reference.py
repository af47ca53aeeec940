import pytest
from hypothesis import given
from hypothesis import strategies as st

from groundtrace.publishing.rewards.reference import BadReference, RowReference, read_reference

TEXT = st.text(st.characters(exclude_categories=["Cs"]))


@given(st.builds(RowReference, TEXT, TEXT, TEXT, TEXT))
def test_what_is_written_is_read(reference: RowReference) -> None:
    assert "\n" not in reference.text()
    assert read_reference(reference.text()) == reference


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("B", "is not JSON: 'B'"),
        ("[" * 5000, "is not JSON"),
        ("[]", "must be a JSON object with a text in the field 'answer'"),
        (
            '{"answer": "B", "family": "plain", "id": 3, "run": "r"}',
            "must be a JSON object with a text in the field 'id'",
        ),
        ('{"answer": "B", "family": "plain", "id": "a"}', "must be a JSON object with a text in the field 'run'"),
    ],
)
def test_another_text_is_refused(text: str, said: str) -> None:
    with pytest.raises(BadReference) as refusal:
        read_reference(text)
    assert said in str(refusal.value)
    assert "export the run again" in str(refusal.value)
