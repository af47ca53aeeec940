"""What each format writes, at its edges: ids, several images, clips, null columns, literal marks."""

import io
import json
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from groundtrace.publishing.exports import writers
from groundtrace.publishing.exports.registry import FORMATS, export_format
from groundtrace.publishing.rewards.reference import RowReference, read_reference
from tests.publishing.exports.made_runs import CLIP, FRAMES, exported, lines, make_run, picture, rl, sft, table, trace

ODD_IDS = ("a/../../b", "ü ∑ 漢", "line\nbreak", "dot.ted.json", "", " ", "x" * 5000, '"quoted"', "..", "nul\0l")
TWO = (picture(), picture(1000, 1000, seed=1))


def tarred(file: Path) -> dict[str, bytes]:
    """The members of a tar by name."""
    with tarfile.open(file) as tar:
        return {each.name: (tar.extractfile(each) or io.BytesIO()).read() for each in tar.getmembers()}


def from_tar(folder: Path, side: str) -> list[dict[str, Any]]:
    files = [tarred(file) for file in sorted(folder.glob(f"{side}-*.tar"))]
    return [json.loads(data) for members in files for name, data in members.items() if name.endswith(".json")]


# of each format, how its rows of a side are read again
READ: dict[str, Callable[[Path, str], list[dict[str, Any]]]] = {
    "dpo": lambda folder, side: table(folder / "dpo.parquet"),
    "easyr1": lambda folder, side: table(folder / f"{side}.parquet"),
    "jsonl": lambda folder, side: lines(folder / f"{side}.jsonl"),
    "llamafactory": lambda folder, side: lines(folder / f"{side}.jsonl"),
    "openrlhf": lambda folder, side: lines(folder / f"{side}.jsonl"),
    "swift": lambda folder, side: table(folder / f"{side}.parquet"),
    "trl": lambda folder, side: table(folder / f"{side}.parquet"),
    "verl": lambda folder, side: table(folder / f"{side}.parquet"),
    "webdataset": from_tar,
}
TRAINERS = [name for name in READ if name != "dpo"]


def texts(row: dict[str, Any]) -> list[str]:
    """All texts of a row's turns, in order; images among parts as their mark."""
    turns = [turn for name in ("prompt", "messages", "input", "completion") for turn in row.get(name) or ()]
    turns = turns or [{"content": row["problem"]}]
    found = []
    for turn in turns:
        content = turn["content"]
        found.append(content if isinstance(content, str) else "".join(p["text"] or "<image>" for p in content))
    return found


def reference(row: dict[str, Any]) -> str:
    """Where each format hands a reward the row's reference."""
    of_verl = row.get("reward_model") or {}
    found = [row.get("groundtrace"), row.get("label"), of_verl.get("ground_truth"), row.get("answer")]
    return next(each for each in found if each)


def test_every_format_says_what_it_does() -> None:
    assert all(export_format(name).name == name and export_format(name).does for name in FORMATS)


@pytest.mark.parametrize("form", TRAINERS)
def test_rows_keep_their_order_texts_and_references(form: str, tmp_path: Path) -> None:
    rows = [sft(id) for id in ODD_IDS], [rl(id) for id in ODD_IDS]
    run = make_run(tmp_path / "run", *rows)
    exported(run, form, tmp_path / "out")
    for side in export_format(form).open:
        found = READ[form](tmp_path / "out", side)
        assert len(found) == len(ODD_IDS)
        for id, row in zip(ODD_IDS, found, strict=True):
            assert row["extra_info"]["index"] == id if "extra_info" in row else row["id"] == id
            assert texts(row)[0].startswith("<image>How many cups")
            if side == "rl":
                assert read_reference(reference(row)) == RowReference(id, "1", str(run), "qwen3-vl")
            else:
                assert texts(row)[1] == trace((500, 500))
    inside = [path.relative_to(tmp_path).parts[0] for path in tmp_path.rglob("*")]
    assert set(inside) == {"run", "out"}


