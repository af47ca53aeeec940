"""The ``beam`` command: help, validate, the forecast of a preview, and how each kind of error ends."""

import contextlib
import json
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from groundtrace import pipelines
from groundtrace.inference.settings import EndpointSettings
from groundtrace.pipelines.commands.cli import main, make_parser, namesakes
from groundtrace.publishing.run_text import summary_text
from groundtrace.schemas.run_summary import BudgetFigures, Counts, RoleLedger, RunSummary, TargetFigures
from groundtrace.schemas.usage import Usage

PIPELINE = str(Path(pipelines.__file__).parent / "grounded_cot.py")
COMMANDS = ("init", "run", "preview", "validate", "inspect", "diff", "export", "config", "cache")


@pytest.mark.parametrize("words", [(), *((command,) for command in COMMANDS)])
def test_help(words: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main([*words, "--help"])
    out = capsys.readouterr().out
    assert ended.value.code == 0
    assert out.startswith(" ".join(("usage: beam", *words)))
    assert all(command in out for command in COMMANDS if not words)
    assert ("--input DATA" in out) is (
        words not in ((), ("init",), ("inspect",), ("diff",), ("export",), ("config",), ("cache",))
    )


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


def summary(sft: int, rl: int, seen: int, **changes: Any) -> RunSummary:
    """A summary of these counts; what is not said here is of no matter."""
    facts = dict.fromkeys(("recipe", "input", "finished", "revision", "config_sha256"), "x")
    nothing: dict[str, Any] = {name: {} for name in ("stages", "ledger", "roles", "prompts")}
    counts = Counts(seen, sft, rl, changes.pop("rejected", {}))
    return RunSummary(**facts | nothing | {"counts": counts, "wall_s": 1.0, "self_judged": False} | changes)


def test_the_name_of_a_run_whose_replies_were_taken_over_is_printable() -> None:
    given = summary(1, 0, 1, taken_over={"a\nb": 3})
    assert "3 replies from a\\nb (--fresh ignores earlier replies)" in summary_text(given, "RUN", {}).splitlines()


def test_the_end_of_a_run_in_a_few_lines() -> None:
    rejected = {"attempt": {"call_failed": 2, "ungradable": 1}, "verify": {"wrong_answer": 4}}
    ledger = {"policy": RoleLedger({"attempt": Usage(calls=10, requests=10, cost_usd=0.5)})}
    given = summary(5, 1, 13, rejected=rejected, ledger=ledger, wall_s=3.21)
    assert summary_text(given, "RUN", {}).splitlines() == [
        "13 records: 5 sft, 1 rl, 7 rejected",
        "  wrong_answer: 4",
        "  call_failed: 2",
        "  ungradable: 1",
        "10 requests sent, 0 replies from the cache, $0.50, 3.2 s",
        "report: RUN/report.html",
    ]


ENDED = (
    "the budget was used up after $1.50 and 700 tokens: 4 records rejected as budget; the same command with a larger"
)


def test_one_record_is_no_records() -> None:
    assert summary_text(summary(1, 0, 1), "RUN", {}).startswith("1 record: 1 sft")


@pytest.mark.parametrize(
    ("target", "budget", "lines"),
    [
        (TargetFigures(5, True, ({},)), None, ["target reached: 5 SFT rows in 1 wave"]),
        (TargetFigures(5, True, ({}, {})), False, ["target reached: 5 SFT rows in 2 waves"]),
        (TargetFigures(1000, False, ()), None, ["target not reached: 5 of 1000; the input is used up"]),
        (TargetFigures(9, False, ()), True, [ENDED, "target not reached: 5 of 9; the budget is used up"]),
        (None, True, [ENDED]),
        (None, False, []),
    ],
)
def test_what_a_target_and_a_budget_say_of_the_end(
    target: TargetFigures | None, budget: bool | None, lines: list[str]
) -> None:
    spent = None if budget is None else BudgetFigures(None, None, 1.5, 700, budget, 4)
    given = summary(5, 1, 6, target=target, budget=spent)
    found = summary_text(given, "RUN", {}).splitlines()
    said = found[found.index("report: RUN/report.html") + 1 :]
    assert len(said) == len(lines)
    assert all(line.startswith(start) for line, start in zip(said, lines, strict=True))


def test_validate_says_what_an_endpoint_cannot_do(
    data: Path, write_records: Callable[..., Path], capsys: pytest.CaptureFixture[str]
) -> None:
    two = write_records(data, [{"id": "both", "media": ["0.png", "1.png"]}])
    off = ("--set", "endpoints.coarse.multi_image=false", "--set", "endpoints.edges.structured_output=false")
    assert validate(two, *off) == 2
    lines = capsys.readouterr().out.splitlines()
    [impossible] = [line for line in lines if line.startswith("NOT POSSIBLE: ")]
    assert impossible.startswith("NOT POSSIBLE: coarse (policy) takes one image per request, but the input has records")
    assert [line for line in lines if line.startswith("note: edges (detector, segmenter) takes no reply schema")]


@pytest.mark.slow
@pytest.mark.parametrize(("free", "code"), [(1, 0), (4, 2)])
def test_validate_says_of_free_text_without_a_judge_what_a_run_does(
    free: int,
    code: int,
    data: Path,
    tmp_path: Path,
    write_records: Callable[..., Path],
    run_beam: Callable[..., Any],
    capsys: pytest.CaptureFixture[str],
) -> None:
    answers = [{"answer": "a red sofa"} if n < free else {} for n in range(4)]
    mixed = write_records(data, [{"id": f"q{n}", "media": f"{n}.png", **fields} for n, fields in enumerate(answers)])
    assert validate(mixed) == code
    start = "NOT POSSIBLE" if code else "note"
    said = f"{start}: {free} of the first 4 records would be rejected as ungradable by the stage attempt: "
    [line] = [line for line in capsys.readouterr().out.splitlines() if "free text" in line]
    assert line.startswith(said)
    ran = run_beam(mixed, tmp_path / "run")
    assert [end for end in ran.ends.values() if "ungradable" in str(end)] == [ran.ends[f"q{n}"] for n in range(free)]


def test_a_reason_of_two_stages_is_added_up() -> None:
    given = summary(0, 0, 5, rejected={"attempt": {"call_failed": 2}, "trace": {"call_failed": 3}})
    assert "  call_failed: 5" in summary_text(given, "RUN", {}).splitlines()


@pytest.fixture
def data(tmp_path: Path, write_records: Callable[..., Path], write_scene: Callable[..., Path]) -> Path:
    """Four pictures of three squares, each with its question."""
    orders = (["red", "blue", "black"], ["blue", "red", "black"], ["black", "red", "blue"], ["yellow", "red", "blue"])
    for number, squares in enumerate(orders):
        write_scene(tmp_path / f"data/{number}.png", squares, width=400)
    return write_records(tmp_path / "data", [{"id": f"q{n}", "media": f"{n}.png"} for n in range(4)])


def test_a_preview(data: Path, tmp_path: Path, run_beam: Callable[..., Any]) -> None:
    settings = ("--limit", "2", "--set", "split.sft_ratio=1.0", "--set", "difficulty.include_low=true")
    ran = run_beam(data, tmp_path / "run", *settings, command="preview")
    assert ran.code == 0, ran.err
    assert (ran.counts["input"], ran.counts["sft"]) == (2, 2)
    lines = ran.out.splitlines()
    assert lines[0] == "2 records: 2 sft, 0 rl, 0 rejected"
    assert lines[-6] == "forecast for 4 records from 2"
    assert lines[-5].startswith("  calls: ")
    assert lines[-4] == "  cost: unknown, because no endpoint has a price and no tokens were counted"
    assert lines[-1] == "  rl rows: 0 (95 %: 0 to 3)"
    assert lines[-2] == "  sft rows: 4 (95 %: 1 to 4)"


@pytest.mark.slow
def test_a_part_does_not_replace_a_finished_run_of_more(
    data: Path, tmp_path: Path, run_short: Callable[..., Any]
) -> None:
    def outcome(command: str, *words: str) -> tuple[int, int]:
        ran = run_short(data, tmp_path / "run", *words, command=command)
        return ran.code, ran.counts["input"]

    for command, records in (("preview", "2"), ("preview", "1"), ("preview", "3")):
        assert outcome(command, "--limit", records) == (0, int(records))
    assert outcome("run", "--limit", "2") == (2, 3)
    assert outcome("run") == (0, 4)
    for command, words in (("preview", ["--limit", "3"]), ("run", ["--limit", "3"])):
        ran = run_short(data, tmp_path / "run", *words, command=command)
        ran.check_refused(
            2, "run holds a finished run of 4 records, and this run would replace it by a run of fewer records: choose"
        )
        assert ran.counts["input"] == 4
    assert outcome("preview", "--limit", "9") == (0, 4)
    assert outcome("run", "--limit", "3", "--resume", "never") == (0, 3)


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
    assert lines.pop(1).startswith("stages: ingest, clean, dedup, ")
    assert lines.pop(1) == "runner: this machine, 1 worker (in_memory)"
    assert lines[:2] == ["pipeline: grounded_cot", f"input: {data}, 4 records"]
    assert lines[2] == "columns: answer, id, license, media, question, source"
    assert lines[3] == "read 4 of 4 records: 4 can be used"
    assert lines[4].startswith("the prompt of one record, as in its row (")
    prompts = next(line for line in lines if line.startswith("prompts: "))
    sent = ("answer_after_reasoning.v1", "attempt.v1", "detect.v2", "judge_answer.v3", "judge_leak.v2")
    sent += ("judge_reasoning.v3", "point.v1")
    sent += ("propose.v2", "repair.v2", "rubric_candidates.v3", "rubric_judge.v3", "segment.v1", "segment_points.v1")
    assert prompts == f"prompts: {', '.join((*sent, 'trace.v1'))}"
    assert lines[lines.index(prompts) + 1 :] == [
        "endpoint coarse (policy): embedded, colour, strength 0.75",
        "endpoint colour (judge, pointer, teacher): embedded, colour, strength 0",
        "endpoint edges (detector, segmenter): embedded, edges, strength 0",
        "note: no model is set: the embedded engine has all roles, and it reads drawn shapes, not photographs",
        "note: the judge is the teacher's endpoint",
    ]
    assert err == ""
    assert list((tmp_path / "cwd").iterdir()) == []


@pytest.mark.parametrize(
    ("extra", "sent", "not_sent"),
    [
        ("attempt.as_trained=true", "attempt_as_trained.v1", "attempt.v1"),
        ("verify.planner=judge", "plan_scorers.v2", "trace_video.v1"),
        ("roles.segmenter=", "detect.v2", "segment.v1"),
        ('verify.gate.skip=["reasoning"]', "judge_answer.v3", "judge_reasoning.v3"),
    ],
)
def test_validate_lists_the_prompts_that_this_config_sends(
    extra: str, sent: str, not_sent: str, data: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert validate(data, "--set", extra) == 0
    [line] = [line for line in capsys.readouterr().out.splitlines() if line.startswith("prompts: ")]
    prompts = line.removeprefix("prompts: ").split(", ")
    assert sent in prompts
    assert not_sent not in prompts


def test_validate_says_who_checks_whom(data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert validate(data, "--set", "roles.pointer=edges", "--set", "roles.segmenter=") == 2  # it cannot point
    notes = [line for line in capsys.readouterr().out.splitlines() if line.startswith("note: ")]
    assert "note: detector and pointer are one model: it checks its own points (lineage.self_checked)" in notes
    assert "note: no segmenter: points are checked against the boxes of the detector" in notes
    assert validate(data) == 0
    out = capsys.readouterr().out
    assert "one model" not in out
    assert "no segmenter" not in out


def test_validate_finds_an_endpoint_that_does_not_answer(data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    own = ("kind=openai", "model=m", "base_url=http://127.0.0.1:9/v1")
    settings = [word for field in own for word in ("--set", f"endpoints.own.{field}")]
    assert validate(data, *settings, "--set", "roles.judge=own") == 2
    lines = capsys.readouterr().out.splitlines()
    assert [line for line in lines if "NOT READY" in line] == [line for line in lines if "endpoint own (judge)" in line]
    assert len([line for line in lines if "NOT READY: connection" in line]) == 1


class _Obeyed(BaseHTTPRequestHandler):
    """Lists a model whose name clears the screen."""

    def do_GET(self) -> None:
        self.send_response(200)
        self.end_headers()
        self.wfile.write(json.dumps({"data": [{"id": "\x1b[2J\u202egood"}]}).encode())

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@pytest.fixture
def obeyed_url() -> Iterator[str]:
    """The base URL of that server."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Obeyed)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}/v1"
    server.shutdown()
    thread.join()
    server.server_close()


def test_validate_prints_nothing_that_a_terminal_obeys(
    data: Path, obeyed_url: str, capsys: pytest.CaptureFixture[str]
) -> None:
    own = ("kind=openai", "model=m", f"base_url={obeyed_url}")
    settings = [word for field in own for word in ("--set", f"endpoints.own.{field}")]
    assert validate(data, *settings, "--set", "roles.judge=own") == 2
    out = capsys.readouterr().out
    assert "NOT READY" in out and "good" in out
    assert out.replace("\n", "").isprintable()


def test_validate_notes_an_endpoint_behind_one_that_is_not_ready(
    data: Path, obeyed_url: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    async def noted(settings: EndpointSettings) -> str:
        return "its list is odd"

    monkeypatch.setattr("groundtrace.pipelines.commands.validate.official_client_note", noted)
    urls = {"afar": "http://127.0.0.1:9/v1", "here": obeyed_url}
    own = {"kind": "openai", "model": "m", "check_model": "false"}
    fields = [
        f"endpoints.{name}.{key}={value}" for name in urls for key, value in (own | {"base_url": urls[name]}).items()
    ]
    roles = ("roles.judge=afar", "roles.policy=here", "allow_embedded=true")
    assert validate(data, *(word for each in (*fields, *roles) for word in ("--set", each))) == 2
    out = capsys.readouterr().out
    assert "endpoint afar (judge): NOT READY" in out and "note: afar:" not in out
    assert "note: here: its list is odd\n" in out


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
        ("run", ["--target-sft", "0"], "--target-sft must be at least 1, got 0"),
        ("run", ["--budget-usd", "0"], "--budget-usd must be a positive number of dollars, got 0.0"),
        ("preview", ["--budget-usd", "nan"], "--budget-usd must be a positive number of dollars, got nan"),
        ("preview", ["--budget-tokens", "0"], "--budget-tokens must be at least 1, got 0"),
        ("preview", ["--limit", "-1"], "--limit must be at least 1, got -1"),
    ],
)
def test_counts_below_one(
    command: str, words: list[str], said: str, data: Path, tmp_path: Path, run_beam: Callable[..., Any]
) -> None:
    run_beam(data, tmp_path / "run", *words, command=command).check_refused(2, said)
    assert not (tmp_path / "run").exists()


def test_a_renamed_option_is_refused_with_its_new_name(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        main(["preview", PIPELINE, "--input", "x", "--output", "y", "--records", "3"])
    said = capsys.readouterr().err
    assert caught.value.code == 2
    assert said == "beam: --records is now --limit: rename the option; see `beam preview --help`\n"


OWN = """
import apache_beam as beam
from groundtrace.pipelines.running.settings import RunSettings
from groundtrace.config.settings import settings
from groundtrace.stages.ingest_records import IngestRecords
from groundtrace.stages.plumbing.recipe import Ends, Recipe

@settings
class Settings(RunSettings):
    pass

def build(root, run, settings):
    if @@WHEN@@:
        @@BODY@@
    ingested = root | IngestRecords(run.sources, settings.input, run.roots, run.limit)
    nothing = ingested["kept"] | "Lose" >> beam.Filter(lambda draft: False)
    return Ends(rl=nothing)

RECIPE = Recipe("own", Settings, build)
"""
IN_THE_RUN = "run.models.notes"
"""What is true when the DAG of a run is wired, and not yet when it is planned."""
BODIES = {
    "lossy": (
        "pass",
        1,
        "the run lost or added records: 4 records were read, but 0 were written (lost: 'q0', 'q1', 'q2', 'q3'): report "
        "this defect, or correct it in your own stage",
    ),
    "broken": (
        "raise RuntimeError('above\\nbelow')",
        1,
        "RuntimeError: below (in @@FILE@@, line 14; --verbose shows more)",
    ),
    "silent": ("raise RuntimeError", 1, "RuntimeError: no message (in @@FILE@@, line 14; --verbose shows more)"),
    "stopped": ("raise KeyboardInterrupt", 130, "interrupted; run the same command again to resume"),
}


@pytest.mark.parametrize("name", BODIES)
def test_runs_that_fail_leave_no_outputs(
    name: str, data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    body, code, said = BODIES[name]
    path = tmp_path / f"own_{name}.py"
    path.write_text(OWN.replace("@@BODY@@", body).replace("@@WHEN@@", IN_THE_RUN), "utf-8")
    assert main(["run", str(path), "--input", str(data), "--output", str(tmp_path / "run")]) == code
    out, err = capsys.readouterr()
    assert out == ""
    assert (
        err.splitlines()[-1] == f"beam: {said.replace('@@FILE@@', str(path))} (report: {tmp_path / 'run/failed.html'})"
    )
    page = (tmp_path / "run/failed.html").read_text("utf-8")
    assert (f"Correct {path}, line 14, then run" in page) == ("@@FILE@@" in said)
    assert not (tmp_path / "run/run.json").exists()


@pytest.mark.parametrize("name", ["broken", "silent", "stopped"])
def test_a_recipe_that_fails_where_it_wires_leaves_no_folder(
    name: str, data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    body, code, said = BODIES[name]
    path = tmp_path / f"own_unplanned_{name}.py"
    path.write_text(OWN.replace("@@BODY@@", body).replace("@@WHEN@@", "True"), "utf-8")
    assert main(["run", str(path), "--input", str(data), "--output", str(tmp_path / "run")]) == code
    out, err = capsys.readouterr()
    assert (out, err) == ("", f"beam: {said.replace('@@FILE@@', str(path))}\n")
    assert not (tmp_path / "run").exists()


STOPPED_WHILE_LOADING = """
import os, signal, sys
class Stop:
    def find_spec(self, name, path=None, target=None):
        if name == "apache_beam":
            os.kill(os.getpid(), signal.SIGINT)
sys.meta_path.insert(0, Stop())
from groundtrace.pipelines.commands.cli import main
sys.exit(main(["validate", "grounded_cot", "--input", "."]))
"""


def test_ctrl_c_while_the_command_still_loads() -> None:
    ended = subprocess.run([sys.executable, "-c", STOPPED_WHILE_LOADING], capture_output=True, text=True, check=False)
    said = "beam: interrupted; run the same command again\n"
    assert (ended.returncode, ended.stdout, ended.stderr) == (130, "", said)


@pytest.mark.parametrize("at", [0, 1, 2, 6])
def test_verbose_shows_where(at: int, data: Path, tmp_path: Path) -> None:
    path = tmp_path / f"own_loud_{at}.py"
    path.write_text(OWN.replace("@@BODY@@", "raise RuntimeError('here')").replace("@@WHEN@@", "True"), "utf-8")
    words = ["run", str(path), "--input", str(data), "--output", str(tmp_path / "run")]
    with pytest.raises(RuntimeError, match="here"):
        main([*words[:at], "--verbose", *words[at:]])


COMMAND_LINES = {
    "preview": "preview p.py --input x --output y",
    "validate": "validate p.py --input x",
    "inspect": "inspect runs/x",
    **{action: f"cache {action} runs/x" for action in ("stats", "prune")},
    "export": "cache export runs/x --to x.jsonl",
}


@pytest.mark.parametrize("line", COMMAND_LINES.values(), ids=COMMAND_LINES)
def test_verbose_stands_before_and_behind_a_command(line: str) -> None:
    words = line.split()
    assert [
        make_parser().parse_args(words).verbose,
        *(make_parser().parse_args([*words[:at], "--verbose", *words[at:]]).verbose for at in (0, 1, 2, len(words))),
    ] == [False, True, True, True, True]


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (None, "there is no file"),
        ("RECIPE = 'x'", "is not a pipeline: define RECIPE = Recipe(…) in this file"),
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
