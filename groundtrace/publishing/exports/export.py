"""Implements ``beam export``, which writes a run's rows in another format to a folder.

The folder appears only when the export is complete. Rows are read and written in small blocks, so memory never holds a
whole run. Every row is either written, or left out with a reason. ``export.json`` holds the numbers of written rows and
of left-out rows.
"""

import contextlib
import json
import re
import shutil
import uuid
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from groundtrace.grading.responses.speech import Speech
from groundtrace.inference.families.base import Family
from groundtrace.inference.families.registry import DEFAULT, FAMILIES
from groundtrace.publishing.exports.base import TAGS, TOOLS, ExportFormat, Target
from groundtrace.publishing.exports.contents import contents_of
from groundtrace.publishing.exports.errors import REASONS, ExportError
from groundtrace.publishing.exports.registry import export_format
from groundtrace.publishing.exports.rows import any_tags, count_rows
from groundtrace.publishing.exports.sides import SideCounts, write_side
from groundtrace.publishing.exports.tools import sandbox_limits
from groundtrace.publishing.exports.writers import IMAGES
from groundtrace.publishing.reading import columns_of, read_summary
from groundtrace.publishing.view.reviews import flags_of, known_flags
from groundtrace.schemas.arrow import EARLIER, added_columns
from groundtrace.schemas.coordinates import QWEN25_IMAGE, CoordinateFrame, ResizeRule
from groundtrace.schemas.run_summary import RunSummary

SUMMARY = "export.json"
_ADDRESS = re.compile(r"[a-z][a-z0-9+.-]+:/", re.IGNORECASE)  # pathlib leaves one slash of ://
TEXT_COLUMNS = {"sft": ("messages", "other_traces"), "rl": ("prompt", "stream_prompts")}


@dataclass(frozen=True)
class ExportArguments:
    """Holds the arguments of ``beam export``.

    Attributes:
        run: the run folder.
        format: the name of the export format.
        output: the folder to write.
        family: the family of the model to be trained. Models of a family write coordinates in the same form. "" is
            allowed if the rows neither contain nor request coordinates.
        run_at: the path from which a reward will read the run folder; "" if that path is ``run``.
        max_pixels, min_pixels: the largest and the smallest area of an image in the training, in pixels; None for the
            family's own limits.
        replace: whether an older export in ``output`` is replaced.
        turns: how the code in trajectories (traces in several turns with code) is written: ``tags`` or ``tools`` (tool
            calls).
        without_flagged: if True, the export leaves out each row that a reviewer has flagged in ``beam view``.
        only: the training set to export, sft or rl; "" for all that the format supports.
    """

    run: Path
    format: str
    output: Path
    family: str = ""
    run_at: str = ""
    max_pixels: int | None = None
    min_pixels: int | None = None
    replace: bool = False
    turns: str = TAGS
    without_flagged: bool = False
    only: str = ""


@dataclass(frozen=True)
class ExportResult:
    """Holds what an export wrote.

    ``folder`` is the output folder. ``files`` holds the names of its files and, if there are images as files, the name
    of their folder, "images/". ``counts`` holds the numbers of written and left-out rows of each training set (sft,
    rl). ``unwritten`` holds the names of the columns for which the format has no place. Only columns that the user's
    own stages or the setting ``[input] keep`` (which keeps columns of the input) added to these training sets are
    listed.
    """

    folder: Path
    files: tuple[str, ...]
    counts: Mapping[str, SideCounts]
    unwritten: Mapping[str, Sequence[str]] = field(default_factory=dict)


