"""Packing for shuffles: what is written comes back, is small, and is refused when it is something else."""

import pickle
import subprocess
import sys
from typing import Any

import apache_beam as beam
import pytest
from apache_beam.coders.typecoders import registry
from apache_beam.pipeline import AppliedPTransform, PipelineVisitor
from apache_beam.runners.portability.fn_api_runner.fn_runner import FnApiRunner
from apache_beam.testing import test_pipeline
from apache_beam.testing.util import assert_that, equal_to
from apache_beam.transforms.window import FixedWindows

from prompts.loader import load_prompt
from schemas.geometry import Point
from schemas.records import Attempt, Call, Draft, MediaRef, Question
from stages.spreading import (
    Parcel,
    SpreadDrafts,
    compress,
    decompress,
    lineage_dictionary,
    packed,
)


def make_draft(number: int) -> Draft:
    """A draft with the repetition of real ones."""
    medium = MediaRef(f"input:{number}.png", "image", "ab" * 32, "cd" * 32, "0" * 16, 400, 300, 1, 9000)
    question = Question(f"q{number}", "rendered", "CC0-1.0", (medium,), "几个 red squares?", "2", "numeric")
    attempt = Attempt("<think>There are 2 red squares.</think>\n<answer>2</answer>", "2", True, "numeric", "")
    sha256 = load_prompt("attempt.v1").sha256
    call = Call("policy", "attempt.v1", sha256, "colour", tuple(f"{i:064x}" for i in range(4)))
    return Draft(question, attempts=(attempt,) * 4, entities=("a", "b"), points=(Point("a", 1.5, 2.5),), calls=(call,))


@packed
class Either:
    """A join's part, of which one half is missing."""

    draft: Draft | None = None
    name: str | None = None
    count: int = 0


VALUES = [
    Parcel(make_draft(1)),
    Parcel(Draft(Question("", "", "", (), "", "", "bool", choices=("yes", "no")))),
    Either(draft=make_draft(2), count=-3),
    Either(name="naïve 🟥"),
    Either(),
]


@pytest.mark.parametrize("value", VALUES, ids=lambda value: type(value).__name__)
def test_a_value_comes_back_equal_even_from_another_workers_coder(value: object) -> None:
    coder = registry.get_coder(type(value))
    elsewhere = pickle.loads(pickle.dumps(coder))
    back = elsewhere.decode(coder.encode(value))
    assert back == value and hash(back) == hash(value)
    assert elsewhere == coder and hash(elsewhere) == hash(coder)
    assert coder != registry.get_coder(Draft)
    assert not coder.is_deterministic(), "packed values are never keys"
    assert coder.to_type_hint() is type(value)


def test_coders_of_other_types_differ() -> None:
    assert registry.get_coder(Parcel) == registry.get_coder(Parcel) != registry.get_coder(Either)


def test_a_draft_takes_less_than_half_of_its_row() -> None:
    draft = make_draft(1)
    row = registry.get_coder(Draft).encode(draft)
    assert len(registry.get_coder(Parcel).encode(Parcel(draft))) < len(row) / 2
    assert len(compress(row, lineage_dictionary())) < len(compress(row, b"")) - 20, "digests are in the dictionary"


@pytest.mark.parametrize("data", [b"", b"a", b"a" * 100_000, bytes(range(256)) * 9])
def test_bytes_come_back(data: bytes) -> None:
    assert decompress(compress(data, b"dictionary"), b"dictionary") == data


WHOLE = compress(b"some data" * 20, b"dictionary")


@pytest.mark.parametrize(
    ("data", "dictionary"),
    [
        (WHOLE, b"another dictionary"),
        (WHOLE, b""),
        (WHOLE[:-1], b"dictionary"),
        (WHOLE + b"x", b"dictionary"),
        (b"", b"dictionary"),
        (b"no zlib data", b"dictionary"),
    ],
)
def test_other_data_is_refused(data: bytes, dictionary: bytes) -> None:
    with pytest.raises(ValueError, match="packed"):
        decompress(data, dictionary)


class Groupings(PipelineVisitor):
    """Collects the element types that enter the groupings of a pipeline."""

    def __init__(self) -> None:
        self.entered: list[object] = []

    def visit_transform(self, transform_node: AppliedPTransform) -> None:
        if isinstance(transform_node.transform, beam.GroupByKey):
            self.entered += [elements.element_type for elements in transform_node.inputs]

    enter_composite_transform = visit_transform


@pytest.mark.parametrize("windowed", [False, True])
def test_spreading_keeps_the_drafts_and_packs_them_on_the_way(windowed: bool) -> None:
    drafts = [make_draft(number) for number in range(40)]
    groupings = Groupings()
    with test_pipeline.TestPipeline(runner=FnApiRunner()) as pipeline:
        source = pipeline | beam.Create(drafts)
        if windowed:
            source = source | beam.WindowInto(FixedWindows(60))
        spread: Any = source | SpreadDrafts()
        pipeline.visit(groupings)
        assert spread.element_type is Draft
        assert_that(spread, equal_to(drafts))
    carrying = [kind for kind in groupings.entered if Parcel.__name__ in str(kind)]
    assert len(carrying) == 1
    coder = repr(registry.get_coder(carrying[0]))
    assert "PackedCoder" in coder and "RowCoder" not in coder


RELEASE = """
import gc, resource
from pathlib import Path
from stages.spreading import release_memory

def rss_bytes():
    return int(Path("/proc/self/statm").read_text("ascii").split()[1]) * resource.getpagesize()

blocks = [bytearray(2000) for _ in range(30_000)]
kept = blocks[::100]
del blocks
gc.collect()
before = rss_bytes()
release_memory()
print(before - rss_bytes())
"""


def test_scattered_free_memory_goes_back() -> None:
    """In a process of its own: what other tests have freed would be used again here."""
    done = subprocess.run([sys.executable, "-c", RELEASE], capture_output=True, text=True, check=True)
    assert int(done.stdout) > 20_000_000
