"""Packing for shuffles: what is written comes back, is small, and is refused when it is something else."""

import pickle
import subprocess
import sys
from pathlib import Path

import pytest
from apache_beam.coders import RowCoder
from apache_beam.coders.typecoders import registry
from apache_beam.typehints.schema_registry import SCHEMA_REGISTRY

from groundtrace.prompts.loader import load_prompt
from groundtrace.schemas.geometry import Point
from groundtrace.schemas.records import Attempt, Call, Draft, MediaRef, Question, RawRecord, Rejected
from groundtrace.stages.ingest_records import IngestPart, InvalidRow
from groundtrace.stages.plumbing.ends import SideCalls
from groundtrace.stages.plumbing.packing import PackedCoder, packed, unpacked
from groundtrace.stages.plumbing.spill import spooling
from groundtrace.stages.split_by_media_group import SplitPart
from groundtrace.vision.checked_medium import CheckedMedium


def make_draft(number: int) -> Draft:
    """A draft with the repetition of real ones."""
    medium = MediaRef(f"input:{number}.png", "image", "ab" * 32, "cd" * 32, "0" * 16, 400, 300, 1, 9000)
    question = Question(f"q{number}", "rendered", "CC0-1.0", (medium,), "几个 red squares?", "2", "numeric")
    attempt = Attempt("<think>There are 2 red squares.</think>\n<answer>2</answer>", "2", True, "numeric", "")
    sha256 = load_prompt("attempt.v1").sha256
    call = Call("policy", "attempt.v1", sha256, "colour", tuple(f"{i:064x}" for i in range(4)))
    return Draft(question, attempts=(attempt,) * 4, entities=("a", "b"), points=(Point("a", 1.5, 2.5),), calls=(call,))


VALUES = [
    make_draft(1),
    Draft(Question("", "", "", (), "", "", "bool", choices=("yes", "no"))),
    RawRecord(3, '{"id": "naïve 🟥"}'),
    Rejected("q", "ingest", "media_missing", "gone.png"),
    Rejected("q", "verify", "wrong_answer", "none is right", draft=make_draft(3)),
    IngestPart(invalid=InvalidRow(1, "bad_field", "?")),
    IngestPart(medium=CheckedMedium("input:a.png", make_draft(1).question.media[0], "", "")),
    SplitPart(draft=make_draft(2)),
    SplitPart(group="ab" * 32),
    SideCalls("q", "judges", "call_failed", make_draft(1).calls),
]


@pytest.mark.parametrize("spool", [False, True])
@pytest.mark.parametrize("value", VALUES, ids=lambda value: type(value).__name__)
def test_a_value_comes_back_equal_even_from_another_workers_coder(value: object, spool: bool, tmp_path: Path) -> None:
    with spooling(str(tmp_path) if spool else ""):
        coder = registry.get_coder(type(value))
    assert isinstance(coder, PackedCoder)
    elsewhere = pickle.loads(pickle.dumps(coder))
    back = elsewhere.decode(coder.encode(value))
    assert back == value and hash(back) == hash(value)
    if isinstance(value, Rejected):
        assert back.draft == value.draft  # no part of the comparison
    assert elsewhere == coder and hash(elsewhere) == hash(coder)
    assert not coder.is_deterministic(), "packed values are never keys"
    assert coder.to_type_hint() is type(value)


def test_coders_of_other_types_and_other_spools_differ() -> None:
    coders = [PackedCoder(kind, folder) for kind in (Draft, Rejected) for folder in ("", "a")]
    assert len(set(coders)) == 4
    assert coders[0] == PackedCoder(Draft, "")


def test_a_packed_draft_is_smaller_than_its_row_and_a_spooled_one_is_a_slip(tmp_path: Path) -> None:
    draft = make_draft(1)
    row = RowCoder(SCHEMA_REGISTRY.get_schema_by_id(Draft._beam_schema_id)).encode(draft)
    assert len(PackedCoder(Draft, "").encode(draft)) < len(row) / 2
    assert len(PackedCoder(Draft, str(tmp_path)).encode(draft)) < 32


ELSEWHERE = """
import pickle, sys
coder, data = pickle.loads(sys.stdin.buffer.read())
sys.stdout.buffer.write(coder.encode(coder.decode(data)))
"""


@pytest.mark.slow
def test_a_coder_alone_is_enough_in_a_process_that_has_imported_nothing() -> None:
    """Beam unpickles coders before it imports what the options name."""
    coder, draft = PackedCoder(Rejected, ""), VALUES[4]
    sent = pickle.dumps((coder, coder.encode(draft)))
    back = subprocess.run([sys.executable, "-c", ELSEWHERE], input=sent, check=True, capture_output=True).stdout
    assert coder.decode(back) == draft


WHOLE = packed(b"some data" * 20)


@pytest.mark.parametrize("data", [WHOLE[:-1], WHOLE + b"x", b"", b"no packed data"])
def test_other_data_is_refused(data: bytes) -> None:
    assert unpacked(WHOLE) == b"some data" * 20
    with pytest.raises(ValueError, match="packed"):
        unpacked(data)


@pytest.mark.parametrize("spool", [False, True])
def test_the_estimated_size_is_that_of_the_encoded_record_and_writes_nothing(spool: bool, tmp_path: Path) -> None:
    coder, draft = PackedCoder(Draft, str(tmp_path) if spool else ""), make_draft(1)
    size = coder.estimate_size(draft)
    assert not list(tmp_path.iterdir())
    assert size == len(coder.encode(draft))
