"""Defines the Arrow schemas of the shards (Parquet files). A schema has core columns, which rows of every pipeline
have, and columns that stages (steps of a pipeline) add. There is one schema for each set of rows: SFT, RL and rejected.
Each column has a text that describes its content.

In a recipe (a pipeline for one kind of training data), the description of each stage lists the columns that the stage
adds (:mod:`groundtrace.schemas.columns`).

SFT and RL rows have three columns about images:

- ``images`` holds the original files, or the sampled frames of a clip. In the schema's metadata (key ``huggingface``),
  this column has the type of a list of images.
- ``frames`` holds for each frame in ``images`` the index of its clip, its frame number and its time in seconds. The
  column is null if the row has no clip.
- ``overlays`` holds the images that stages made from the originals, such as copies with drawn points. There is one
  exception: in an SFT row with a trajectory (a response that executes code), the images that this code showed are at
  the end of ``images``.

The other columns depend on the set:

- SFT rows have ``messages``. If the config requests it, they also have ``other_traces``, i.e. the teacher's responses
  that were not chosen.
- RL rows have the columns of the trainers verl (prompt, data_source, ability, reward_model, extra_info) and EasyR1
  (problem, answer).
- SFT and RL rows have ``input_row`` if the config requests it. Rejected rows always have it.
- A rejected row holds the data that the record had when it was rejected, so the columns of later stages are null. The
  row holds references to its media. If the config requests it, the row also holds the bytes of its images.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from groundtrace.schemas.columns import Column

IMAGE = pa.struct([("bytes", pa.binary()), ("path", pa.string())])
TURN = pa.struct([("role", pa.string()), ("content", pa.string())])
_POINT = pa.struct(
    [
        ("label", pa.string()),
        ("x", pa.float64()),
        ("y", pa.float64()),
        ("media_index", pa.int32()),
        ("frame", pa.int32()),
        ("t_s", pa.float64()),
    ]
)
BOX = pa.struct(
    [
        ("label", pa.string()),
        ("x1", pa.float64()),
        ("y1", pa.float64()),
        ("x2", pa.float64()),
        ("y2", pa.float64()),
        ("media_index", pa.int32()),
    ]
)
_FRAME = pa.struct([("media_index", pa.int32()), ("frame", pa.int32()), ("t_s", pa.float64())])
_SCORES = pa.struct([(name, pa.float64()) for name in ("outcome", "spatial", "temporal", "reasoning", "final")])
ATTEMPT = pa.struct([("text", pa.string()), ("answer", pa.string()), ("correct", pa.bool_())])
_LINEAGE = pa.struct(
    [
        ("prompts", pa.list_(pa.struct([("id", pa.string()), ("sha256", pa.string())]))),
        ("models", pa.list_(pa.struct([("role", pa.string()), ("model", pa.string())]))),
        ("revision", pa.string()),
        ("self_judged", pa.bool_()),
        ("self_checked", pa.bool_()),
        ("cache_keys", pa.list_(pa.string())),
    ]
)

_VERDICTS = pa.list_(
    pa.struct(
        [
            ("name", pa.string()),
            ("value", pa.float64()),
            ("failed", pa.bool_()),
            ("reason", pa.string()),
            ("evidence", pa.list_(pa.string())),
        ]
    )
)
_TRACE = pa.struct(
    [
        ("text", pa.string()),
        ("answer", pa.string()),
        ("score", pa.float64()),
        ("verdicts", _VERDICTS),
    ]
)
_MEDIUM = pa.struct([("uri", pa.string()), ("sha256", pa.string()), ("width", pa.int32()), ("height", pa.int32())])
_TEXTS = pa.list_(pa.string())
_TURNS = pa.list_(TURN)

_ID = Column("id", pa.string(), "the record's id in the input")
_SOURCE = Column("source", pa.string(), "where the record comes from, as given in the input")
_LICENSE = Column("license", pa.string(), "its licence, as given in the input")
_IMAGES = Column(
    "images",
    pa.list_(IMAGE),
    "the original files, bytes always set; in a trajectory, the images that code showed follow them",
)
_MEDIA_NAMES = Column(
    "media_names", _TEXTS, "the names of its media in the input, in their order; null for one without"
)
INPUT_ROW = Column(
    "input_row", pa.string(), "the file of the input, and the line or row in it, from which the record was read"
)
"""A column of every rejected row. Other rows have it only if the config requests it, because it depends on the order of
the input, and the files of these rows must not.
"""
_QUESTION = Column("question", pa.string(), "the question, without the form of the answer")
_ANSWER = Column("answer", pa.string(), "the gold answer")
_ANSWER_TYPE = Column("answer_type", pa.string(), "how the answer is asked for and graded")
_CHOICES = Column("choices", _TEXTS, "the choices of a multiple-choice question")
_GOLD_BOXES = Column(
    "gold_boxes",
    pa.list_(BOX),
    "the boxes that responses are held against, in pixels of the upright original; kept from the models",
)
_ENTITIES = Column("entities", _TEXTS, "the visible things that an answer speaks of, as the teacher named them")
_PASS_RATE = Column("pass_rate", pa.float64(), "share of the scored attempts that are right")
_K = Column("k", pa.int32(), "how many attempts were scored")
_ATTEMPTS = Column(
    "attempts", pa.list_(ATTEMPT), "the policy's sampled answers; correct is null where one could not be graded"
)
_COMMON = (
    _ID,
    _SOURCE,
    _LICENSE,
    Column("recipe", pa.string(), "the pipeline that made the row"),
    _IMAGES,
    Column(
        "overlays",
        pa.list_(IMAGE),
        "what was drawn of the images: marks that the teacher saw, or crops; not needed for training",
    ),
    Column(
        "frames",
        pa.list_(_FRAME),
        "of each image of a clip: medium, frame number among those sampled, seconds; null without clips",
    ),
    _MEDIA_NAMES,
    _QUESTION,
    _ANSWER,
    _ANSWER_TYPE,
    _CHOICES,
    Column("points", pa.list_(_POINT), "the points of the kept trace, in pixels of the upright original"),
    Column("boxes", pa.list_(BOX), "the boxes of the kept trace, in pixels of the upright original"),
    _GOLD_BOXES,
    Column(
        "boxes_source",
        pa.string(),
        "where they come from: gold is the input's own, detector what a detector found where it has none",
    ),
    Column("scores", _SCORES, "the verdicts on the kept trace, 0 to 1, negative for wrong points; null is unscored"),
    _ENTITIES,
    Column("pointable", _TEXTS, "those of them that the pointer found: a grounded answer has to point"),
    _PASS_RATE,
    _K,
    _ATTEMPTS,
    Column("lineage", _LINEAGE, "prompts, models, code revision and the keys of the replies that made the row"),
)
_SFT = (
    Column("messages", _TURNS, "the conversation to train on: the user's turn and the kept trace"),
    Column(
        "verdicts",
        _VERDICTS,
        "every scorer's verdict on the kept trace, with its reason and its evidence (JSON objects); the value is null "
        "where there was nothing to check, or, with failed, where it could not be checked",
    ),
)
OTHER_TRACES = Column("other_traces", pa.list_(_TRACE), "the traces not chosen, with answer, score and verdicts")
_RL = (
    Column("prompt", _TURNS, "the user's turn, with one <image> for each image (verl)"),
    Column("data_source", pa.string(), "the source again (verl)"),
    Column("ability", pa.string(), "the answer type again (verl)"),
    Column(
        "reward_model",
        pa.struct([("style", pa.string()), ("ground_truth", pa.string())]),
        "the kind of reward and the gold answer (verl)",
    ),
    Column("extra_info", pa.struct([("index", pa.string()), ("split", pa.string())]), "id and split (verl)"),
    Column("problem", pa.string(), "the user's turn as text (EasyR1)"),
)
_REJECTED = (
    _ID,
    Column("stage", pa.string(), "the stage that rejected the record"),
    Column("reason", pa.string(), "why, as one word of the stage's list"),
    Column("detail", pa.string(), "why, in a sentence"),
    Column("rejected_by", pa.string(), "the scorer whose verdict rejected the record; null if no verdict did"),
    Column("cache_key", pa.string(), "the key of the reply that the decision rests on"),
    Column("cost_usd", pa.float64(), "what its calls cost when nothing is in the cache"),
    _SOURCE,
    _LICENSE,
    _IMAGES,
    Column("media", pa.list_(_MEDIUM), "its media by reference, with the sizes of the upright originals in pixels"),
    _MEDIA_NAMES,
    INPUT_ROW,
    _QUESTION,
    _ANSWER,
    _ANSWER_TYPE,
    _CHOICES,
    _GOLD_BOXES,
    _PASS_RATE,
    _K,
    _ATTEMPTS,
    _ENTITIES,
    Column("points", pa.list_(_POINT), "the points that the pointer found, in pixels of the upright original"),
    Column("traces", pa.list_(_TRACE), "the teacher's traces, with answer, score and verdicts"),
)
CORE: Mapping[str, Column[Any]] = {each.name: each for each in (*_REJECTED, *_COMMON, *_SFT, OTHER_TRACES, *_RL)}
"""The core columns of all sets together, by name. Rows of every recipe can have them."""
EARLIER: Mapping[str, Mapping[str, Any]] = {
    "extra_scores": {"meaning": "the verdicts of further scorers, 0 to 1; null is unscored"},
    "complexity": {"meaning": "whether the question is to be thought about", "is_class": True},
    "complexity_reason": {"meaning": "why, as the judge said"},
    "domain": {"meaning": "the class by which the recipe mixes questions", "is_class": True},
    "streams": {"meaning": "the streams in which the question is asked", "is_class": True},
    "stream_prompts": {"meaning": "the user's turn of each of these streams"},
    "rubrics": {"meaning": "the criteria mined for the run, with applicability, pass rate and stratum"},
    "stratum": {"meaning": "easy or hard, where the recipe sorts questions", "is_class": True},
    "turns": {"meaning": "the turns of a trajectory"},
    "crop_attempts": {"meaning": "the policy's answers with crops beside the images", "for_training": False},
    "crop_pass_rate": {"meaning": "share of the scored ones among these that are right"},
}
"""The descriptions of the columns that stages of earlier code added, by column name. They are needed because the shards
of that code hold no descriptions.

