"""What a stage says of its columns, and the errors of one that sets others or wrong values."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import apache_beam as beam
import pyarrow as pa
import pytest
from apache_beam.runners.portability.fn_api_runner import FnApiRunner
from apache_beam.testing.util import equal_to

from groundtrace.inference.session import Session
from groundtrace.schemas.columns import Column, ColumnError
from groundtrace.schemas.errors import UserError
from groundtrace.schemas.records import Draft
from groundtrace.stages.plumbing import calling
from groundtrace.stages.plumbing.options import Options
from groundtrace.stages.plumbing.stage import DraftStage, Reject, Route, Stage, Work

from ..matching import assert_that

LIGHT = Column[float]("light", pa.float64(), "how light the image is")
SHADE = Column[str]("shade", pa.string(), "its darkest colour")
DARK, BLURRED = "dark", "blurred"
MEASURE = Stage("measure", "images are measured", reasons={BLURRED: "the image is blurred"}, adds=(LIGHT,))


def _measured(draft: Draft) -> Draft:
    return draft.with_added(LIGHT, 0.25)


def _routed(draft: Draft) -> Route:
    return Route(DARK, _measured(draft))


def _wrong_value(draft: Draft) -> Draft:
    value: Any = "light"
    return draft.with_added(LIGHT, value)


def _undeclared(draft: Draft) -> Draft:
    return draft.with_added(SHADE, "black")


def _rejected_undeclared(draft: Draft) -> Draft:
    raise Reject(BLURRED, "no edges", draft=_undeclared(draft))


@dataclass
class Measure(DraftStage):
    """Does what it is given."""

    does: Callable[[Draft], Draft | Route]
    stage = MEASURE
    routes = (DARK,)

    def work(self) -> Work:
        """The function."""
        return self.does


class Forgotten(DraftStage):
    """Has a field, but no ``@dataclass``."""

    does: Callable[[Draft], Draft]
    stage = MEASURE

    def work(self) -> Work:
        return self.does


class Undeclared(DraftStage):
    """Has neither ``@dataclass`` nor a field."""

    stage = MEASURE


class NotAgain(Measure):
    """Adds a field to a dataclass, but is no dataclass itself."""

    more: int


@pytest.mark.parametrize("made", [lambda: Forgotten(_measured), lambda: Undeclared(settings=3), lambda: NotAgain(3)])  # type: ignore[call-arg]
def test_a_stage_that_is_no_dataclass_is_one_line(made: Callable[[], DraftStage]) -> None:
    with pytest.raises(
        UserError, match=r"^the stage class (\w+) of the module .* takes no settings, .*: add @dataclass to \1$"
    ):
        made()


def test_a_stage_without_settings_needs_no_dataclass(make_draft: Callable[..., Draft]) -> None:
    class Plain(DraftStage):
        stage = MEASURE

        def work(self) -> Work:
            return _measured

    assert Plain("a label").label == "a label"
    run(Plain(), make_draft("q"))


def _light(draft: Draft) -> tuple[str, float | None]:
    return draft.id, draft.added(LIGHT)


def run(stage: DraftStage, draft: Draft, output: str = "kept") -> None:
    with beam.Pipeline(FnApiRunner(), Options([])) as pipeline:
        drafts = pipeline | beam.Create([draft], reshuffle=False)
        drafts.element_type = Draft
        found: Any = drafts | stage
        assert_that(found[output] | beam.Map(_light), equal_to([("q", 0.25)]))


@pytest.mark.parametrize(("work", "output"), [(_measured, "kept"), (_routed, DARK)])
def test_a_column_travels_with_the_draft(work: Any, output: str, make_draft: Callable[..., Draft]) -> None:
    run(Measure(work), make_draft("q"), output)


@pytest.mark.parametrize(
    ("work", "said"),
    [
        (
            _wrong_value,
            r"the stage measure sets a column to a wrong value: the column light \(double\) cannot hold this "
            "value: expected a number",
        ),
        (_undeclared, "the stage measure sets the column shade but does not declare it: add this column"),
        (_rejected_undeclared, "the stage measure sets the column shade but does not declare it: add this column"),
        (lambda draft: None, "the stage measure returned None for the record q: return the draft, or raise Reject"),
    ],
)
def test_a_wrong_value_names_stage_and_column(work: Any, said: str, make_draft: Callable[..., Draft]) -> None:
    with pytest.raises(Exception, match=said):
        run(Measure(work), make_draft("q"))


@pytest.mark.parametrize("work", [_wrong_value, _undeclared, _rejected_undeclared])
def test_so_does_that_of_a_stage_that_calls(
    work: Any, make_draft: Callable[..., Draft], models: Callable[..., Any]
) -> None:
    async def calls(draft: Draft, session: Session) -> Draft:
        return work(draft)

    runtime = calling.runtime()
    session = Session(runtime.models(models()))
    with pytest.raises(ColumnError, match=r"the stage measure sets (a column to a wrong value: )?the column"):
        runtime.submit(calling._run(calls, make_draft("q"), session, MEASURE)).result()


def test_a_stage_that_calls_and_returns_nothing(make_draft: Callable[..., Draft], models: Callable[..., Any]) -> None:
    async def calls(draft: Draft, session: Session) -> Any:
        return None

    session = Session(calling.runtime().models(models()))
    with pytest.raises(TypeError, match="the stage measure returned None for the record q: return the draft"):
        calling.runtime().submit(calling._run(calls, make_draft("q"), session, MEASURE)).result()


def test_a_rejection_has_the_columns_that_its_stage_declares(make_draft: Callable[..., Draft]) -> None:
    draft = make_draft("q").with_added(SHADE, "black")
    ended = MEASURE.rejected(draft, Reject(BLURRED, "no edges", draft=_measured(draft)))
    assert ended.draft is not None and (ended.draft.added(LIGHT), ended.draft.added(SHADE)) == (0.25, "black")


def test_a_draft_keeps_what_stages_before_it_have_set(make_draft: Callable[..., Draft]) -> None:
    run(Measure(_measured), make_draft("q").with_added(SHADE, "black"))


def test_a_declaration_that_no_shard_can_hold_names_its_stage() -> None:
    with pytest.raises(
        ColumnError,
        match="the stage measure declares a column that is not allowed: the column seen is of type timestamp",
    ):
        Stage("measure", "images are measured", adds=(Column("seen", pa.timestamp("s"), "when"),))
