"""Whole runs on bad input: each record has one typed end, and each mistake one line and exit code 2."""

import random
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import datasets
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from PIL import Image, PngImagePlugin

RunBeam = Callable[..., Any]
NO_OBJECT = "the record must be a JSON object, got "
ALLOWED = "not a path inside the data folder"
BOX = {"label": "a", "bbox": [0, 0, 160, 80]}


def raw(record_id: str, **fields: str) -> bytes:
    """A line whose given fields are JSON text as written; media is the plain scene unless given."""
    values = {"media": '"a.png"', "question": '"How many squares are there?"', "answer": '"3"'} | fields
    body = "".join(f', "{name}": {value}' for name, value in values.items())
    return f'{{"id": "{record_id}", "source": "s", "license": "MIT"{body}}}\n'.encode()


# (line, id, where it ends: a reason, or None for whatever the later stages decide, and a part of the detail).
LINES: list[tuple[dict[str, Any] | bytes, str, str | None, str]] = [
    (b"\xef\xbb\xbf" + raw("bom").rstrip() + b"\r\n", "bom", None, ""),
    (raw("latin", question=r'"na\u00efve, how many?"'), "latin", None, ""),
    (raw("frac", answer=r'"\frac{1}{2}"'), "frac", "control_characters", "answer: the text has a form feed"),
    (raw("beta", answer=r'"\beta"'), "beta", "control_characters", "answer: the text has a backspace"),
    (raw("times", question=r'"2 \times 3?"'), "times", "control_characters", "question: the text has a tab"),
    (
        raw("surrogate", question=r'"a\ud800"'),
        "surrogate",
        "control_characters",
        "text has a control character, U+D800",
    ),
    (raw(r"id\ud800"), "id\\ud800", "control_characters", "id: the text has a control character, U+D800"),
    (raw("utf8", question='"@"').replace(b"@", b"\xff\xfe"), "utf8", "control_characters", "U+DCFF"),
    (raw("nan", answer="NaN"), "nan", "invalid_record", "answer: expected a text, got nan"),
    (raw("infinity", boxes="-Infinity"), "infinity", "invalid_boxes", "boxes: expected a list, got -inf"),
    (b"[1, 2]\n", "line#11", "invalid_record", NO_OBJECT + "[1, 2]"),
    (b"null\n", "line#12", "invalid_record", NO_OBJECT + "None"),
    (b"[" * 50_000 + b"\n", "line#13", "invalid_record", "not JSON"),
    (
        raw("deep", answer="[" * 500 + "]" * 500),
        "deep",
        "invalid_record",
        "answer: expected a text, got [[",
    ),
    ({"id": "token", "question": "<image1>How many red squares are there?<image>", "answer": 1}, "token", None, ""),
    ({"id": "long", "question": "How many? " * 100_000}, "long", "question_too_long", "999999 characters"),
    ({"id": "no answer", "answer": ""}, "no answer", "invalid_record", "answer: the value is missing or empty"),
    ({"id": "list", "answer": ["3"]}, "list", "invalid_record", "answer: expected a text, got ['3']"),
    ({"id": "choices", "choices": ["1", "2"]}, "choices", "answer_not_in_choices", "answer '3' is not among"),
    ({"id": "mixed", "choices": ["3", 4]}, "mixed", "invalid_record", "choices: expected non-empty strings"),
    ({"id": "flat", "boxes": [BOX | {"bbox": [9, 9, 9, 20]}]}, "flat", "invalid_boxes", "[9, 9, 9, 20] has no area"),
    ({"id": "out", "boxes": [BOX | {"bbox": [0, 0, 200, 9]}]}, "out", "invalid_boxes", "outside the 160x80 image"),
    ({"id": "gone", "media": "gone.png"}, "gone", "media_missing", "no such file: 'input:gone.png'"),
    ({"id": "up", "media": "../a.png"}, "up", "media_not_allowed", ALLOWED),
    ({"id": "absolute", "media": "/etc/hostname"}, "absolute", "media_not_allowed", ALLOWED),
    ({"id": "url", "media": "https://example.org/a.png"}, "url", "media_not_allowed", ALLOWED),
    (
        {"id": "link", "media": "link.png", "question": "How many are there?"},
        "link",
        "media_not_allowed",
        "a link that leaves",
    ),
    ({"id": "upright", "media": "turned.jpg", "boxes": [BOX | {"bbox": [0, 0, 80, 160]}]}, "upright", None, ""),
    ({"id": "lying", "media": "turned.jpg", "boxes": [BOX]}, "lying", "invalid_boxes", "outside the 80x160 image"),
    ({"id": "cmyk", "media": "cmyk.jpg"}, "cmyk", None, ""),
    ({"id": "16 bit", "media": "deep.png"}, "16 bit", None, ""),
    ({"id": "palette", "media": "palette.png"}, "palette", None, ""),
    ({"id": "alpha", "media": "alpha.png"}, "alpha", None, ""),
    ({"id": "1 bit", "media": "bits.png"}, "1 bit", None, ""),
    ({"id": "5x5", "media": "tiny.png"}, "5x5", None, ""),
    ({"id": "tall", "media": "tall.png"}, "tall", None, ""),
    ({"id": "mislabelled", "media": "png.jpg", "question": "How many are they?"}, "mislabelled", None, ""),
    ({"id": "cut", "media": "cut.png"}, "cut", "undecodable_media", "input:cut.png: truncated"),
    ({"id": "zero", "media": "zero.png"}, "zero", "undecodable_media", "input:zero.png: empty: the file has no bytes"),
    ({"id": "bomb", "media": "bomb.png"}, "bomb", "undecodable_media", "too_large: the image has 100000x100000 pixels"),
    ({"id": "gif", "media": "moving.gif"}, "gif", "undecodable_media", "input:moving.gif: animated"),
    ({"id": "cut clip", "media": "cut.avi"}, "cut clip", "undecodable_media", "input:cut.avi: truncated"),
    ({"id": "twice"}, "twice", None, ""),
    ({"id": "twice"}, "twice#44", "duplicate_id", "'twice' is also the id of records.jsonl, line 43"),
    ({"id": "thrice", "answer": []}, "thrice#45", "invalid_record", "answer: expected a text, got []"),
    ({"id": "thrice", "question": "Are there 3?"}, "thrice", None, ""),
    (
        {"id": "thrice", "question": "Are there 3?"},
        "thrice#47",
        "duplicate_id",
        "'thrice' is also the id of records.jsonl, line 46",
    ),
    (b"\n \r\n", "", None, ""),
    (raw("half")[:-40], "line#50", "invalid_record", "not JSON: "),
]


