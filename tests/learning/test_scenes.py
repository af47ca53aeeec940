"""The rendered scenes: exact boxes, answers that the embedded engine finds too, and the same files every time."""

import json
from collections import Counter
from pathlib import Path

import cv2
import numpy as np
import pytest

from benchmarks.learning.scenes import (
    CELL_PX,
    COLOURS,
    GROUND,
    IMAGE_PX,
    MAX_COUNT,
    OBJECTS,
    draw,
    render_scene,
    write_scenes,
)
from groundtrace.embedded.sight.answer import answer
from groundtrace.embedded.sight.by_colour import find_shapes
from groundtrace.embedded.sight.by_edges import detect_all
from groundtrace.embedded.sight.language import read_question


def records_of(folder: Path) -> list[dict]:
    return [json.loads(line) for line in (folder / "records.jsonl").read_text("utf-8").splitlines()]


def picture(folder: Path, record: dict) -> np.ndarray:
    return cv2.cvtColor(cv2.imread(str(folder / record["media"][0])), cv2.COLOR_BGR2RGB)


@pytest.mark.parametrize(
    ("shape", "box", "area_px"),
    [
        ("square", (10, 20, 50, 60), 1600),
        ("circle", (10, 20, 50, 60), pytest.approx(np.pi * 20**2, rel=0.02)),
        ("triangle", (10, 20, 50, 60), pytest.approx(800, rel=0.06)),
    ],
)
def test_a_shape_fills_its_box(shape: str, box: tuple[int, int, int, int], area_px: float) -> None:
    pixels = np.full((100, 100, 3), GROUND, np.uint8)
    assert draw(pixels, shape, COLOURS["red"], (10, 20), 40) == box
    assert np.count_nonzero((pixels == COLOURS["red"]).all(2)) == area_px


def test_both_algorithms_see_what_was_drawn() -> None:
    rng = np.random.default_rng(11)
    for _ in range(40):
        pixels, objects = render_scene(rng)
        drawn = sorted((o.label, tuple(float(side) for side in o.box_px)) for o in objects)
        assert sorted((seen.label, seen.box_px) for seen in find_shapes(pixels) or ()) == drawn
        detected = sorted((found.label, found.box_px) for found in detect_all(pixels))
        assert Counter(label for label, _ in detected) == Counter(label for label, _ in drawn)
        for label, box in drawn:
            assert any(label == name and np.allclose(box, other, atol=3) for name, other in detected)


def test_each_shape_stands_in_a_cell_of_its_own_and_none_is_too_frequent() -> None:
    rng = np.random.default_rng(12)
    for _ in range(100):
        _, objects = render_scene(rng)
        cells = {(o.box_px[0] // CELL_PX, o.box_px[1] // CELL_PX) for o in objects}
        last = {((o.box_px[2] - 1) // CELL_PX, (o.box_px[3] - 1) // CELL_PX) for o in objects}
        assert cells == last and len(cells) == len(objects) and 2 <= len(objects) <= 6
        assert max(Counter(o.label for o in objects).values()) <= MAX_COUNT


def test_the_engine_reads_every_question_and_agrees_with_answer_and_boxes(tmp_path: Path) -> None:
    write_scenes(tmp_path, 60, seed=3, prefix="t")
    for record in records_of(tmp_path):
        query = read_question(record["question"])
        assert query is not None, record["question"]
        reading = answer(query, find_shapes(picture(tmp_path, record)) or [], (IMAGE_PX, IMAGE_PX))
        assert reading is not None and reading.answer == record["answer"]
        gold = sorted((box["label"], tuple(box["bbox"])) for box in record["boxes"] or ())
        assert sorted((seen.label, seen.box_px) for seen in reading.evidence) == gold


def test_no_constant_answer_is_right_often_and_statements_are_even(tmp_path: Path) -> None:
    answers = write_scenes(tmp_path, 200, seed=4, prefix="t")
    assert answers.most_common(1)[0][1] < 0.25 * answers.total()
    assert {str(count) for count in range(OBJECTS[1] + 1)} | {"yes", "no"} == set(answers)
    assert 0.8 < answers["yes"] / answers["no"] < 1.25


def test_ids_questions_and_pictures_are_distinct(tmp_path: Path) -> None:
    write_scenes(tmp_path, 50, seed=5, prefix="t", questions=4)
    records = records_of(tmp_path)
    assert len({record["id"] for record in records}) == len(records) == 200
    assert len({(record["media"][0], record["question"]) for record in records}) == 200
    assert len({picture(tmp_path, record).tobytes() for record in records}) == 50


def test_the_same_seed_writes_the_same_files_and_another_does_not(tmp_path: Path) -> None:
    for name, seed in (("a", 6), ("b", 6), ("c", 7)):
        write_scenes(tmp_path / name, 5, seed, prefix="t")
    files = {name: {f.name: f.read_bytes() for f in (tmp_path / name).rglob("*.*")} for name in "abc"}
    assert files["a"] == files["b"]
    assert files["a"]["records.jsonl"] != files["c"]["records.jsonl"]


def test_records_are_not_overwritten(tmp_path: Path) -> None:
    write_scenes(tmp_path, 1, seed=1, prefix="t")
    with pytest.raises(FileExistsError, match="folder of their own"):
        write_scenes(tmp_path, 1, seed=1, prefix="t")
