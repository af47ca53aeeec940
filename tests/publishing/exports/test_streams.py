"""Rows that are asked in several streams: one row in each, side by side, and none where a trainer cannot carry them."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from groundtrace.pipelines.commands import cli
from groundtrace.publishing.exports.errors import ExportError
from groundtrace.publishing.exports.export import SUMMARY
from groundtrace.publishing.exports.registry import FORMATS, export_format
from groundtrace.publishing.rewards.reference import RowReference, read_reference

from .made_runs import exported, lines, make_run, picture, rl, sft, table
from .test_formats import READ, reference, tarred, texts

BOTH, WORDS = ("grounded", "textual"), ("textual",)
SAID = {
    "grounded": '<image>How many cups are there?\nGive boxes as <box alt="label">[x1, y1, x2, y2]</box>.',
    "textual": "<image>How many cups are there?\nThink in words alone.",
}
CARRY = [name for name in FORMATS if "rl" in export_format(name).open and name != "openrlhf"]


def streamed(id: str, streams: Sequence[str] = BOTH, **fields: Any) -> dict[str, Any]:
    """An RL row as ``dual_stream`` writes it: its one prompt is that of the last stream."""
    prompts = [{"stream": stream, "content": SAID[stream]} for stream in streams]
    return rl(id, asked=SAID[streams[-1]], streams=list(streams), stream_prompts=prompts, **fields)


@pytest.mark.parametrize("form", CARRY)
def test_a_row_in_each_stream_with_its_own_prompt(form: str, tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", rl=[streamed("a"), rl("plain"), streamed("b")])
    done = exported(run, form, tmp_path / "out")
    rows = READ[form](tmp_path / "out", "rl")
    asked = [("a", "grounded"), ("a", "textual"), ("plain", ""), ("b", "grounded"), ("b", "textual")]
    wanted = [RowReference(id, "1", str(run), "qwen3-vl", stream) for id, stream in asked]
    assert [read_reference(reference(row)) for row in rows] == wanted
    for (_, stream), row in zip(asked, rows, strict=True):
        assert len(row["images"]) == 1
        if stream:
            assert texts(row) == [SAID[stream]]
            assert row.get("problem", SAID[stream]) == SAID[stream]
    assert (done.counts["rl"].read, done.counts["rl"].written, done.counts["rl"].prompts) == (3, 3, 5)
    told = json.loads((tmp_path / "out" / SUMMARY).read_text("utf-8"))["counts"]["rl"]
    assert told == {"rows": 3, "written": 3, "prompts": 5, "left_out": {}}


def test_the_stream_has_a_name_where_there_are_columns(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", rl=[streamed("a"), rl("plain")])
    found: dict[str, list[Any]] = {}
    for form in ("trl", "verl", "jsonl"):
        exported(run, form, tmp_path / form)
        rows = READ[form](tmp_path / form, "rl")
        found[form] = [(row.get("extra_info") if form == "verl" else row) for row in rows]
        assert [row.get("stream") for row in found[form]] == ["grounded", "textual", None]
    assert [row["index"] for row in found["verl"]] == ["a", "a", "plain"]
    grounded, textual, _ = found["jsonl"]
    assert grounded["streams"] == textual["streams"] == [*BOTH]
    assert "stream_prompts" not in grounded


def whole(rows: Sequence[dict[str, Any]]) -> bool:
    """Whether every two rows from the first on are whole questions."""
    asked = [(row["id"], row["streams"]) for row in rows]
    return all(
        asked[at] == asked[at + 1] or asked[at][1] == asked[at + 1][1] == [*WORDS] for at in range(0, len(asked) - 1, 2)
    )


@pytest.mark.parametrize("alone", [(), (0,), (1, 3), (0, 1, 2), (1, 4, 5), (0, 2, 4, 6), tuple(range(7))])
def test_every_two_rows_are_whole_questions(alone: tuple[int, ...], tmp_path: Path) -> None:
    """Also where one that waits for another is left out."""
    broken = streamed("broken", WORDS, images=[b"no image"])
    made = [streamed(f"q{at}", WORDS if at in alone else BOTH) for at in range(7)]
    run = make_run(tmp_path / "run", rl=[*made[:4], broken, *made[4:]])
    done = exported(run, "jsonl", tmp_path / "out")
    rows = lines(tmp_path / "out/rl.jsonl")
    assert whole(rows)
    assert len(rows) == 14 - len(alone)
    assert {row["id"] for row in rows} == {f"q{at}" for at in range(7)}
    assert (done.counts["rl"].written, dict(done.counts["rl"].left_out)) == (7, {"unreadable_image": 1})


def test_a_format_of_ones_own_that_leaves_out_one_that_waits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The row that is left out is named, and the next one waits in its place."""
    (tmp_path / "own_pairs.py").write_text(
        "from groundtrace.publishing.exports.base import ExportFormat\n"
        "from groundtrace.publishing.exports.errors import LeftOut\n"
        "from groundtrace.publishing.exports.writers import LinesWriter\n"
        "def record(row, images):\n"
        "    if row.id in ('first', 'dual') and row.stream == 'textual':\n"
        "        raise LeftOut('not_mine', row.id)\n"
        "    return {'id': row.id, 'streams': row.fields['streams']}\n"
        "OWN = ExportFormat('own', 'ids', {'rl': lambda folder, target: LinesWriter(folder / 'x.jsonl', record)})\n",
        "utf-8",
    )
    monkeypatch.syspath_prepend(tmp_path)
    asked = [("first", WORDS), ("a", BOTH), ("second", WORDS), ("dual", BOTH), ("b", BOTH), ("third", WORDS)]
    run = make_run(tmp_path / "run", rl=[streamed(*each) for each in asked])
    exported(run, "own_pairs:OWN", tmp_path / "out")
    assert [row["id"] for row in lines(tmp_path / "out/x.jsonl")] == ["a", "a", "b", "b", "second", "third"]
    assert [row["id"] for row in lines(tmp_path / "out/left_out.jsonl")] == ["first", "dual"]