@pytest.fixture(scope="module")
def bad_run(
    tmp_path_factory: pytest.TempPathFactory,
    write_records: Callable[..., Path],
    write_odd_media: Callable[[Path], None],
    run_beam: RunBeam,
) -> Any:
    """One run over LINES. Near duplicates are left alone: most pictures are the same scene in other clothes."""
    home = tmp_path_factory.mktemp("bad")
    write_odd_media(home / "data")
    rows = [{"media": "a.png"} | line if isinstance(line, dict) else line for line, *_ in LINES]
    data = write_records(home / "data", rows)
    return run_beam(data, home / "run", "--set", "dedup.near=false")


@pytest.mark.slow
def test_every_bad_record_is_accounted_for(bad_run: Any) -> None:
    assert (bad_run.code, "Traceback" in bad_run.err) == (0, False)
    bad_run.check_balance(sum(bool(name) for _, name, _, _ in LINES))
    assert set(bad_run.ends) == {name for _, name, _, _ in LINES if name}
    assert bad_run.counts["sft"] + bad_run.counts["rl"] > 0


@pytest.mark.parametrize(("name", "reason", "detail"), [case[1:] for case in LINES if case[2]], ids=lambda value: "")
def test_each_rejection_says_why(name: str, reason: str, detail: str, bad_run: Any) -> None:
    [row] = [row for row in bad_run.rows("rejected") if row["id"] == name]
    assert (row["stage"], row["reason"]) == ("clean" if reason == "question_too_long" else "ingest", reason)
    assert detail in row["detail"]
    assert len(row["detail"]) < 300


@pytest.mark.parametrize("name", [name for _, name, reason, _ in LINES if name and reason is None])
def test_odd_but_usable_records_pass_ingest(name: str, bad_run: Any) -> None:
    stages = {row["id"]: row["stage"] for row in bad_run.rows("rejected")}
    assert stages.get(name) not in ("ingest", "clean")


def test_placeholders_are_removed_from_the_question(bad_run: Any) -> None:
    [row] = [row for side in ("sft", "rl") for row in bad_run.rows(side) if row["id"] == "token"]
    assert row["question"] == "How many red squares are there?"


@pytest.fixture(scope="module")
def good(
    tmp_path_factory: pytest.TempPathFactory, write_records: Callable[..., Path], write_scene: Callable[..., Path]
) -> Path:
    """One record on one scene."""
    folder = tmp_path_factory.mktemp("good")
    write_scene(folder / "a.png")
    return write_records(folder, [{"id": "q", "media": "a.png"}])


