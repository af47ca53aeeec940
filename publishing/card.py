"""The data card of a run: ``README.md`` with the Hub's front matter, written from what the run counted.

Every number on it stands in ``run.json`` or is counted in the shards. Licences are those that the rows carry:
the Hub's ids where it knows them all, else ``other``, and nothing where there are no rows.
"""

import re
import tomllib
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import resources
from pathlib import Path

import duckdb
import jinja2
import pyarrow as pa
import pyarrow.parquet as pq
import yaml

from prompts.loader import PromptError, load_prompt
from publishing.figures import (
    BATCH_ROWS,
    columns_of,
    open_tables,
    pass_rates,
    rejections,
    role_costs,
    shown_flows,
    used_columns,
)
from schemas.answers.registry import ANSWER_TYPES
from schemas.run_summary import RunSummary
from schemas.text import alternatives
from stages.plumbing.malloc import release_memory

TASKS = ("visual-question-answering", "image-text-to-text")
GROUNDING_ROLES = ("pointer", "detector", "segmenter")
HUB_LICENCES = frozenset((
    "apache-2.0", "mit", "bsd-2-clause", "bsd-3-clause", "cc0-1.0", "cc-by-2.0", "cc-by-2.5", "cc-by-3.0",
    "cc-by-4.0", "cc-by-sa-3.0", "cc-by-sa-4.0", "cc-by-nc-2.0", "cc-by-nc-3.0", "cc-by-nc-4.0",
    "cc-by-nd-4.0", "cc-by-nc-nd-3.0", "cc-by-nc-nd-4.0", "cc-by-nc-sa-2.0", "cc-by-nc-sa-3.0",
    "cc-by-nc-sa-4.0", "gpl-2.0", "gpl-3.0", "lgpl-2.1", "lgpl-3.0", "agpl-3.0", "mpl-2.0", "odc-by",
    "odbl", "pddl", "unlicense", "wtfpl", "isc", "artistic-2.0", "epl-2.0", "etalab-2.0", "gfdl", "zlib",
    "c-uda", "cdla-permissive-1.0", "cdla-permissive-2.0", "cdla-sharing-1.0",
))  # fmt: skip
COLUMNS: Mapping[str, str] = {
    "id": "the record's id in the input",
    "source": "where the record comes from, as the input says",
    "license": "its licence, as the input says",
    "recipe": "the pipeline that made the row",
    "images": "the original files, bytes always set",
    "overlays": "the images with the pointer's marks that the teacher saw; not needed for training",
    "frames": "of each image of a clip: medium, frame number among those sampled, seconds; null without clips",
    "question": "the question, without the form of the answer",
    "answer": "the gold answer",
    "answer_type": "{answer_types}",
    "choices": "the choices of a multiple-choice question",
    "points": "the points of the kept trace, in pixels of the upright original",
    "boxes": "the boxes of the kept trace, likewise",
    "gold_boxes": "the input's own boxes, in pixels of the upright original; no model saw them",
    "scores": "the verdicts on the kept trace, 0 to 1; null is unscored",
    "extra_scores": "the verdicts of further scorers, likewise",
    "other_traces": "the traces that were not chosen, with answer, score and verdicts",
    "entities": "the visible things that an answer speaks of, as the teacher named them",
    "pointable": "those of them that the pointer found: a grounded answer has to point",
    "pass_rate": "share of the scored attempts that are right",
    "k": "how many attempts were scored",
    "attempts": "the policy's sampled answers; correct is null where one could not be graded",
    "complexity": "what the recipe judged of the question's difficulty",
    "streams": "the kinds of response that the recipe asks for",
    "rubrics": "the criteria mined for the run, with applicability, pass rate and stratum",
    "stratum": "easy or hard, where the recipe sorts questions",
    "turns": "the turns of a trajectory",
    "lineage": "prompts, models, code revision and the keys of the replies that made the row",
    "messages": "the conversation to train on: the user's turn and the kept trace",
    "prompt": "the user's turn, with one <image> for each image (verl)",
    "data_source": "the source again (verl)",
    "ability": "the answer type again (verl)",
    "reward_model": "the kind of reward and the gold answer (verl)",
    "extra_info": "id and split (verl)",
    "problem": "the user's turn as text (EasyR1)",
}
_SIZES = ("n<1K", "1K<n<10K", "10K<n<100K", "100K<n<1M", "1M<n<10M", "10M<n<100M", "100M<n<1B", "1B<n<10B")
_MARKDOWN = re.compile(r"([\\`*_\[\]|#~$])")


@dataclass(frozen=True)
class SourceRows:
    """Rows of each set that come from one source under one licence."""

    source: str | None
    licence: str | None
    sft: int
    rl: int


