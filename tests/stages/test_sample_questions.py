"""The sample is of the lowest hashes, whatever the order, and the others go on by their own output."""

from collections.abc import Callable, Sequence

import apache_beam as beam
import pytest
from apache_beam.runners.portability.fn_api_runner import FnApiRunner
from apache_beam.testing.util import equal_to

from groundtrace.schemas.ordering import order_key
from groundtrace.schemas.records import Draft
from groundtrace.stages.plumbing.options import Options
from groundtrace.stages.sample_questions import SampleQuestions

from .matching import assert_that

NAMES = tuple(f"q{number}" for number in range(9))
SORTED = tuple(sorted(NAMES, key=order_key))


def check(
    drafts: Sequence[Draft],
    size: int,
    kept: Sequence[str],
    others: Sequence[str],
    rejected: Sequence[str] = (),
    judged: bool = True,
) -> None:
    with beam.Pipeline(FnApiRunner(), Options([])) as pipeline:
        created = pipeline | beam.Create(list(drafts))
        created.element_type = Draft
        found = created | SampleQuestions(size, judged)
        for name, wanted in (("kept", kept), ("others", others), ("rejected", rejected)):
            ids = found[name] | f"Id{name}" >> beam.Map(lambda draft: draft.id)
            assert_that(ids, equal_to(list(wanted)), label=name)


@pytest.mark.parametrize("size", [1, 4, 9, 20])
@pytest.mark.parametrize("step", [1, -1])
def test_the_lowest_hashes_are_drawn(size: int, step: int, make_draft: Callable[..., Draft]) -> None:
    check([make_draft(name) for name in NAMES[::step]], size, SORTED[:size], SORTED[size:])


def test_what_nobody_can_grade_takes_no_place_in_the_sample(make_draft: Callable[..., Draft]) -> None:
    free = SORTED[0]
    drafts = [
        make_draft(name, **({"answer": "a long story", "answer_type": "text"} if name == free else {}))
        for name in NAMES
    ]
    check(drafts, 3, SORTED[1:4], SORTED[4:], rejected=[free], judged=False)
    check(drafts, 3, SORTED[:3], SORTED[3:], judged=True)


def test_nothing_to_draw_from() -> None:
    check([], 3, (), ())


def test_an_impossible_size() -> None:
    with pytest.raises(ValueError, match="at least 1"):
        SampleQuestions(0)
