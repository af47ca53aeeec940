"""A copy of a view: what it holds, and what is refused."""

import json
from pathlib import Path
from typing import Any

import pytest

from groundtrace.pipelines.commands.cli import main
from groundtrace.publishing.reading import InspectError
from groundtrace.publishing.view import copying
from groundtrace.publishing.view.copying import export_view
from groundtrace.publishing.view.filters import read_filters
from groundtrace.publishing.view.images import RowImages
from groundtrace.publishing.view.opened_run import RunChanged
from groundtrace.publishing.view.reviews import Mark, Reviews
from groundtrace.publishing.view.rows import ViewedRows
from groundtrace.vision.hashing import sha256_bytes
from groundtrace.vision.media import MediaStore

from .viewed import image, sft_row, write_run


@pytest.fixture
def folder(run: Path, tmp_path: Path) -> Path:
    """A run of five kept rows, and a rejected record whose image is gone."""
    medium = {"uri": "input:gone.png", "sha256": "", "width": 40, "height": 30}
    gone = {"id": "gone", "stage": "verify", "reason": "low_score", "question": "Which?", "media": [medium]}
    two = [{"bytes": image(), "path": "a.png"}, {"bytes": image(60, 60), "path": "b.png"}]
    kept = [sft_row(f"row-{n}", source=f"</script>{n}", images=two) for n in range(5)]
    return write_run(tmp_path / "run", run, {"sft": kept, "rejected": [gone]})


def copied(folder: Path, target: Path, *state: tuple[str, str]) -> dict[str, Any]:
    rows = ViewedRows(folder)
    about = {
        "name": "run", "path": str(folder), "input": "/home/me", "dimensions": [{"name": "k", "is_number": True}],
        "other": None,
    }  # fmt: skip
    reviews = Reviews(folder)
    reviews.keep(Mark("row-1", "", True, ("odd",), "look"))
    filters = read_filters(state, rows.dimensions)
    images = RowImages(MediaStore(str(folder), str(folder)))
    count = export_view(about, rows, images, reviews, filters, target, rows.check_run)
    rows.close()
    data = json.loads((target / "data.js").read_text("utf-8").removeprefix("const VIEW_COPY = ").rstrip(";\n"))
    assert count == data["run"]["rows"] == len(data["rows"]) == len(data["records"])
    return data


def test_a_copy_has_the_filtered_rows_with_their_images_and_marks(folder: Path, tmp_path: Path) -> None:
    data = copied(folder, tmp_path / "new" / "copy", ("set", "sft"))
    assert sorted(data["records"]) == [f"row-{n}" for n in range(5)]
    for row in data["rows"]:
        record = data["records"][row["id"]]
        assert [len((tmp_path / "new/copy" / each["file"]).read_bytes()) > 50 for each in record["images"]] == [
            True
        ] * 2
        assert (tmp_path / "new/copy" / f"images/{row['n']}.jpg").is_file()
    mark = data["records"]["row-1"]["mark"]
    assert (mark["flagged"], mark["tags"], mark["note"]) == (True, ["odd"], "look")
    spans = [[4.0, 4.0], *[None] * 19]
    assert data["run"]["dimensions"] == [{"name": "k", "is_number": True, "low": 4.0, "high": 4.0, "spans": spans}]


def test_a_copy_has_no_address_of_a_server_and_no_path_of_this_machine(folder: Path, tmp_path: Path) -> None:
    copied(folder, tmp_path / "copy")
    page = (tmp_path / "copy/index.html").read_text("utf-8")
    assert '="/' not in page and page.index("data.js") < page.index("copy.js") < page.index('"page.js')
    for file in (tmp_path / "copy").glob("*.*"):
        assert str(tmp_path) not in file.read_text("utf-8") and "/home/me" not in file.read_text("utf-8")


