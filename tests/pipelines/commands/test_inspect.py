import argparse
import base64
import csv
import io
import json
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from groundtrace.pipelines.commands import cli, inspect
from groundtrace.pipelines.commands.inspect import inspect_run, run_inspect
from groundtrace.pipelines.commands.streams import NOBODY_READS
from groundtrace.publishing import reading, tables
from groundtrace.publishing.figures import CALLS_NOTE
from groundtrace.publishing.reading import InspectError, open_tables

LEDGER = {
    "calls": 3,
    "requests": 2,
    "cached": 1,
    "retries": 0,
    "tokens_in": 70,
    "tokens_out": 9,
    "cost_usd": 0.25,
}

CONFIG = """[roles]
teacher = "unsure"
policy = "sure"
[endpoints.unsure]
kind = "classical"
model = "big-model"
strength = 2.0
[endpoints.sure]
kind = "classical"
model = "small-model"
strength = 0.0
threshold = 0.3
"""


def summary_of(sft: int, rl: int, rejected: dict[str, dict[str, int]]) -> dict[str, Any]:
    return {
        "recipe": "grounded_cot",
        "input": "/data/questions",
        "counts": {"input": sft + rl + sum(sum(r.values()) for r in rejected.values()), "sft": sft, "rl": rl}
        | {"rejected": rejected},
        "stages": {
            "ingest": {"in": 9, "kept": 8, "does": "reads", "reasons": {}},
            "difficulty": {"in": 8, "kept": 5, "does": "sorts", "reasons": {"too_easy": "pass rate above the band"}},
            "verify": {"in": 3, "kept": 2, "does": "checks", "reasons": {}},
            "rubric_judge": {"in": 2, "kept": 2, "does": "judges", "is_sample": True},
        },
        "ledger": {"teacher": LEDGER | {"stages": {"trace": LEDGER}}},
        "roles": {"teacher": "big-model", "policy": "small-model"},
        "self_judged": False,
        "config_sha256": "c0ffee",
        "revision": "abc123",
        "prompts": {},
        "finished": "2026-01-02T03:04:05+00:00",
        "wall_s": 1.5,
    }


def write_run(folder: Path, sft: list[dict[str, Any]], rejected: list[dict[str, Any]] | None = None) -> Path:
    counts: dict[str, dict[str, int]] = {}
    for row in rejected or []:
        counts.setdefault(row["stage"], {}).setdefault(row["reason"], 0)
        counts[row["stage"]][row["reason"]] += 1
    for name, rows in (("sft", sft), ("rl", []), ("rejected", rejected or [])):
        (folder / name).mkdir(parents=True)
        table = pa.Table.from_pylist(rows, schema=reading.SHARDS[name])
        pq.write_table(table, folder / name / "train-00000-of-00001.parquet")
    (folder / "run.json").write_text(json.dumps(summary_of(len(sft), 0, counts)), "utf-8")
    return folder


@pytest.fixture
def run(tmp_path: Path) -> Path:
    sft = [
        {
            "id": f"q{n}",
            "question": "why? " * 100,
            "images": [{"bytes": b"x" * 5000, "path": "a.png"}],
            "pass_rate": n / 4,
            "scores": {"final": n / 4},
        }
        for n in (1, 2, 2, 3)
    ]
    rejected = [{"id": "r1", "stage": "verify", "reason": "low_grounding", "detail": "0.1"}]
    rejected += [{"id": f"d{n}", "stage": "difficulty", "reason": "too_easy"} for n in range(3)]
    return write_run(tmp_path / "run", sft, rejected)


def figures(text: str, title: str) -> list[list[str]]:
    return [line.split() for line in text.split(f"\n{title}\n", 1)[1].split("\n\n")[0].splitlines()[1:]]


