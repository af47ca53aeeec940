"""A run's files are those that its run.json names, or it is said which are not."""

import json
import os
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path

import pytest

from groundtrace.schemas.run_files import FileEntry, files_of, problem_of, shards_of
from groundtrace.schemas.safe_files import UnsafeFile

SETS = ("sft", "rl", "rejected")


@pytest.fixture
def run(tmp_path: Path) -> Path:
    for name in ("sft/a.parquet", "sft/b.parquet", "rl/a.parquet"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(name.encode())
    return tmp_path


def named(run: Path) -> dict[str, FileEntry]:
    return {str(path.relative_to(run)): FileEntry.of(path.read_bytes()) for path in run.glob("*/*.parquet")}


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda run: (run / "note.txt").write_text("mine"), ""),
        (lambda run: (run / "sft/note.txt").write_text("mine"), ""),
        (lambda run: (run / "sft/b.parquet").unlink(), "sft/b.parquet is missing"),
        (lambda run: (run / "rl/c.parquet").write_bytes(b""), "rl/c.parquet is not among the files of run.json"),
        (lambda run: (run / "rl/a.parquet").write_bytes(b"x"), "rl/a.parquet has 1 bytes, but run.json lists 12"),
        (lambda run: (run / "rl/a.parquet").rename(run / "rl/b.parquet"), "rl/a.parquet is missing"),
    ],
)
def test_what_differs_by_name_or_size(run: Path, change: Callable[[Path], object], said: str) -> None:
    files = named(run)
    change(run)
    assert problem_of(run, files, SETS) == said


def test_a_set_that_is_not_asked_for_is_not_looked_at(run: Path) -> None:
    files = named(run)
    (run / "rl/a.parquet").unlink()
    assert problem_of(run, files, ["sft"]) == ""


def test_another_file_of_the_same_size_is_seen_by_its_digest(run: Path) -> None:
    files = named(run)
    (run / "sft/a.parquet").write_bytes((run / "sft/b.parquet").read_bytes())
    assert problem_of(run, files, SETS) == ""
    said = "sft/a.parquet differs from the file that run.json lists"
    assert problem_of(run, files, SETS, digests=True) == said


def test_what_run_json_says(run: Path) -> None:
    assert files_of(run) is None
    (run / "run.json").write_text("{}", "utf-8")
    assert files_of(run) is None, "a run of earlier code"
    entries = {name: asdict(entry) for name, entry in named(run).items()}
    (run / "run.json").write_text(json.dumps({"files": entries}), "utf-8")
    assert files_of(run) == named(run)
    (run / "run.json").write_text(json.dumps({"files": {"sft/a.parquet": {"size_bytes": 1}}}), "utf-8")
    with pytest.raises(TypeError):
        files_of(run)


def test_a_pipe_among_the_shards_is_refused(run: Path) -> None:
    assert [path.name for path in shards_of(run, "sft")] == ["a.parquet", "b.parquet"]
    assert shards_of(run, "rejected") == []
    (run / "sft/c.parquet").symlink_to("a.parquet")
    assert len(shards_of(run, "sft")) == 3
    os.mkfifo(run / "sft/x.parquet")
    for digests in (False, True):
        with pytest.raises(
            UnsafeFile, match=rf"^{run / 'sft/x.parquet'} is not a regular file, but a pipe: move it away$"
        ):
            problem_of(run, named_shards(run), SETS, digests=digests)


@pytest.mark.parametrize("name", ["sft", "sft/a.parquet"])
def test_shards_behind_a_link_out_of_the_run_are_refused(
    run: Path, tmp_path_factory: pytest.TempPathFactory, name: str
) -> None:
    """A stranger may have sent the run, in which a name is a link to private rows."""
    private = tmp_path_factory.mktemp("private") / "rows"
    (run / name).rename(private)
    (run / name).symlink_to(private)
    with pytest.raises(UnsafeFile, match=rf"^{run / name} is a link to a place outside {run}, so nothing is read"):
        shards_of(run, "sft")
    assert [path.name for path in shards_of(run, "sft", accepts_links=True)] == ["a.parquet", "b.parquet"]
    private.rename(run / "more")
    (run / name).unlink()
    (run / name).symlink_to(run / "more")
    assert [path.name for path in shards_of(run, "sft")] == ["a.parquet", "b.parquet"]


def named_shards(run: Path) -> dict[str, FileEntry]:
    """Return entries of all files, as a stranger's run.json may have one of the pipe."""
    return {f"{each.parent.name}/{each.name}": FileEntry(0, "") for each in run.glob("*/*.parquet")}
