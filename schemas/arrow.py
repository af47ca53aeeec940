"""The explicit Arrow schemas of the shards: one superset for SFT and RL, and one for rejections.

``images`` holds the original files and carries the ``huggingface`` metadata that declares it a list of images;
``overlays`` the drawn ones. For a clip ``images`` holds the sampled frames, and ``frames`` says for each image which
medium, frame and time it is (null where there is no clip). RL rows carry verl's columns (prompt, data_source, ability,
reward_model, extra_info) and EasyR1's (problem, answer); SFT rows carry ``messages``. Columns that a recipe does not
use are null; ``extra_scores``, what further scorers gave the kept trace, is there only where a recipe has such scorers,
and ``other_traces`` only where a config asks for it. A rejection holds what was known of the record when it was
rejected: null is what it did not come to, and its media stand as references unless a config asks for their bytes.
"""

import json

import pyarrow as pa

IMAGE = pa.struct([("bytes", pa.binary()), ("path", pa.string())])
TURN = pa.struct([("role", pa.string()), ("content", pa.string())])
_STREAM_PROMPT = pa.struct([("stream", pa.string()), ("content", pa.string())])
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
_EXTRA_SCORES = pa.list_(pa.struct([("name", pa.string()), ("value", pa.float64())]))
_ATTEMPT = pa.struct([("text", pa.string()), ("answer", pa.string()), ("correct", pa.bool_())])
RUBRIC = pa.struct(
    [
        ("id", pa.string()),
        ("description", pa.string()),
        ("criteria", pa.string()),
        ("applicability", pa.float64()),
        ("pass_rate", pa.float64()),
        ("stratum", pa.string()),
    ]
)
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

_COMMON = [
    ("id", pa.string()),
    ("source", pa.string()),
    ("license", pa.string()),
    ("recipe", pa.string()),
    ("images", pa.list_(IMAGE)),
    ("overlays", pa.list_(IMAGE)),
    ("frames", pa.list_(_FRAME)),
    ("question", pa.string()),
    ("answer", pa.string()),
    ("answer_type", pa.string()),
    ("choices", pa.list_(pa.string())),
    ("points", pa.list_(_POINT)),
    ("boxes", pa.list_(BOX)),
    ("gold_boxes", pa.list_(BOX)),
    ("boxes_source", pa.string()),
    ("scores", _SCORES),
    ("entities", pa.list_(pa.string())),
    ("pointable", pa.list_(pa.string())),
    ("pass_rate", pa.float64()),
    ("k", pa.int32()),
    ("attempts", pa.list_(_ATTEMPT)),
    ("crop_attempts", pa.list_(_ATTEMPT)),
    ("crop_pass_rate", pa.float64()),
    ("complexity", pa.string()),
    ("complexity_reason", pa.string()),
    ("domain", pa.string()),
    ("streams", pa.list_(pa.string())),
    ("stream_prompts", pa.list_(_STREAM_PROMPT)),
    ("rubrics", pa.list_(RUBRIC)),
    ("stratum", pa.string()),
    ("turns", pa.list_(TURN)),
    ("lineage", _LINEAGE),
]
_SFT = [("messages", pa.list_(TURN))]
_RL = [
    ("prompt", pa.list_(TURN)),
    ("data_source", pa.string()),
    ("ability", pa.string()),
    ("reward_model", pa.struct([("style", pa.string()), ("ground_truth", pa.string())])),
    ("extra_info", pa.struct([("index", pa.string()), ("split", pa.string())])),
    ("problem", pa.string()),
]
_VERDICT = pa.struct([("name", pa.string()), ("value", pa.float64()), ("failed", pa.bool_()), ("reason", pa.string())])
_TRACE = pa.struct(
    [("text", pa.string()), ("answer", pa.string()), ("score", pa.float64()), ("verdicts", pa.list_(_VERDICT))]
)
_MEDIUM = pa.struct([("uri", pa.string()), ("sha256", pa.string()), ("width", pa.int32()), ("height", pa.int32())])
_REJECTED = [
    ("id", pa.string()),
    ("stage", pa.string()),
    ("reason", pa.string()),
    ("detail", pa.string()),
    ("cache_key", pa.string()),
    ("cost_usd", pa.float64()),
    ("source", pa.string()),
    ("license", pa.string()),
    ("images", pa.list_(IMAGE)),
    ("media", pa.list_(_MEDIUM)),
    ("question", pa.string()),
    ("answer", pa.string()),
    ("answer_type", pa.string()),
    ("choices", pa.list_(pa.string())),
    ("gold_boxes", pa.list_(BOX)),
    ("pass_rate", pa.float64()),
    ("k", pa.int32()),
    ("attempts", pa.list_(_ATTEMPT)),
    ("entities", pa.list_(pa.string())),
    ("points", pa.list_(_POINT)),
    ("traces", pa.list_(_TRACE)),
]


def _feature(kind: pa.DataType) -> object:
    """The ``datasets`` feature of an Arrow type, as its JSON form."""
    if kind == IMAGE:
        return {"_type": "Image"}
    if pa.types.is_list(kind):
        return {"feature": _feature(kind.value_type), "_type": "List"}
    if pa.types.is_struct(kind):
        return {kind.field(i).name: _feature(kind.field(i).type) for i in range(kind.num_fields)}
    names = {pa.float64(): "float64", pa.bool_(): "bool"}
    return {"dtype": names.get(kind, str(kind)), "_type": "Value"}


def hub_schema(columns: list[tuple[str, pa.DataType]]) -> pa.Schema:
    """Returns a schema of these columns that tells ``datasets`` what they are, lists of images among them."""
    features = {name: _feature(kind) for name, kind in columns}
    metadata = {"huggingface": json.dumps({"info": {"features": features}})}
    return pa.schema([pa.field(name, kind) for name, kind in columns], metadata=metadata)


def _common(extra_scores: bool) -> list[tuple[str, pa.DataType]]:
    """The columns of both sides, with ``extra_scores`` beside ``scores`` or without."""
    if not extra_scores:
        return _COMMON
    after = [name for name, _ in _COMMON].index("scores") + 1
    return [*_COMMON[:after], ("extra_scores", _EXTRA_SCORES), *_COMMON[after:]]


def sft_schema(extra_scores: bool = False, other_traces: bool = False) -> pa.Schema:
    """The schema of SFT rows; with ``extra_scores`` it has a column for the verdicts of further scorers, with
    ``other_traces`` one for the traces that were not chosen."""
    return hub_schema(_common(extra_scores) + _SFT + ([("other_traces", pa.list_(_TRACE))] if other_traces else []))


def rl_schema(extra_scores: bool = False) -> pa.Schema:
    """The schema of RL rows, likewise."""
    return hub_schema(_common(extra_scores) + _RL)


SFT_SCHEMA = sft_schema()
RL_SCHEMA = rl_schema()
REJECTED_SCHEMA = hub_schema(_REJECTED)