def test_the_figures_are_those_of_the_shards_and_run_json(run: Path) -> None:
    (run / "config.toml").write_text(CONFIG, "utf-8")
    text = inspect_run(run, None)
    assert "8 records: 4 sft, 0 rl, 4 rejected" in text
    stages_shown = [["ingest", "9", "8", "0"], ["difficulty", "8", "5", "3"], ["verify", "3", "2", "1"]]
    assert figures(text, "funnel") == [*stages_shown, ["(rubric_judge)", "2", "2", "0"]]
    reasons = [(row[0], row[1], row[2]) for row in figures(text, "rejections")]
    assert reasons == [("difficulty", "too_easy", "3"), ("verify", "low_grounding", "1")]
    assert figures(text, "difficulty") == [
        ["too", "hard", "0", "0", "0"],
        ["0.25", "1", "0", "0"],
        ["0.50", "2", "0", "0"],
        ["0.75", "1", "0", "0"],
        ["too", "easy", "0", "0", "3"],
    ]
    policy, teacher, note = figures(text, "calls and cost by role")
    assert policy == ["policy", "small-model", "sure", *["0"] * 7]
    assert teacher == ["teacher", "big-model", "unsure,", "strength", "2.0", "3", "2", "1", "0", "70", "9", "0.25"]
    assert " ".join(note) == CALLS_NOTE, "the numbers of a line do not add up"


@pytest.mark.parametrize("config", ["[trace", "roles = 1\n"])
def test_a_damaged_config_leaves_only_the_endpoints_out(run: Path, config: str) -> None:
    without = inspect_run(run, None)
    (run / "config.toml").write_text(config, "utf-8")
    assert inspect_run(run, None) == without
    assert figures(without, "calls and cost by role")[0][:2] == ["policy", "small-model"]


def test_the_verdicts_of_each_scorer_are_shown(tmp_path: Path) -> None:
    verdicts = [{"name": "spatial", "value": value, "failed": False, "reason": "", "evidence": []} for value in (1, 0)]
    rows = [{"id": str(n), "verdicts": [verdict]} for n, verdict in enumerate(verdicts)]
    low = {"id": "low", "stage": "verify", "reason": "low_grounding", "rejected_by": "spatial"}
    run = write_run(tmp_path / "run", rows, [low])
    fields = json.loads((run / "run.json").read_text("utf-8"))
    fields["stages"]["verify"]["floors"] = {"spatial": 0.5}
    (run / "run.json").write_text(json.dumps(fields), "utf-8")
    [line] = figures(inspect_run(run, None), "verdicts on traces")
    assert line == ["spatial", "2", "0", "0", "0.5", "0.5", "0.5", "1"]
    assert inspect_run(run, "SELECT id FROM verdicts WHERE value < 0.5").strip() == "id: 1"


def test_many_pass_rates_are_shown_by_tenths(tmp_path: Path) -> None:
    rows = [{"id": str(n), "pass_rate": n / 20} for n in range(21)] + [{"id": "none"}]
    bars = figures(inspect_run(write_run(tmp_path / "run", rows), None), "difficulty")[1:-1]
    assert [bar[0] for bar in bars] == [f"{n / 10:.1f}–{(n + 1) / 10:.1f}" for n in range(10)]
    assert [int(bar[1]) for bar in bars] == [2] * 9 + [3]


def test_a_run_of_earlier_code_has_its_stages_by_size(run: Path) -> None:
    """Its run.json says neither their order nor what they do."""
    fields = json.loads((run / "run.json").read_text("utf-8"))
    counted = {name: {"in": told["in"], "kept": told["kept"]} for name, told in sorted(fields["stages"].items())}
    (run / "run.json").write_text(json.dumps(fields | {"stages": counted}), "utf-8")
    shown = [row[0] for row in figures(inspect_run(run, None), "funnel")]
    assert shown == ["ingest", "difficulty", "verify", "rubric_judge"]


@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        ("SELECT count(*) AS n FROM sft", "n: 4"),
        ("SELECT id FROM sft WHERE scores.final > 0.5 AND pass_rate > 0.5", "id: q3"),
        (
            "SELECT reason, count(*) AS n FROM rejected GROUP BY 1 ORDER BY 2",
            "low_grounding  1\ntoo_easy       3",
        ),
        ("SELECT sft, rl, rejected, cost_usd FROM runs", "sft: 4\nrl: 0\nrejected: 4\ncost_usd: 0.25"),
        ("SELECT id FROM rl", "id"),
        ("SELECT 'a' || chr(27) || '[31m' || chr(10) AS x", "x: a\\x1b[31m\\n"),
        ("SELECT '[red]x[/red]' AS x", "x: [red]x[/red]"),
        ("SELECT images FROM sft WHERE id = 'q1'", "images: [{bytes: <5000 bytes>, path: a.png}]"),
        ("SELECT 7 AS n;", "n: 7"),
        ("SELECT '\udcff' AS x", "x: ?"),
    ],
)
def test_queries(run: Path, sql: str, expected: str) -> None:
    assert inspect_run(run, sql).strip().endswith(expected)


