"""The workflow with crops as a run: every record has a row, twice the same bytes, and the sums agree with the rows."""

import hashlib
import json
from collections.abc import Callable
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from groundtrace.config.errors import ConfigError
from groundtrace.config.settings import build
from groundtrace.pipelines.commands.cli import main
from groundtrace.pipelines.crop_and_answer import RECIPE, Settings
from tests.wired import default_stages

SAMPLE = Path(__file__).parents[2] / "data" / "sample"
LIMIT = 24


@pytest.fixture(scope="module")
def done(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two runs over the first records of the sample, without a common cache."""
    folder = tmp_path_factory.mktemp("crops")
    for name in ("one", "two"):
        words = [
            "run",
            "crop_and_answer",
            "--input",
            str(SAMPLE),
            "--output",
            str(folder / name),
            "--limit",
            str(LIMIT),
        ]
        assert main(words) == 0
    return folder


def rows(run: Path) -> list[dict]:
    return [row for file in sorted((run / "rl").glob("*.parquet")) for row in pq.read_table(file).to_pylist()]


def test_every_question_is_a_row_with_both_rates(done: Path) -> None:
    counts = json.loads((done / "one" / "run.json").read_text("utf-8"))["counts"]
    found = rows(done / "one")
    assert (counts["input"], counts["rl"], len(found), counts.get("sft", 0)) == (LIMIT, LIMIT, LIMIT, 0)
    for row in found:
        assert row["crop_pass_rate"] is not None
        assert row["pass_rate"] is not None
        assert len(row["crop_attempts"]) == len(row["attempts"]) == 4
        assert "without coordinates" in row["prompt"][0]["content"]
        assert all(crop["bytes"] for crop in row["overlays"])
        if not row["overlays"]:
            assert row["crop_attempts"] == row["attempts"]
        assert not any("<box" in attempt["text"] for attempt in row["crop_attempts"] if row["overlays"])


def test_the_sums_agree_with_the_rows(done: Path) -> None:
    sums, found = json.loads((done / "one" / "crops.json").read_text("utf-8")), rows(done / "one")
    assert sums["questions"] == LIMIT
    assert sums["cropped"] == sum(bool(row["overlays"]) for row in found) > 0
    assert sums["crops"] == sum(len(row["overlays"]) for row in found)
    right = sum(attempt["correct"] is True for row in found for attempt in row["crop_attempts"])
    assert sums["accuracy_with_crops"] == pytest.approx(right / sums["graded_with"])
    assert sums["better"] == sum(row["crop_pass_rate"] > row["pass_rate"] for row in found)


def test_two_runs_give_the_same_bytes(done: Path) -> None:
    def digests(run: Path) -> dict[str, str]:
        files = [*sorted((run / "rl").glob("*.parquet")), run / "crops.json"]
        return {file.name: hashlib.sha256(file.read_bytes()).hexdigest() for file in files}

    assert digests(done / "one") == digests(done / "two")


def test_crops_stand_once_in_the_run_folder(done: Path) -> None:
    written = {file.stem for file in (done / "one" / "media").iterdir()}
    shown = {hashlib.sha256(crop["bytes"]).hexdigest() for row in rows(done / "one") for crop in row["overlays"]}
    assert shown == written


def test_the_card_says_what_the_rows_are(done: Path) -> None:
    card = (done / "one" / "README.md").read_text("utf-8")
    assert RECIPE.makes.split(":")[0] in card
    assert "crop_pass_rate" in card
    assert "teacher" not in default_stages(RECIPE).roles


def test_a_policy_that_does_not_say_how_it_writes_coordinates_is_refused(row_of_settings: Callable[..., dict]) -> None:
    with pytest.raises(ConfigError, match=r"endpoints.p.family is not set, and the policy writes coordinates"):
        build(Settings, row_of_settings())
    assert build(Settings, row_of_settings(family="qwen3-vl"))


@pytest.fixture
def row_of_settings() -> Callable[..., dict]:
    """Settings with a served policy."""

    def made(**endpoint: str) -> dict:
        served = {"kind": "openai", "model": "m", "base_url": "http://127.0.0.1:9/v1"} | endpoint
        return {"endpoints": {"p": served}, "roles": {"policy": "p"}}

    return made