@pytest.mark.parametrize("form", TRAINERS)
def test_frames_of_a_clip_stay_behind_their_times(form: str, tmp_path: Path) -> None:
    shown = (picture(seed=1), picture(seed=2))
    run = make_run(
        tmp_path / "run",
        [sft(images=shown, asked=CLIP, frames=FRAMES, text=f"{trace((100, 50))} in frame 2 (0.50 s)")],
        [rl(images=shown, asked=CLIP, frames=FRAMES)],
    )
    exported(run, form, tmp_path / "out")
    for side in export_format(form).open:
        [row] = READ[form](tmp_path / "out", side)
        assert texts(row)[0] == CLIP
        assert len(row["images"]) == 2
        assert texts(row)[1:] == ([f"{trace((500, 500))} in frame 2 (0.50 s)"] if side == "sft" else [])


@pytest.mark.parametrize("form", TRAINERS)
def test_several_images_have_their_own_sizes(form: str, tmp_path: Path) -> None:
    text = f"{trace((100, 50))} In picture 2 {trace((100, 50))}"
    run = make_run(tmp_path / "run", [sft(images=TWO, text=text)], [rl(images=TWO)])
    exported(run, form, tmp_path / "out")
    for side in export_format(form).open:
        [row] = READ[form](tmp_path / "out", side)
        assert len(row["images"]) == 2
        assert side == "rl" or texts(row)[1] == f"{trace((500, 500))} In picture 2 {trace((100, 50))}"


@pytest.mark.parametrize("form", TRAINERS)
def test_columns_that_are_null(form: str, tmp_path: Path) -> None:
    nothing = {"source": None, "license": None, "recipe": None, "choices": None, "answer_type": None, "scores": None}
    run = make_run(tmp_path / "run", [sft() | nothing], [rl() | nothing | {"data_source": None}])
    done = exported(run, form, tmp_path / "out")
    assert all(count.written == 1 for count in done.counts.values())


def test_trl_has_no_mark_in_a_text(tmp_path: Path) -> None:
    exported(make_run(tmp_path / "run", [sft(images=TWO)], [rl()]), "trl", tmp_path / "out")
    [row] = table(tmp_path / "out/sft.parquet")
    assert [part["type"] for part in row["prompt"][0]["content"]] == ["image", "image", "text"]
    assert [turn["role"] for turn in row["completion"]] == ["assistant"]
    for file in ("sft.parquet", "rl.parquet"):
        assert "<image>" not in json.dumps(table(tmp_path / "out" / file), default=str)


def test_verl_tells_a_verifier_all_it_needs(tmp_path: Path) -> None:
    box = {"label": "cup", "x1": 1.0, "y1": 2.0, "x2": 3.0, "y2": 4.0, "media_index": 0}
    told = {
        "choices": ["1", "2"],
        "gold_boxes": [box],
        "entities": ["cup"],
        "pointable": ["cup"],
        "complexity": "simple",
    }
    run = make_run(tmp_path / "run", rl=[rl(images=TWO, **told)])
    exported(run, "verl", tmp_path / "out")
    [row] = table(tmp_path / "out/rl.parquet")
    extra = row["extra_info"]
    assert {name: extra[name] for name in told} == told
    assert extra["groundtrace"] == row["reward_model"]["ground_truth"]
    assert (extra["question"], extra["answer"], extra["answer_type"]) == ("How many cups are there?", "1", "numeric")
    assert extra["image_sizes_px"] == [{"width": 200, "height": 100}, {"width": 1000, "height": 1000}]
    assert (extra["index"], extra["split"], extra["family"], extra["run"]) == ("q", "train", "qwen3-vl", str(run))
    assert (row["data_source"], row["ability"], row["reward_model"]["style"]) == ("made", "numeric", "rule")


def test_easyr1_finds_what_its_data_set_asks_for(tmp_path: Path) -> None:
    """``verl/utils/dataset.py`` of EasyR1, which is in no registry, as its commit b44b311 has it: what it does to a row
    with the keys of examples/easyr1/config.yaml."""
    run = make_run(tmp_path / "run", rl=[rl(images=TWO), rl("clip", images=TWO, asked=CLIP, frames=FRAMES)])
    exported(run, "easyr1", tmp_path / "out")
    for row in table(tmp_path / "out/rl.parquet"):
        assert isinstance(row["problem"], str)
        assert len(row["problem"].split("<image>")) - 1 == len(row["images"]) == 2
        for image in row["images"]:
            with Image.open(io.BytesIO(image["bytes"])) as opened:
                opened.load()
        assert read_reference(row["answer"]).id == row["id"]
        assert "ground_truth" not in row


