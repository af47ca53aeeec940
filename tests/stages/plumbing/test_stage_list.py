"""The list of a DAG's stages."""

from typing import Any

import pyarrow as pa
import pytest

from groundtrace.inference.role_calls import Asks
from groundtrace.rewards.complexity import COMPLEXITY
from groundtrace.rewards.rubrics import RUBRICS
from groundtrace.rewards.streams import STREAMS
from groundtrace.schemas.columns import Column
from groundtrace.stages.answer_with_crops import CROP_PASS_RATE
from groundtrace.stages.plumbing.stage import Stage
from groundtrace.stages.plumbing.stage_list import RecipeError, StageList, list_stages

LIGHT = Column[float]("light", pa.float64(), "how light the image is")
FIRST, SECOND = Stage("first", "comes first", adds=(LIGHT,)), Stage("second", "comes second")
SAMPLE = Stage("sample", "looks at a sample", max_calls=lambda _: 3)


@pytest.mark.parametrize(
    ("wired", "names"),
    [
        ([], []),
        ([FIRST, SECOND], ["first", "second"]),
        ([SECOND, FIRST], ["second", "first"]),
        ([SAMPLE, FIRST, SECOND], ["first", "second", "sample"]),
        ([FIRST, SECOND, FIRST], ["first", "second"]),
        ([FIRST, Stage("first", "comes first", adds=(LIGHT,))], ["first"]),
    ],
    ids=lambda value: ",".join(getattr(each, "name", each) for each in value) or "nothing",
)
def test_stages_are_listed_once_as_wired_and_samples_last(wired: list[Stage], names: list[str]) -> None:
    assert [stage.name for stage in list_stages("mine", wired)] == names


def test_two_stages_of_one_name_are_refused() -> None:
    with pytest.raises(RecipeError) as caught:
        list_stages("mine", [FIRST, Stage("first", "something else")])
    assert str(caught.value) == ("the recipe mine has two different stages with the name 'first': rename one of them")


@pytest.mark.parametrize(
    ("column", "said"),
    [
        (
            Column("question", pa.string(), "m"),
            "adds the column 'question', but every row already has the column 'question'",
        ),
        (
            Column("Images", pa.string(), "m"),
            "adds the column 'Images', but every row already has the column 'images'",
        ),
        (
            Column("light", pa.int32(), "m"),
            "adds the column 'light', but another stage already adds the column 'light'",
        ),
        (
            Column("Rubrics", pa.string(), "m"),
            "adds the column 'Rubrics', but Groundtrace already uses the column 'rubrics'",
        ),
    ],
)
def test_a_name_has_one_meaning(column: Column[Any], said: str) -> None:
    with pytest.raises(
        RecipeError, match=f"the recipe mine: the stage other {said}: rename the column that the stage adds"
    ):
        list_stages("mine", [FIRST, Stage("other", "something else", adds=(column,))])


def test_a_stage_may_set_a_column_of_ours() -> None:
    list_stages("mine", [Stage("other", "something else", adds=(RUBRICS, STREAMS, COMPLEXITY, CROP_PASS_RATE))])


def test_what_the_stages_say_together() -> None:
    asking = Stage("asks", "asks", asks=(Asks("teacher", ("a.v1",)), Asks("judge", ("b.v1",), required=False)))
    stages = StageList((FIRST, asking, Stage("again", "adds", asks=(Asks("teacher", ("c.v1",)),), adds=(LIGHT,))))
    assert stages.roles == ("teacher",)
    assert stages.roles_asked == ("teacher", "judge")
    assert stages.adds == (LIGHT,)
    assert stages.stage("asks") is asking
    assert stages.stage("nothing") is None
