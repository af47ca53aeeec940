"""Options whose views are made once say what Beam's own say."""

import copy
import pickle

import pytest
from apache_beam.options.pipeline_options import (
    DebugOptions,
    DirectOptions,
    PipelineOptions,
    StandardOptions,
    TypeOptions,
)

from groundtrace.stages.plumbing.options import Options

FLAGS = ["--direct_num_workers=3", "--runner=FnApiRunner", "--experiments=a"]


@pytest.mark.parametrize("view", [DebugOptions, DirectOptions, StandardOptions, TypeOptions])
def test_a_view_is_made_once_and_says_what_beams_own_says(view: type[PipelineOptions]) -> None:
    options = Options(FLAGS, save_main_session=False)
    assert options.view_as(view) is options.view_as(view)
    plain = PipelineOptions(FLAGS, save_main_session=False).view_as(view)
    names = plain._visible_option_list()
    assert names
    assert [getattr(options.view_as(view), name) for name in names] == [getattr(plain, name) for name in names]


def test_all_views_see_what_one_sets() -> None:
    options = Options(FLAGS)
    options.view_as(DirectOptions).direct_num_workers = 7
    assert options.view_as(DirectOptions).direct_num_workers == 7
    assert options.view_as(StandardOptions).view_as(DirectOptions).direct_num_workers == 7
    assert options.get_all_options()["direct_num_workers"] == 7


@pytest.mark.parametrize("through", [copy.deepcopy, lambda options: pickle.loads(pickle.dumps(options))])
def test_a_copy_has_values_of_its_own(through: object) -> None:
    options = Options(FLAGS)
    options.view_as(DirectOptions).direct_num_workers = 7
    copied = through(options)  # type: ignore[operator]
    copied.view_as(DirectOptions).direct_num_workers = 5
    assert copied.view_as(DirectOptions) is copied.view_as(DirectOptions)
    assert [each.view_as(DirectOptions).direct_num_workers for each in (options, copied)] == [7, 5]
    assert copied.get_all_options()["direct_num_workers"] == 5