Those shards have all of these columns in every recipe; a column that the recipe does not use is null.
"""


def _feature(kind: pa.DataType) -> object:
    """Return the feature type that the library ``datasets`` uses for the Arrow type ``kind``, in the JSON form of
    ``datasets``.
    """
    if kind == IMAGE:
        return {"_type": "Image"}
    if pa.types.is_list(kind):
        return {"feature": _feature(kind.value_type), "_type": "List"}
    if pa.types.is_struct(kind):
        return {kind.field(i).name: _feature(kind.field(i).type) for i in range(kind.num_fields)}
    names = {pa.float32(): "float32", pa.float64(): "float64", pa.bool_(): "bool"}
    return {"dtype": names.get(kind, str(kind)), "_type": "Value"}


def hub_schema(columns: Sequence[tuple[str, pa.DataType]]) -> pa.Schema:
    """Return an Arrow schema with these ``columns`` (name and type). The schema's metadata hold the feature type of
    each column, e.g. image, for the library ``datasets``.
    """
    features = {name: _feature(kind) for name, kind in columns}
    metadata = {"huggingface": json.dumps({"info": {"features": features}})}
    return pa.schema([pa.field(name, kind) for name, kind in columns], metadata=metadata)


def _shard_schema(core: Sequence[Column[Any]], added: Sequence[Column[Any]]) -> pa.Schema:
    """Return the Arrow schema of the core columns and, after them, the added columns.

    The schema's metadata hold the descriptions of the added columns, and the feature types of all columns
    (:func:`hub_schema`).
    """
    schema = hub_schema([(column.name, column.type) for column in (*core, *added)])
    described = [{name: getattr(column, name) for name in _DESCRIBED} for column in added]
    return schema.with_metadata({**(schema.metadata or {}), _ADDED: json.dumps(described, ensure_ascii=False).encode()})


_DESCRIBED = ("name", "meaning", "for_training", "is_class")
_ADDED = b"groundtrace.added"
"""The key in a shard's metadata under which the descriptions of its added columns are stored."""


