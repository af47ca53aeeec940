"""``beam diff``: what differs between two runs, in text, as a page and as ids."""

import json
from pathlib import Path

import pytest

from groundtrace.pipelines.commands import cli
from groundtrace.pipelines.running.comparing import diff_runs
from groundtrace.publishing.comparison.text import comparison_text
from tests.publishing.comparison.conftest import out, sft, write_run

A = {"sft": [sft("1"), sft("2")], "rejected": [out("3")]}
B = {"sft": [sft("1")], "rejected": [out("2", "too_hard"), out("3")]}


@pytest.fixture
def runs(tmp_path: Path) -> tuple[str, str]:
    first = write_run(tmp_path / "a", A, "[attempt]\nk = 4\n[dedup]\nnear = true\n")
    second = write_run(tmp_path / "b", B, "[attempt]\nk = 8\n[dedup]\nnear = true\n")
    return str(first), str(second)


def rows(text: str, title: str) -> list[list[str]]:
    return [line.split() for line in text.split(f"\n{title}\n", 1)[1].split("\n\n")[0].splitlines()[1:]]


def test_what_changed_comes_before_why_it_cost_what_it_cost(runs: tuple[str, str]) -> None:
    text = comparison_text(diff_runs(Path(runs[0]), Path(runs[1])))
    lines = text.splitlines()
    assert [line[:2] for line in lines[:2]] == ["A:", "B:"]
    assert lines[2] == "1 of 3 ids ended elsewhere; attempt.k: 4 → 8"
    titles = ["yields", "ids that changed side", "the ids", "scores", "settings that differ", "funnel", "rejections"]
    places = [text.index(f"\n{title}\n") for title in titles]
    assert places == sorted(places)
    assert rows(text, "yields")[1][:4] == ["sft", "2", "1", "66.7"]
    assert rows(text, "ids that changed side")[0] == ["1", "sft", "rejected:", "difficulty/too_hard"]
    assert rows(text, "settings that differ")[0] == ["attempt.k", "4", "8"]
    assert rows(text, "rejections")[0] == ["difficulty", "too_hard", "0", "1", "1"]


def test_equal_runs_are_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    runs = [str(write_run(tmp_path / name, A, "x = 1\n")) for name in "ab"]
    assert cli.main(["diff", *runs]) == 0
    said = capsys.readouterr().out
    assert said == (
        "nothing differs: 3 records ended alike (2 sft, 0 rl, 1 rejected), with the same settings, prompts, scores and "
        "traces\n"
    )


def test_another_trace_alone_is_a_difference(tmp_path: Path) -> None:
    first, second = (write_run(tmp_path / name, {"sft": [sft("1", trace=name)]}) for name in "ab")
    text = comparison_text(diff_runs(first, second))
    assert "0 of 1 id ended elsewhere; no setting differs" in text
    assert "1 of the 1 id that are SFT rows in both runs have another trace" in text


def test_a_table_without_a_difference_is_left_out(tmp_path: Path) -> None:
    rows = {"sft": [sft("1", source="one"), sft("2", source="two")], "rejected": [out("3", source="one")]}
    first, second = (write_run(tmp_path / name, rows, f"[attempt]\nk = {k}\n") for name, k in (("a", 4), ("b", 8)))
    assert [section.title for section in diff_runs(first, second).sections] == ["settings that differ"]


def test_calls_and_cost_are_those_of_roles_that_differ(tmp_path: Path) -> None:
    ledgers = (
        {role: {"stages": {"trace": {"calls": calls}}} for role, calls in (("teacher", 5), ("policy", each))}
        for each in (1, 2)
    )
    first, second = (
        write_run(tmp_path / name, A | {"sft": [sft(name)]}, ledger=ledger)
        for name, ledger in zip("ab", ledgers, strict=True)
    )
    text = comparison_text(diff_runs(first, second))
    assert [row[0] for row in rows(text, "calls and cost by role")] == ["policy", "Only"], "a role, and the note"