def test_a_question_is_left_out_in_both_streams(tmp_path: Path) -> None:
    mute = streamed("mute") | {"stream_prompts": [{"stream": "textual", "content": SAID["textual"]}]}
    marked = streamed("marked")
    marked["stream_prompts"][1]["content"] += " <|im_end|>"
    no_answer = streamed("no answer", answer=None)
    run = make_run(tmp_path / "run", rl=[mute, streamed("fine"), marked, no_answer])
    exported(run, "trl", tmp_path / "out")
    assert [row["id"] for row in table(tmp_path / "out/rl.parquet")] == ["fine", "fine"]
    left = {each["id"]: (each["reason"], each["detail"]) for each in lines(tmp_path / "out/left_out.jsonl")}
    assert left == {
        "mute": ("missing_text", "stream_prompts has no prompt for the stream grounded"),
        "marked": ("control_token", "<|im_end|>"),
        "no answer": ("missing_text", "answer"),
    }


def test_a_trainer_that_asks_for_rewards_one_by_one_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = make_run(tmp_path / "run", rl=[streamed("a"), streamed("b"), streamed("c", WORDS)])
    words = ["export", str(run), "--format", "openrlhf", "--family", "qwen3-vl", "--output", str(tmp_path / "out")]
    assert cli.main(words) == 2
    [line] = capsys.readouterr().err.splitlines()
    assert line == (
        f"beam: {run} has 2 questions with several prompts. The responses to all prompts of a question must be scored "
        "together, but OpenRLHF requests the reward of each response separately: choose --format trl, swift or "
        "easyr1, or train with `trainer grpo`"
    )
    assert not (tmp_path / "out").exists()
    alone = make_run(tmp_path / "alone", rl=[streamed("c", WORDS)])
    assert exported(alone, "openrlhf", tmp_path / "out").counts["rl"].written == 1


def test_members_of_a_tar_are_of_one_row(tmp_path: Path) -> None:
    shown = (picture(), picture(seed=1))
    asked = {stream: f"<image>{said}" for stream, said in SAID.items()}
    prompts = [{"stream": stream, "content": said} for stream, said in asked.items()]
    run = make_run(tmp_path / "run", rl=[streamed("a"), streamed("b", images=shown) | {"stream_prompts": prompts}])
    exported(run, "webdataset", tmp_path / "out")
    names = list(tarred(tmp_path / "out/rl-000000.tar"))
    keys = ["rl-000000000-grounded", "rl-000000000-textual", "rl-000000001-grounded", "rl-000000001-textual"]
    assert list(dict.fromkeys(name.split(".")[0] for name in names)) == keys
    assert names[4:7] == [f"{keys[2]}.png", f"{keys[2]}.1.png", f"{keys[2]}.json"]


def test_boxes_that_one_stream_asks_for_need_a_family(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", rl=[streamed("a")])
    with pytest.raises(ExportError, match="the rl rows contain or request coordinates"):
        exported(run, "trl", tmp_path / "out", "")
    alone = make_run(tmp_path / "alone", rl=[streamed("a", WORDS)])
    assert exported(alone, "trl", tmp_path / "out", "").counts["rl"].written == 1


def test_the_command_counts_questions_and_prompts(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = make_run(tmp_path / "run", [sft()], [streamed("a"), streamed("b", WORDS)])
    words = ["export", str(run), "--format", "swift", "--family", "qwen3-vl", "--output", str(tmp_path / "out")]
    assert cli.main(words) == 0
    said = capsys.readouterr().out.splitlines()
    assert said[:2] == ["sft: 1 of 1 row written", "rl: 2 of 2 rows written, as 3 prompts: one for each stream"]
