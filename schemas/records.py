"""Defines the records that the stages (steps) of a pipeline pass to each other.

All records are frozen Beam rows (:mod:`groundtrace.schemas.coding`). A record holds no pixels. It holds the URIs of its
media: ``input:<path>`` for a file in the input folder, ``run:media/<sha256>.<ext>`` for an image that a stage drew.
"""

from dataclasses import field

from groundtrace.schemas.coding import record
from groundtrace.schemas.columns import HasValues, Value
from groundtrace.schemas.geometry import Box, Point
from groundtrace.schemas.passk import pass_rate
from groundtrace.schemas.usage import ONE_CALL, Usage


@record
class Origin:
    """Holds data of an input record that no stage (step of the pipeline) reads. The data are only copied to the output.

    ``media_names`` are the names of the record's media in the input, in order; "" for a medium without a name. The
    config lists the columns of the input that are copied. ``kept`` holds the record's values of these columns as texts.
    ``input_row`` names the file of the input from which the record was read, and the line or row in this file, such as
    "questions.csv, line 12"; "" if it is unknown.
    """

    media_names: tuple[str, ...] = ()
    kept: tuple[Value, ...] = ()
    input_row: str = ""


NO_ORIGIN = Origin()


@record
class RawRecord:
    """Holds one record as it was read from the input. ``number`` is its line or row number (from 1), and ``text`` holds
    its fields as JSON text.

    ``materialised`` determines the form of the media in ``text``:

    - True: the media are URIs. If the input held a medium as bytes, the reader has written the bytes to a file in the
      run folder (``run:media/…``). If the input held a path, the reader has made a URI of it (``input:…``). ``origin``
      holds the names that the media had in the input, such as "cat.png".
    - False: the media are the paths in the input. A later stage takes the names from these paths.

    ``problem`` is a fault of the record that the reader found; "" if there is no fault.
    """

    number: int
    text: str
    materialised: bool = False
    problem: str = ""
    origin: Origin = NO_ORIGIN


@record
class FrameRef:
    """Describes a sampled frame of a clip, which is stored as an image file in the run folder.

    ``number`` is the frame's number among the sampled frames, from 1. ``t_s`` is the frame's time in seconds after the
    clip's first frame. ``uri``, ``sha256`` and ``size_bytes`` describe the file.
    """

    number: int
    t_s: float
    uri: str
    sha256: str
    size_bytes: int


@record
class MediaRef:
    """Describes an image or video of a question that was decoded and checked.

    ``uri`` is the URI of its file, and ``kind`` is "image" or "video". ``width`` and ``height`` are the size of the
    upright image in pixels. ``orientation`` is the EXIF orientation that was applied (1: none). ``sha256`` is the hash
    of the file's bytes, ``pixel_sha256`` is the hash of the decoded pixels, and ``dhash`` is the 64-bit difference hash
    in hexadecimal.

    A video has at least one frame in ``frames``. Its ``width`` and ``height`` are the size of a frame, its
    ``pixel_sha256`` is a hash of all frames, and its ``dhash`` is that of the first frame.
    """

    uri: str
    kind: str
    sha256: str
    pixel_sha256: str
    dhash: str
    width: int
    height: int
    orientation: int
    size_bytes: int
    frames: tuple[FrameRef, ...] = ()

    @property
    def image_uris(self) -> tuple[str, ...]:
        """Return the URIs of the images that a model sees: of the image itself, or of the sampled frames of a video."""
        return tuple(frame.uri for frame in self.frames) or (self.uri,)

    def frame(self, number: int) -> FrameRef | None:
        """Return the sampled frame with this number, counted from 1. Returns None if there is no such frame."""
        return self.frames[number - 1] if 1 <= number <= len(self.frames) else None


@record
class Question:
    """Holds a validated input record: a question with its media and its correct (gold) answer.

    ``id``, ``source`` and ``license`` are copied from the input. ``choices`` holds the choices of a multiple-choice
    question; it is None for other questions. A multiple-choice question can also be asked as an open question, without
    its choices. In this case, ``opened_choices`` holds them. ``gold_boxes`` are the boxes in the input (None if the
    input has no field for boxes); no model sees them. ``origin`` holds input data that are only copied to the output.
    ``question``, ``answer`` and ``answer_type`` are "" if the input has only images, until a stage has written a
    question.
    """

    id: str
    source: str
    license: str
    media: tuple[MediaRef, ...]
    question: str
    answer: str
    answer_type: str
    choices: tuple[str, ...] | None = None
    opened_choices: tuple[str, ...] | None = None
    gold_boxes: tuple[Box, ...] | None = None
    origin: Origin = field(default=NO_ORIGIN, repr=False, compare=False)

    @property
    def is_asked(self) -> bool:
        """Return whether the record has a question. The result is False if the input had only images, and a stage still
        has to write a question about them.
        """
        return bool(self.question)