@pytest.fixture(scope="module")
def good_run(good: Path, tmp_path_factory: pytest.TempPathFactory, run_short: RunBeam) -> Path:
    """A finished run over it, to be copied."""
    ran = run_short(good, tmp_path_factory.mktemp("good_run") / "run")
    assert ran.code == 0, ran.err
    return ran.folder


MISTAKES = [
    (["--set", "dificulty.low=0"], "unknown key dificulty; did you mean difficulty?"),
    (["--set", "difficulty.lo=0"], "unknown key difficulty.lo; did you mean difficulty.low?"),
    (["--set", "attempt=3"], "attempt must be a section, got 3"),
    (["--set", 'attempt.k="3"'], "attempt.k must be an integer, got '3'"),
    (["--set", "attempt.k=true"], "attempt.k must be an integer, got True"),
    (["--set", "difficulty.low=nan"], "difficulty.low must be a finite number, got nan"),
    (["--set", "difficulty"], "--set 'difficulty' must have the form key=value"),
    (["--set", "input.columns.qestion=q"], "input.columns.qestion must be one of id, source, "),
    (["--set", "roles.policy=nobody"], "roles.policy must be one of coarse, colour, edges"),
    (["--set", "endpoints.colour.kind=nope"], "nope"),
    (["--config", "/no/such.toml"], "cannot read the config /no/such.toml: No such file or directory"),
    (["--limit", "0"], "--limit must be at least 1, got 0"),
    (
        ["--", "--direct_num_worker=2"],
        "the Beam option '--direct_num_worker=2' is unknown; did you mean --direct_num_workers?",
    ),
    (["--", "--direct_num_workers=two"], "invalid int value: 'two'"),
    (["--", "--runner=Nope"], "Nope"),
    (
        ["--"],
        "no option follows `--`: leave out `--` to run on this machine; if $(…) should give the options, its comm",
    ),
    (["--", ""], "no option follows `--`"),
    (["--", " \n"], "no option follows `--`"),
    (
        ["--", "--runner=PortableRunner\n--job_endpoint=localhost:1"],
        "the Beam option '--runner=PortableRunner\\n--job_endpoint=localhost:1' has several lines",
    ),
]


@pytest.mark.parametrize(("words", "message"), MISTAKES, ids=lambda value: str(value)[:40])
def test_mistakes_in_the_command(words: list[str], message: str, good: Path, tmp_path: Path, run_beam: RunBeam) -> None:
    run_beam(good, tmp_path / "run", *words).check_refused(2, message)


PIPELINES = [
    ("missing", None, "there is no file"),
    ("empty", "x = 1\n", "define RECIPE = Recipe(…) in this file"),
    ("broken", "def (\n", "invalid syntax"),
]


@pytest.mark.parametrize(("name", "code", "message"), PIPELINES)
def test_pipeline_files_that_are_none(
    name: str, code: str | None, message: str, good: Path, tmp_path: Path, run_beam: RunBeam
) -> None:
    file = tmp_path / f"{name}.py"
    if code:
        file.write_text(code)
    run_beam(good, tmp_path / "run", pipeline=str(file)).check_refused(2, message)


INPUTS = [
    ("/no/such/folder", "the input /no/such/folder does not exist: set --input to a .csv, "),
    ("./nosuch", "the input ./nosuch does not exist: set --input to a .csv, "),
    ("empty", "no .csv or .tsv file, no records.jsonl, no .parquet file, and "),
    ("cut.parquet", "cut.parquet is not a Parquet file"),
]


@pytest.mark.parametrize(("name", "message"), INPUTS)
def test_inputs_that_are_none(name: str, message: str, tmp_path: Path, run_beam: RunBeam) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "cut.parquet").write_bytes(b"PAR1half")
    data = name if name[0] in "./" else tmp_path / name
    run_beam(data, tmp_path / "run").check_refused(2, message)
    assert not (tmp_path / "run").exists()


def test_a_parquet_file_with_damaged_pages(good: Path, tmp_path: Path, run_beam: RunBeam) -> None:
    same = {"image": (good / "a.png").read_bytes(), "answer": "3", "source": "s", "license": "MIT"}
    rows = [{"id": f"q{n}", "question": f"How many {n}?"} | same for n in range(50)]
    pq.write_table(pa.Table.from_pylist(rows), tmp_path / "rows.parquet")
    data = bytearray((tmp_path / "rows.parquet").read_bytes())
    data[4:200] = bytes(byte ^ 255 for byte in data[4:200])
    (tmp_path / "rows.parquet").write_bytes(data)
    ran = run_beam(tmp_path / "rows.parquet", tmp_path / "run")
    ran.check_refused(2, f"{tmp_path / 'rows.parquet'} cannot be read as Parquet")
    assert not (tmp_path / "run" / "run.json").exists()


