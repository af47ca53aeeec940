"""An export as a whole: what is refused, what is left out, and that the folder appears whole or not at all."""

import hashlib
import json
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from groundtrace.pipelines.commands import cli
from groundtrace.publishing.exports import sides
from groundtrace.publishing.exports.errors import REASONS, ExportError
from groundtrace.publishing.exports.export import SUMMARY
from groundtrace.publishing.exports.registry import FORMATS, export_format
from groundtrace.publishing.reading import InspectError
from groundtrace.publishing.rewards import groundtrace_client
from groundtrace.publishing.view.reviews import Mark, Reviews, text_digest
from groundtrace.schemas.columns import Column
from groundtrace.schemas.errors import UserError
from tests.publishing.exports.made_runs import exported, lines, make_run, other, picture, rl, sft, table, trace

OUTSIDE = sft("outside", trace((900, 50)))
MIXED = [sft("good"), OUTSIDE, sft("marked", asked="<image>What does <image> mean?")]


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


@pytest.mark.parametrize("form", FORMATS)
def test_every_row_of_a_real_run_is_written_or_left_out(form: str, sample_run: Path, tmp_path: Path) -> None:
    done = exported(sample_run, form, tmp_path / "out")
    told = json.loads((tmp_path / "out" / SUMMARY).read_text("utf-8"))
    run = json.loads((sample_run / "run.json").read_text("utf-8"))
    assert set(told["counts"]) == set(done.counts) == set(export_format(form).open)
    for side, count in told["counts"].items():
        assert count["rows"] == run["counts"][side] == count["written"] + sum(count["left_out"].values())
        assert count["written"] > 0
        assert form == "dpo" or count["left_out"] == {}
    assert told["run"]["config_sha256"] == run["config_sha256"]
    assert (told["format"], told["family"], told["frame"]) == (form, "qwen3-vl", "norm1000")
    for name, said in told["files"].items():
        data = (tmp_path / "out" / name).read_bytes()
        assert said == {"bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()}
    assert names(tmp_path) == ["out"]


@pytest.mark.parametrize("form", FORMATS)
def test_the_same_run_gives_the_same_bytes(form: str, sample_run: Path, tmp_path: Path) -> None:
    read = []
    for _ in range(2):
        exported(sample_run, form, tmp_path / "out", replace=True)
        read.append({path: path.read_bytes() for path in (tmp_path / "out").rglob("*") if path.is_file()})
    assert read[0] == read[1]
    assert names(tmp_path) == ["out"]


@pytest.mark.parametrize("form", FORMATS)
def test_the_client_of_our_server_is_beside_rl_rows_that_a_trainer_rewards(form: str, tmp_path: Path) -> None:
    client = Path(groundtrace_client.__file__)
    run = make_run(
        tmp_path / "run", [sft("good", other_traces=[other("worse", 0.0, 0.0)])], [rl("r")], other_traces=True
    )
    exported(run, form, tmp_path / "out")
    is_there = (tmp_path / "out" / client.name).exists()
    assert is_there is (form in {"easyr1", "openrlhf", "swift", "trl", "verl"})
    if is_there:
        assert (tmp_path / "out" / client.name).read_bytes() == client.read_bytes()
        assert client.name in json.loads((tmp_path / "out" / SUMMARY).read_text("utf-8"))["files"]


def test_rows_that_cannot_be_written_are_named(tmp_path: Path) -> None:
    broken = sft("broken", images=(b"no image",))
    thin = sft("thin", trace((1, 1)), images=(picture(1000, 2),))
    few = sft("few", asked="no place for the image")
    mute = sft("mute") | {"messages": None}
    run = make_run(tmp_path / "run", [*MIXED, broken, thin, few, mute], [rl("fine"), rl("no answer", answer=None)])
    done = exported(run, "trl", tmp_path / "out", "qwen2.5-vl")
    assert (done.counts["sft"].read, done.counts["sft"].written) == (7, 1)
    assert (done.counts["rl"].read, done.counts["rl"].written) == (2, 1)
    left = {(each["side"], each["id"], each["reason"]) for each in lines(tmp_path / "out/left_out.jsonl")}
    assert left == {
        ("sft", "outside", "outside_image"),
        ("sft", "marked", "control_token"),
        ("sft", "broken", "unreadable_image"),
        ("sft", "thin", "unresizable_image"),
        ("sft", "few", "image_count"),
        ("sft", "mute", "missing_text"),
        ("rl", "no answer", "missing_text"),
    }
    assert {reason for _, _, reason in left} < set(REASONS)
    assert [each["id"] for each in table(tmp_path / "out/sft.parquet")] == ["good"]


@pytest.mark.parametrize("form", ["jsonl", "trl"])
def test_rows_of_flagged_records_are_left_out_on_request(form: str, tmp_path: Path) -> None:
    """The last mark of a record counts, in both training sets."""
    run = make_run(tmp_path / "run", [sft("a"), sft("b"), sft("c")], [rl("b"), rl("r")])
    reviews = Reviews(run)
    for mark in (Mark("a", flagged=True), Mark("b", flagged=True, note="wrong box"), Mark("a", flagged=False)):
        reviews.keep(mark)
    whole = exported(run, form, tmp_path / "whole")
    assert {side: count.written for side, count in whole.counts.items()} == {"sft": 3, "rl": 2}
    done = exported(run, form, tmp_path / "out", without_flagged=True)
    assert {side: count.written for side, count in done.counts.items()} == {"sft": 2, "rl": 1}
    left = [(each["side"], each["id"], each["reason"]) for each in lines(tmp_path / "out/left_out.jsonl")]
    assert left == [("sft", "b", "flagged"), ("rl", "b", "flagged")]
    assert json.loads((tmp_path / "out" / SUMMARY).read_text("utf-8"))["without_flagged"] is True


def test_flags_of_another_version_of_a_row_are_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = make_run(tmp_path / "run", [sft("same"), sft("changed"), sft("moved"), sft("kept")], [rl("r")])
    reviews, seen = Reviews(run), text_digest(trace((100, 50)))
    reviews.keep(Mark("same", seen, True, note="Bo drew this box", set="sft"))
    reviews.keep(Mark("changed", text_digest("another"), True, note="wrong"))
    reviews.keep(Mark("moved", seen, True, set="rejected"))
    reviews.keep(Mark("r", "", True, set="rl"))
    words = ["export", str(run), "--format", "jsonl", "--family", "qwen3-vl", "--without-flagged"]
    assert cli.main([*words, "--only", "sft", "--output", str(tmp_path / "out")]) == 0
    assert capsys.readouterr().out.splitlines()[1:3] == [
        "  left out: 3 for flagged (left_out.jsonl lists them)",
        "2 of these flags were set on other versions of their rows: look at the present row in `beam view`, and remove "
        "a flag that is outdated",
    ]
    changed = "the row has changed since it was flagged"
    noted = "the reviewer's note is in `beam view`"
    found = {each["id"]: each["detail"] for each in lines(tmp_path / "out/left_out.jsonl")}
    assert found == {"same": noted, "changed": f"{noted}; {changed}", "moved": changed}, "notes stay in the run folder"
    whole = exported(run, "jsonl", tmp_path / "whole", without_flagged=True)
    assert (whole.counts["rl"].left_out, whole.counts["rl"].outdated) == ({"flagged": 1}, 0)


@pytest.mark.parametrize("form", ["jsonl", "webdataset"])
def test_a_mark_in_a_question_is_text_where_nobody_splits_at_it(form: str, tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", MIXED)
    assert exported(run, form, tmp_path / "out").counts["sft"].left_out == {"outside_image": 1}


REFUSED: list[tuple[str, dict[str, Any], str]] = [
    ("trl", {"family": ""}, "the sft rows contain or request coordinates: set --family"),
    ("verl", {"family": "qwen"}, "--family must be one of claude, "),
    ("tlr", {}, "--format must be one of dpo, easyr1, "),
    (
        "groundtrace.publishing.exports.trl:RL",
        {},
        "must be a value of groundtrace.publishing.exports.base.ExportFormat, but is",
    ),
    ("groundtrace.publishing.exports.gone:X", {}, "cannot be imported"),
    ("trl", {"family": "moondream"}, "The point and box tags have only one decimal, which is too coarse"),
    ("dpo", {}, "--set write.other_traces=true"),
    ("trl", {"max_pixels": 1000}, "do not depend on the size of images"),
    ("trl", {"family": "qwen2.5-vl", "max_pixels": 10}, "--max-pixels must be at least --min-pixels"),
    ("easyr1", {"only": "sft"}, "the format easyr1 has no sft rows, only rl rows: change --only"),
    ("trl", {"family": "qwen2.5-vl", "max_pixels": -1}, "--max-pixels must be at least --min-pixels"),
]


@pytest.mark.parametrize(("form", "options", "said"), REFUSED)
def test_what_is_refused(form: str, options: dict[str, Any], said: str, tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", [sft()], [rl()])
    with pytest.raises(ExportError, match=r"^[^\n]*$") as refused:
        exported(run, form, tmp_path / "out", **options)
    assert said in str(refused.value)
    assert names(tmp_path) == ["run"]


def test_a_run_without_the_rows_that_a_format_takes(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", [sft()])
    with pytest.raises(ExportError, match="has no rl rows, but the format easyr1 exports only such rows"):
        exported(run, "easyr1", tmp_path / "out")
    assert exported(run, "trl", tmp_path / "out").files == ("sft.parquet", "export.json")


@pytest.mark.parametrize("only", ["sft", "rl"])
def test_one_set_is_written_alone(only: str, tmp_path: Path) -> None:
    """The other set is neither read nor written, so its coordinates need no family."""
    asked = {name: "<image>How many?" if name == only else "" for name in ("sft", "rl")}
    trained = sft("q", "<think></think>\n<answer>1</answer>", asked=asked["sft"])
    run = make_run(tmp_path / "run", [trained], [rl("q", asked=asked["rl"])])
    words = ["export", str(run), "--format", "trl", "--only", only, "--output", str(tmp_path / "out")]
    assert cli.main(words) == 0
    client = ["groundtrace_client.py"] if only == "rl" else []
    assert names(tmp_path / "out") == ["export.json", *client, f"{only}.parquet"]
    told = json.loads((tmp_path / "out" / SUMMARY).read_text("utf-8"))
    assert (told["only"], list(told["counts"])) == (only, [only])


def test_the_set_to_be_written_alone_is_empty(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", [sft()])
    with pytest.raises(ExportError, match="has no rl rows, but --only rl exports only such rows: leave out --only"):
        exported(run, "trl", tmp_path / "out", only="rl")


def test_a_run_of_which_no_row_can_be_written(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", [OUTSIDE])
    with pytest.raises(
        ExportError, match=r"no row can be exported. The most frequent reason \(1 rows\) is outside_image"
    ):
        exported(run, "trl", tmp_path / "out")
    assert names(tmp_path) == ["run"]


def test_rows_without_coordinates_need_no_family(tmp_path: Path) -> None:
    plain = rl("q", asked="<image>How many?")
    run = make_run(
        tmp_path / "run", [sft("q", "<think></think>\n<answer>1</answer>", asked="<image>How many?")], [plain]
    )
    assert exported(run, "easyr1", tmp_path / "out", "").counts["rl"].written == 1
    assert json.loads(table(tmp_path / "out/rl.parquet")[0]["answer"])["family"] == "plain"


def damage(run: Path) -> None:
    file = next((run / "sft").glob("*.parquet"))
    data = bytearray(file.read_bytes())
    data[4 : len(data) // 2] = bytes(len(data) // 2 - 4)
    file.write_bytes(data)


def put(name: str, column: list | None) -> Callable[[Path], None]:
    """What gives the first shard another column of that name, or none."""

    def change(run: Path) -> None:
        file = next((run / "sft").glob("*.parquet"))
        held = pq.read_table(file)
        left = held.drop_columns([name])
        pq.write_table(left if column is None else left.append_column(name, pa.array(column * held.num_rows)), file)

    return change


DAMAGED = {
    "no images": put("images", None),
    "images of another form": put("images", ["x"]),
    "turns of another form": put("messages", ["x"]),
    "turns without a text": put("messages", [[{"role": "user"}]]),
    "a shard that is none": lambda run: next((run / "sft").glob("*.parquet")).write_bytes(b"PAR1"),
    "a damaged page": damage,
    "a shard that is missing": lambda run: next((run / "sft").glob("*.parquet")).unlink(),
    "a summary that is none": lambda run: (run / "run.json").write_text("{}", "utf-8"),
    "no summary": lambda run: (run / "run.json").unlink(),
}


@pytest.mark.parametrize("what", DAMAGED)
def test_a_damaged_run(what: str, tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", [sft(f"q{n}", images=(picture(seed=n),)) for n in range(6)], shards=2)
    DAMAGED[what](run)
    with pytest.raises((ExportError, InspectError), match=r"^[^\n]*$") as refused:
        exported(run, "trl", tmp_path / "out")
    assert isinstance(refused.value, UserError)
    assert names(tmp_path) == ["run"]


def test_places_where_no_export_is_put(tmp_path: Path) -> None:
    run = make_run(tmp_path / "all/run", [sft()])
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine/notes.txt").write_text("mine", "utf-8")
    (tmp_path / "file").write_text("mine", "utf-8")
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    for output, options, said in [
        (run, {}, "is in the run folder"),
        (run / "exports/trl", {"replace": True}, "is in the run folder"),
        (tmp_path / "all", {"replace": True}, "contains the run folder"),
        (tmp_path / "mine", {}, "exists: choose another folder, or replace"),
        (tmp_path / "mine", {"replace": True}, "is not an export"),
        (tmp_path / "file", {"replace": True}, "is not an export"),
        (tmp_path / "file/below", {}, "cannot write"),
        (Path("s3://bucket/out"), {}, "is a URL"),
        (tmp_path / "a\0b", {}, "is not a usable path"),
        (tmp_path / "loop", {}, "is not a usable path|cannot write"),
        (tmp_path / ("x" * 300), {}, "cannot write"),
        (tmp_path / ("x" * 240), {}, "cannot write"),
    ]:
        with pytest.raises(ExportError, match=said):
            exported(run, "trl", output, **options)
    assert names(tmp_path) == ["all", "file", "loop", "mine"]
    assert (tmp_path / "mine/notes.txt").read_text("utf-8") == "mine"


def test_an_export_is_replaced_only_by_a_whole_one(tmp_path: Path) -> None:
    good, bad = make_run(tmp_path / "good", [sft()]), make_run(tmp_path / "bad", [OUTSIDE])
    exported(good, "llamafactory", tmp_path / "out")
    before = (tmp_path / "out" / SUMMARY).read_bytes()
    with pytest.raises(ExportError, match="no row"):
        exported(bad, "llamafactory", tmp_path / "out", replace=True)
    assert (tmp_path / "out" / SUMMARY).read_bytes() == before
    exported(good, "jsonl", tmp_path / "out", replace=True)
    assert names(tmp_path / "out") == [SUMMARY, "images", "sft.jsonl"]
    assert names(tmp_path) == ["bad", "good", "out"]


def test_an_export_that_came_in_between_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = make_run(tmp_path / "run", [sft()])

    def first(folder: Path) -> Any:
        """Another export ends while this one is at its end."""
        (tmp_path / "out").mkdir()
        (tmp_path / "out/theirs").write_text("theirs", "utf-8")
        return {}, None

    monkeypatch.setattr("groundtrace.publishing.exports.export.contents_of", first)
    with pytest.raises(ExportError, match="cannot write"):
        exported(run, "trl", tmp_path / "out")
    assert names(tmp_path) == ["out", "run"]
    assert names(tmp_path / "out") == ["theirs"]


def test_a_link_stays_a_link(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", [sft()])
    (tmp_path / "disk").mkdir()
    (tmp_path / "out").symlink_to(tmp_path / "disk/out")
    exported(run, "trl", tmp_path / "out")
    exported(run, "jsonl", tmp_path / "out", replace=True)
    assert (tmp_path / "out").is_symlink()
    assert names(tmp_path / "disk") == ["out"]
    assert names(tmp_path / "disk/out") == [SUMMARY, "images", "sft.jsonl"]


@pytest.fixture
def heeded() -> Iterator[None]:
    """SIGHUP ends a process, also where the tests run under nohup, which ignores it."""
    before = signal.signal(signal.SIGHUP, signal.SIG_DFL)
    yield
    signal.signal(signal.SIGHUP, before)


@pytest.mark.usefixtures("heeded")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_stopped_command_leaves_nothing(
    number: signal.Signals, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    run = make_run(tmp_path / "run", [sft(f"q{number}") for number in range(5)])
    ready_rows = sides.ready_rows

    def interrupted(fields: dict, side: str, row: int, *rest: Any) -> Any:
        if row == 3:
            assert list(tmp_path.glob(".out.*/images/*/*")), "it is under way"
            signal.raise_signal(number)
        return ready_rows(fields, side, row, *rest)

    monkeypatch.setattr(sides, "ready_rows", interrupted)
    words = ["export", str(run), "--format", "jsonl", "--family", "plain", "--output", str(tmp_path / "out")]
    assert cli.main(words) == 130
    assert capsys.readouterr().err == "beam: interrupted; run the same command again\n"
    assert names(tmp_path) == ["run"]


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from groundtrace.pipelines.commands import cli

    run = make_run(tmp_path / "run", MIXED, [rl()])
    words = ["export", str(run), "--format", "verl", "--output", str(tmp_path / "out")]
    assert cli.main(words) == 2
    assert "set --family to the family of the model" in capsys.readouterr().err
    assert cli.main([*words, "--family", "qwen3-vl", "--run-at", "/mnt/run"]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "sft: 1 of 3 rows written",
        "  left out: 1 for outside_image (left_out.jsonl lists them)",
        "  left out: 1 for control_token (left_out.jsonl lists them)",
        "rl: 1 of 1 row written",
        f"{tmp_path / 'out'}: groundtrace_client.py, left_out.jsonl, rl.parquet, sft.parquet, export.json",
    ]
    assert json.loads(table(tmp_path / "out/rl.parquet")[0]["reward_model"]["ground_truth"])["run"] == "/mnt/run"
    words = ["export", str(run), "--format", "jsonl", "--family", "qwen3-vl", "--output", str(tmp_path / "lines")]
    assert cli.main(words) == 0
    files = "left_out.jsonl, rl.jsonl, sft.jsonl, images/, export.json"
    assert capsys.readouterr().out.splitlines()[-1] == f"{tmp_path / 'lines'}: {files}"


def test_the_command_tells_of_flags_of_which_it_takes_no_notice(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = make_run(tmp_path / "run", [sft("a"), sft("b"), sft("c", trace((900, 50)))], [rl("r")])
    reviews = Reviews(run)
    words = ["export", str(run), "--format", "jsonl", "--family", "qwen3-vl", "--replace", "--output"]
    said = []
    for flagged in ("c", "a", "r"):  # c is left out: a tag is outside its image
        reviews.keep(Mark(flagged, flagged=True))
        assert cli.main([*words, str(tmp_path / "out")]) == 0
        said.append([line for line in capsys.readouterr().out.splitlines() if "`beam view`" in line])
    assert said == [
        [],
        ["1 of these rows is flagged in `beam view`: --without-flagged leaves it out"],
        ["2 of these rows are flagged in `beam view`: --without-flagged leaves them out"],
    ]
    assert cli.main([*words, str(tmp_path / "out"), "--without-flagged"]) == 0
    assert "`beam view`" not in capsys.readouterr().out
    (run / "reviews/marks.jsonl").write_text("text\n", "utf-8")
    assert cli.main([*words, str(tmp_path / "out")]) == 0
    assert "note: it is unknown which rows are flagged, because " in capsys.readouterr().err
    assert cli.main([*words, str(tmp_path / "out"), "--without-flagged"]) == 2


def test_the_reference_names_the_run_where_it_stands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make_run(tmp_path / "run", rl=[rl()])
    monkeypatch.chdir(tmp_path)
    exported(Path("run"), "easyr1", Path("out"))
    assert json.loads(table(tmp_path / "out/rl.parquet")[0]["answer"]) == {
        "id": "q",
        "answer": "1",
        "family": "qwen3-vl",
        "run": str(tmp_path / "run"),
    }


def test_a_format_of_ones_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "own_ids.py").write_text(
        "from groundtrace.publishing.exports.base import ExportFormat\n"
        "from groundtrace.publishing.exports.writers import LinesWriter\n"
        "def ids(folder, target):\n"
        "    return LinesWriter(folder / 'ids.jsonl', lambda row, images: {'id': row.id})\n"
        "IDS = ExportFormat('ids', 'the ids', {'sft': ids})\n",
        "utf-8",
    )
    monkeypatch.syspath_prepend(tmp_path)
    run = make_run(tmp_path / "run", [sft("a"), sft("b")])
    assert exported(run, "own_ids:IDS", tmp_path / "out").counts["sft"].written == 2
    assert lines(tmp_path / "out/ids.jsonl") == [{"id": "a"}, {"id": "b"}]


def test_a_format_of_ones_own_may_leave_out_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "own_none.py").write_text(
        "from groundtrace.publishing.exports.base import ExportFormat\n"
        "from groundtrace.publishing.exports.errors import LeftOut\n"
        "from groundtrace.publishing.exports.writers import LinesWriter\n"
        "def record(row, images):\n"
        "    raise LeftOut('not_mine')\n"
        "def rows(folder, target):\n"
        "    return LinesWriter(folder / 'x.jsonl', record)\n"
        "NONE = ExportFormat('none', 'nothing', {'sft': rows})\n",
        "utf-8",
    )
    monkeypatch.syspath_prepend(tmp_path)
    run = make_run(tmp_path / "run", [sft()])
    with pytest.raises(ExportError, match=r"no row can be exported. The most frequent reason \(1 rows\) is not_mine"):
        exported(run, "own_none:NONE", tmp_path / "out")


def test_other_traces_are_looked_at_for_tags_too(tmp_path: Path) -> None:
    plain = sft(
        "q", "<think></think>\n<answer>1</answer>", asked="<image>How many?", other_traces=[other(trace((1, 1)))]
    )
    run = make_run(tmp_path / "run", [plain], other_traces=True)
    with pytest.raises(ExportError, match="the sft rows contain or request coordinates"):
        exported(run, "dpo", tmp_path / "out", "")


@pytest.mark.parametrize(
    ("form", "rows", "without"),
    [
        ("trl", {"sft": [sft(n_words=4)], "rl": [rl(n_words=4)]}, ["sft", "rl"]),
        ("verl", {"sft": [sft(n_words=4)], "rl": [rl(n_words=4)]}, ["sft"]),  # extra_info of the RL rows has it
        ("verl", {"rl": [rl(n_words=4)]}, []),
        ("easyr1", {"rl": [rl(n_words=4)]}, ["rl"]),
        ("jsonl", {"sft": [sft(n_words=4)], "rl": [rl(n_words=4)]}, []),
        ("webdataset", {"sft": [sft(n_words=4)], "rl": [rl(n_words=4)]}, []),
    ],
)
def test_columns_of_a_user_that_are_not_written_are_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], form: str, rows: dict[str, list[dict]], without: list[str]
) -> None:
    words = Column[int]("n_words", pa.int32(), "how many words the question has")
    hidden = Column[int]("n_tries", pa.int32(), "how many tries", for_training=False)
    run = make_run(tmp_path / "run", **rows, added=(words, hidden))
    words_of_command = ["export", str(run), "--format", form, "--family", "plain", "--output", str(tmp_path / "out")]
    assert cli.main(words_of_command) == 0
    lines = [line for line in capsys.readouterr().out.splitlines() if "not written" in line]
    said = "not written, because the format has no place for these columns: n_words"
    assert lines == [f"{side}: {said}" for side in without]