def sft_schema(added: Sequence[Column[Any]] = (), other_traces: bool = False) -> pa.Schema:
    """Return the Arrow schema of SFT rows: the core columns, which rows of every pipeline have, and after them the
    ``added`` columns, which the stages (steps) of this pipeline add.

    If ``other_traces`` is True, the schema also has the column ``other_traces``, for the teacher's traces (reasoning
    and answer) that were not chosen.
    """
    return _shard_schema((*_COMMON, *_SFT, *([OTHER_TRACES] if other_traces else [])), added)


def rl_schema(added: Sequence[Column[Any]] = ()) -> pa.Schema:
    """Return the Arrow schema of RL rows: the core columns, which rows of every pipeline have, and after them the
    ``added`` columns, which the stages (steps) of this pipeline add.
    """
    return _shard_schema((*_COMMON, *_RL), added)


def rejected_schema(added: Sequence[Column[Any]] = ()) -> pa.Schema:
    """Return the Arrow schema of rejected rows: the core columns, which rows of every pipeline have, and after them the
    ``added`` columns, which the stages (steps) of this pipeline add.
    """
    return _shard_schema(_REJECTED, added)


def added_columns(schema: pa.Schema) -> list[Column[Any]]:
    """Return those columns in the ``schema`` of a shard (Parquet file of rows) that only some runs have, in order.

    The columns that stages (steps of the pipeline) added are first. The columns that were copied from the input follow.
    Their descriptions come from the shard. If the shard holds none, as in shards of earlier code, they come from
    :data:`EARLIER`. The ``meaning`` of a column without a description is "". Raises ValueError if the descriptions in
    the shard are damaged.
    """
    written = (schema.metadata or {}).get(_ADDED)
    described = EARLIER if written is None else _described(written)
    added = (field for field in schema if field.name not in CORE)
    return [Column(field.name, field.type, **{"meaning": "", **described.get(field.name, {})}) for field in added]