def test_llamafactory_describes_its_file(tmp_path: Path) -> None:
    exported(make_run(tmp_path / "run", [sft("a"), sft("b")]), "llamafactory", tmp_path / "out")
    info = json.loads((tmp_path / "out/dataset_info.json").read_text("utf-8"))["groundtrace"]
    rows = lines(tmp_path / "out" / info["file_name"])
    assert all(set(info["columns"].values()) <= row.keys() for row in rows)
    roles = [turn[info["tags"]["role_tag"]] for turn in rows[0]["messages"]]
    assert roles == [info["tags"]["user_tag"], info["tags"]["assistant_tag"]]
    assert all((tmp_path / "out" / image).read_bytes() == picture() for row in rows for image in row["images"])
    assert len(list((tmp_path / "out/images").rglob("*.png"))) == 1


def test_openrlhf_names_images_where_they_stand(tmp_path: Path) -> None:
    exported(make_run(tmp_path / "run", rl=[rl()]), "openrlhf", tmp_path / "out")
    [row] = lines(tmp_path / "out/rl.jsonl")
    assert Path(row["images"][0]).read_bytes() == picture()
    assert Path(row["images"][0]).is_relative_to(tmp_path / "out")


def test_jsonl_has_every_column_that_is_not_null(tmp_path: Path) -> None:
    exported(make_run(tmp_path / "run", [sft(choices=["1"])], [rl()]), "jsonl", tmp_path / "out")
    [row] = lines(tmp_path / "out/sft.jsonl")
    assert row["choices"] == ["1"]
    assert {"id", "question", "answer", "messages", "images", "scores"} <= row.keys()
    assert not {"overlays", "license"} & row.keys()
    assert (tmp_path / "out" / row["images"][0]).read_bytes() == picture()


def test_tar_files_are_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writers, "TAR_BYTES", 3 * len(picture()))
    rows = [sft(id, images=(picture(), picture(kind="JPEG"))) for id in ODD_IDS]
    exported(make_run(tmp_path / "run", rows), "webdataset", tmp_path / "out")
    files = sorted((tmp_path / "out").glob("sft-*.tar"))
    assert len(files) > 3
    assert [file.name for file in files] == [f"sft-{number:06d}.tar" for number in range(len(files))]
    members = [tarred(file) for file in files]
    assert all(list(each)[-1].endswith(".json") for each in members)
    assert sum(map(len, members)) == 3 * len(ODD_IDS)
    assert sorted(members[0])[:3] == ["sft-000000000.1.jpg", "sft-000000000.json", "sft-000000000.png"]


def test_row_groups_are_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import pyarrow.parquet as pq

    monkeypatch.setattr(writers, "BLOCK_BYTES", 2 * len(picture()))
    exported(make_run(tmp_path / "run", [sft(f"q{n}") for n in range(9)]), "trl", tmp_path / "out")
    footer = pq.read_metadata(tmp_path / "out/sft.parquet")
    assert (footer.num_rows, footer.num_row_groups) == (9, 5)


def test_a_text_of_megabytes(tmp_path: Path) -> None:
    long = trace((100, 50)) + " and so on" * 2_000_000
    exported(make_run(tmp_path / "run", [sft(text=long)]), "trl", tmp_path / "out")
    [row] = table(tmp_path / "out/sft.parquet")
    assert row["completion"][0]["content"][0]["text"] == long.replace('x1="100" y1="50"', 'x1="500" y1="500"')


def test_the_bounds_of_a_training_move_resized_pixels(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", [sft(images=(picture(1000, 1000),), text=trace((500, 500)))])
    found = []
    for number, bound in enumerate((None, 280 * 280)):
        exported(run, "trl", tmp_path / f"out{number}", "qwen2.5-vl", max_pixels=bound)
        found.append(table(tmp_path / f"out{number}/sft.parquet")[0]["completion"][0]["content"][0]["text"])
    assert found == [trace((504, 504)), trace((140, 140))]
