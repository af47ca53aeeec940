"""What ``--input`` may name, and what identifies its content."""

import json
import os
from pathlib import Path
from types import SimpleNamespace

import datasets
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from groundtrace.pipelines.running.plan.inputs import Input, InputError, check_questions, count_records, find_input
from groundtrace.pipelines.running.plan.local_run import LocalRun
from groundtrace.stages.sources import hf_datasets
from groundtrace.stages.sources.base import RowSettings, Source
from groundtrace.stages.sources.registry import read_source
from groundtrace.vision.hashing import sha256_bytes
from groundtrace.vision.media import MediaNotAllowed, MediaStore


@pytest.fixture
def here(tmp_path: Path) -> Path:
    """Inputs of every kind on disk."""
    for name in ("data", "shards/deep", "empty", "pictures", "both"):
        (tmp_path / name).mkdir(parents=True)
    for name in ("data/records.jsonl", "own.jsonl", "own.json", "both/records.jsonl"):
        (tmp_path / name).write_bytes(b'{"id": "a"}\n{"id": "b"}\n')
    for name, rows in {
        "one.parquet": 3,
        "shards/b.parquet": 2,
        "shards/deep/a.parquet": 4,
        "both/x.parquet": 1,
    }.items():
        pq.write_table(pa.table({"id": [str(row) for row in range(rows)]}), tmp_path / name)
    (tmp_path / "pictures/a.png").write_bytes(b"png")
    return tmp_path


@pytest.mark.parametrize(
    ("name", "file", "root"),
    [
        ("data", "data/records.jsonl", "data"),
        ("data/records.jsonl", "data/records.jsonl", "data"),
        ("own.jsonl", "own.jsonl", "."),
        ("own.json", "own.json", "."),
        ("both", "both/records.jsonl", "both"),
    ],
)
def test_lines(name: str, file: str, root: str, here: Path) -> None:
    found = find_input(str(here / name))
    assert found.sources == (Source("jsonl", str(here / file)),)
    assert (found.name, found.media_root) == (str(here / name), str((here / root).resolve()))


@pytest.mark.parametrize(
    ("name", "files", "root"),
    [
        ("one.parquet", [("one.parquet", 1)], "."),
        ("shards", [("shards/b.parquet", 1), ("shards/deep/a.parquet", 3)], "shards"),
        ("shards/*.parquet", [("shards/b.parquet", 1)], "shards"),
        ("shards/*/a.parquet", [("shards/deep/a.parquet", 1)], "shards"),
        ("shards/**/*.parquet", [("shards/b.parquet", 1), ("shards/deep/a.parquet", 3)], "shards"),
        ("shards/[ab].parquet", [("shards/b.parquet", 1)], "shards"),
        ("o?e.parquet", [("one.parquet", 1)], "."),
        ("*/deep/?.parquet", [("shards/deep/a.parquet", 1)], "."),
    ],
)
def test_parquet_rows_are_numbered_over_all_files(
    name: str, files: list[tuple[str, int]], root: str, here: Path
) -> None:
    found = find_input(str(here / name))
    assert found.sources == tuple(Source("parquet", str(here / file), first) for file, first in files)
    assert found.media_root == str((here / root).resolve())


def test_a_folder_of_other_files_is_left_to_datasets(here: Path) -> None:
    name = str(here / "pictures")
    found = find_input(name)
    assert found == Input(name, (Source("datasets", name),), name, found.fingerprint)