@dataclass(frozen=True)
class RolePlayer:
    """Who played a role: the model, its endpoint's kind and declared revision, and the calls made."""

    role: str
    model: str
    kind: str
    revision: str
    calls: int


@dataclass(frozen=True)
class PromptUse:
    """A prompt of the code's revision; ``purpose`` may be unknown.

    ``rows`` counts those whose lineage names it, ``run_calls`` the calls that were made once for all rows.
    """

    name: str
    sha256: str
    purpose: str
    rows: int
    run_calls: int


@dataclass(frozen=True)
class Column:
    """A column of the shards that some row uses, and in which sets it stands."""

    name: str
    kind: str
    sets: str
    meaning: str


def write_card(staging: Path, summary: RunSummary) -> None:
    """Write ``README.md`` into ``staging`` from its shards, ``config.toml`` and the summary.

    Raises :class:`publishing.figures.InspectError` for shards that cannot be read.
    """
    release_memory()
    sets = summary.sets
    used = {side: used_columns(staging, side) for side in sets}
    with open_tables(staging, summary) as tables:
        sources = _sources(tables)
        counted = {
            "sources": sources,
            "prompts": _prompts(staging, summary),
            "rates": pass_rates(tables, summary),
            "unscored": _unscored(tables, columns_of(staging, "sft")) if "scores" in used.get("sft", ()) else {},
            "attempts": tables.execute(
                "SELECT min(k), max(k) FROM (SELECT k FROM sft UNION ALL SELECT k FROM rl)"
            ).fetchall()[0],
        }
    config = staging / "config.toml"
    players = _players(summary, tomllib.loads(config.read_text("utf-8")) if config.is_file() else {})
    name = " ".join(f"{summary.recipe} on {_public(summary.input)}".split())
    environment = jinja2.Environment(
        autoescape=False,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=_cell,
    )
    environment.filters["code"] = _code
    template = resources.files("data_cards").joinpath("card.md.jinja").read_text("utf-8")
    text = environment.from_string(template).render(
        front=Raw(front_matter(name, summary, sources)),
        filled=filled_sets(summary),
        sets=sets,
        used=frozenset[str]().union(*used.values()),
        name=name,
        run=summary,
        makes=Raw(summary.makes),
        flows=shown_flows(summary),
        rejections=rejections(summary),
        players=players,
        columns=_columns(staging, used),
        **counted,
    )
    (staging / "README.md").write_text(text, "utf-8", errors="backslashreplace")


class Raw(str):
    """Text that is Markdown already and is not escaped."""


def filled_sets(summary: RunSummary) -> list[str]:
    """Of the sets to train on those that have rows."""
    return [name for name in summary.sets if summary.counts.rows(name)]


def front_matter(name: str, summary: RunSummary, sources: list[SourceRows]) -> str:
    """The YAML between the dashes that the Hub reads; a set without rows, which ``datasets`` refuses, has no config."""
    rows = summary.counts.sft + summary.counts.rl
    front: dict[str, object] = {**licence_fields({row.licence for row in sources})}
    front |= {
        "pretty_name": name,
        "task_categories": list(TASKS),
        "size_categories": [size_category(rows)],
        "tags": [*tags_of(summary), "-".join(summary.recipe.replace("_", " ").split())],
    }
    sides = filled_sets(summary)
    if sides:
        front["configs"] = [{"config_name": side, "data_files": f"{side}/*.parquet"} for side in sides]
    return yaml.safe_dump(front, sort_keys=False, allow_unicode=True, width=10_000)


def tags_of(summary: RunSummary) -> list[str]:
    """The Hub's tags for what the recipe makes."""
    traces = "sft" in summary.sets
    grounded = traces and any(role in summary.roles for role in GROUNDING_ROLES)
    tags = ["groundtrace", *(("visual-grounding", "grounded-reasoning") if grounded else ())]
    return [*tags, *(("chain-of-thought",) if traces else ()), "synthetic"]


def licence_fields(recorded: set[str | None]) -> dict[str, object]:
    """The Hub's licence fields for the licences that the rows carry; none for no rows."""
    ids = sorted({(licence or "").strip().lower() for licence in recorded})
    if not ids:
        return {}
    if set(ids) <= HUB_LICENCES:
        return {"license": ids[0] if len(ids) == 1 else ids}
    return {"license": "other", "license_name": "per-row"}


def size_category(rows: int) -> str:
    """The Hub's size category of that many rows."""
    return _SIZES[min(max(len(str(rows)) - 3, 0), len(_SIZES) - 1)]