def test_all_ids_are_written_and_a_page(
    runs: tuple[str, str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    ids, page = tmp_path / "ids.jsonl", tmp_path / "diff.html"
    assert cli.main(["diff", *runs, "--limit", "0", "--ids", str(ids), "--html", str(page)]) == 0
    said = capsys.readouterr()
    assert (said.out, said.err) == (f"{page}: the comparison as a page\n", f"{ids}: 1 id\n")
    [line] = ids.read_text("utf-8").splitlines()
    assert json.loads(line) == {
        "id": "2",
        "from": {"set": "sft"},
        "to": {"set": "rejected", "stage": "difficulty", "reason": "too_hard", "detail": "too_hard by far"},
    }
    assert page.read_text("utf-8").startswith("<!doctype html>")


@pytest.mark.parametrize("option", ["--ids", "--html"])
def test_a_file_of_a_run_is_never_written(
    option: str, runs: tuple[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    for run in runs:
        file = Path(run) / "run.json"
        before = file.read_bytes()
        assert cli.main(["diff", *runs, option, str(file)]) == 2
        assert f"would be written into the run folder {run}, whose files must not change" in capsys.readouterr().err
        assert file.read_bytes() == before


def test_ids_and_page_need_a_file_each(
    runs: tuple[str, str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = str(tmp_path / "both")
    assert cli.main(["diff", *runs, "--ids", file, "--html", file]) == 2
    assert "--ids and --html name the same file" in capsys.readouterr().err
    assert not Path(file).exists()


def test_the_list_of_ids_is_as_long_as_asked_for(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    names = [f"id{number}" for number in range(30)]
    first = str(write_run(tmp_path / "a", {"sft": [*map(sft, names)]}))
    second = str(write_run(tmp_path / "b", {"rejected": [*map(out, names)]}))
    for options, listed in (((), 20), (("--limit", "3"), 3), (("--all",), 30)):
        assert cli.main(["diff", first, second, *options]) == 0
        text = capsys.readouterr().out
        assert sum(line.startswith("id") and "too_easy by far" in line for line in text.splitlines()) == listed
        assert (f"and {30 - listed} further ids" in text) == (listed < 30) == ("gt.diff(…, limit=None)" in text)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--limit", "-1"], "beam: --limit must be at least 0, got -1"),
        (["--html", "{0}/none/x.html"], "beam: cannot write {0}/none/x.html: No such file or directory"),
        (["--ids", "{0}"], "beam: cannot write {0}: Is a directory"),
        (["--limit", "1", "--all"], "beam: argument --all: not allowed with argument --limit"),
    ],
)
def test_mistakes_are_one_line(
    runs: tuple[str, str], tmp_path: Path, capsys: pytest.CaptureFixture[str], options: list[str], said: str
) -> None:
    try:
        code = cli.main(["diff", *runs, *(option.format(tmp_path) for option in options)])
    except SystemExit as error:
        code = error.code
    assert code == 2
    err = capsys.readouterr().err
    assert err.startswith(said.format(tmp_path)) and err.count("\n") == 1


def test_what_is_no_finished_run_is_said_in_one_line(
    runs: tuple[str, str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["diff", runs[0], str(tmp_path / "none")]) == 2
    assert capsys.readouterr().err == (
        f"beam: there is no folder {tmp_path / 'none'}: give the --output folder of a `beam run`\n"
    )
    unfinished = tmp_path / "unfinished"
    unfinished.mkdir()
    (unfinished / "input.json").write_text("{}", "utf-8")
    (unfinished / "failed.html").write_text("x", "utf-8")
    assert cli.main(["diff", str(unfinished), runs[0]]) == 2
    said = capsys.readouterr().err
    assert "its run did not finish: read the reason in" in said and said.count("\n") == 1
    (Path(runs[1]) / "sft" / "train-00000-of-00001.parquet").write_bytes(b"no parquet")
    assert cli.main(["diff", *runs]) == 2
    assert capsys.readouterr().err.count("\n") == 1
