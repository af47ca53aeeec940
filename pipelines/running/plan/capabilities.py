"""Checks, without opening media, that the model servers have the abilities that a recipe (pipeline) needs for an input,
e.g. to accept several images in a request.
"""

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any

from groundtrace.config.extras import MissingExtra, require_extra
from groundtrace.grading.answers.registry import ANSWER_TYPES, evident_type
from groundtrace.inference.preflight import unfit_for
from groundtrace.inference.settings import ModelsSettings
from groundtrace.prompts.loader import load_prompt
from groundtrace.schemas.text import counted
from groundtrace.stages.attempt_questions import UNGRADABLE
from groundtrace.stages.plumbing.stage_list import StageList
from groundtrace.stages.sources.base import ANSWER_FIELDS, RowSettings, Source
from groundtrace.stages.sources.registry import format_of
from groundtrace.stages.split_by_media_group import STAGE as SPLIT
from groundtrace.vision.frames import CLIP_MODULES

SCANNED_RECORDS = 1000
VIDEO_SUFFIXES = frozenset({".mp4", ".webm", ".mov", ".avi", ".mkv", ".m4v", ".mpeg", ".mpg"})


@dataclass(frozen=True)
class MediaScan:
    """Describes the media (images and clips) of the first records of an input.

    ``records`` is the number of these records. ``most_media`` is the maximum number of images and clips in one record.
    ``videos`` is the number of records with a clip.
    """

    records: int = 0
    most_media: int = 0
    videos: int = 0


def scan_media(sources: Sequence[Source], rows: RowSettings, most_records: int = SCANNED_RECORDS) -> MediaScan:
    """Count the images and clips of an input's first records. No medium is opened: a clip is recognised by its name.

    Returns three numbers: the number of counted records, the maximum number of images and clips in one of them, and the
    number of them with a clip. A record without a value in its media field is not counted. There are two exceptions: a
    record with an empty list is counted, and a null in a Parquet file counts as one medium. If the input's format, such
    as ``datasets``, cannot read records without the content of their media, all three numbers are 0.

    ``sources`` are the files of the input. ``rows`` holds the config's section ``[input]``, e.g. which column holds the
    question. ``most_records`` is the maximum number of counted records.
    """
    found = itertools.chain.from_iterable(format_of(source).media(source, rows) for source in sources)
    records = most_media = videos = 0
    for field in itertools.islice(found, most_records):
        media = field if isinstance(field, list) else [field]
        records += 1
        most_media = max(most_media, len(media))
        videos += any(_is_video(medium) for medium in media)
    return MediaScan(records, most_media, videos)


@dataclass(frozen=True)
class AnswerScan:
    """Describes the gold answers of the first records of an input.

    ``records`` is the number of these records. ``free_texts`` is how many of them have free text as their answer, which
    only a judge can grade.
    """

    records: int = 0
    free_texts: int = 0


def scan_answers(sources: Sequence[Source], rows: RowSettings, most_records: int = SCANNED_RECORDS) -> AnswerScan:
    """Look at the gold answers of an input's first records, and return how many of them are free text.

    ``sources`` are the files of the input. ``rows`` holds the config's section ``[input]``, e.g. which column holds the
    question. ``most_records`` is the maximum number of records to look at. If the answers cannot be read without
    opening the media, the field ``records`` of the result is 0.
    """
    found = itertools.chain.from_iterable(format_of(source).answers(source, rows) for source in sources)
    kept = list(itertools.islice(found, most_records))
    return AnswerScan(len(kept), sum(map(_is_free_text, kept)))


def _is_free_text(fields: Mapping[str, Any]) -> bool:
    answer, named, choices = (fields.get(name) for name in ANSWER_FIELDS)
    if not isinstance(answer, str) or not answer.strip():
        return False
    choices = tuple(map(str, choices)) if isinstance(choices, list) and choices else None
    kind = ANSWER_TYPES[str(named)] if str(named) in ANSWER_TYPES else evident_type(answer, choices)
    return kind.needs_judge(answer, choices if kind.keeps_choices else None)