def test_an_image_that_is_gone_is_named(folder: Path, tmp_path: Path) -> None:
    data = copied(folder, tmp_path / "copy", ("set", "rejected"))
    (row,), record = data["rows"], data["records"]["gone"]
    assert "cannot read the file" in row["missing"] and "cannot read the file" in record["images"][0]["missing"]


@pytest.mark.parametrize("is_own", [True, False])
def test_a_copy_has_only_images_that_the_run_has_read(
    is_own: bool, run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    private = image(50, 60, value=77)
    (tmp_path / "private").mkdir()
    (tmp_path / "private/passport.png").write_bytes(private)
    digest = sha256_bytes(private if is_own else b"anything else")
    medium = {"uri": f"input:{tmp_path.relative_to('/')}/private/passport.png", "sha256": digest}
    rejected = {"id": "r", "stage": "verify", "reason": "low_score", "question": "Which?", "media": [medium]}
    folder = write_run(tmp_path / "run", run, {"rejected": [rejected]})
    summary = json.loads((folder / "run.json").read_text("utf-8"))
    (folder / "run.json").write_text(json.dumps(summary | {"input": "/"}), "utf-8")
    assert main(["view", str(folder), "--export", str(tmp_path / "copy")]) == 0
    copies = [file.read_bytes() for file in (tmp_path / "copy/images").iterdir()]
    assert (private in copies, len(copies)) == ((True, 2) if is_own else (False, 0))
    assert is_own or "is not the file that the run read" in (tmp_path / "copy/data.js").read_text("utf-8")
    assert "1 row copied" in capsys.readouterr().out


@pytest.mark.parametrize("error", [None, InspectError("cannot read")])
@pytest.mark.parametrize(("made", "target"), [("", "new/copy"), ("copy", "copy")])
def test_nothing_is_left_of_a_copy_during_which_the_run_was_replaced(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, made: str, target: str, error: Exception | None
) -> None:
    (tmp_path / made).mkdir(exist_ok=True)
    there, shard = sorted(tmp_path.rglob("*")), folder / "sft/train-00000-of-00001.parquet"

    def original(*_: Any) -> tuple[str, bytes]:
        shard.write_bytes(shard.read_bytes())
        if error is not None:
            raise error
        return "image/png", b"of another run"

    monkeypatch.setattr(RowImages, "original", original)
    with pytest.raises(RunChanged, match=r"was changed after `beam view` had read it: repeat the command$"):
        copied(folder, tmp_path / target)
    left = [file for file in sorted(tmp_path.rglob("*")) if "reviews" not in file.parts]
    assert left == there


def test_what_cannot_be_copied_is_refused(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "mine.txt").write_text("x", "utf-8")
    (tmp_path / "file").write_text("x", "utf-8")
    for target, message in (
        ("full", "is not empty"),
        ("file", "cannot be written"),
        ("file/below", "cannot be written"),
    ):
        with pytest.raises(InspectError, match=message):
            copied(folder, tmp_path / target)
    with pytest.raises(InspectError, match="0 rows of the run pass the filters"):
        copied(folder, tmp_path / "copy", ("q", "nowhere"))
    monkeypatch.setattr(copying, "MAX_ROWS", 4)
    with pytest.raises(
        InspectError, match="6 rows of the run pass the filters, but the page that --export writes must have 1 to 4"
    ):
        copied(folder, tmp_path / "copy")
    assert [each.name for each in (tmp_path / "full").iterdir()] == ["mine.txt"] and not (tmp_path / "copy").exists()
    assert main(["view", str(folder), "--export", str(tmp_path / "copy"), "--audit", "5"]) == 2
    assert "cannot be used together" in capsys.readouterr().err


def test_the_command_ends_after_it_has_copied(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["view", str(folder), str(folder), "--at", "set=sft", "--export", str(tmp_path / "copy")]
    assert main(words) == 0
    out = capsys.readouterr().out
    assert out == f"5 rows copied: open {tmp_path / 'copy' / 'index.html'} in a browser\n"
    assert '"change of set"' in (tmp_path / "copy/data.js").read_text("utf-8")
