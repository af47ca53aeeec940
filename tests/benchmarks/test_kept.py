"""benchmarks/main_job/kept.py: the comparison of figures with the kept ones."""

import json
from pathlib import Path

import pytest

from ..spark.cluster import ROOT

from main_job.kept import FILE, LIMITS, keep, worse_than_kept  # isort: skip  (cluster.py names the folder)

KEPT = {"image": {"whole_rate": 0.6, "cpu": 4.0, "tail_share": 0.1}}


@pytest.fixture
def file(tmp_path: Path) -> Path:
    (tmp_path / "kept.json").write_text(json.dumps(KEPT))
    return tmp_path / "kept.json"


@pytest.mark.parametrize(
    ("found", "worse"),
    [
        pytest.param({"image": KEPT["image"]}, [], id="the same"),
        pytest.param({"image": {"whole_rate": 0.9, "cpu": 2.0}}, [], id="better"),
        pytest.param({"image": {"whole_rate": 0.45, "cpu": 4.79}}, [], id="a little worse"),
        pytest.param(
            {"image": {"whole_rate": 0.4}},
            ["image: whole_rate is 0.4, kept 0.6: 1.50 times worse, limit 1.35"],
            id="a lower rate",
        ),
        pytest.param(
            {"image": {"cpu": 5.0, "tail_share": 0.1}},
            ["image: cpu is 5, kept 4: 1.25 times worse, limit 1.2"],
            id="more CPU time",
        ),
        pytest.param({"text": {"cpu": 99.0}, "image": {"start_s": 99.0}}, [], id="figures that are not kept"),
    ],
)
def test_figures_are_compared_with_the_kept_ones(file, found, worse):
    assert worse_than_kept(found, file) == worse


def test_keeping_replaces_the_figures_of_the_measured_parts(file):
    keep({"text": {"cpu": 1.0, "start_s": 2.0}}, file)
    assert json.loads(file.read_text()) == KEPT | {"text": {"cpu": 1.0}}
    keep({"image": {"cpu": 2.0}}, file)
    assert json.loads(file.read_text()) == {"image": {"cpu": 2.0}, "text": {"cpu": 1.0}}


def test_the_kept_figures_of_the_repository_are_compared():
    assert FILE.is_relative_to(ROOT)
    kept = json.loads(FILE.read_text())
    assert {"image", "mistake"} <= set(kept)
    assert all(set(figures) <= set(LIMITS) and figures for figures in kept.values())
