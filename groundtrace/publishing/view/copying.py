"""Writes a copy of the page of ``beam view`` into a folder, for ``beam view RUN --export DIR``.

The copy works without the server of ``beam view``: a browser opens its ``index.html`` from the disk, or from any web
server that serves files. The copy has the rows that pass the filters in ``--at``, with their records and images.
"""

import json
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from importlib import resources
from pathlib import Path
from typing import Any

from groundtrace.publishing.reading import InspectError
from groundtrace.publishing.view.answers import finite
from groundtrace.publishing.view.files import FILES
from groundtrace.publishing.view.filters import Filters
from groundtrace.publishing.view.images import NoImage, RowImages
from groundtrace.publishing.view.opened_run import RunChanged
from groundtrace.publishing.view.record import record_of
from groundtrace.publishing.view.reviews import Reviews
from groundtrace.publishing.view.rows import ViewedRows
from groundtrace.schemas.text import counted

MAX_ROWS = 2000
"""The maximum number of rows of a copy, because a browser holds all of them in memory."""
_FILES = (*FILES, "copy.js")
_KINDS = {"image/jpeg": "jpg", "image/png": "png", "image/gif": "gif"}


def export_view(
    run: dict[str, Any],
    rows: ViewedRows,
    images: RowImages,
    reviews: Reviews,
    filters: Filters,
    folder: Path,
    check_runs: Callable[[], None],
) -> int:
    """Write the rows that pass the filters as a page with its data and images, and return their number.

    ``run`` holds the facts about the run that the server sends to the page. ``rows`` and ``images`` read the run's rows
    and images. ``reviews`` holds the flags, tags and notes that a person set on records. ``folder`` is a new or empty
    folder. Images that cannot be read are left out. ``check_runs`` raises RunChanged if the run has changed since its
    rows were read (:meth:`groundtrace.publishing.view.server.ViewServer.check_runs`). Everything that was written is
    then removed, because it may be of two runs.

    Raises :class:`groundtrace.publishing.reading.InspectError` if the folder is not empty or cannot be written, if no
    row or more than :data:`MAX_ROWS` rows pass the filters, if a shard cannot be read, or if the run has changed.
    """
    total, found = rows.page(filters, 0, MAX_ROWS)
    if not 0 < total <= MAX_ROWS:
        raise InspectError(
            f"{counted(total, 'row')} of the run pass the filters, but the page that --export writes must have 1 to "
            f"{MAX_ROWS} rows: change the filters in --at"
        )
    bins = {name: {"low": low, "high": high, "spans": rows.spans[name]} for name, (low, high) in rows.bounds.items()}
    private = {"path": "", "input": ""}  # places on this machine
    about = run | private | {"rows": total, "has_audit": False, "has_replay": False, "other": None}
    about["dimensions"] = [each | bins.get(each["name"], {}) for each in run["dimensions"]]
    try:
        made = [each for each in (folder, *folder.parents) if not each.exists()]
        folder.mkdir(parents=True, exist_ok=True)
        if any(folder.iterdir()):
            raise InspectError(f"the folder of --export {folder} is not empty: choose a new folder")
        with _removed_if_changed(folder, made, check_runs):
            (folder / "images").mkdir()
            rows.seen(row["id"] for row in found)  # at once, since each call reads row groups
            marks = {row["id"]: {"mark": rows.shown_mark(reviews.of(row["id"]))} for row in found}
            records = {row["id"]: _record(row, rows, images, folder) | marks[row["id"]] for row in found}
            data = json.dumps(finite({"run": about, "rows": found, "records": records}), default=str)
            (folder / "data.js").write_text(f"const VIEW_COPY = {data};\n", "utf-8")
            _put_page(folder)
    except OSError as error:
        raise InspectError(
            f"the copy cannot be written to --export {folder} ({error.strerror or error}): choose another folder, "
            "where you may write, on a disk with free space"
        ) from error
    return total


@contextmanager
def _removed_if_changed(folder: Path, made: Sequence[Path], check_runs: Callable[[], None]) -> Iterator[None]:
    """Call ``check_runs`` at the end of the ``with`` block, and remove the copy if the run has changed.

    ``check_runs`` raises RunChanged if a run has changed. In this case, the content of ``folder``, which was empty
    before the block, is removed. The folders ``made``, which were made for the copy (the innermost comes first), are
    removed, too. Then RunChanged is raised. If the block itself has raised an error, RunChanged replaces this error.
    """
    try:
        try:
            yield
        finally:
            check_runs()
    except RunChanged as changed:
        for each in folder.iterdir():
            shutil.rmtree(each) if each.is_dir() else each.unlink()
        with suppress(OSError):  # another program may have written into a folder above
            for each in made:
                each.rmdir()
        raise RunChanged(f"{changed}: repeat the command") from changed


def _record(row: dict[str, Any], rows: ViewedRows, images: RowImages, folder: Path) -> dict[str, Any]:
    """Write the images of a record and a thumbnail of its first image, and return the record as the page shows it.

    The files are written into the subfolder ``images`` of ``folder``.
    """
    place = rows.place_of(row["n"])
    assert place is not None
    record, n = record_of(place, images) | {"n": row["n"], "other": None}, row["n"]
    for image in record["images"]:
        name = f"images/{n}-{image['column']}-{image['index']}"
        try:
            kind, data = images.original(place, image["column"], image["index"])
            image["file"] = f"{name}.{_KINDS.get(kind, 'png')}"
            (folder / image["file"]).write_bytes(data)
        except NoImage as error:
            image["missing"] = str(error)
    try:
        _, data = images.thumbnail(place)
        (folder / f"images/{n}.jpg").write_bytes(data)
    except NoImage as error:
        row["missing"] = str(error)
    return record


def _put_page(folder: Path) -> None:
    """Write the page and its scripts into the folder."""
    package = resources.files("groundtrace.publishing.view")
    for name in _FILES:
        with resources.as_file(package.joinpath(name)) as file:
            shutil.copyfile(file, folder / name)
    page = package.joinpath("view.html").read_text("utf-8").replace('="/', '="')
    scripts = "".join(f'<script src="{name}" defer></script>\n' for name in ("data.js", "copy.js"))
    page = page.replace('<script src="page.js"', f'{scripts}<script src="page.js"')
    (folder / "index.html").write_text(page, "utf-8")