def _described(written: bytes) -> Mapping[str, Mapping[str, Any]]:
    """Return the descriptions of columns, as a mapping from each column's name to its description.

    ``written`` is the JSON text of the descriptions in a shard (Parquet file of rows). Raises ValueError if this text
    is damaged.
    """
    try:
        listed = json.loads(written)
    except (ValueError, RecursionError):
        listed = None
    if not isinstance(listed, list) or not all(_is_description(each) for each in listed):
        raise ValueError("the descriptions of the columns are damaged")
    return {each["name"]: {key: value for key, value in each.items() if key != "name"} for each in listed}


def _is_description(found: Any) -> bool:
    """Return whether ``found``, a JSON value, is an object that describes a column. It must have the key ``name``. It
    may have the keys ``meaning``, ``for_training`` and ``is_class``, which are arguments of :class:`Column`.
    """
    kinds = {"name": str, "meaning": str, "for_training": bool, "is_class": bool}
    return (
        isinstance(found, dict)
        and "name" in found
        and all(isinstance(value, kinds.get(key, ())) for key, value in found.items())
    )


SFT_SCHEMA = sft_schema()
RL_SCHEMA = rl_schema()
REJECTED_SCHEMA = rejected_schema()
"""The Arrow schema of rejected rows without added columns, i.e. for a recipe whose stages (steps) add no columns.

``SFT_SCHEMA`` and ``RL_SCHEMA`` are the schemas of SFT rows and of RL rows without added columns.
"""
