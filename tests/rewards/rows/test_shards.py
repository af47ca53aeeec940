"""Reading shards, and saying what is wrong with those that cannot be read."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from groundtrace.rewards.rows import shards
from groundtrace.rewards.rows.row import UnusableRow
from groundtrace.rewards.rows.shards import COMMON, ShardError, Shards, shards_to_evaluate

from ...trainer.runs import Command

Row = Callable[..., dict[str, Any]]
Write = Callable[..., Path]


def _only(tmp_path: Path, write_shards: Write, row: dict[str, Any], side: str = "sft") -> Any:
    return Shards(write_shards(tmp_path / "run", [row], side), side, tmp_path / "cache")[0]


@pytest.mark.parametrize("inner", ["", "sft"])
def test_rows_come_in_the_order_of_the_shards(tmp_path: Path, row: Row, write_shards: Write, inner: str) -> None:
    run = write_shards(tmp_path, [row(id=f"q{number}") for number in range(5)], per_shard=2)
    shards = Shards(run / inner, "sft", tmp_path / "cache")
    assert [shards[index].id for index in range(len(shards))] == ["q0", "q1", "q2", "q3", "q4"]


def test_a_row(tmp_path: Path, row: Row, write_shards: Write, png: Callable[..., bytes]) -> None:
    found = _only(tmp_path, write_shards, row(choices=["3", "4"]))
    assert (found.id, found.source, found.images) == ("q0", "drawn", ((png(), ""),))
    assert [dict(turn)["role"] for turn in found.messages] == ["user", "assistant"]
    question = found.question
    assert (question.question, question.answer, question.answer_type) == ("How many are red?", "3", "numeric")
    assert question.choices == ("3", "4")


def test_the_digest_of_the_content(
    tmp_path: Path, row: Row, write_shards: Write, png: Callable[..., bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is that of the values, in whatever files and row groups they are."""

    def digest(name: str, rows: list[dict[str, Any]], per_shard: int = 9) -> str:
        return Shards(write_shards(tmp_path / name, rows, "rl", per_shard), "rl", tmp_path / "cache").content_sha256

    rows = [row(id=f"q{number}") for number in range(5)]
    same = digest("same", rows)
    assert digest("other shards", rows, per_shard=2) == same
    changes: list[dict[str, Any]] = [
        {"answer": "4"},
        {"question": "How many are blue?"},
        {"gold_boxes": []},
        {"images": [{"bytes": png(40, 30), "path": ""}]},
        {"images": [{"bytes": png(), "path": ""}] * 2},
    ]
    found = [digest(f"changed {place}", [*rows[:4], rows[4] | change]) for place, change in enumerate(changes)]
    assert len({same, *found}) == 6
    opened = Shards(tmp_path / "same", "rl", tmp_path / "cache")
    assert opened.content_sha256 != opened.subset([0, 1]).content_sha256 == opened.subset([1, 0]).content_sha256
    monkeypatch.setattr(shards, "MAX_BYTES_IN_MEMORY", 0)
    assert digest("same", rows) == same


@pytest.mark.parametrize("side", ["sft", "rl"])
def test_a_large_set_is_memory_mapped_with_the_same_rows(
    tmp_path: Path, row: Row, write_shards: Write, monkeypatch: pytest.MonkeyPatch, side: str
) -> None:
    run = write_shards(tmp_path / "run", [row(id=f"q{number}", choices=["3", "4"]) for number in range(5)], side, 2)
    small = Shards(run, side, tmp_path / "small")
    monkeypatch.setattr(shards, "MAX_BYTES_IN_MEMORY", 0)
    large = Shards(run, side, tmp_path / "large")
    assert (tmp_path / "large").is_dir() and not (tmp_path / "small").exists()
    assert [large[index] for index in range(5)] == [small[index] for index in range(5)]
    assert [*large.rewarded_questions()] == [*small.rewarded_questions()]
    assert (large.sha256, len(large), large.count_prompts(), large.strata) == (
        small.sha256,
        5,
        small.count_prompts(),
        small.strata,
    )
    assert large[-1].id == "q4"
    for index in (5, -6):
        with pytest.raises(IndexError):
            large[index]


