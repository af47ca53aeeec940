"""Converts drafts (questions with their data) to the rows of the shards (Parquet files).

In these rows, image columns hold URIs. The code that writes the shards replaces the URIs by the bytes of the images.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from groundtrace.grading.question_text import CODE, user_text
from groundtrace.grading.responses.turns import conversation, one_answer
from groundtrace.schemas.arrow import INPUT_ROW, REJECTED_SCHEMA
from groundtrace.schemas.columns import Column, Value
from groundtrace.schemas.records import Attempt, Draft, Origin, Question, Rejected, Trace, Verdict

Row = dict[str, object]
SCORES = ("outcome", "spatial", "temporal", "reasoning")
"""The names of the scorers whose values have their own fields in the column ``scores``."""


@dataclass(frozen=True)
class RowContext:
    """Holds the data that all rows of a run have in common.

    Attributes:
        recipe: the name of the recipe (pipeline).
        revision: the commit of the code that made the rows.
        self_judged: whether judge and teacher have the same endpoint (model server).
        self_checked: whether the detector and the pointer (the model that points at objects) are the same model.
        other_traces: whether SFT rows have the column ``other_traces``, with the teacher's responses that were not
            chosen.
        rejected_images: whether rejected rows hold the bytes of their images.
        added: the columns that each set (``sft``, ``rl``, ``rejected``) has besides the core columns. ``input_row`` is
            among those of ``sft`` and ``rl`` if the config requests it.
    """

    recipe: str
    revision: str
    self_judged: bool
    self_checked: bool = False
    other_traces: bool = False
    rejected_images: bool = False
    added: Mapping[str, Sequence[Column[Any]]] = field(default_factory=dict)

    def added_to(self, name: str, origin: Origin, values: Sequence[Value] = ()) -> Row:
        """Return the values of one row in the added columns, as a mapping from the column's name to the value.

        Each set (``sft``, ``rl`` and ``rejected``) may have added columns besides the core columns. ``name`` is the set
        of the row. ``origin`` holds the values of the input columns that the config keeps. ``values`` are the values
        that stages (steps of the pipeline) added. A column without a value gets None.
        """
        found = {each.column: each.plain for each in (*values, *origin.kept)}
        found[INPUT_ROW.name] = origin.input_row or None
        return {column.name: found.get(column.name) for column in self.added.get(name, ())}


def sft_row(draft: Draft, context: RowContext) -> Row:
    """Return the SFT row of a verified draft (a question with its data). Its best trace (the chosen response of the
    teacher) becomes the assistant's turn.

    A trajectory (a response with code) becomes several turns. ``context`` holds the data that all rows of the run have
    in common, such as the recipe's name. Raises ValueError for a draft without a best trace.
    """
    if draft.best is None:
        raise ValueError(
            f"{draft.id}: an SFT row needs a verified trace: pass only verified drafts to Ends(sft=…) in the recipe"
        )
    trace = draft.traces[draft.best]
    row = _common(draft, context, "sft")
    row["points"] = [asdict(point) for point in trace.points]
    row["boxes"] = [asdict(box) for box in trace.boxes]
    row["scores"] = _scores(trace)
    row["verdicts"] = [_verdict(verdict) for verdict in trace.verdicts]
    if context.other_traces:
        row["other_traces"] = [_trace(other) for other in draft.traces if other.index != trace.index]
    asked = user_text(draft.question, draft.form)
    messages = conversation(asked, trace.text) if draft.form == CODE else one_answer(asked, trace.text)
    if len(messages) > 2:  # the messages refer to the images that code showed, after the question's
        row["images"] = [*_image_uris(draft.question), *(overlay.uri for overlay in draft.overlays)]
        row["overlays"] = []
    row["messages"] = messages
    return row


def rl_row(draft: Draft, context: RowContext) -> Row:
    """Return the RL row of a draft (a question with its data), with the columns that the trainers verl and EasyR1 read.

    ``context`` holds the data that all rows of the run have in common, such as the recipe's name.
    """
    question = draft.question
    text = user_text(question, draft.form)
    row = _common(draft, context, "rl")
    row["prompt"] = [{"role": "user", "content": text}]
    row["data_source"] = question.source
    row["ability"] = question.answer_type
    row["reward_model"] = {"style": "rule", "ground_truth": question.answer}
    row["extra_info"] = {"index": question.id, "split": "train"}
    row["problem"] = text
    return row


def rejected_row(rejected: Rejected, context: RowContext) -> Row:
    """Return the output row of the rejected record ``rejected``, with all known data of the record. Columns without
    data are None.

    ``context`` holds the data that all rows of the run have in common, such as the recipe's name.
    """
    row = Row(dict.fromkeys(REJECTED_SCHEMA.names))
    row |= {name: value for name, value in vars(rejected).items() if name in row}
    origin = rejected.origin if rejected.draft is None else rejected.draft.question.origin
    row["input_row"] = origin.input_row or None
    if rejected.draft is None:
        return row | _of_origin(origin) | context.added_to("rejected", origin)
    draft, question = rejected.draft, rejected.draft.question
    media = [vars(medium) for medium in question.media]
    row |= {
        **_asked(draft),
        "images": _image_uris(question) if context.rejected_images else None,
        "media": [{name: medium[name] for name in ("uri", "sha256", "width", "height")} for medium in media],
        **({} if question.is_asked else dict.fromkeys(("question", "answer", "answer_type"))),
        "points": [asdict(point) for point in draft.points] or None,
        "traces": [_trace(trace) for trace in draft.traces] or None,
        **context.added_to("rejected", origin, draft.values),
    }
    return row


def _of_origin(origin: Origin) -> Row:
    return {"media_names": [name or None for name in origin.media_names] or None}


def _trace(trace: Trace) -> Row:
    verdicts = [_verdict(verdict) for verdict in trace.verdicts]
    return {"text": trace.text, "answer": trace.answer, "score": trace.score, "verdicts": verdicts}


def _verdict(verdict: Verdict) -> Row:
    return {**vars(verdict), "evidence": list(verdict.evidence)}


def _image_uris(question: Question) -> list[str]:
    return [uri for medium in question.media for uri in medium.image_uris]


def _asked(draft: Draft) -> Row:
    """Return the values of the columns about the question, its origin, its attempts and its entities.

    Attempts are answers that the policy model sampled. Entities are phrases for visible things.
    """
    question = draft.question
    return {
        "source": question.source,
        "license": question.license,
        "question": question.question,
        "answer": question.answer,
        "answer_type": question.answer_type,
        "choices": question.choices,
        "gold_boxes": None if question.gold_boxes is None else [asdict(box) for box in question.gold_boxes],
        "entities": draft.entities,
        "pass_rate": draft.pass_rate,
        "k": draft.scored_attempts if draft.attempts else None,
        "attempts": attempt_rows(draft.attempts) or None,
        **_of_origin(question.origin),
    }


def attempt_rows(attempts: Sequence[Attempt]) -> list[Row]:
    """Return the attempts (the policy model's sampled answers) for the column ``attempts`` of a row: for each attempt a
    dict with its text, its answer, and whether it is correct.
    """
    return [{"text": each.text, "answer": each.answer, "correct": each.correct} for each in attempts]


def _common(draft: Draft, context: RowContext, name: str) -> Row:
    question = draft.question
    return {
        **_asked(draft),
        "id": question.id,
        "recipe": context.recipe,
        "images": _image_uris(question),
        "frames": _frames(question),
        "overlays": [overlay.uri for overlay in draft.overlays],
        "pointable": None if draft.entities is None else draft.pointable,
        **_boxes_to_learn(draft),
        "lineage": _lineage(draft, context),
        **context.added_to(name, question.origin, draft.values),
    }


def _boxes_to_learn(draft: Draft) -> Row:
    """Return the values of the columns about the boxes with which a reward compares responses.

    ``boxes_source`` is "gold" for gold boxes, "detector" for boxes that the detector found, and None without boxes.
    Boxes of the detector are used only if the question has no gold boxes. In this case the column ``gold_boxes``
    holds the detector's boxes.
    """
    if draft.question.gold_boxes is None and draft.pseudo_boxes is not None:
        return {"gold_boxes": [asdict(box) for box in draft.pseudo_boxes], "boxes_source": "detector"}
    return {"boxes_source": None if draft.question.gold_boxes is None else "gold"}


def _frames(question: Question) -> list[Row] | None:
    """Return the column ``frames``: one dict for each image of the row. Returns None for a row without clips.

    An image of the row is an image of the question or a frame of one of its clips. ``media_index`` is the index of the
    image or clip among the question's media. For a frame, ``frame`` is the frame's number, and ``t_s`` is its time in
    seconds. For an image of the question, both are None.
    """
    if not any(medium.frames for medium in question.media):
        return None
    rows: list[Row] = []
    for index, medium in enumerate(question.media):
        frames = [(frame.number, frame.t_s) for frame in medium.frames] or [(None, None)]
        rows += [{"media_index": index, "frame": number, "t_s": t_s} for number, t_s in frames]
    return rows


def _scores(trace: Trace) -> Row:
    values: Row = {verdict.name: verdict.value for verdict in trace.verdicts}
    return {name: values.get(name) for name in SCORES} | {"final": trace.score}


def _lineage(draft: Draft, context: RowContext) -> Row:
    prompts = sorted({(call.prompt, call.prompt_sha256) for call in draft.calls})
    models = sorted({(call.role, call.model) for call in draft.calls})
    return {
        "prompts": [{"id": name, "sha256": sha256} for name, sha256 in prompts],
        "models": [{"role": role, "model": model} for role, model in models],
        "revision": context.revision,
        "self_judged": context.self_judged,
        "self_checked": context.self_checked,
        "cache_keys": list(dict.fromkeys(key for call in draft.calls for key in call.keys)),
    }