def _sources(tables: duckdb.DuckDBPyConnection) -> list[SourceRows]:
    query = """
        SELECT source, license, count(*) FILTER (side = 'sft'), count(*) FILTER (side = 'rl')
        FROM (SELECT 'sft' AS side, source, license FROM sft UNION ALL SELECT 'rl', source, license FROM rl)
        GROUP BY source, license ORDER BY count(*) DESC, source, license"""
    return [SourceRows(*row) for row in tables.execute(query).fetchall()]


def _prompts(staging: Path, summary: RunSummary) -> list[PromptUse]:
    """The prompts with their rows. Of the lineage, which is most of a row's text, only the names are read."""
    rows = Counter[str]()
    for file in sorted(staging.glob("sft/*.parquet")) + sorted(staging.glob("rl/*.parquet")):
        with pq.ParquetFile(file) as shard:
            for batch in shard.iter_batches(BATCH_ROWS, columns=["lineage.prompts.list.element.id"]):
                [prompts] = batch["lineage"].flatten()
                rows.update(prompt["id"] for prompt in prompts.flatten().to_pylist())
    calls = {
        prompt: _run_calls(summary, name)
        for name, told in summary.stages.items()
        if told.is_sample
        for prompt in told.prompts
    }
    return [
        PromptUse(name, sha256, _purpose(name), rows[name], calls.get(name, 0))
        for name, sha256 in sorted(summary.prompts.items())
    ]


def _run_calls(summary: RunSummary, stage: str) -> int:
    """The stage's calls with its own prompt: those that asked again had another."""
    figures = [role.stages[stage] for role in summary.ledger.values() if stage in role.stages]
    return sum(each.calls - each.repairs for each in figures)


def _purpose(name: str) -> str:
    try:
        return load_prompt(name).purpose
    except PromptError:  # a run of other code is described too; its prompts are then known by name only
        return ""


def _unscored(tables: duckdb.DuckDBPyConnection, columns: pa.Schema) -> dict[str, int]:
    """SFT rows without a score, by the score's name; those of further scorers last."""
    names = [field.name for field in columns.field("scores").type]
    counts = ", ".join(f"count(*) FILTER (scores.{name} IS NULL)" for name in names)
    unscored = dict(zip(names, tables.execute(f"SELECT {counts} FROM sft").fetchall()[0], strict=True))
    if "extra_scores" in columns.names:
        query = """SELECT score.name, (SELECT count(*) FROM sft) - count(score.value)
            FROM (SELECT unnest(extra_scores) AS score FROM sft) GROUP BY score.name ORDER BY score.name"""
        unscored |= dict(tables.execute(query).fetchall())
    return unscored


def _players(summary: RunSummary, config: Mapping[str, Mapping[str, object]]) -> list[RolePlayer]:
    names, endpoints = config.get("roles", {}), config.get("endpoints", {})
    players = []
    for cost in role_costs(summary):
        endpoint = endpoints.get(str(names.get(cost.role)), {})
        settings = endpoint if isinstance(endpoint, dict) else {}
        kind, revision = str(settings.get("kind", "")), str(settings.get("revision", ""))
        players.append(RolePlayer(cost.role, _public(cost.model), kind, revision, cost.usage.calls))
    return players


def _columns(staging: Path, used: Mapping[str, frozenset[str]]) -> list[Column]:
    schemas = {side: columns_of(staging, side) for side in used}
    columns = []
    for name in dict.fromkeys(name for schema in schemas.values() for name in schema.names):
        sets = [side for side, schema in schemas.items() if name in schema.names]
        if any(name in used[side] for side in sets):
            meaning = COLUMNS[name].format(answer_types=alternatives(tuple(ANSWER_TYPES)))
            kind = _kind(schemas[sets[0]].field(name).type)
            columns.append(Column(name, kind, " and ".join(sets), meaning))
    return columns


def _kind(kind: pa.DataType) -> str:
    """An Arrow type in a few words."""
    if pa.types.is_list(kind):
        return f"list of {_kind(kind.value_type)}"
    if pa.types.is_struct(kind):
        return f"struct ({', '.join(field.name for field in kind)})"
    return str(kind)


def _public(name: str) -> str:
    """A name that may be published: of a path on the maker's machine or storage only the last part."""
    return name.rstrip("/").rsplit("/", 1)[-1] if name.startswith(("/", ".", "~")) or "://" in name else name


def _cell(value: object) -> object:
    """A value as Markdown shows it literally, on one line; the template's own text does not pass here."""
    if isinstance(value, Raw) or not isinstance(value, str):
        return "–" if value is None else value
    text = " ".join(value.split()).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return _MARKDOWN.sub(r"\\\1", text)


def _code(text: str) -> Raw:
    """A value as a code span, which a table cell can hold."""
    return Raw("`" + " ".join(text.split()).replace("`", "'").replace("|", "\\|") + "`")
