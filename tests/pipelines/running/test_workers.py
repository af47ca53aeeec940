"""Where a run's workers are, and what those elsewhere need."""

from pathlib import Path

import pytest

from pipelines.running.runner import OptionError, pipeline_options
from pipelines.running.workers import check_in_store, is_local, see_no_disk


@pytest.mark.parametrize(
    ("flags", "local", "no_disk"),
    [
        ([], True, False),
        (["--direct_num_workers=4", "--direct_running_mode=multi_processing"], True, False),
        (["--runner=DirectRunner"], True, False),
        (["--runner=FlinkRunner"], False, False),
        (["--runner=PortableRunner"], False, False),
        (["--runner=DataflowRunner"], False, True),
        (["--runner=Dataflow"], False, True),
        (["--runner", "DATAFLOW"], False, True),
        (["--runner=TestDataflowRunner"], False, True),
        (["--runner=apache_beam.runners.DataflowRunner"], False, True),
        (["--runner=spark"], False, False),
        (["--runner=direct"], True, False),
        (["--runner=apache_beam.runners.portability.fn_api_runner.FnApiRunner"], True, False),
    ],
)
def test_where_the_workers_are(flags: list[str], local: bool, no_disk: bool) -> None:
    options = pipeline_options(flags)
    assert (is_local(options), see_no_disk(options)) == (local, no_disk)


def test_folders_of_this_machine(tmp_path: Path) -> None:
    check_in_store([("--input", "org/data-set"), ("--input", "hf://org/set"), ("--output", "gs://bucket/run")])
    for option, name in (("--input", str(tmp_path)), ("--output", "runs/a"), ("--cache", str(tmp_path / "none"))):
        with pytest.raises(OptionError, match=f"{option} .* see no disk of this machine"):
            check_in_store([("--output", "gs://bucket/run"), (option, name)])
