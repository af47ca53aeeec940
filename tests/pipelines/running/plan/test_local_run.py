"""The run folder: whose it is, who may write it, and how outputs are replaced."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from groundtrace.pipelines.running.plan.local_run import STAGED, LocalRun, RunFolderError
from groundtrace.schemas.safe_files import UnsafeFile


@pytest.fixture
def folder(tmp_path: Path) -> LocalRun:
    """A folder made for the input ``data`` with fingerprint ``aa``."""
    made = LocalRun(tmp_path / "deep/run")
    made.prepare("data", "aa", resume=True)
    return made


def stage(folder: LocalRun, word: str, names: tuple[str, ...] = STAGED) -> None:
    """Stage every output; what it holds says ``word``."""
    for name in names:
        if "." in name:
            (folder.staging / name).write_text(word)
        else:
            (folder.staging / name).mkdir()
            (folder.staging / name / f"{word}.parquet").write_text(word)


def held(folder: LocalRun) -> dict[str, str]:
    """Every file below the folder but the marker and the lock, with its text."""
    files = (path for path in folder.root.rglob("*") if path.is_file() and path.name not in ("input.json", ".lock"))
    return {str(path.relative_to(folder.root)): path.read_text() for path in files}


def outputs(word: str) -> dict[str, str]:
    return {name if "." in name else f"{name}/{word}.parquet": word for name in STAGED}


def test_a_new_folder(folder: LocalRun) -> None:
    assert json.loads((folder.root / "input.json").read_text()) == {"input": "data", "fingerprint": "aa"}
    assert list(folder.staging.iterdir()) == []
    assert folder.cache_path == str(folder.root / "cache/replies.sqlite")
    assert not list(folder.root.glob("*.tmp"))


def test_outputs_replace_the_old_ones(folder: LocalRun) -> None:
    for word in ("old", "new"):
        folder.prepare("data", "aa", resume=True)
        stage(folder, word)
        folder.commit()
        assert held(folder) == outputs(word)
    assert not folder.staging.exists()


def test_nothing_changes_before_the_commit(folder: LocalRun) -> None:
    stage(folder, "old")
    folder.commit()
    folder.prepare("data", "aa", resume=True)
    stage(folder, "half", STAGED[:3])
    assert {name: text for name, text in held(folder).items() if ".staging" not in name} == outputs("old")
    folder.prepare("data", "aa", resume=True)
    assert held(folder) == outputs("old"), "what an interrupted run left is cleared"


def test_outputs_that_a_run_does_not_write_go_with_the_old_ones(folder: LocalRun) -> None:
    stage(folder, "old")
    folder.commit()
    folder.prepare("data", "aa", resume=True)
    stage(folder, "new", ("sft", "run.json"))
    folder.commit()
    assert held(folder) == {"sft/new.parquet": "new", "run.json": "new"}


def test_another_inputs_folder_is_refused(folder: LocalRun) -> None:
    stage(folder, "old")
    folder.commit()
    with pytest.raises(
        RunFolderError, match=r"was made from other data, namely data with the digest aa:.*--resume=never"
    ):
        folder.prepare("other", "bb", resume=True)
    assert held(folder) == outputs("old")
    assert json.loads((folder.root / "input.json").read_text())["fingerprint"] == "aa"


def test_resume_never_replaces_outputs_with_the_commit_and_keeps_the_cache(folder: LocalRun) -> None:
    stage(folder, "old")
    folder.commit()
    Path(folder.cache_path).parent.mkdir()
    Path(folder.cache_path).write_text("replies")
    cached = {"cache/replies.sqlite": "replies"}
    folder.prepare("other", "bb", resume=False)
    assert {name: text for name, text in held(folder).items() if ".staging" not in name} == outputs("old") | cached
    folder.prepare("data", "aa", resume=True)  # the run of the other input has failed: the folder is whose it was
    folder.prepare("other", "bb", resume=False)
    stage(folder, "new")
    folder.commit()
    assert held(folder) == outputs("new") | cached
    folder.prepare("other", "bb", resume=True)


def test_replaced_outputs_are_kept_where_asked_for(folder: LocalRun) -> None:
    for word, keep in (("first", False), ("second", True), ("third", False), ("fourth", True)):
        folder.prepare("data", "aa", resume=True)
        stage(folder, word)
        folder.commit(keep_previous=keep)
    assert held(folder) == outputs("fourth") | {f"previous/{name}": text for name, text in outputs("third").items()}


class Killed(Exception):
    """Stands for the end of the process."""


@pytest.mark.parametrize("keep", [False, True])
@pytest.mark.parametrize("moves", range(2 * len(STAGED) + 1))
def test_a_commit_that_is_killed_is_finished(
    moves: int, keep: bool, folder: LocalRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    stage(folder, "old")
    folder.commit()
    folder.prepare("data", "aa", resume=True)
    stage(folder, "new")
    left, rename = [moves], Path.rename

    def renamed(path: Path, target: Path) -> Path:
        if not left[0]:
            raise Killed
        left[0] -= 1
        return rename(path, target)

    with monkeypatch.context() as patch, pytest.raises(Killed):
        patch.setattr(Path, "rename", renamed)
        folder.commit(keep_previous=keep)
    folder.prepare("data", "aa", resume=True)
    kept = {f"previous/{name}": text for name, text in outputs("old").items()} if keep else {}
    assert held(folder) == outputs("new") | kept


def test_the_same_input_elsewhere_may_go_on(folder: LocalRun) -> None:
    folder.prepare("moved", "aa", resume=True)
    assert json.loads((folder.root / "input.json").read_text()) == {"input": "moved", "fingerprint": "aa"}


@pytest.mark.parametrize("resume", [True, False])
def test_a_folder_with_other_things_is_refused(resume: bool, tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").write_text("words")
    with pytest.raises(RunFolderError, match="is not empty and not a run folder"):
        LocalRun(tmp_path).prepare("data", "aa", resume)
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.txt"]


def test_a_folder_that_a_killed_run_began_to_claim_is_claimed(tmp_path: Path) -> None:
    for name in (".lock", f".input.json.{'0' * 32}.tmp"):
        (tmp_path / name).write_text("")
    LocalRun(tmp_path).prepare("data", "aa", resume=True)
    assert json.loads((tmp_path / "input.json").read_text()) == {"input": "data", "fingerprint": "aa"}


@pytest.mark.parametrize("marker", ["", "{", "[]", "{}", '{"input": "data"}'])
def test_a_damaged_marker_is_refused(marker: str, tmp_path: Path) -> None:
    (tmp_path / "input.json").write_text(marker)
    with pytest.raises(RunFolderError, match=r"is not a run folder, because its input\.json is damaged or from"):
        LocalRun(tmp_path).prepare("data", "aa", resume=True)


def test_a_file_in_the_way(tmp_path: Path) -> None:
    (tmp_path / "run").write_text("a file")
    with pytest.raises(RunFolderError, match="run is a file, but a run needs a folder here: choose another"):
        LocalRun(tmp_path / "run").prepare("data", "aa", resume=True)
    with pytest.raises(RunFolderError, match="cannot write"), LocalRun(tmp_path / "run/below").locked():
        pass
    assert (tmp_path / "run").read_text() == "a file"


def test_one_writer_at_a_time(folder: LocalRun) -> None:
    program = (
        "import sys; from pathlib import Path\n"
        "from groundtrace.pipelines.running.plan.local_run import LocalRun, RunFolderError\n"
        "try:\n    with LocalRun(Path(sys.argv[1])).locked(): print('held')\n"
        "except RunFolderError as error: print(error)"
    )

    def other() -> str:
        done = subprocess.run([sys.executable, "-c", program, folder.root], capture_output=True, text=True, check=True)
        return done.stdout.strip()

    with folder.locked():
        assert other().startswith(f"another process is writing {folder.root}: ")
        with pytest.raises(RunFolderError, match="another process is writing"), folder.locked():
            pass
    assert other() == "held"


def test_the_lock_goes_with_an_error(folder: LocalRun) -> None:
    with pytest.raises(ZeroDivisionError), folder.locked():
        _ = 1 / 0
    with folder.locked():
        assert (folder.root / ".lock").exists()


FOREIGN = [(".staging", False), ("media", False), ("ledger", False), (".lock", True), ("failed.html", True)]


@pytest.mark.parametrize(("name", "is_folder"), FOREIGN)
def test_something_else_in_the_place_of_its_own_is_named(name: str, is_folder: bool, tmp_path: Path) -> None:
    (tmp_path / "input.json").write_text('{"input": "data", "fingerprint": "aa"}')
    (tmp_path / name).mkdir() if is_folder else (tmp_path / name).write_text("mine")
    with pytest.raises(RunFolderError, match=rf"^{tmp_path / name} is a .*: move the .* away$"):
        LocalRun(tmp_path).prepare("data", "aa", resume=True)


@pytest.mark.parametrize(
    "name",
    [
        ".lock", ".staging", "previous", "media", "ledger", "cache", "logs",
        ".staging/.replaced", ".staging/.moved", ".staging/ledger",
    ],
)  # fmt: skip
@pytest.mark.parametrize("target", ["elsewhere", "missing"])
def test_a_link_in_the_place_of_its_own_is_refused_before_anything_is_written(
    name: str, target: str, tmp_path: Path
) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere/letter.txt").write_text("precious")
    run = tmp_path / "run"
    (run / name).parent.mkdir(parents=True)
    (run / "input.json").write_text('{"input": "data", "fingerprint": "aa"}')
    (run / name).symlink_to(tmp_path / target)
    before = sorted(run.rglob("*"))
    with pytest.raises(UnsafeFile, match=rf"^{run / name} is a link, but .*: replace the link by .*, or remove it$"):
        LocalRun(run).prepare("data", "aa", resume=True)
    assert sorted(run.rglob("*")) == before
    assert [path.name for path in (tmp_path / "elsewhere").iterdir()] == ["letter.txt"]
    assert not (tmp_path / "missing").exists()


def test_a_run_folder_may_itself_be_a_link(tmp_path: Path) -> None:
    (tmp_path / "disk").mkdir()
    (tmp_path / "run").symlink_to("disk")
    LocalRun(tmp_path / "run").prepare("data", "aa", resume=True)
    assert (tmp_path / "disk/.staging").is_dir()


def test_a_link_in_the_place_of_the_failed_page_is_taken_away_alone(tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    folder = LocalRun(tmp_path / "run")
    folder.prepare("data", "aa", resume=True)
    (tmp_path / "run/failed.html").symlink_to(tmp_path / "mine")
    folder.prepare("data", "aa", resume=True)
    assert not (tmp_path / "run/failed.html").is_symlink()
    assert (tmp_path / "mine").is_dir()


@pytest.mark.parametrize(
    "name", ["..", ".", "", "../letter", "cache", "input.json", ".lock", "/etc/passwd", "sub/file", "missing"]
)
def test_only_files_in_the_run_folder_are_moved_as_artifacts(name: str, tmp_path: Path) -> None:
    folder = LocalRun(tmp_path / "run")
    folder.prepare("data", "aa", resume=True)
    (tmp_path / "letter").write_text("precious")
    for held in ("cache/replies.sqlite", "sub/file"):
        (folder.root / held).parent.mkdir()
        (folder.root / held).write_text("precious")
    (folder.root / "rubrics.json").write_text("old")
    (folder.root / "run.json").write_text(json.dumps({"artifacts": [name, "rubrics.json"]}))
    stage(folder, "new")
    folder.commit(keep_previous=True)
    assert (folder.previous / "rubrics.json").read_text() == "old"
    assert sorted(path.name for path in folder.previous.iterdir()) == ["rubrics.json", "run.json"]
    assert (tmp_path / "letter").exists() and (folder.root / "cache/replies.sqlite").exists()
    assert (folder.root / "input.json").exists() and (folder.root / "sub/file").exists()


@pytest.mark.parametrize("name", ["input.json", "run.json", ".fresh.json"])
def test_a_pipe_in_a_neighbour_or_in_the_run_folder_is_not_waited_for(name: str, tmp_path: Path) -> None:
    for root in (tmp_path / "sent", tmp_path / "run"):
        LocalRun(root).prepare("data", "aa", resume=True)
    (tmp_path / "sent/input.json").unlink()
    os.mkfifo(tmp_path / "sent/input.json")
    assert LocalRun(tmp_path / "run").beside("aa") == ()
    (tmp_path / "run" / name).unlink(missing_ok=True)
    os.mkfifo(tmp_path / "run" / name)
    folder = LocalRun(tmp_path / "run")
    if name == "run.json":
        folder.commit()
        return
    with pytest.raises(UnsafeFile, match="but a pipe"):
        folder.prepare("data", "aa", resume=True, fresh=True)