@pytest.mark.parametrize("images", [["a"], [[1]], [[{"path": "a"}]]])
def test_images_of_another_form_are_refused(tmp_path: Path, row: Row, write_shards: Write, images: list[Any]) -> None:
    run = write_shards(tmp_path, [row()], "sft")
    (file,) = (run / "sft").glob("*.parquet")
    table = pq.read_table(file)
    place = table.column_names.index("images")
    pq.write_table(table.set_column(place, "images", pa.array(images)).replace_schema_metadata(), file)
    with pytest.raises(ShardError, match=r"the column '?images'? (must be lists of images, not|of .* has the type) "):
        Shards(run, "sft", tmp_path / "cache")


def test_a_row_that_fills_the_memory_is_refused(tmp_path: Path, row: Row, write_shards: Write) -> None:
    run = write_shards(tmp_path, [row(question="a" * 65 * 2**20)], "sft")
    said = "without images, a row has 65 MiB, but the limit is 64 MiB"
    with pytest.raises(ShardError, match=said):
        Shards(run, "sft", tmp_path / "cache")


def test_where_a_right_answer_may_point(tmp_path: Path, row: Row, write_shards: Write) -> None:
    box = {"label": "cat", "x1": 10.0, "y1": 20.0, "x2": 30.0, "y2": 60.0, "media_index": 1}
    named = row(gold_boxes=[box], entities=["cat", "dog"], pointable=["dog"])
    found = _only(tmp_path / "a", write_shards, named)
    assert (found.entities, found.pointable) == (("cat", "dog"), ("dog",))


@pytest.mark.parametrize("dropped", [[], ["entities", "pointable"]])
def test_rows_without_entities_name_their_gold_boxes(
    dropped: list[str], tmp_path: Path, row: Row, write_shards: Write
) -> None:
    boxes = [{"label": "cat", "x1": x, "y1": 2.0, "x2": 30.0, "y2": 60.0, "media_index": 0} for x in (1.0, 9.0)]
    run = write_shards(tmp_path, [row(gold_boxes=boxes)], "sft")
    (file,) = (run / "sft").glob("*.parquet")
    pq.write_table(pq.read_table(file).drop_columns(dropped), file)
    found = Shards(run, "sft", tmp_path / "cache")[0]
    assert (found.entities, found.pointable) == (("cat",), ("cat",))


@pytest.mark.parametrize("side", ["sft", "rl"])
@pytest.mark.parametrize("column", [*COMMON, "turns of the side"])
def test_a_missing_column_is_named(tmp_path: Path, row: Row, write_shards: Write, side: str, column: str) -> None:
    name = {"sft": "messages", "rl": "prompt"}[side] if column == "turns of the side" else column
    run = write_shards(tmp_path, [row()], side)
    (file,) = (run / side).glob("*.parquet")
    pq.write_table(pq.read_table(file).drop_columns([name]), file)
    with pytest.raises(ShardError, match=rf"has no column '{name}', which ({side}|all) shards must have"):
        Shards(run, side, tmp_path / "cache")


def test_damaged_descriptions_of_columns(tmp_path: Path, row: Row, write_shards: Write) -> None:
    run = write_shards(tmp_path, [row()])
    (file,) = (run / "sft").glob("*.parquet")
    pq.write_table(pq.read_table(file).replace_schema_metadata({"groundtrace.added": "5"}), file)
    with pytest.raises(ShardError, match=rf"^{file} is not .* \(the descriptions of the columns are damaged\): repeat"):
        Shards(run, "sft", tmp_path / "cache")


def test_columns_that_training_does_not_need_may_be_missing(tmp_path: Path, row: Row, write_shards: Write) -> None:
    run = write_shards(tmp_path, [row()])
    (file,) = (run / "sft").glob("*.parquet")
    pq.write_table(pq.read_table(file).select([*COMMON, "messages"]), file)
    assert Shards(run, "sft", tmp_path / "cache")[0].id == "q0"


@pytest.mark.parametrize(
    "make", [lambda path: None, lambda path: path.mkdir(), lambda path: (path / "rl").mkdir(parents=True)]
)
def test_a_folder_without_shards(tmp_path: Path, make: Callable[[Path], None]) -> None:
    make(tmp_path / "run")
    with pytest.raises(ShardError, match=r"run has no shards: give the output folder .* has sft/\*\.parquet"):
        Shards(tmp_path / "run", "sft", tmp_path / "cache")