def test_long_cells_are_cut_in_a_table_and_whole_in_a_single_row(run: Path) -> None:
    table = inspect_run(run, "SELECT * FROM sft ORDER BY id").splitlines()
    assert table[5:] == ["long values are cut: --csv and --json write them whole"]
    assert "<5000 bytes>" in table[1]
    assert "why? " * 20 not in table[1]
    assert ("why? " * 100).strip() in inspect_run(run, "SELECT question FROM sft LIMIT 1")


def test_a_long_result_is_cut_and_says_so(run: Path) -> None:
    lines = inspect_run(run, "SELECT * FROM range(100000)").splitlines()
    assert "long values" not in "".join(lines)
    assert len(lines) == inspect.MAX_PRINTED_ROWS + 2
    assert lines[-1].startswith("more than")


@pytest.mark.parametrize(
    ("sql", "message"),
    [
        ("COPY sft TO '{folder}/out.csv'", "got COPY"),
        ("COPY (SELECT 1) TO '{folder}/out.parquet'", "got COPY"),
        ("SELECT 1; DROP VIEW sft", "got SELECT, DROP"),
        ("ATTACH '{folder}/out.db'", "got ATTACH"),
        ("SET enable_external_access = true", "got SET"),
        ("INSTALL httpfs", "got LOAD"),
        ("EXPLAIN ANALYZE SELECT 1", "got EXPLAIN"),
        ("", "got nothing"),
        ("SELECT * FROM read_text('/etc/hostname')", "disabled by configuration"),
        ("SELECT * FROM read_text('{folder}/run.json')", "disabled by configuration"),
        ("COPY sft TO '{folder}/sft/train-00000-of-00001.parquet' (USE_TMP_FILE false)", "got COPY"),
        ("SELECT * FROM read_parquet('https://example.org/x.parquet')", "disabled by configuration"),
        ("SELECT * FROM glob('/*')", "disabled by configuration"),
        ("SELECT * FROM LEDGER", "does not exist!; the tables of "),
        ("SELECT * FROM database_list", "does not exist!; the tables of "),
        ("SELECT * FROM mark", "does not exist!; the tables of "),
        ("SELECT nope FROM sft", '"nope" not found'),
        ("SELEC 1", "syntax error"),
    ],
)
def test_refused_queries_say_why_in_one_line(run: Path, sql: str, message: str) -> None:
    before = sorted(run.rglob("*"))
    with pytest.raises(InspectError) as caught:
        inspect_run(run, sql.replace("{folder}", str(run)))
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)
    assert sorted(run.rglob("*")) == before


@pytest.mark.parametrize(
    "sql",
    [
        "COPY sft TO '{0}/x.parquet'",
        "EXPORT DATABASE '{0}/x'",
        "ATTACH '{0}/x.db'",
        "SET lock_configuration = false",
    ],
)
def test_the_database_itself_is_closed(run: Path, sql: str) -> None:
    with open_tables(run, reading.read_summary(run)) as tables, pytest.raises(duckdb.Error):
        tables.execute(sql.format(run))
    assert not list(run.glob("x*"))


def test_a_run_without_rows_or_shards(tmp_path: Path) -> None:
    empty = write_run(tmp_path / "empty", [])
    bare = tmp_path / "bare"
    bare.mkdir()
    (bare / "run.json").write_text((empty / "run.json").read_text("utf-8"), "utf-8")
    assert inspect_run(empty, None) == inspect_run(bare, None)
    assert inspect_run(bare, "SELECT count(scores.final) AS n FROM sft") == "n: 0\n"


@pytest.mark.parametrize(
    ("files", "message"),
    [
        ({}, "it is not a run folder"),
        ({"input.json": "{}"}, "repeat its `beam run`"),
        ({"run.json": "{"}, "damaged"),
        ({"run.json": "[]"}, "damaged"),
        ({"run.json": '{"counts": {}}'}, "damaged"),
    ],
)
def test_folders_that_are_no_run(tmp_path: Path, files: dict[str, str], message: str) -> None:
    for name, text in files.items():
        (tmp_path / name).write_text(text, "utf-8")
    with pytest.raises(InspectError, match=message):
        inspect_run(tmp_path, None)
    with pytest.raises(InspectError, match="there is no folder"):
        inspect_run(tmp_path / "missing", None)