def export_run(arguments: ExportArguments) -> ExportResult:
    """Write a run's rows in another format. The output folder appears only if the export succeeds.

    Return the folder, its files and the numbers of rows. Raises ExportError for a mistake that the user can correct,
    and InspectError for a folder without a finished run.
    """
    form = _with_sides(export_format(arguments.format), arguments.only)
    _check_turns(arguments.turns, form)
    summary = read_summary(arguments.run, digests=True)
    rows = {side: count_rows(arguments.run, side, summary) for side in form.open}
    if not any(rows.values()):
        limit = f"--only {arguments.only}" if arguments.only else f"the format {form.name}"
        remedy = "leave out --only" if arguments.only else "choose another --format"
        raise ExportError(
            f"{arguments.run} has no {' or '.join(rows)} rows, but {limit} exports only such rows: {remedy}"
        )
    form.check(arguments.run)
    target = _target(arguments, form, rows)
    leaves_out = arguments.without_flagged
    flags = flags_of(arguments.run) if leaves_out else known_flags(arguments.run)
    with _unfinished(arguments) as folder:
        counts = {
            side: write_side(arguments.run, side, form, target, folder, flags, leaves_out)
            for side in rows
            if rows[side]
        }
        _check_counts(counts, rows)
        for name, text in form.beside({side: count.written for side, count in counts.items()}).items():
            (folder / name).write_text(text, "utf-8")
        files = _write_summary(folder, arguments, summary, target, counts)
    unwritten = {side: _own_columns(arguments.run, side) for side in form.drops_added if side in counts}
    return ExportResult(arguments.output, files, counts, {side: names for side, names in unwritten.items() if names})


def _own_columns(run: Path, side: str) -> list[str]:
    """Return the names of the columns that the user added to the training set ``side`` (sft or rl). Such columns come
    from the user's own stages (pipeline steps), or from the setting ``[input] keep``, which keeps columns of the input.
    A column that a stage added for another purpose than training is left out.
    """
    added = added_columns(columns_of(run, side))
    return [column.name for column in added if column.for_training and column.name not in EARLIER]


def _with_sides(form: ExportFormat, only: str) -> ExportFormat:
    """Return an export format that writes only one training set.

    ``only`` is the training set, sft or rl; if it is "", the format is returned unchanged. Raises ExportError if the
    format does not support this training set.
    """
    if not only:
        return form
    if only not in form.open:
        raise ExportError(
            f"the format {form.name} has no {only} rows, only {' and '.join(form.open)} rows: change --only, or choose "
            "another --format"
        )
    return replace(form, open={only: form.open[only]})


def _check_turns(turns: str, form: ExportFormat) -> None:
    """Raise ExportError for a wrong value of ``--turns``, and for tool calls that an export format cannot hold.

    ``turns`` is the value of ``--turns``. It must be ``tags`` (the code of a response is written as text in tags) or
    ``tools`` (the code is written as tool calls). ``form`` is the export format.
    """
    if turns not in (TAGS, TOOLS):
        raise ExportError(f"--turns must be {TAGS} or {TOOLS}, not {turns!r}")
    if turns == TOOLS and not form.takes_tools:
        raise ExportError(f"the format {form.name} cannot hold tool calls: leave out --turns, or change --format")


def _target(arguments: ExportArguments, form: ExportFormat, rows: Mapping[str, int]) -> Target:
    """Return the target of an export: where its rows are written, and which model will be trained on them.

    ``rows`` is the number of rows of each training set. Raises ExportError in these cases:

    - The rows contain or request coordinates, but no model family is given.
    - The family is unknown.
    - The family writes coordinates from 0 to 1. The tags of points and boxes have only one decimal, which is too coarse
      for such coordinates.
    - Limits on the size of images are given, but the family's coordinates do not depend on this size.
    - The maximum size is less than the minimum size.
    """
    family, output = _family(arguments, rows), arguments.output.absolute()
    if family.frame is CoordinateFrame.UNIT:
        raise ExportError(
            f"the model family {family.name} writes coordinates from 0 to 1. The point and box tags have only one "
            "decimal, which is too coarse for such coordinates: choose another --family"
        )
    rule = family.resize or QWEN25_IMAGE
    given = {"max_area_px": arguments.max_pixels, "min_area_px": arguments.min_pixels}
    bounds = {name: value for name, value in given.items() if value is not None}
    if bounds and not (isinstance(rule, ResizeRule) and family.frame is CoordinateFrame.QWEN25_RESIZED_PX):
        raise ExportError(
            f"--max-pixels and --min-pixels cannot be used, because the coordinates of the model family {family.name} "
            "do not depend on the size of images: leave out both options"
        )
    try:
        rule = replace(rule, **bounds)
    except ValueError as error:
        raise ExportError(
            f"--max-pixels must be at least --min-pixels, which is {QWEN25_IMAGE.min_area_px} by default: raise "
            "--max-pixels"
        ) from error
    run = arguments.run_at or str(arguments.run.absolute())
    added = {c.name: c.type for c in added_columns(columns_of(arguments.run, "rl")) if c.for_training}
    sandbox = sandbox_limits(arguments.run) if arguments.turns == TOOLS else ""
    speech = Speech(family.frame, family.decimals, rule)
    return Target(output, run, family.name, speech, added, arguments.turns, sandbox)