def test_shards_without_rows(tmp_path: Path, write_shards: Write) -> None:
    with pytest.raises(ShardError, match=r"sft (holds no rows|cannot be read)"):
        Shards(write_shards(tmp_path, []), "sft", tmp_path / "cache")


@pytest.mark.parametrize("data", [b"", b"no Parquet at all", b"PAR1 cut short PAR1"])
def test_a_file_that_is_no_shard(tmp_path: Path, data: bytes) -> None:
    (tmp_path / "sft").mkdir()
    (tmp_path / "sft" / "train-0.parquet").write_bytes(data)
    with pytest.raises(ShardError, match="sft cannot be read"):
        Shards(tmp_path, "sft", tmp_path / "cache")


@pytest.mark.parametrize("changes", [{"messages": []}, {"messages": None}])
def test_fields_that_make_no_question(tmp_path: Path, row: Row, write_shards: Write, changes: dict[str, Any]) -> None:
    with pytest.raises(
        UnusableRow, match=r"row 0 of sft cannot be used: the row has no messages, or one of its texts \(id, question"
    ):
        _only(tmp_path, write_shards, row(**changes))


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"streams": ["sideways"]}, "streams must be grounded or textual, got 'sideways'"),
        ({"streams": ["grounded"]}, "stream_prompts has no prompt for the stream grounded"),
        (
            {"streams": ["textual"], "stream_prompts": [{"stream": "textual", "content": None}]},
            "stream_prompts has no prompt for the stream textual",
        ),
    ],
)
def test_streams_that_cannot_be_asked_make_a_bad_row(
    changes: dict[str, Any], said: str, tmp_path: Path, row: Row, write_shards: Write
) -> None:
    shards = Shards(write_shards(tmp_path, [row(**changes)], "rl"), "rl", tmp_path / "rows")
    with pytest.raises(UnusableRow, match=said):
        shards[0]


@pytest.mark.parametrize("side", ["sft", "rl"])
@pytest.mark.parametrize(
    ("name", "target"),
    [
        ("run/{side}", "../private/{side}"),
        ("run/{side}/train-00000.parquet", "../../private/{side}/train-00000.parquet"),
        ("run/train-00000.parquet", "../private/{side}/train-00000.parquet"),
    ],
)
def test_shards_elsewhere(
    tmp_path: Path, row: Row, write_shards: Write, run: Command, side: str, name: str, target: str
) -> None:
    """A stranger may have sent the run, in which a name is a link to private rows."""
    write_shards(tmp_path / "private", [row()], side)
    link = tmp_path / name.format(side=side)
    link.parent.mkdir(parents=True)
    link.symlink_to(target.format(side=side))
    (tmp_path / "named").symlink_to("run")
    for data in (tmp_path / "run", tmp_path / "named"):
        for opened in (
            lambda d: Shards(d, side, tmp_path / "cache"),
            lambda d: shards_to_evaluate(d, tmp_path / "cache"),
        ):
            with pytest.raises(ShardError, match=r"parquet is outside of .*: replace the link"):
                opened(data)
    for command in ("sft" if side == "sft" else "grpo", "eval"):
        run(command, tmp_path / "run").check_refused(2, "is outside of")


@pytest.mark.parametrize("name", ["sft", "sft/train-00000.parquet", "train-00000.parquet"])
def test_shards_behind_a_link_in_the_run(tmp_path: Path, row: Row, write_shards: Write, name: str) -> None:
    run = write_shards(tmp_path / "run" / "first", [row()]).parent
    (run / name).parent.mkdir(exist_ok=True)
    (run / name).symlink_to(run / "first/sft" / name.removeprefix("sft").removeprefix("/"))
    (tmp_path / "named").symlink_to("run")
    for data in (run, tmp_path / "named"):
        assert len(Shards(data, "sft", tmp_path / "cache")) == 1


def test_a_data_set_in_the_cache_of_the_hub(tmp_path: Path, row: Row, write_shards: Write) -> None:
    [shard] = write_shards(tmp_path, [row()]).glob("sft/*")
    (tmp_path / "blobs").mkdir()
    (tmp_path / "snapshots/01/sft").mkdir(parents=True)
    (tmp_path / "snapshots/01/sft/train.parquet").symlink_to("../../../blobs/a0")
    shard.rename(tmp_path / "blobs/a0")
    assert len(Shards(tmp_path / "snapshots/01", "sft", tmp_path / "cache")) == 1