@pytest.mark.slow
def test_damaged_media_of_an_earlier_run_are_drawn_anew(good: Path, tmp_path: Path, run_beam: RunBeam) -> None:
    rows = [{"id": "q", "question": "How many squares are there?", "answer": "3"}]
    rows[0] |= {"source": "s", "license": "MIT", "image": (good / "a.png").read_bytes()}  # type: ignore[dict-item]
    pq.write_table(pa.Table.from_pylist(rows), tmp_path / "rows.parquet")
    keep = ("--set", "difficulty.include_high=true", "--set", "split.sft_ratio=1")
    [row] = run_beam(tmp_path / "rows.parquet", tmp_path / "run", *keep).rows("sft")
    media = sorted((tmp_path / "run" / "media").iterdir())
    assert len(media) == 2, "the original and its overlay"
    for file in media:
        file.write_bytes(file.read_bytes()[:-20] + bytes(20))
    again = run_beam(tmp_path / "rows.parquet", tmp_path / "run", *keep)
    assert (again.code, again.rows("sft")) == (0, [row])


def test_an_output_that_is_a_url(good: Path, tmp_path: Path, run_beam: RunBeam, monkeypatch: Any) -> None:
    monkeypatch.chdir(tmp_path)
    ran = run_beam(good, "https://b/run")  # type: ignore[arg-type]
    assert (ran.code, ran.err.count("\n")) == (2, 1)
    assert "https://b/run: https:// is not supported: use a local path, s3:// or gs://" in ran.err
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
def test_a_data_set_that_is_not_there(tmp_path: Path, run_beam: RunBeam) -> None:
    run_beam("no/such", tmp_path / "run", own_process=True).check_refused(2, "no/such")


@pytest.mark.slow
def test_a_folder_belongs_to_one_input(
    good: Path, tmp_path: Path, write_records: Callable[..., Path], run_short: RunBeam
) -> None:
    (tmp_path / "other").mkdir()
    shutil.copy(good / "a.png", tmp_path / "other")
    other = write_records(tmp_path / "other", [{"id": "other", "media": "a.png"}])
    first = run_short(good, tmp_path / "run")
    assert (first.code, set(first.ends)) == (0, {"q"})
    run_short(other, tmp_path / "run").check_refused(
        2,
        "choose another --output, or add --resume=never to replace the outputs in this folder (replies in the cache",
    )
    assert set(first.ends) == {"q"}
    second = run_short(other, tmp_path / "run", "--resume", "never")
    assert (second.code, set(second.ends)) == (0, {"other"})
    second.check_balance(1)


FOREIGN = [("notes.txt", "is not empty and not a run folder"), ("input.json", "not a run folder")]


@pytest.mark.parametrize(("name", "message"), FOREIGN)
def test_a_folder_of_something_else_stays_as_it_is(
    name: str, message: str, good: Path, tmp_path: Path, run_beam: RunBeam
) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / name).write_text("mine")
    run_beam(good, tmp_path / "mine").check_refused(2, message)
    assert [(file.name, file.read_text()) for file in (tmp_path / "mine").iterdir()] == [(name, "mine")]


def test_an_output_that_is_a_file(good: Path, tmp_path: Path, run_beam: RunBeam) -> None:
    (tmp_path / "file").write_text("mine")
    run_beam(good, tmp_path / "file").check_refused(2, f"{tmp_path / 'file'} is a file, but a run needs a folder here")
    assert (tmp_path / "file").read_text() == "mine"


def test_a_read_only_output(good: Path, read_only: Path, run_beam: RunBeam) -> None:
    run_beam(good, read_only).check_refused(2, f"cannot write {read_only}")
    run_beam(good, read_only / "run").check_refused(2, f"cannot write {read_only / 'run'}")


def test_a_cache_that_cannot_be_written(good: Path, tmp_path: Path, read_only: Path, run_short: RunBeam) -> None:
    (tmp_path / "file").write_text("mine")
    for folder in (tmp_path / "file", tmp_path / "file/below", read_only, read_only / "below"):
        ran = run_short(good, tmp_path / "run", "--cache", str(folder))
        ran.check_refused(2, f"--cache {folder} cannot be used, because ")
    assert (tmp_path / "file").read_text() == "mine"
    assert run_short(good, tmp_path / "run", "--cache", str(tmp_path / "new/cache")).code == 0