@record
class Call:
    """Records one call that a stage (pipeline step) made to a model. The record shows later which calls led to a row of
    the output, and what they cost.

    A call returns one or more samples (replies). Four fields have one entry for each sample; the last three of them are
    () if all their entries would be 0 or "":

    - ``keys`` are the cache keys of the samples.
    - ``worth_usd`` are the costs that the samples would have had without the cache.
    - ``answered_by`` are the models that the server named; "" if the server named ``model``, the requested model.
    - ``taken_from`` are the other run folders from whose caches samples were copied; "" for a sample that was not
      copied.

    ``stage`` is the name of the stage. ``role`` is the job that the model had, such as "judge". ``prompt`` is the
    prompt's name, and ``prompt_sha256`` the hash of its file. ``truncated`` holds the cache keys of truncated samples,
    and ``max_tokens`` is the largest token limit of their requests (0 if no sample is truncated). ``usage`` holds the
    requests, tokens and cost of this call. If the same call is made again, its ``worth_usd`` is the same, but its
    ``usage`` is lower, since its replies come from the cache.
    """

    role: str
    prompt: str
    prompt_sha256: str
    model: str
    keys: tuple[str, ...]
    usage: Usage = ONE_CALL
    stage: str = ""
    worth_usd: tuple[float, ...] = ()
    answered_by: tuple[str, ...] = ()
    taken_from: tuple[str, ...] = ()
    truncated: tuple[str, ...] = ()
    max_tokens: int = 0


@record
class Attempt:
    """Holds one sampled answer of the policy (the model that is to be trained), and whether it is right.

    ``text`` is the response, and ``answer`` is the answer in it (None if the response has none). ``correct`` is None if
    the answer was not scored, for example because its text is truncated. ``method`` names how the answer was graded,
    and ``reason`` explains the result.
    """

    text: str
    answer: str | None
    correct: bool | None
    method: str
    reason: str


def rate_of(attempts: tuple[Attempt, ...]) -> float | None:
    """Return the pass rate: the share of right ``attempts`` (sampled answers to one question) among the scored ones.
    Returns None if no attempt was scored.
    """
    k = sum(attempt.correct is not None for attempt in attempts)
    return pass_rate(sum(attempt.correct is True for attempt in attempts), k) if k else None


@record
class Verdict:
    """Holds the result of one scorer for a response, and the reason for it. A scorer is code that checks one property
    of a response, and ``name`` is its name. A verdict has one of three states:

    - Scored: ``value`` is in [0, 1]. Exception: the value of the scorer ``spatial`` is negative if all points are
      wrong.
    - Not applicable: ``value`` is None, since the response has nothing that the scorer could check.
    - Failed: ``value`` is None and ``failed`` is True, since the scorer could not check the response, for example
      because a server did not answer. A failed verdict never passes.

    ``evidence`` holds the data on which the value is based, for programs. Each string is one JSON object, whose fields
    the scorer documents.
    """

    name: str
    value: float | None
    reason: str
    evidence: tuple[str, ...] = ()
    failed: bool = False


@record
class Overlay:
    """Describes an image in the run folder that a stage (a step of the pipeline) made from an image of the question,
    for example by drawing points on it. ``uri``, ``sha256`` and ``size_bytes`` describe its file.

    ``media_index`` is the index of the original image or video among the question's media. ``frame`` is the number of
    the video's frame; it is None for an image.
    """

    media_index: int
    uri: str
    sha256: str
    size_bytes: int
    frame: int | None = None


@record
class Event:
    """Holds an event in a clip, such as "a man opens the door", that the teacher (a large model) proposed.
    ``description`` describes it in words. ``start_s`` and ``end_s`` are its start and end in seconds.
    """

    description: str
    start_s: float
    end_s: float


@record
class Trace:
    """Holds the reasoning and answer of the teacher (a large model), and the verdicts on them: the results of scorers,
    each of which checks one property. ``index`` is the number of the trace among the traces for its question. ``score``
    is the value by which traces are compared; it is None until the trace is scored.

    In ``text``, points and boxes are tags of this project, with coordinates in original pixels. Model families write
    points and boxes in other forms, which were converted to these tags.
    """

    index: int
    text: str
    answer: str | None
    points: tuple[Point, ...]
    boxes: tuple[Box, ...]
    verdicts: tuple[Verdict, ...] = ()
    score: float | None = None


