"""What a config may not ask of a recipe is refused in one line."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from groundtrace.config.errors import ConfigError
from groundtrace.pipelines.running.plan.config_check import check_kept_names
from groundtrace.pipelines.running.plan.plan import RunArguments, make_plan
from groundtrace.schemas.columns import Column
from groundtrace.stages.plumbing.stage import Stage
from groundtrace.stages.plumbing.stage_list import StageList


@pytest.mark.parametrize("name", ["question", "LIGHT", "complexity", "cost_usd"])
def test_a_kept_column_takes_no_name_of_the_rows(name: str) -> None:
    light = Column[float]("light", pa.float64(), "how light the image is")
    stages = StageList((Stage("measure", "images are measured", adds=(light,)),))
    with pytest.raises(ConfigError, match=f"input.keep: every row already has a column {name.casefold()}: rename"):
        check_kept_names(stages, [name])
    check_kept_names(stages, ["collected_by"])


REAL = ("endpoints.vlm.kind=openai", "endpoints.vlm.model=m", "endpoints.vlm.base_url=http://h/v1")
OWN_KIND = "groundtrace.inference.endpoints.openai_compatible:OpenAIEndpoint"
"""A kind that is named by its class, as a user's own is."""
REAL = (*REAL, "endpoints.vlm.family=qwen3-vl", "roles.teacher=vlm")


def planned(tmp_path: Path, *overrides: str) -> Any:
    (tmp_path / "records.jsonl").write_text("", "utf-8")
    return make_plan(RunArguments("grounded_cot", str(tmp_path), str(tmp_path / "run"), overrides=overrides))


@pytest.mark.parametrize(
    ("overrides", "said"),
    [
        (
            (),
            "roles.pointer is the embedded engine, which finds drawn shapes but nothing in photographs, although "
            "roles.teacher is a real model: name another endpoint in roles.pointer, or, if all images are",
        ),
        (("roles.pointer=vlm",), "roles.detector is the embedded engine"),
        (("roles.pointer=vlm", "roles.detector=vlm"), "roles.segmenter is the embedded engine"),
        (("roles.pointer=vlm", "roles.detector=edges"), "roles.segmenter is the embedded engine"),
        (
            ("roles.pointer=vlm", "roles.detector=vlm", "roles.segmenter=edges"),
            "or, if all images are drawings, set allow_embedded = true",
        ),
    ],
)
def test_the_embedded_engine_beside_real_models_is_refused(
    tmp_path: Path, overrides: tuple[str, ...], said: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        planned(tmp_path, *REAL, *overrides)
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "overrides",
    [
        (*REAL, "allow_embedded=true"),
        (*REAL, "roles.pointer=vlm", "roles.detector=vlm", "roles.segmenter="),
        (*REAL, "roles.pointer=colour", "roles.detector=edges", "roles.segmenter="),
        (*REAL, "roles.teacher=colour", "roles.judge=vlm"),  # a judge says nothing of the images
        (*REAL, f"endpoints.vlm.kind={OWN_KIND}"),  # of which nothing is known
        (),
    ],
)
def test_the_embedded_engine_where_it_may_look(tmp_path: Path, overrides: tuple[str, ...]) -> None:
    assert planned(tmp_path, *overrides).recipe.name == "grounded_cot"


def test_a_config_file_names_roles_too(tmp_path: Path) -> None:
    config = tmp_path / "my.toml"
    config.write_text('[roles]\npointer = "colour"\ndetector = "edges"\nsegmenter = ""\n', "utf-8")
    (tmp_path / "records.jsonl").write_text("", "utf-8")
    arguments = RunArguments("grounded_cot", str(tmp_path), str(tmp_path / "run"), str(config), REAL)
    assert dict(make_plan(arguments).models.roles)["detector"] == "edges"