@pytest.mark.parametrize(("name", "is_folder"), [("replies.sqlite", True), ("log", False), ("", False)])
@pytest.mark.parametrize("named", [True, False])
def test_something_else_in_the_place_of_the_cache(
    name: str, is_folder: bool, named: bool, good: Path, good_run: Path, tmp_path: Path, run_short: RunBeam
) -> None:
    shutil.copytree(good_run, tmp_path / "run")
    cache = tmp_path / "mine" if named else tmp_path / "run" / "cache"
    shutil.rmtree(cache, ignore_errors=True)
    (cache / name).parent.mkdir(exist_ok=True)
    (cache / name).mkdir() if is_folder else (cache / name).write_text("mine")
    option = ("--cache", str(cache)) if named else ()
    ran = run_short(good, tmp_path / "run", *option)
    ran.check_refused(2, f"{'--cache' if named else 'the cache'} {cache} cannot be used, because ")
    assert str(cache / name) in ran.err


@pytest.mark.faults
@pytest.mark.parametrize("left_bytes", [0, 300_000])
def test_a_full_disk(left_bytes: int, good: Path, tmp_path: Path, small_disk: Any, run_short: RunBeam) -> None:
    data = Path(shutil.copytree(good, tmp_path / "data"))
    info = PngImagePlugin.PngInfo()
    info.add_text("noise", random.Random(0).randbytes(400_000).hex())
    Image.open(good / "a.png").save(data / "a.png", pnginfo=info)
    command = (data, small_disk.folder / "run")
    small_disk.fill(left_bytes)
    full = run_short(*command, own_process=True, preexec_fn=small_disk.limits)
    assert not (full.folder / "run.json").exists()
    small_disk.free()
    again = run_short(*command)
    assert (again.code, again.err.count("beam: ")) == (0, 0)
    again.check_balance(1)
    assert again.counts["rejected"] == {}
    full.check_refused(*((2, "cannot write") if left_bytes == 0 else (3, "a disk is full: ")))


@pytest.mark.parametrize(("command", "content"), [("run", b""), ("preview", b"\n \r\n")])
def test_an_input_without_records(
    content: bytes, command: str, tmp_path: Path, write_records: Callable[..., Path], run_short: RunBeam
) -> None:
    done = run_short(write_records(tmp_path / "data", [content]), tmp_path / "run", command=command)
    done.check_refused(2, "data has no records: set --input to data with records (no earlier output was replaced)")
    assert not (tmp_path / "run/run.json").exists()


MAPPED = ["question=query", "answer=gold", "media=picture"]
MAP = [word for pair in MAPPED for word in ("--set", f'input.columns.{pair.replace("=", "=" + chr(34))}"')]
MAP += ["--set", "input.constants.source=made", "--set", "input.constants.license=MIT"]


@pytest.mark.slow
@pytest.mark.parametrize("form", ["file", "folder", "glob of paths", "data set", "data set of paths"])
def test_rows_of_other_inputs(form: str, good: Path, tmp_path: Path, run_short: RunBeam) -> None:
    data = tmp_path / "data"
    data.mkdir()
    shutil.copy(good / "a.png", data)
    pictures = [{"bytes": (good / "a.png").read_bytes(), "path": "a.png"}, {"bytes": b"none", "path": "b.png"}]
    by_path = "paths" in form
    rows = {"query": ["How many squares are there?"] * 2, "gold": ["3"] * 2}
    rows["picture"] = ["a.png", "gone.png"] if by_path else pictures  # type: ignore[assignment]
    if form == "data set of paths":
        datasets.Dataset.from_dict(rows).to_json(data / "train.jsonl")
    elif form == "data set":
        made = datasets.Dataset.from_dict(rows).cast_column("picture", datasets.Image(decode=False))
        made.to_parquet(data / "train-00000-of-00001.parquet")
    else:
        pq.write_table(pa.table(rows), data / "rows.parquet")
    named = {"file": data / "rows.parquet", "glob of paths": data / "*.parquet"}.get(form, data)
    done = run_short(named, tmp_path / "run", *MAP)
    assert done.code == 0
    done.check_balance(2)
    assert done.ends["row-2"] == ("media_missing" if by_path else "undecodable_media")
    [row] = [*done.rows("sft"), *done.rows("rl")]
    assert (row["id"], row["source"], row["license"], row["answer"]) == ("row-1", "made", "MIT", "3")
    assert row["images"][0]["bytes"] == (good / "a.png").read_bytes()
