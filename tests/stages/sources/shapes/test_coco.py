"""Questions about the images of a COCO file: which boxes they get, and what is wrong with files and rows."""

import json
import os
from pathlib import Path
from typing import Any

import pytest

from groundtrace.schemas.errors import UserError
from groundtrace.schemas.geometry import Box

IMAGES = [
    {"id": 1, "file_name": "a.png", "width": 100, "height": 80},
    {"id": 2, "file_name": "b.png", "width": 9, "height": 9},
]
CATEGORIES = [{"id": 7, "name": "cat", "supercategory": "animal"}, {"id": 8, "name": "traffic light"}]
ANNOTATIONS = [
    {"id": 1, "image_id": 1, "category_id": 7, "bbox": [10, 20, 30, 40], "iscrowd": 0, "segmentation": [[1, 2.5]]},
    {"id": 2, "image_id": 1, "category_id": 8, "bbox": [0.5, 0, 99.5, 80], "iscrowd": 0},
    {"id": 3, "image_id": 1, "category_id": 7, "bbox": [0, 0, 90, 70], "iscrowd": 1, "segmentation": {"counts": [1]}},
]
CAT, LIGHT = Box("cat", 10, 20, 40, 60, 0), Box("traffic light", 0.5, 0, 100, 80, 0)
CROWD = Box("cat", 0, 0, 90, 70, 0)


def read(records: Any, folder: Path, row: dict[str, Any], **parts: Any) -> Any:
    made = {"info": {"year": 2017}, "licenses": [1], "n": 3, "images": IMAGES, "annotations": ANNOTATIONS}
    (folder / "instances.json").write_text(json.dumps(made | {"categories": CATEGORIES} | parts), "utf-8")
    (folder / "q.jsonl").write_text(
        json.dumps({"id": "q", "image_id": 1, "question": "How many?", "answer": "1"} | row)
    )
    [found] = records(folder / "q.jsonl", shape="coco", coco_instances="instances.json", media_folder="val")
    return found


@pytest.mark.parametrize(
    ("row", "boxes"),
    [
        ({}, (CAT, LIGHT)),
        ({"categories": ["cat"]}, (CAT,)),
        ({"categories": "traffic light"}, (LIGHT,)),
        ({"categories": [8]}, (LIGHT,)),
        ({"annotation_ids": [3, "1"]}, (CROWD, CAT)),
        ({"categories": []}, None),
        ({"image_id": "2"}, None),
    ],
)
def test_the_boxes_of_a_question(row: dict[str, Any], boxes: Any, records: Any, tmp_path: Path) -> None:
    found = read(records, tmp_path, row)
    assert found.boxes == boxes
    assert found.media == ("input:val/b.png" if "image_id" in row else "input:val/a.png",)


def one(**fields: Any) -> list[dict[str, Any]]:
    return [ANNOTATIONS[0] | fields]


@pytest.mark.parametrize(
    ("row", "parts", "said"),
    [
        ({"image_id": 9}, {}, "image_id: the COCO file has no image 9"),
        ({"image_id": None}, {}, "image_id: the COCO file has no image None"),
        ({"categories": ["dog"]}, {}, "categories: the row names ['dog'], but 1 is not in the COCO file"),
        ({"categories": [98, 99]}, {}, "categories: the row names [98, 99], but 2 are not in the COCO file"),
        ({"annotation_ids": [9]}, {}, "annotation_ids: the COCO file has no annotation 9 of image 1"),
        (
            {},
            {"annotations": one(bbox=[60, 20, 90, 60])},
            "extends beyond the 100x80 image: a COCO box is x, y, width, height",
        ),
        ({}, {"annotations": one(bbox=[10, 20, 0, 5])}, "has no area"),
        ({}, {"annotations": one(category_id=9)}, "annotation 1 has the category 9, which is not in the COCO file"),
    ],
)
def test_records_that_are_refused(row: dict[str, Any], parts: Any, said: str, records: Any, tmp_path: Path) -> None:
    assert said in read(records, tmp_path, row, **parts)


@pytest.mark.parametrize(
    ("parts", "said"),
    [
        ({"images": []}, "has no images: set input.coco_instances"),
        ({"categories": []}, "has no categories"),
        ({"images": [], "annotations": [], "categories": []}, "has no images and no categories"),
        ({"annotations": one(bbox=[1, 2, 3])}, "is not a COCO file of boxes (ValueError"),
        ({"annotations": one(bbox=[1, 2, 3, float("nan")])}, "the bbox of annotation 1 has a value that is not finite"),
        ({"annotations": [{"id": 1}]}, "is not a COCO file of boxes (KeyError: 'bbox')"),
        ({"annotations": ["x"]}, "cannot be read as a COCO file (line 1, entry 3: expected an object"),
        ({"images": [IMAGES[0] | {"file_name": 3}]}, "the file_name of an image is 3"),
    ],
)
def test_files_that_are_refused(parts: Any, said: str, records: Any, tmp_path: Path) -> None:
    with pytest.raises(UserError) as refused:
        read(records, tmp_path, {}, **parts)
    assert said in str(refused.value)
    assert "\n" not in str(refused.value)


def test_another_file_is_another_input(records: Any, tmp_path: Path) -> None:
    from groundtrace.pipelines.running.plan.inputs import find_input
    from groundtrace.stages.sources.base import InputError, RowSettings

    read(records, tmp_path, {})
    rows = RowSettings(shape="coco", coco_instances="instances.json")
    before = find_input(str(tmp_path / "q.jsonl"), rows).fingerprint
    assert find_input(str(tmp_path / "q.jsonl"), rows).fingerprint == before
    (tmp_path / "instances.json").write_text("{}", "utf-8")
    assert find_input(str(tmp_path / "q.jsonl"), rows).fingerprint != before
    with pytest.raises(InputError, match=r"cannot read .*none.json \(No such file"):
        find_input(str(tmp_path / "q.jsonl"), RowSettings(shape="coco", coco_instances="none.json"))
    os.mkfifo(tmp_path / "pipe.json")
    with pytest.raises(UserError, match=r"pipe.json is not a regular file, but a pipe: move it away"):
        find_input(str(tmp_path / "q.jsonl"), RowSettings(shape="coco", coco_instances="pipe.json"))
    with pytest.raises(InputError, match=r"is a COCO file of boxes without questions: set input.coco_instances to it"):
        (tmp_path / "coco.json").write_text(json.dumps({"images": IMAGES}), "utf-8")
        find_input(str(tmp_path / "coco.json"))
