"""The ``beam`` command: help, validate, the forecast of a preview, and how each kind of error ends."""

import contextlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import pipelines
from pipelines.cli import main, namesakes
from pipelines.commands import forecast_text, summary_text, wilson

PIPELINE = str(Path(pipelines.__file__).parent / "grounded_cot.py")
COMMANDS = ("run", "preview", "validate", "inspect")


@pytest.mark.parametrize("words", [(), *((command,) for command in COMMANDS)])
def test_help(words: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main([*words, "--help"])
    out = capsys.readouterr().out
    assert ended.value.code == 0
    assert out.startswith(" ".join(("usage: beam", *words)))
    assert all(command in out for command in COMMANDS if not words)
    assert ("--input DATA" in out) is (words not in ((), ("inspect",)))


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([], "the following arguments are required: COMMAND"),
        (["rum"], "invalid choice: 'rum'"),
        (["run", "p.py"], "the following arguments are required: --input, --output"),
        (["validate", "p.py", "--inp", "x"], "the following arguments are required: --input"),
        (["run", "p.py", "--input", "x", "--output", "y", "--limit", "few"], "invalid int value: 'few'"),
        (["run", "p.py", "--input", "x", "--output", "y", "--resume", "always"], "invalid choice: 'always'"),
    ],
)
def test_words_that_are_no_command(words: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(words)
    assert ended.value.code == 2
    assert said in capsys.readouterr().err


# n/(n + z²) and its complement at the ends; the others stand in Newcombe, Stat. Med. 17 (1998), tables I and II.
SHARES = [
    (0, 2, 0.0, 0.6576),
    (2, 2, 0.3424, 1.0),
    (0, 10, 0.0, 0.2775),
    (10, 10, 0.7225, 1.0),
    (5, 10, 0.2366, 0.7634),
    (81, 263, 0.2553, 0.3662),
    (15, 148, 0.0624, 0.1605),
    (0, 20, 0.0, 0.1611),
    (1, 29, 0.0061, 0.1718),
]


@pytest.mark.parametrize(("hits", "n", "low", "high"), SHARES)
def test_wilsons_interval(hits: int, n: int, low: float, high: float) -> None:
    assert wilson(hits, n) == (pytest.approx(low, abs=5e-5), pytest.approx(high, abs=5e-5))


def summary(sft: int, rl: int, seen: int, **roles: dict[str, Any]) -> dict[str, Any]:
    return {"counts": {"input": seen, "sft": sft, "rl": rl, "rejected": {}}, "ledger": roles}


def role(calls: int, cost_usd: float, stage: str) -> dict[str, Any]:
    figures = {"calls": calls, "requests": calls, "cached": 0, "cost_usd": cost_usd}
    return figures | {"stages": {stage: figures}}


@pytest.mark.parametrize(
    ("given", "total", "text"),
    [
        (summary(0, 0, 10), None, "forecast: the size of this input is not known"),
        (summary(0, 0, 0), 0, "forecast: the input has no records"),
        (
            summary(5, 1, 10, policy=role(10, 0.5, "attempt"), teacher=role(5, 1.25, "trace")),
            200,
            "forecast for 200 records from 10: about 300 calls, $35.00 at the prices of the config\n"
            "  sft rows: 100 (95 %: 47 to 153)\n"
            "  rl rows: 20 (95 %: 4 to 81)",
        ),
        (
            summary(3, 0, 3),
            3,
            "forecast for 3 records from 3: about 0 calls, $0.00 at the prices of the config\n"
            "  sft rows: 3 (95 %: 1 to 3)\n"
            "  rl rows: 0 (95 %: 0 to 2)",
        ),
    ],
)
def test_the_forecast(given: dict[str, Any], total: int | None, text: str) -> None:
    assert forecast_text(given, total) == text


def test_a_call_made_once_a_run_does_not_grow_with_the_records() -> None:
    given = summary(5, 5, 10, policy=role(10, 0.0, "attempt"), teacher=role(1, 2.0, "rubric_candidates"))
    assert "about 1001 calls, $2.00 at" in forecast_text(given, 1000)


def test_the_end_of_a_run_in_a_few_lines() -> None:
    rejected = {"attempt": {"call_failed": 2, "ungradable": 1}, "verify": {"wrong_answer": 4}}
    given = summary(5, 1, 13, policy=role(10, 0.5, "attempt")) | {"wall_s": 3.21}
    given["counts"]["rejected"] = rejected
    assert summary_text(given, "RUN").splitlines() == [
        "13 records: 5 sft, 1 rl, 7 rejected",
        "  wrong_answer: 4",
        "  call_failed: 2",
        "  ungradable: 1",
        "model calls: 10 sent, 0 replies from the cache, $0.50, 3.2 s",
        "report: RUN/report.html",
    ]


def test_a_reason_of_two_stages_is_added_up() -> None:
    given = summary(0, 0, 5) | {"wall_s": 1.0}
    given["counts"]["rejected"] = {"attempt": {"call_failed": 2}, "trace": {"call_failed": 3}}
    assert "  call_failed: 5" in summary_text(given, "RUN").splitlines()


@pytest.fixture
def data(tmp_path: Path, write_records: Callable[..., Path], write_scene: Callable[..., Path]) -> Path:
    """Four pictures of three squares, each with its question."""
    orders = (["red", "blue", "black"], ["blue", "red", "black"], ["black", "red", "blue"], ["yellow", "red", "blue"])
    for number, squares in enumerate(orders):
        write_scene(tmp_path / f"data/{number}.png", squares, width=400)
    return write_records(tmp_path / "data", [{"id": f"q{n}", "media": f"{n}.png"} for n in range(4)])


def test_a_preview(data: Path, tmp_path: Path, run_beam: Callable[..., Any]) -> None:
    settings = ("--records", "2", "--set", "split.sft_ratio=1.0", "--set", "difficulty.include_low=true")
    ran = run_beam(data, tmp_path / "run", *settings, command="preview")
    assert ran.code == 0, ran.err
    assert (ran.counts["input"], ran.counts["sft"]) == (2, 2)
    lines = ran.out.splitlines()
    assert lines[0] == "2 records: 2 sft, 0 rl, 0 rejected"
    assert lines[-3].startswith("forecast for 4 records from 2: about ")
    assert lines[-1] == "  rl rows: 0 (95 %: 0 to 3)"
    assert lines[-2] == "  sft rows: 4 (95 %: 1 to 4)"


def validate(data: Path, *extra: str) -> int:
    return main(["validate", PIPELINE, "--input", str(data), *extra])


def test_validate_says_what_is_there_and_writes_nothing(
    data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "cwd").mkdir()
    with contextlib.chdir(tmp_path / "cwd"):
        assert validate(data) == 0
    out, err = capsys.readouterr()
    lines = out.splitlines()
    assert lines[:2] == ["pipeline: grounded_cot", f"input: {data}, 4 records"]
    assert lines[2].startswith("prompts: attempt.v1, detect.v1")
    assert lines[3:] == [
        "endpoint coarse (policy): embedded, colour, strength 0.75",
        "endpoint colour (judge, pointer, teacher): embedded, colour, strength 0",
        "endpoint edges (detector, segmenter): embedded, edges, strength 0",
        "note: the judge is the teacher's endpoint",
    ]
    assert err == ""
    assert list((tmp_path / "cwd").iterdir()) == []


def test_validate_finds_an_endpoint_that_does_not_answer(data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    own = ("kind=openai", "model=m", "base_url=http://127.0.0.1:9/v1")
    settings = [word for field in own for word in ("--set", f"endpoints.own.{field}")]
    assert validate(data, *settings, "--set", "roles.judge=own") == 2
    lines = capsys.readouterr().out.splitlines()
    assert [line for line in lines if "NOT READY" in line] == [line for line in lines if "endpoint own (judge)" in line]
    assert len([line for line in lines if "NOT READY: connection" in line]) == 1


@pytest.mark.parametrize(
    ("extra", "said"),
    [
        (["--set", "attempt.kk=3"], "unknown key attempt.kk; did you mean attempt.k?"),
        (["--config", "/nowhere.toml"], "cannot read the config /nowhere.toml"),
        (["--", "--direct_num_worker=2"], "did you mean --direct_num_workers?"),
    ],
)
def test_mistakes_end_with_2(extra: list[str], said: str, data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert validate(data, *extra) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("beam: ")
    assert said in line


@pytest.mark.parametrize(
    ("command", "words", "said"),
    [
        ("run", ["--limit", "0"], "--limit must be at least 1, got 0"),
        ("preview", ["--records", "-1"], "--records must be at least 1, got -1"),
    ],
)
def test_counts_below_one(
    command: str, words: list[str], said: str, data: Path, tmp_path: Path, run_beam: Callable[..., Any]
) -> None:
    run_beam(data, tmp_path / "run", *words, command=command).check_refused(2, said)
    assert not (tmp_path / "run").exists()


OWN = """
from dataclasses import dataclass
import apache_beam as beam
from pipelines.context import Outcome
from pipelines.settings import RunSettings
from stages.ingest_records import IngestRecords
from stages.mine_rubrics import MinedRubrics

RECIPE = "own"

@dataclass(frozen=True)
class Settings(RunSettings):
    pass

def build(root, run, settings):
    @@BODY@@
    ingested = root | IngestRecords(run.sources, settings.input, run.roots, run.limit)
    nothing = [root | name >> beam.Create([]) for name in ("NoSft", "NoRl")]
    return Outcome(*nothing, ingested["rejected"], root | "NoRubrics" >> beam.Create([MinedRubrics()]))
"""
BODIES = {
    "lossy": ("pass", 1, "conservation violated: 4 records were read, but 0 came out: sft 0, rl 0, rejected 0"),
    "broken": ("raise RuntimeError('above\\nbelow')", 1, "RuntimeError: below (--verbose shows where)"),
    "silent": ("raise RuntimeError", 1, "RuntimeError: no message (--verbose shows where)"),
    "stopped": ("raise KeyboardInterrupt", 130, "interrupted; run the same command again to resume"),
}


@pytest.mark.parametrize("name", BODIES)
def test_runs_that_fail_leave_no_outputs(
    name: str, data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    body, code, said = BODIES[name]
    path = tmp_path / f"own_{name}.py"
    path.write_text(OWN.replace("@@BODY@@", body), "utf-8")
    assert main(["run", str(path), "--input", str(data), "--output", str(tmp_path / "run")]) == code
    out, err = capsys.readouterr()
    assert out == ""
    assert err.splitlines()[-1] == f"beam: {said}"
    assert not (tmp_path / "run/run.json").exists()


def test_verbose_shows_where(data: Path, tmp_path: Path) -> None:
    path = tmp_path / "own_loud.py"
    path.write_text(OWN.replace("@@BODY@@", "raise RuntimeError('here')"), "utf-8")
    with pytest.raises(RuntimeError, match="here"):
        main(["--verbose", "run", str(path), "--input", str(data), "--output", str(tmp_path / "run")])


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (None, "there is no pipeline"),
        ("RECIPE = 'x'", "is not a pipeline: it defines no Settings"),
    ],
)
def test_files_that_are_no_pipeline(
    content: str | None, said: str, data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "own_nothing.py"
    if content is not None:
        path.write_text(content, "utf-8")
    assert main(["validate", str(path), "--input", str(data)]) == 2
    assert said in capsys.readouterr().err


def test_packages_that_own_the_same_command_are_named() -> None:
    assert namesakes() == []
    assert namesakes(("no-such-package", "pytest")) == ["pytest"]