def test_a_damaged_shard_is_named(run: Path) -> None:
    (run / "rl" / "train-00000-of-00001.parquet").write_bytes(b"not parquet")
    with pytest.raises(InspectError, match="rl"):
        inspect_run(run, None)


def test_off_a_terminal_plain_text_is_printed(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run_inspect(argparse.Namespace(runs=[str(run)], sql=None, json=False, csv=False))
    out = capsys.readouterr().out
    assert out == inspect_run(run, None)
    assert "\x1b" not in out


@given(st.text(max_size=200))
def test_printed_text_cannot_drive_a_terminal(text: str) -> None:
    shown = tables.value_text([text, {"a": text.encode("utf-8", "replace")}], None)
    assert shown.isprintable()


@pytest.mark.parametrize(
    ("words", "condition", "address"),
    [
        (["--reason", "too_easy"], "WHERE reason = 'too_easy'", "reason=too_easy"),
        (["--stage", "verify"], "WHERE stage = 'verify'", "stage=verify"),
        (["--id", "q&a"], "WHERE id = 'q&a'", "id=q%26a"),
    ],
)
def test_a_filter_as_an_option_names_the_query_and_the_view(
    run: Path, capsys: pytest.CaptureFixture[str], words: list[str], condition: str, address: str
) -> None:
    with pytest.raises(SystemExit) as stopped:
        cli.main(["inspect", str(run), *words])
    said = capsys.readouterr().err
    assert stopped.value.code == 2 and said.count("\n") == 1
    query, at = shlex.split(said.split("--sql ", 1)[1])[0].rstrip(","), said.split("--at ", 1)[1].split("`")[0]
    assert query.endswith(condition) and shlex.split(at) == [address]
    inspect_run(run, query)  # the query is valid


def test_an_id_in_the_place_of_a_run_names_the_view(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["inspect", str(run), "s02b"]) == 2
    said = capsys.readouterr().err
    assert "no run folder s02b" in said and f"`beam view {run} --at id=s02b`" in said and said.count("\n") == 1


def test_all_figures_are_written_as_json(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["inspect", str(run), "--json"]) == 0
    written = json.loads(capsys.readouterr().out)
    assert written["counts"]["sft"] == 4
    assert written["tables"]["funnel"][0] == {"stage": "ingest", "in": 9, "kept": 8, "rejected": 0}
    assert {row["reason"]: row["rows"] for row in written["tables"]["rejections"]} == {
        "too_easy": 3,
        "low_grounding": 1,
    }
    assert written["tables"]["calls and cost by role"][1]["USD"] == 0.25


def test_the_rows_of_a_query_are_written_whole(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    sql = "SELECT id, question, scores, images FROM sft ORDER BY id LIMIT 2"
    assert cli.main(["inspect", str(run), "--sql", sql, "--json"]) == 0
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [row["id"] for row in rows] == ["q1", "q2"]
    assert rows[0]["question"] == "why? " * 100
    assert rows[0]["scores"]["final"] == 0.25
    assert base64.b64decode(rows[0]["images"][0]["bytes"]) == b"x" * 5000
    assert cli.main(["inspect", str(run), "--sql", sql, "--csv"]) == 0
    header, first, _ = csv.reader(io.StringIO(capsys.readouterr().out))
    assert header == ["id", "question", "scores", "images"]
    assert first[1] == "why? " * 100
    assert json.loads(first[2])["final"] == 0.25


@pytest.mark.parametrize(("words", "out"), [([], "id\n"), (["--json"], ""), (["--csv"], "id\n")])
def test_a_query_without_rows_says_so_beside_its_output(
    words: list[str], out: str, run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["inspect", str(run), "--sql", "SELECT id FROM sft WHERE id = 'none'", *words]) == 0
    said = capsys.readouterr()
    assert (said.out, said.err) == (out, "beam: no rows\n")


@pytest.mark.parametrize("words", [["--json"], ["--csv"]])
def test_a_closed_pipe_is_no_failed_query(words: list[str], run: Path) -> None:
    sql = "SELECT n, repeat('x', 1000) FROM range(2000) t(n)"
    command = [sys.executable, "-m", "groundtrace", "inspect", str(run), "--sql", sql, *words]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None and process.stderr is not None
        process.stdout.readline()
        process.stdout.close()
        said = process.stderr.read()
    assert (process.returncode, said) == (NOBODY_READS, b"")


def test_more_rows_than_are_printed_are_written(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = [{"id": str(n)} for n in range(inspect.BATCH_ROWS + 5)]
    folder = str(write_run(tmp_path / "run", rows))
    assert cli.main(["inspect", folder, "--sql", "SELECT id FROM sft", "--csv"]) == 0
    assert len(capsys.readouterr().out.splitlines()) == len(rows) + 1


@pytest.mark.parametrize(
    ("words", "said"),
    [(["--csv"], "add --sql with the query"), (["--json", "--sql", "DROP TABLE sft"], "one read-only query")],
)
def test_what_cannot_be_written_is_said(
    words: list[str], said: str, run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["inspect", str(run), *words]) == 2
    captured = capsys.readouterr()
    assert said in captured.err and captured.out == ""


@pytest.fixture
def two_runs(run: Path, tmp_path: Path) -> list[str]:
    row = {"id": "q1", "pass_rate": 1.0, "scores": {"final": 0.5}}
    return [str(run), str(write_run(tmp_path / 'it\'s "other"', [row]))]


@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        (
            "SELECT id, b.scores.final - a.scores.final AS more FROM a.sft a JOIN b.sft b USING (id)",
            "id: q1\nmore: 0.25",
        ),
        ("SELECT count(*) AS n FROM b.rejected", "n: 0"),
        ("SELECT a.runs.sft, b.runs.sft AS other FROM a.runs, b.runs", "sft: 4\nother: 1"),
        ("SELECT count(*) AS n FROM run.sft", "n: 4"),
        ('SELECT count(*) AS n FROM "it\'s ""other""".sft', "n: 1"),
    ],
)
def test_a_query_over_several_runs(two_runs: list[str], sql: str, expected: str) -> None:
    assert inspect_run(Path(two_runs[0]), sql, Path(two_runs[1])).strip() == expected


@pytest.mark.parametrize(
    ("sql", "message"),
    [
        (
            "SELECT id FROM sft",
            "the tables are a.sft, a.rl, a.rejected, a.verdicts, a.marks, a.judgements, a.runs, b.sft and so on (a is ",
        ),
        ("DROP VIEW a.sft", "got DROP"),
        ("SELECT * FROM read_text('/etc/hostname')", "disabled by configuration"),
        (None, "beam inspect reads several runs only with a query: add --sql, or compare two runs with `beam diff"),
    ],
)
def test_mistakes_in_a_query_over_several_runs(
    two_runs: list[str], capsys: pytest.CaptureFixture[str], sql: str | None, message: str
) -> None:
    assert cli.main(["inspect", *two_runs, *(["--sql", sql] if sql else [])]) == 2
    said = capsys.readouterr().err
    assert message in said and said.count("\n") == 1


def test_runs_of_one_folder_name_have_their_letters_only() -> None:
    runs = [Path("x/one"), Path("y/ONE"), Path("z/b"), Path("z/main"), Path("z/Mine")]
    assert reading.schema_names(runs) == [("a",), ("b",), ("c",), ("d",), ("e", "mine")]


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("sft/x.parquet", ["inspect"]),
        ("sft/x.parquet", ["view"]),
        ("ledger/x.json", ["inspect"]),
        ("ledger/20260101T000000-0123abcd/paid-1.jsonl", ["inspect"]),
        ("config.toml", ["diff"]),
        ("input.json", ["diff"]),
        ("reviews/marks.jsonl", ["view"]),
    ],
)
def test_a_device_in_the_place_of_a_file_is_one_line(
    run: Path, name: str, words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    (run / name).parent.mkdir(parents=True, exist_ok=True)
    (run / name).unlink(missing_ok=True)
    (run / name).symlink_to("/dev/null")
    more = {"inspect": [], "diff": [str(run), "--settings"], "view": ["--export", str(run.with_name("copy"))]}
    assert cli.main([*words, str(run), *more[words[0]]]) == 2
    err = capsys.readouterr().err
    assert err.startswith(f"beam: {run / name} is ") and err.count("\n") == 1
