"""docs/inputs.md: each template is what ``beam init`` writes for such data, and ``beam validate`` takes it unedited."""

import base64
import json
import shlex
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from groundtrace.pipelines.commands.cli import main
from groundtrace.pipelines.commands.init import starting_config
from groundtrace.stages.sources.shapes.registry import SHAPES
from tests.pipelines.far_server import filled, right, serving

from .pages import blocks

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/inputs.md").read_text("utf-8")
IMAGES = sorted((ROOT / "data/sample/images").iterdir())[:2]


def llava(folder: Path) -> str:
    asked = "<image>\nWhich shape is the largest?\nA. circle\nB. square\nAnswer with the option's letter."
    turns = [("human", asked), ("gpt", "B"), ("human", "How many circles are there?"), ("gpt", "2")]
    said = [{"from": speaker, "value": text} for speaker, text in turns]
    (folder / "train2017").mkdir()
    (folder / "train2017/1.png").write_bytes(IMAGES[0].read_bytes())
    row = {"id": "a", "image": "1.png", "conversations": said}
    (folder / "llava.json").write_text(json.dumps([row], indent=1), "utf-8")
    return "llava.json"


def sharegpt(folder: Path) -> str:
    (folder / "chats").mkdir()
    for image in IMAGES:
        (folder / "chats" / image.name).write_bytes(image.read_bytes())
    asked = {"role": "user", "content": "<image><image>Are there more circles in the first?"}
    row = {"messages": [asked, {"role": "assistant", "content": "yes"}], "images": [image.name for image in IMAGES]}
    (folder / "chats/sharegpt.jsonl").write_text(json.dumps(row) + "\n", "utf-8")
    return "chats/sharegpt.jsonl"


def verl(folder: Path) -> str:
    row = {
        "data_source": "shapes",
        "prompt": [{"role": "user", "content": "<image>How many circles? Put it in \\boxed{}."}],
        "images": [{"bytes": IMAGES[0].read_bytes(), "path": None}],
        "reward_model": {"style": "rule", "ground_truth": "2"},
        "extra_info": {"question": "<image>How many circles?", "split": "train", "index": 0},
    }
    pq.write_table(pa.Table.from_pylist([row]), folder / "train.parquet")
    return "train.parquet"


def vlmevalkit(folder: Path) -> str:
    image = base64.b64encode(IMAGES[0].read_bytes()).decode()
    rows = [
        "index\timage\tquestion\tA\tB\tanswer",
        f"1\t{image}\tWhich?\tcircle\tsquare\tB",
        "2\t1\tWhat?\tred\tblue\tA",
    ]
    (folder / "MMBench_DEV_EN.tsv").write_text("\n".join(rows) + "\n", "utf-8")
    return "MMBench_DEV_EN.tsv"


def coco(folder: Path) -> str:
    for name in ("val2017", "annotations"):
        (folder / name).mkdir()
    (folder / "val2017/1.png").write_bytes(IMAGES[0].read_bytes())
    made = {"images": [{"id": 1, "file_name": "1.png", "width": 400, "height": 100}]}
    made["categories"] = [{"id": 7, "name": "circle"}]
    made["annotations"] = [{"id": 5, "image_id": 1, "category_id": 7, "bbox": [9, 8, 20, 20], "iscrowd": 0}]
    (folder / "annotations/instances_val2017.json").write_text(json.dumps(made), "utf-8")
    (folder / "questions.csv").write_text(
        "image_id,question,answer,categories\n1,How many circles?,1,circle\n", "utf-8"
    )
    return "questions.csv"


@pytest.mark.parametrize("make", [llava, sharegpt, verl, vlmevalkit, coco], ids=lambda make: make.__name__)
def test_the_template_is_what_init_writes(
    make: object, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert callable(make)
    name = str(make(tmp_path))
    text = starting_config(name, "my.toml")
    template = text[text.index("# It looks like") :].strip()
    assert f"```toml\n{template}\n```" in PAGE
    assert main(["init", name, "--output", "my.toml"]) == 0
    monkeypatch.setenv("FAR_KEY", "secret")
    with serving(right) as server:
        Path("my.toml").write_text(filled(text, server.url), "utf-8")
        assert main(["validate", "grounded_cot", "--input", name, "--config", "my.toml"]) == 0
    said = capsys.readouterr().out
    [line] = [line for line in said.splitlines() if line.startswith("read ")]
    assert line.split()[1] == line.split(": ")[1].split()[0], "not all records can be used"


def test_without_the_config_its_command_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / llava(tmp_path)
    assert main(["run", "grounded_cot", "--input", str(path), "--output", str(tmp_path / "run")]) == 2
    [line] = capsys.readouterr().err.splitlines()
    assert "it looks like conversations (LLaVA, ShareGPT)" in line
    assert f"`beam init {path} --output my.toml`, and name the columns" in line
    assert main(["validate", "grounded_cot", "--input", str(path)]) == 2
    said = capsys.readouterr().out
    assert f"looks like conversations (LLaVA, ShareGPT): `beam init {path} --output my.toml` writes the config" in said


def test_the_files_of_vqa_v2(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The page's program, on files of that form, gives records that need no config."""
    monkeypatch.chdir(tmp_path)
    Path("val2014").mkdir()
    asked = [(262148000, 262148, "How many circles are there?"), (393225001, 393225, "Is a square blue?")]
    for (_, image, _), source in zip(asked, IMAGES, strict=True):
        Path(f"val2014/COCO_val2014_{image:012}.jpg").write_bytes(source.read_bytes())
    about = {"info": {"version": "2.0"}, "data_type": "mscoco", "data_subtype": "val2014", "license": {"name": "CC BY"}}
    questions = [{"question_id": number, "image_id": image, "question": text} for number, image, text in asked]
    texts = {262148000: ["2"] * 9 + ["3"], 393225001: ["yes"] * 4 + ["no"] * 3 + ["maybe"] * 3}
    annotations = [
        {
            "question_type": "how many",
            "multiple_choice_answer": answers[0],
            "answers": [{"answer": each, "answer_confidence": "yes", "answer_id": n} for n, each in enumerate(answers)],
            "image_id": number // 1000,
            "answer_type": "other",
            "question_id": number,
        }
        for number, answers in reversed(texts.items())
    ]
    names = ("v2_OpenEnded_mscoco_val2014_questions.json", "v2_mscoco_val2014_annotations.json")
    for name, rows in zip(names, ({"questions": questions}, {"annotations": annotations}), strict=True):
        Path(name).write_text(json.dumps(about | {"task_type": "Open-Ended"} | rows), "utf-8")
    [program] = [text for text in blocks(ROOT / "docs/inputs.md", "python") if "OpenEnded_mscoco" in text]
    exec(program, {})
    rows = [json.loads(line) for line in Path("vqa-val2014.jsonl").read_text("utf-8").splitlines()]
    assert [(row["id"], row["answer"], row["agreement"]) for row in rows] == [
        (262148000, "2", 9),
        (393225001, "yes", 4),
    ]
    [validate] = [line for line in blocks(ROOT / "docs/inputs.md", "bash") if "vqa-val2014" in line]
    assert main(shlex.split(validate)[1:]) == 0
    assert "read 2 of 2 records: 2 can be used" in capsys.readouterr().out


def test_every_shape_is_on_the_page() -> None:
    for name in SHAPES:
        assert f"`{name}`" in PAGE