def _family(arguments: ExportArguments, rows: Mapping[str, int]) -> Family:
    """Return the family of the model to be trained, which determines how the exported rows write coordinates.

    ``rows`` is the number of rows of each training set. The result is the family that ``arguments.family`` names.
    Without this argument, the result is the default family, but only if the texts of the rows have no coordinates and
    ask the model for none.

    Raises ExportError if the given family is unknown, or if no family is given and the rows contain or request
    coordinates.
    """
    if arguments.family:
        try:
            return FAMILIES.named(arguments.family)
        except ValueError as error:
            raise ExportError(f"--family {error}") from error
    for side in (side for side in rows if rows[side]):
        if any_tags(arguments.run, side, TEXT_COLUMNS[side]):
            raise ExportError(
                f"the {side} rows contain or request coordinates: set --family to the family of the model to train. "
                f"The families are {', '.join(sorted(FAMILIES))} ('plain' writes pixels of the original "
                "image); give a family of your own as module:NAME"
            )
    return FAMILIES.named(DEFAULT)


@contextlib.contextmanager
def _unfinished(arguments: ExportArguments) -> Iterator[Path]:
    """Yield a temporary folder into which the export is written. Its parent folder is that of the output folder
    ``arguments.output``.

    After the ``with`` block, the temporary folder is renamed to the output folder. If the block raises an error, the
    temporary folder is removed.
    """
    unfinished: Path | None = None
    try:
        output = _resolved(arguments.output)
        _check_place(arguments, output, arguments.run.resolve())
        unfinished = output.with_name(f".{output.name}.{uuid.uuid4().hex}.tmp")
        unfinished.mkdir(parents=True)
        yield unfinished
        _put(unfinished, output, arguments.replace)
    except OSError as error:
        reason = error.strerror or error
        raise ExportError(f"cannot write {arguments.output}: {reason}: choose another folder") from error
    finally:
        if unfinished is not None:
            shutil.rmtree(unfinished, ignore_errors=True)  # already renamed after success


def _resolved(output: Path) -> Path:
    """Return the path of the output with links resolved, so that a link itself is never replaced.

    Raises ExportError for a URL or an invalid path.
    """
    if _ADDRESS.match(str(output)):
        raise ExportError(f"--output {output} is a URL: export to a local folder, and copy that folder to the URL")
    try:
        return output.resolve()
    except (ValueError, RuntimeError) as error:  # a NUL in the name; links that lead to each other
        raise ExportError(f"--output {str(output)!r} is not a usable path ({error}): choose another folder") from error