def check_judge(models: ModelsSettings, scan: AnswerScan, stages: StageList) -> tuple[list[str], list[str]]:
    """Check whether a judge can grade gold answers in free text, and return two lists of lines: problems and notes.

    A judge is a model that grades answers. A problem prevents a useful run, and a note does not. Both lists are empty
    if the judge is a real model, or if ``scan`` has found no free text. The embedded engine (code without a neural
    network) is not a real model. In all other cases, one list has one line, and the other is empty:

    - If a stage (step of the pipeline) rejects records with free text as their gold answer, the line names this stage.
      The line is a problem if all records of the input have free text and reach this stage. Otherwise it is a note.
    - If no stage rejects these records, the line is a note. It informs the user that a model's answer is unscored if
      its words differ from the gold answer.

    ``models`` are the settings of the models. ``scan`` describes the gold answers of the input. ``stages`` are the
    stages of the recipe.
    """
    if not scan.free_texts or models.judges_text:
        return [], []
    number = f"{scan.free_texts} of the first {counted(scan.records, 'record')}"
    # A stage with this reason among its failures (reason_in_text) calls the model anyway: an answer equal to the gold
    # answer can be graded as right without a judge.
    stage = next((each for each in stages if UNGRADABLE in each.reasons and UNGRADABLE not in each.failures), None)
    if stage is None:
        return [], [
            f"{number} have free text as their gold answer, and no judge reads them: answers in other words are "
            "unscored; set roles.judge to a model"
        ]
    names = [each.name for each in stages]
    is_split = SPLIT.name in names[: names.index(stage.name)]  # then only a part of the records reaches the stage
    end = f"rejected as ungradable by the stage {stage.name}{', if they reach it' if is_split else ''}"
    judge = "is the embedded engine, which reads no prose" if models.has_role("judge") else "names no endpoint"
    line = (
        f"{number} would be {end}: their gold answers are free text, and roles.judge {judge}; set roles.judge to a "
        "model, or remove these records"
    )
    is_all = not is_split and scan.free_texts == scan.records < SCANNED_RECORDS
    return ([line], []) if is_all else ([], [line])


def _is_video(medium: object) -> bool:
    name = medium.get("path") if isinstance(medium, Mapping) else medium
    return isinstance(name, str) and PurePosixPath(name).suffix.lower() in VIDEO_SUFFIXES


def check_capabilities(stages: StageList, models: ModelsSettings, scan: MediaScan) -> tuple[list[str], list[str]]:
    """Return what the endpoints of a run cannot do: two lists of lines for the user, the problems and the notes.

    An endpoint is a model server. A problem is an ability that a stage (step of the pipeline) needs and its endpoint
    lacks, for example several images in one request. A note is a fact that does not prevent the run, for example that
    an endpoint accepts no reply schema.

    ``stages`` are the stages of the recipe. ``models`` are the settings of the models. ``scan`` describes the media of
    the input.
    """
    problems, notes = unfit_for(models, stages.asks), list[str]()
    if scan.videos:
        try:
            require_extra("video", "reading clips", *CLIP_MODULES)
        except MissingExtra as error:
            problems.append(f"{scan.videos} of the first {scan.records} records have a clip, but {error}")
    whole = {ask.role for ask in stages.asks if ask.all_media}
    with_schema = {ask.role for ask in stages.asks if any(load_prompt(name).reply_schema for name in ask.prompts)}
    used = {role: endpoint for role, endpoint in models.roles if role in stages.roles_asked}
    for name in sorted(set(used.values())):
        roles = sorted(role for role, endpoint in used.items() if endpoint == name)
        settings = models.endpoint(roles[0])
        seeing = [role for role in roles if role in whole]
        several = f"{name} ({', '.join(seeing)}) takes one image per request, but "
        remedy = f"set endpoints.{name}.multi_image if it takes more"
        if scan.most_media > 1 and seeing and not settings.multi_image:
            problems.append(f"{several}the input has records with {scan.most_media}; {remedy}")
        if scan.videos and seeing and not settings.multi_image:
            problems.append(
                f"{several}{scan.videos} of the first {scan.records} records have a clip, shown as frames; {remedy}"
            )
        asked = [role for role in roles if role in with_schema]
        if asked and not settings.structured_output:
            notes.append(
                f"{name} ({', '.join(asked)}) takes no reply schema: only its prompt asks for JSON, and a malformed "
                f"reply is repaired at most {settings.repair_attempts} times"
            )
    return problems, notes