def test_a_folder_named_from_here_is_no_data_set_id(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(here)
    found = find_input("pictures")
    assert (found.sources, found.media_root) == ((Source("datasets", str(here / "pictures")),), str(here / "pictures"))


@pytest.mark.parametrize("name", ["org/name", "hf://org/name/rl@v1"])
def test_rows_from_the_hub_name_no_file_here(name: str, here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(here)
    unknown = SimpleNamespace(features=None, info=SimpleNamespace(splits=None))
    monkeypatch.setattr(hf_datasets, "open_data_set", lambda name, rows: unknown)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)  # nobody looks whether the hub is there
    found = find_input(name)
    assert found.sources == (Source("datasets", name),)
    assert not Path(found.media_root).exists()


TWO = "not read: x.parquet, in the folder of records.jsonl: to read another file, set --input to this file"
MANY = "not read: a.csv, b.tsv, my.jsonl and 1 more, in the folder of "


@pytest.mark.parametrize(
    ("name", "more", "note"),
    [
        ("data", [], ""),
        ("both", [], TWO),
        ("both/records.jsonl", [], ""),  # the user has named the file
        (
            "empty",
            ["q.csv", "my.jsonl"],
            "not read: my.jsonl, in the folder of q.csv: to read another file, set --input",
        ),
        ("empty", ["q.csv", "metadata.csv", "notes.txt", "a.json"], ""),
        ("both", ["my.jsonl", "a.csv", "b.tsv"], f"{MANY}records.jsonl: "),
        (
            "shards",
            ["my.jsonl", "a.csv", "b.tsv", "c.csv"],
            "not read: a.csv, b.tsv, c.csv and 1 more, in the folder of ",
        ),
        ("shards", [], ""),
        ("data", ["OLD.JSONL", ".hidden.csv"], "not read: OLD.JSONL, in the folder of records.jsonl: "),
        ("shards", ["d.PARQUET"], "not read: d.PARQUET, in the folder of "),
    ],
)
def test_files_of_the_folder_that_are_not_read_are_named(name: str, more: list[str], note: str, here: Path) -> None:
    for each in more:
        (here / name / each).write_text("id,question\na,How many?\n", "utf-8")
    found = find_input(str(here / name)).unread_note
    assert found.startswith(note) and bool(found) is bool(note)


def test_a_folder_is_not_named_as_a_file_that_is_not_read(here: Path) -> None:
    (here / "data/dir.csv").mkdir()
    assert not find_input(str(here / "data")).unread_note


@pytest.mark.parametrize("name", ["nowhere", "nowhere/records.jsonl", "empty", "shards/*.csv", "nowhere.parquet"])
def test_nothing_to_read(name: str, here: Path) -> None:
    with pytest.raises(InputError, match=r"no \.csv or \.tsv file, no records\.jsonl, no \.parquet file, and "):
        find_input(str(here / name))


@pytest.mark.parametrize("name", ["shards", "shards/**/*.parquet", "*/*.parquet"])
def test_runs_written_beside_the_input_are_not_input(name: str, here: Path) -> None:
    first = find_input(str(here / name))
    for run in ("shards/run", "shards/deep/run2"):
        LocalRun(here / run).prepare(name, first.fingerprint, resume=True)
        for part in ("sft", "rejected"):
            (here / run / part).mkdir()
            pq.write_table(pa.table({"id": ["a"]}), here / run / part / "train-00000-of-00001.parquet")
    assert find_input(str(here / name)) == first


def test_a_run_folder_is_input_only_by_its_shards(here: Path) -> None:
    LocalRun(here / "run").prepare("data", "0", resume=True)
    (here / "run/sft").mkdir()
    pq.write_table(pa.table({"id": ["a"]}), here / "run/sft/x.parquet")
    with pytest.raises(
        InputError, match="run is a run folder: set --input to the input of this run, or to its Parquet files, such as"
    ):
        find_input(str(here / "run"))
    for name in ("run/sft", "run/sft/*.parquet"):
        assert find_input(str(here / name)).sources == (Source("parquet", str(here / "run/sft/x.parquet")),)


RECORDS = [{"id": "a", "choices": ["x", "y"]}, {"id": "b"}]


@pytest.mark.parametrize("indent", [None, 0, 2, "\t"])
@pytest.mark.parametrize("before", ["", "\ufeff", "\n \n"])
def test_a_json_array_is_a_table_by_its_name(indent: int | str | None, before: str, here: Path) -> None:
    text = before + json.dumps(RECORDS, indent=indent)
    (here / "own.json").write_text(text, "utf-8")
    found = find_input(str(here / "own.json"))
    assert (found.sources[0].kind, found.sources[0].records, found.columns) == ("table", 2, {"id", "choices"})
    (here / "own.jsonl").write_text(text, "utf-8")
    with pytest.raises(InputError, match=r"own\.jsonl is a JSON array, .*: rename it to \.json"):
        find_input(str(here / "own.jsonl"))


def test_one_object_over_many_lines_is_no_line(here: Path) -> None:
    (here / "data/records.jsonl").write_text(json.dumps(RECORDS[0], indent=1))
    with pytest.raises(
        InputError,
        match="a JSON object on several lines, but each line must be a whole object: write one object on each line",
    ):
        find_input(str(here / "data"))


@pytest.mark.parametrize("first", ['{"id": "a"}', "[1, 2]", '{"id": ', "null", "", "[" * 50_000])
def test_bad_lines_are_for_the_run_to_reject(first: str, here: Path) -> None:
    (here / "data/records.jsonl").write_text(first + '\n{"id": "b"}\n')
    assert find_input(str(here / "data")).sources[0].kind == "jsonl"


def test_a_folder_with_a_file_like_the_mark_of_a_run_is_read(here: Path) -> None:
    for text in ("[1]", "{", '{"input": "x"}'):
        (here / "shards/deep/input.json").write_text(text)
        assert len(find_input(str(here / "shards")).sources) == 2


def test_a_file_that_only_says_that_it_is_parquet(here: Path) -> None:
    (here / "shards/bad.parquet").write_bytes(b"PAR1 or so")
    with pytest.raises(InputError, match=r"bad\.parquet is not a Parquet file"):
        find_input(str(here / "shards"))


def test_a_folder_whose_name_looks_like_a_pattern(here: Path) -> None:
    (here / "v[1]").mkdir()
    (here / "one.parquet").rename(here / "v[1]" / "one.parquet")
    [source] = find_input(str(here / "v[1]" / "*.parquet")).sources
    assert source.path == str(here / "v[1]" / "one.parquet")


def test_a_pattern_that_not_every_python_takes(here: Path) -> None:
    with pytest.raises(InputError, match=r"x\*\*y\.parquet"):
        find_input(str(here / "x**y.parquet"))


def test_an_empty_name(here: Path) -> None:
    with pytest.raises(InputError, match="empty"):
        find_input("")


def test_the_same_lines_in_another_order_are_the_same_input(here: Path) -> None:
    first = find_input(str(here / "data"))
    (here / "data/records.jsonl").write_bytes(b'{"id": "b"}\r\n{"id": "a"}')
    assert find_input(str(here / "data")) == first
    (here / "data/records.jsonl").write_bytes(b'{"id": "b"}\n{"id": "c"}\n')
    assert find_input(str(here / "data")).fingerprint != first.fingerprint


def test_other_parquet_rows_are_another_input(here: Path) -> None:
    first = find_input(str(here / "shards"))
    assert find_input(str(here / "shards")) == first
    pq.write_table(pa.table({"id": ["0", "changed"]}), here / "shards/b.parquet")
    assert find_input(str(here / "shards")).fingerprint != first.fingerprint


@pytest.mark.parametrize("name", ["data", "shards", "shards/*.parquet"])
def test_a_home_folder_is_expanded(name: str, here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(here))
    assert find_input(f"~/{name}").sources == find_input(str(here / name)).sources


@pytest.mark.parametrize("name", ["loop", "loop.csv", "loop.csv/records.jsonl"])
def test_a_link_to_itself_is_no_input(name: str, here: Path) -> None:
    (here / name.partition("/")[0]).symlink_to(name.partition("/")[0])
    with pytest.raises(InputError, match="loop"):
        find_input(str(here / name))


def test_a_link_is_followed(here: Path) -> None:
    (here / "link").symlink_to(here / "data")
    linked, direct = find_input(str(here / "link")), find_input(str(here / "data"))
    assert linked.fingerprint == direct.fingerprint
    assert linked.media_root == direct.media_root


@pytest.fixture
def asked(tmp_path: Path) -> Path:
    """One question in every kind of input, under ``query`` and ``gold``."""
    rows = {"query": ["How many?"], "gold": ["3"]}
    (tmp_path / "lines").mkdir()
    (tmp_path / "lines/records.jsonl").write_bytes(b'\xef\xbb\xbf{"query": "How many?", "gold": "3"}\nno record\n')
    pq.write_table(pa.table(rows), tmp_path / "rows.parquet")
    saved = datasets.Dataset.from_dict(rows)
    saved.save_to_disk(tmp_path / "saved")
    datasets.DatasetDict({"train": saved, "test": saved}).save_to_disk(tmp_path / "parts")
    return tmp_path


@pytest.mark.parametrize("name", ["lines", "rows.parquet", "saved", "parts"])
def test_a_column_that_the_input_lacks(name: str, asked: Path) -> None:
    right = RowSettings(columns={"question": "query", "answer": "gold"})
    assert find_input(str(asked / name), right) == find_input(str(asked / name))
    for column, hint in (("querry", r"did you mean query\?"), ("zzz", "use one of its columns gold, query")):
        wrong = RowSettings(columns={"answer": "gold", "question": column})
        with pytest.raises(
            InputError, match=rf"^input\.columns\.question: the input has no column '{column}'; {hint}$"
        ):
            find_input(str(asked / name), wrong)


def test_lines_may_lack_what_is_optional(asked: Path) -> None:
    rows = RowSettings(columns={"choices": "options", "license": "licence"}, constants={"license": "MIT"})
    find_input(str(asked / "lines"), rows)
    with pytest.raises(InputError, match=r"input\.columns\.choices"):
        find_input(str(asked / "rows.parquet"), rows)


def test_a_column_of_one_shard_is_one_of_the_input(here: Path) -> None:
    pq.write_table(pa.table({"id": ["x"], "query": ["How many?"]}), here / "shards/c.parquet")
    assert len(find_input(str(here / "shards"), RowSettings(columns={"question": "query"})).sources) == 3


@pytest.mark.parametrize(("name", "split", "records"), [("saved", "train", 7), ("parts", "test", 2), ("few", "", 3)])
def test_a_saved_data_set_knows_its_length(name: str, split: str, records: int, tmp_path: Path) -> None:
    saved = datasets.Dataset.from_dict({"query": [f"{number}?" for number in range(7)]})
    saved.save_to_disk(tmp_path / "saved")
    datasets.DatasetDict({"train": saved, "test": saved.select(range(2))}).save_to_disk(tmp_path / "parts")
    saved.filter(lambda row: row["query"] < "3").save_to_disk(tmp_path / "few")
    rows = RowSettings(split=split)
    found = find_input(str(tmp_path / name), rows)
    assert count_records(found.sources) == records
    assert count_records(found.sources, limit=2) == 2
    read = list(read_source(found.sources[0], rows, MediaStore(found.media_root, str(tmp_path / "run"))))
    assert len(read) == records


@pytest.mark.parametrize(("told", "records"), [(None, None), ({}, None), ({"train": 0}, None), ({"train": 9}, 9)])
def test_a_data_set_on_the_hub_may_say_its_length(
    told: dict[str, int] | None, records: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    splits = None if told is None else {name: SimpleNamespace(num_examples=number) for name, number in told.items()}
    opened = SimpleNamespace(features=None, info=SimpleNamespace(splits=splits))
    monkeypatch.setattr(hf_datasets, "open_data_set", lambda name, rows: opened)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)  # nobody looks whether the hub is there
    assert count_records(find_input("org/name").sources) == records


def test_a_split_that_the_data_set_lacks(asked: Path) -> None:
    (asked / "csv").mkdir()
    for part in ("train", "test"):
        (asked / f"csv/{part}.csv").write_text("query,gold\nHow many?,3\n")
    for name in ("parts", "csv"):
        with pytest.raises(InputError, match=r"with input\.split = 'trian' \(.*split:? trian.*\['"):
            find_input(str(asked / name), RowSettings(split="trian"))
    assert find_input(str(asked / "parts"), RowSettings(split="test")).sources[0].kind == "datasets"


@pytest.mark.parametrize("in_folder", [False, True])
def test_a_name_that_is_not_utf_8(tmp_path: Path, in_folder: bool) -> None:
    """A row holds the name of its file, and Parquet holds only UTF-8: without the check, a run fails at its end."""
    file = tmp_path / os.fsdecode(b"q\xff.csv")
    file.write_text("question,answer\nHow many?,3\n")
    with pytest.raises(InputError, match=r"the name '.*q\\udcff\.csv' is not UTF-8, .*: rename this file or folder"):
        find_input(str(tmp_path if in_folder else file))


def test_a_folder_that_datasets_cannot_read(asked: Path) -> None:
    (asked / "notes").mkdir()
    (asked / "notes/a.xyz").write_text("?")
    with pytest.raises(
        InputError,
        match=r"notes is not an input: there is no \.csv or \.tsv file, no records\.jsonl, no "
        r"\.parquet file, and the package `datasets` cannot read the folder: ",
    ):
        find_input(str(asked / "notes"))


def test_a_folder_of_links_is_the_root_of_its_media(here: Path) -> None:
    """A snapshot from the hub: every name a link to a file named by its hash."""
    (here / "blobs").mkdir()
    revision = here / "snapshots/0123abc"
    revision.mkdir(parents=True)
    for name, content in {"records.jsonl": b'{"id": "a"}\n', "a.png": b"png"}.items():
        (here / "blobs" / sha256_bytes(content)).write_bytes(content)
        (revision / name).symlink_to(Path("../../blobs") / sha256_bytes(content))
    for name in ("snapshots/0123abc", "snapshots/0123abc/records.jsonl"):
        found = find_input(str(here / name))
        assert found.media_root == str(revision)
        store = MediaStore(found.media_root, str(here / "run"))
        assert store.open_bytes("input:a.png") == b"png"
        with pytest.raises(MediaNotAllowed):
            store.open_bytes("input:../own.jsonl")


def test_images_alone_are_questions_where_the_config_gives_one() -> None:
    found = Input("photos", (), "/photos", "", frozenset({"image"}))
    with pytest.raises(InputError, match="photos holds images and no questions"):
        check_questions(found, RowSettings())
    check_questions(found, RowSettings(constants={"question": "How many people are there?"}))


KEPT = [
    ("collected_by", ""),
    ("colected_by", "input.keep: the input has no column 'colected_by'; did you mean collected_by?"),
    ("image", "input.keep: the column 'image' cannot be kept, because it holds the media, which every row already has"),
]


@pytest.mark.parametrize(("name", "said"), KEPT)
def test_a_column_to_keep_is_there_and_holds_no_media(name: str, said: str, tmp_path: Path) -> None:
    pq.write_table(pa.table({"id": ["a"], "image": ["a.png"], "collected_by": ["Ann"]}), tmp_path / "a.parquet")
    rows = RowSettings(keep=(name,))
    if not said:
        assert find_input(str(tmp_path / "a.parquet"), rows).columns
        return
    with pytest.raises(InputError) as caught:
        find_input(str(tmp_path / "a.parquet"), rows)
    assert str(caught.value).startswith(said)


def test_a_key_to_keep_is_looked_for_in_every_line(tmp_path: Path) -> None:
    lines = [{"id": str(n)} for n in range(1500)] + [{"id": "last", "mood": "glad"}]
    (tmp_path / "a.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines), "utf-8")
    find_input(str(tmp_path / "a.jsonl"), RowSettings(keep=("mood",)))
    with pytest.raises(InputError, match=r"input\.keep: the input has no column .mod.; did you mean mood"):
        find_input(str(tmp_path / "a.jsonl"), RowSettings(keep=("mod", "mood")))


def test_the_records_of_an_input(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_bytes(b"{}\n\n  \n{}\nno record\n")
    pq.write_table(pa.table({"id": ["a", "b"]}), tmp_path / "b.parquet")
    jsonl, parquet = Source("jsonl", str(tmp_path / "a.jsonl")), Source("parquet", str(tmp_path / "b.parquet"))
    assert count_records([jsonl, parquet]) == 5
    assert count_records([jsonl], limit=2) == 2
    shards = [Source("parquet", parquet.path, first) for first in (1, 3, 5)]
    assert [count_records(shards, limit) for limit in (1, 2, 3, 5, 6, 7)] == [1, 2, 3, 5, 6, 6]
    assert count_records([jsonl, Source("datasets", "org/name")]) is None
