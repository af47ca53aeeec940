"""Questions about the images of a COCO file: which boxes they get, and what is wrong with files and rows."""

import json
import os
import tomllib
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from groundtrace.pipelines.commands.cli import main
from groundtrace.pipelines.running.plan.inputs import find_input
from groundtrace.schemas.errors import UserError
from groundtrace.schemas.geometry import Box
from groundtrace.stages.sources.base import InputError, RowSettings
from groundtrace.stages.sources.registry import read_source
from groundtrace.vision.media import MediaStore

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
        ({"categories": ["dog"]}, {}, "categories: of the categories ['dog'] in the row, 1 is not in the COCO file"),
        ({"categories": [98, 99]}, {}, "categories: of the categories [98, 99] in the row, 2 are not in the COCO file"),
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
        ({"annotations": ["x"]}, "cannot be read as a COCO file (line 1, entry 3: expected a JSON object"),
        ({"images": [IMAGES[0] | {"file_name": 3}]}, "the file_name of an image is 3"),
    ],
)
def test_files_that_are_refused(parts: Any, said: str, records: Any, tmp_path: Path) -> None:
    with pytest.raises(UserError) as refused:
        read(records, tmp_path, {}, **parts)
    assert said in str(refused.value)
    assert "\n" not in str(refused.value)


LINKED = [
    ("ann/instances_x.json", "outside", "ann/instances_x.json", True),
    ("ann", "outside folder", "ann/instances.json", True),
    ("ann/instances_x.json", "outside", "./ann/../ann/instances_x.json", True),
    ("..instances.json", "outside", "..instances.json", True),
    ("instances_x.json", "instances_x.json", "instances_x.json", True),
    ("ann/instances_x.json", "inside", "ann/instances_x.json", False),
    ("ann/instances_x.json", "outside", "../private/instances.json", False),
    ("ann/instances_x.json", "outside", "{private}/instances.json", False),
    ("ann/instances_x.json", "outside", "{data}/ann/instances_x.json", False),
]


@pytest.mark.parametrize(("link", "target", "named", "is_refused"), LINKED)
@pytest.mark.parametrize("kind", ["jsonl", "deep parquet"])
def test_a_coco_file_is_in_the_folder_or_named_by_the_user(
    kind: str, link: str, target: str, named: str, is_refused: bool, records: Any, tmp_path: Path
) -> None:
    (private := tmp_path / "private").mkdir()
    (data := tmp_path / "data").mkdir()
    read(records, private, {})
    (data / "held.json").write_bytes((private / "instances.json").read_bytes())
    row = {"id": "q", "image_id": 1, "question": "How many?", "answer": "1", "source": "s", "license": "l"}
    (data / "deep/ann").mkdir(parents=True)
    if kind == "jsonl":
        (data / "records.jsonl").write_text(json.dumps(row))
    else:
        pq.write_table(pa.Table.from_pylist([row]), data / "deep/q.parquet")
        (data / "deep/ann/instances_x.json").symlink_to("/dev/zero")
    (data / link).parent.mkdir(exist_ok=True)
    targets = {"outside": private / "instances.json", "outside folder": private, "inside": data / "held.json"}
    (data / link).symlink_to(targets.get(target, target))
    rows = RowSettings(shape="coco", coco_instances=named.format(private=private, data=data))
    if is_refused:
        with pytest.raises(InputError, match=r"or set input.coco_instances to the file itself|cannot read .*x.json"):
            find_input(str(data), rows)
    else:
        found = find_input(str(data), rows)
        store = MediaStore(str(data), str(tmp_path))
        [record] = [json.loads(raw.text) for each in found.sources for raw in read_source(each, rows, store)]
        assert len(record["boxes"]) == 2


@pytest.mark.parametrize(
    ("target", "is_seen"),
    [("{private}/instances.json", False), ("/dev/zero", False), ("{data}/held.json", True), ("pipe", False)],
)
def test_a_new_config_names_no_coco_file_outside_the_folder(
    target: str, is_seen: bool, records: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (private := tmp_path / "private").mkdir()
    (data := tmp_path / "data").mkdir()
    read(records, private, {})
    (data / "held.json").write_bytes((private / "instances.json").read_bytes())
    (data / "q.csv").write_text("id,image_id,question,answer\nq,1,How many?,1\n")
    (data / "ann").mkdir()
    link = data / "ann/instances_x.json"
    os.mkfifo(link) if target == "pipe" else link.symlink_to(target.format(private=private, data=data))
    assert main(["init", str(data), "--output", str(tmp_path / "my.toml")]) == 0
    written = tomllib.loads((tmp_path / "my.toml").read_text())["input"]
    assert written["shape"] == "coco"
    assert written.get("coco_instances", "") == ("ann/instances_x.json" if is_seen else "")
    words = ["validate", "grounded_cot", "--input", str(data), "--config", str(tmp_path / "my.toml")]
    set_it = ["--set", "input.coco_instances=ann/instances_x.json"]
    if "private" in target:
        capsys.readouterr()
        assert main([*words, *set_it]) == 2
        said = f"beam: {link} is a link to a file outside its folder: copy this file into the folder, or set input.coco"
        assert capsys.readouterr().err.startswith(said)


def test_another_file_is_another_input(records: Any, tmp_path: Path) -> None:
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