@record
class Rubric:
    """Holds a rubric, i.e. one criterion by which responses are graded, and what was measured about it (§3.2 of the
    paper RuCL). ``description`` and ``criteria`` are its text. ``applicability`` (η) is the share of responses to which
    it applies. ``pass_rate`` (p) is the share of these responses that meet it (None if there are none). ``stratum`` is
    the rubric's difficulty: "easy" or "hard", or "" if nothing was measured yet.
    """

    id: str
    description: str
    criteria: str
    applicability: float
    pass_rate: float | None
    stratum: str


@record
class Draft(HasValues):
    """Holds a question while it passes through the stages of a pipeline, with the data that the stages have added.

    ``attempts`` are sampled answers of the policy (the model to be trained). ``entities`` are the noun phrases to point
    at (None if no model was asked for entities). ``events`` are the events in the question's clips. ``points`` are the
    points that the pointer (the model that points at objects) found for the entities. ``overlays`` are images that a
    stage made from the media, such as copies with points. ``traces`` are the teacher's traces (reasoning and answer),
    and ``best`` is the index of the chosen trace (None if no trace is chosen). ``form`` is the form of the responses, a
    key of :data:`groundtrace.grading.question_text.INSTRUCTIONS`. ``pseudo_boxes`` are a detector's boxes in pixels,
    for a record without gold boxes; they become the ``gold_boxes`` of the row, as in the paper iVGR.

    ``values`` holds values that only some recipes add. The descriptions of the stages list the columns of these values
    (:mod:`groundtrace.schemas.columns`). ``draft.with_added(COLUMN, value)`` returns a copy of the draft with the value
    in a column. ``draft.added(COLUMN)`` returns the value in a column.

    ``passed`` holds the names of the stages that the draft has passed, in order. ``calls`` holds the calls to models
    that were made for the draft. The counts of a run are computed from these two fields of all drafts.
    """

    question: Question
    attempts: tuple[Attempt, ...] = ()
    entities: tuple[str, ...] | None = None
    points: tuple[Point, ...] = ()
    overlays: tuple[Overlay, ...] = ()
    traces: tuple[Trace, ...] = ()
    best: int | None = None
    calls: tuple[Call, ...] = ()
    events: tuple[Event, ...] = ()
    form: str = "points"
    pseudo_boxes: tuple[Box, ...] | None = None
    passed: tuple[str, ...] = ()
    values: tuple[Value, ...] = ()

    @property
    def id(self) -> str:
        """Return the question's id."""
        return self.question.id

    @property
    def pointable(self) -> tuple[str, ...]:
        """Return the entities (noun phrases) for which this draft (a question with its data) has at least one point.
        The points come from the pointer, the model that points at objects.
        """
        found = {point.label for point in self.points}
        return tuple(entity for entity in self.entities or () if entity in found)

    @property
    def reference_boxes(self) -> tuple[Box, ...]:
        """Return the boxes with which the boxes of responses are compared. These are the record's gold boxes (boxes
        from the input). If the input has no field for boxes, they are the boxes that a detector found. The result is
        () if there are no boxes at all.

        The result is also () for a question about clips, since a box has no frame number.
        """
        if any(medium.frames for medium in self.question.media):
            return ()
        gold = self.question.gold_boxes
        return (self.pseudo_boxes or ()) if gold is None else gold

    @property
    def scored_attempts(self) -> int:
        """Return how many of the policy's attempts (sampled answers) were graded as right or wrong. The pass rate is
        the share of right attempts among them.
        """
        return sum(attempt.correct is not None for attempt in self.attempts)

    @property
    def pass_rate(self) -> float | None:
        """Return the pass rate: the share of right attempts (sampled answers of the policy) among the scored attempts.
        Returns None if no attempt was scored.
        """
        return rate_of(self.attempts)


@record
class Rejected:
    """Holds an input record that a stage (a step of the pipeline) rejected. ``stage`` is the stage's name. ``reason``
    is one of the reasons in the description of the stage, and ``detail`` explains it in a sentence.

    ``cache_key`` is the cache key of the model's reply that led to the rejection (None if no reply did). ``calls`` are
    the calls to models that were made for the record, and ``cost_usd`` is the cost that they would have without the
    cache. ``rejected_by`` is the name of the scorer (code that checks a response) whose verdict led to the rejection
    (None if no verdict did). ``draft`` is the last state of the record (the question with its data), without the calls;
    None if the record did not become a question. In this case, ``origin`` holds the data of the input. Comparisons
    ignore ``draft`` and ``origin``.
    """

    id: str
    stage: str
    reason: str
    detail: str
    cache_key: str | None = None
    cost_usd: float = 0.0
    calls: tuple[Call, ...] = ()
    draft: Draft | None = field(default=None, compare=False)
    origin: Origin = field(default=NO_ORIGIN, compare=False)
    rejected_by: str | None = None