def _check_place(arguments: ExportArguments, output: Path, run: Path) -> None:
    """Raise ExportError if the export cannot be written to the folder ``output``. The error is raised in these cases:

    - The output is the run folder, is in it, or contains it.
    - The output exists, and ``--replace`` is not given.
    - The output exists, and is neither an older export nor an empty folder. Such a folder or file is never replaced.
    """
    if output == run or run in output.parents:
        raise ExportError(
            f"{arguments.output} is in the run folder, which a repeated run replaces: choose a folder outside the run"
        )
    if output in run.parents:
        raise ExportError(
            f"{arguments.output} cannot be the output folder, because it contains the run folder: choose another folder"
        )
    if not output.exists():
        return
    if not arguments.replace:
        raise ExportError(f"{arguments.output} already exists: choose another folder, or replace it with --replace")
    if not output.is_dir() or (not (output / SUMMARY).is_file() and any(output.iterdir())):
        raise ExportError(
            f"{arguments.output} is not an export (it has no {SUMMARY}), so --replace cannot replace it: choose "
            "another folder"
        )


def _put(unfinished: Path, output: Path, is_replacing: bool) -> None:
    """Rename the finished folder ``unfinished`` to ``output``.

    If ``is_replacing`` is True and ``output`` exists, the old folder is first renamed. After ``unfinished`` was
    renamed, the old folder is removed. If ``unfinished`` cannot be renamed, the old folder gets its name back. Raises
    OSError if ``is_replacing`` is False and another export has been created at ``output`` meanwhile.
    """
    before = output.with_name(f"{unfinished.name}.old")
    if is_replacing and output.exists():
        output.rename(before)
    try:
        unfinished.rename(output)
    except BaseException:
        if before.exists():
            before.rename(output)
        raise
    shutil.rmtree(before, ignore_errors=True)


def _check_counts(counts: Mapping[str, SideCounts], rows: Mapping[str, int]) -> None:
    """Raise RuntimeError if a row was neither written nor left out, and ExportError if no row could be written.

    ``rows`` is the number of rows of each training set (sft, rl) in the shards. ``counts`` holds the numbers of rows
    that were read, written and left out.
    """
    for side, count in counts.items():
        if not count.read == rows[side] == count.written + count.left_out.total():
            raise RuntimeError(
                f"some {side} rows were lost in the export: {count.read} of {rows[side]} rows were read, and "
                f"{count.written} were written: report this fault of the program"
            )
    if not any(count.written for count in counts.values()):
        reason, most = sum((count.left_out for count in counts.values()), Counter()).most_common(1)[0]
        raise ExportError(
            f"no row can be exported. The most frequent reason ({most} rows) is {reason} "
            f"({REASONS.get(reason, 'a reason of the format')}): see docs/exports.md for what to do"
        )


def _write_summary(
    folder: Path, arguments: ExportArguments, summary: RunSummary, target: Target, counts: Mapping[str, SideCounts]
) -> tuple[str, ...]:
    """Write ``export.json``, which describes the export, into the folder. Return the names of all files in the folder,
    including ``export.json``.

    If the export has images, the result also contains the name of the images' folder. ``summary`` is the content of the
    run's ``run.json``. ``counts`` holds the numbers of written and left-out rows of each training set (sft, rl).
    """
    files, images = contents_of(folder)
    fields = {
        "format": arguments.format,
        "family": target.family,
        "frame": str(target.speech.frame),
        "turns": target.turns,
        "max_pixels": arguments.max_pixels,
        "min_pixels": arguments.min_pixels,
        "without_flagged": arguments.without_flagged,
        "only": arguments.only or None,
        "run": {
            "path": target.run,
            "recipe": summary.recipe,
            "config_sha256": summary.config_sha256,
            "revision": summary.revision,
        },
        "counts": {
            side: {
                "rows": count.read,
                "written": count.written,
                "prompts": count.prompts,
                "left_out": dict(sorted(count.left_out.items())),
            }
            for side, count in counts.items()
        },
        "files": files,
        "images": images,
    }
    (folder / SUMMARY).write_text(json.dumps(fields, indent=1, ensure_ascii=False) + "\n", "utf-8")
    return (*files, *([f"{IMAGES}/"] if images else []), SUMMARY)
