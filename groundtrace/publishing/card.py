"""Writes the data card of a run: ``README.md``, which begins with front matter (YAML that the Hub reads).

Every number in the card comes from ``run.json`` or is counted in the shards (Parquet files). If the Hub has an id for
each licence of the rows, the front matter lists these ids. If the Hub has no id for one of the licences, or if a row
names no licence, the front matter has only the licence ``other``. A card of a run without rows has no licence.
"""

import functools
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any

import duckdb
import jinja2
import pyarrow as pa
import pyarrow.parquet as pq

from groundtrace.pages.compiled_templates import compiled_templates
from groundtrace.prompts.loader import purpose_of
from groundtrace.publishing.columns import columns_in_use, used_columns
from groundtrace.publishing.diversity import Balance
from groundtrace.publishing.figures import pass_rates, rejections, role_costs, shown_flows
from groundtrace.publishing.front_matter import filled_sets, front_matter
from groundtrace.publishing.judge_agreement import judge_rows
from groundtrace.publishing.publication import Publication
from groundtrace.publishing.reading import BATCH_ROWS, columns_of, read_config, read_rubrics
from groundtrace.publishing.role_endpoints import role_endpoint
from groundtrace.rewards.blindness import blind_text
from groundtrace.rewards.mined_rubrics import missing_stratum
from groundtrace.schemas.run_summary import RunSummary
from groundtrace.schemas.text import last_part
from groundtrace.stages.plumbing.malloc import release_memory
from groundtrace.storage.views import quoted_name

_MARKDOWN = re.compile(r"([\\`*_\[\]|#~$])")


@dataclass(frozen=True)
class SourceRows:
    """Holds how many rows come from one source and have one licence.

    ``source`` and ``licence`` are the texts in the rows; None if the rows do not name them. ``sft`` is the number of
    these rows in the output set for supervised fine-tuning, and ``rl`` is their number in the output set for
    reinforcement learning.
    """

    source: str | None
    licence: str | None
    sft: int
    rl: int


@dataclass(frozen=True)
class RolePlayer:
    """Holds which model did the job of one role in a run, such as the teacher, and how often it was called.

    Attributes:
        role: the name of the role, such as teacher or judge.
        model: the name of the model, without private paths.
        kind: the kind of the model's endpoint (the way to reach the model, such as ``openai``) in the config; "" if the
            config does not name it.
        endpoint: a description of the endpoint with the kind and with settings that change replies. It begins with the
            endpoint's name if roles with other endpoints have a model of the same name.
        revision: the model's revision that the config states; "" if it states none.
        calls: the number of calls.
    """

    role: str
    model: str
    kind: str
    endpoint: str
    revision: str
    calls: int


@dataclass(frozen=True)
class PromptUse:
    """Holds a prompt that a run used to make its rows, and how often it was used.

    Attributes:
        name: the id of the prompt.
        sha256: the SHA-256 of the prompt's text.
        purpose: what the prompt is for; "" if it is unknown.
        rows: the number of rows whose lineage (record of models and prompts) names the prompt.
        run_calls: the number of calls of the stage (step of the pipeline) that uses this prompt for the whole run, not
            for single rows. An example is the stage that measures the judges on a sample. If the stage has several
            prompts, the calls with all of them are counted. 0 if no such stage uses the prompt.
    """

    name: str
    sha256: str
    purpose: str
    rows: int
    run_calls: int


def write_card(
    staging: Path,
    summary: RunSummary,
    tables: duckdb.DuckDBPyConnection,
    spread: Sequence[Balance],
    publication: Publication | None = None,
    rows: RunSummary | None = None,
) -> None:
    """Write the data card ``README.md`` of a run into the folder ``staging``.

    ``staging`` holds the run's shards (Parquet files) and ``config.toml``. ``summary`` is the content of the run's
    ``run.json``. ``tables`` is a database with the run's rows (:func:`~groundtrace.publishing.reading.open_tables`).
    ``spread`` states how the rows are distributed, e.g. over sources and answer types
    (:func:`~groundtrace.publishing.diversity.balances`). ``publication`` describes which part of the run is published
    on the Hub; None if the run is not published. ``rows`` is a copy of ``summary`` with the counts of the published
    rows only; None to use the counts of ``summary``.

    Raises :class:`groundtrace.publishing.reading.InspectError` for shards that cannot be read.
    """
    release_memory()
    sets = summary.sets
    used = {side: used_columns(staging, side) for side in sets}
    sources = _sources(tables)
    counted = {
        "sources": sources,
        "prompts": _prompts(staging, summary),
        "rates": pass_rates(tables, summary),
        "balances": spread,
        "unscored": _unscored(tables, columns_of(staging, "sft")) if "scores" in used.get("sft", ()) else {},
        "attempts": tables.execute(
            "SELECT min(k), max(k) FROM (SELECT k FROM sft UNION ALL SELECT k FROM rl)"
        ).fetchall()[0],
    }
    rubrics, players = read_rubrics(staging), _players(summary, read_config(staging))
    name = " ".join(f"{summary.recipe} on {public_name(summary.input)}".split())
    shown = rows or summary
    configs = publication.configs if publication else {}
    text = _template().render(
        front=Markdown(front_matter(name, shown, {row.licence for row in sources}, configs)),
        filled=filled_sets(shown),
        publication=publication,
        repo=publication.repo if publication else "ORG/NAME",
        sets=sets,
        used=frozenset[str]().union(*used.values()),
        name=name,
        run=shown,
        makes=Markdown(summary.makes),
        flows=shown_flows(summary),
        minima=", ".join(f"{name} {floor:g}" for name, floor in shown.floors.items()),
        rejections=rejections(summary),
        players=players,
        blind=None if summary.blind is None else blind_text(summary.blind),
        judges=judge_rows(staging),
        columns=columns_in_use(staging, used),
        rubrics=rubrics,
        missing_stratum=missing_stratum(rubrics) if rubrics else "",
        measured=_measured,
        **counted,
    )
    (staging / "README.md").write_text(text, "utf-8", errors="backslashreplace")


@functools.cache
def _template() -> jinja2.Template:
    """Return the Jinja template of the data card.

    The result is cached, because compiling the template takes longer than rendering it.
    """
    folder = resources.files("groundtrace.data_cards")
    environment = jinja2.Environment(
        loader=jinja2.FunctionLoader(lambda name: folder.joinpath(name).read_text("utf-8")),
        bytecode_cache=compiled_templates(folder, "plain-1"),
        auto_reload=False,
        autoescape=False,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=_cell,
    )
    environment.filters |= {"code": _code, "share": _share}
    return environment.get_template("card.md.jinja")


class Markdown(str):
    """Holds a text that is Markdown already, so that the card's template does not escape it."""


def _sources(tables: duckdb.DuckDBPyConnection) -> list[SourceRows]:
    """Return the numbers of SFT and RL rows for each pair of source and licence; the pair with the most rows comes
    first.

    ``tables`` is a database with the run's rows. A source is a data set from which rows come.
    """
    query = """
        SELECT source, license, count(*) FILTER (side = 'sft'), count(*) FILTER (side = 'rl')
        FROM (SELECT 'sft' AS side, source, license FROM sft UNION ALL SELECT 'rl', source, license FROM rl)
        GROUP BY source, license ORDER BY count(*) DESC, source, license"""
    return [SourceRows(*row) for row in tables.execute(query).fetchall()]


def _prompts(staging: Path, summary: RunSummary) -> list[PromptUse]:
    """Return the prompts with which the run made its rows, and how often each prompt was used.

    The column ``lineage`` of a row records its models and prompts. The column is large, so only the ids of the prompts
    are read. ``staging`` is the folder with the run's shards (Parquet files), and ``summary`` is the content of
    ``run.json``.
    """
    rows = Counter[str]()
    for file in sorted(staging.glob("sft/*.parquet")) + sorted(staging.glob("rl/*.parquet")):
        with pq.ParquetFile(file) as shard:
            for batch in shard.iter_batches(BATCH_ROWS, columns=["lineage.prompts.list.element.id"]):
                [prompts] = batch["lineage"].flatten()
                rows.update(prompt["id"] for prompt in prompts.flatten().to_pylist())
    calls = {
        prompt: _run_calls(summary, name)
        for name, figures in summary.stages.items()
        if figures.is_sample
        for prompt in figures.prompts
    }
    return [
        PromptUse(name, sha256, purpose_of(name, sha256), rows[name], calls.get(name, 0))
        for name, sha256 in sorted(summary.prompts.items())
        if rows[name] or calls.get(name)
    ]


def _run_calls(summary: RunSummary, stage: str) -> int:
    """Return how often a stage (step of the pipeline) called models with its own prompts, summed over these prompts.

    Calls that ask a model to correct an unusable reply are not counted, because they use another prompt.
    """
    figures = [role.stages[stage] for role in summary.ledger.values() if stage in role.stages]
    return sum(each.calls - each.repairs for each in figures)


def _unscored(tables: duckdb.DuckDBPyConnection, columns: pa.Schema) -> dict[str, int]:
    """Return, for each scorer, the number of SFT rows to which it gave no score.

    A scorer is one of the verifier's checks. The keys of the result are the names of the scorers.

    ``columns`` is the schema of the SFT shards (Parquet files). The scorers that have their own field in the column
    ``scores`` come first. All other scorers, such as those that a user has written, come last. Their scores are in the
    column ``verdicts``, or in ``extra_scores`` in rows of older versions.
    """
    names = [field.name for field in columns.field("scores").type]
    counts = ", ".join(f"count(*) FILTER (scores.{quoted_name(name)} IS NULL)" for name in names)
    unscored = dict(zip(names, tables.execute(f"SELECT {counts} FROM sft").fetchall()[0], strict=True))
    for column in {"verdicts", "extra_scores"}.intersection(columns.names):
        query = f"""SELECT score.name, (SELECT count(*) FROM sft) - count(score.value)
            FROM (SELECT unnest({column}) AS score FROM sft) GROUP BY score.name ORDER BY score.name"""
        unscored |= {name: rows for name, rows in tables.execute(query).fetchall() if name not in names}
    return unscored


def _players(summary: RunSummary, config: Mapping[str, Any]) -> list[RolePlayer]:
    """Return the roles (jobs, such as teacher) whose models were called at least once, with these models.

    ``config`` is the content of the run's ``config.toml``.
    """
    called = [
        (cost, public_name(cost.model), role_endpoint(config, cost.role))
        for cost in role_costs(summary)
        if cost.usage.calls
    ]
    names: dict[str, set[str]] = {}
    for _, model, endpoint in called:
        names.setdefault(model, set()).add(endpoint.name)
    return [
        RolePlayer(
            cost.role,
            model,
            endpoint.kind,
            endpoint.public_text(public_name(endpoint.name) if len(names[model]) > 1 else ""),
            endpoint.revision,
            cost.usage.calls,
        )
        for cost, model, endpoint in called
    ]


def public_name(name: str) -> str:
    """Return the name of a model or of an input file in a form that can be published.

    If ``name`` is a path or a URL, only its last part is returned, because the other parts may be private. For example,
    ``/home/ann/models/qwen`` becomes ``qwen``. Other names, such as ``Qwen/Qwen3-8B``, are returned unchanged.
    """
    is_path = name.startswith(("/", ".", "~")) or "\\" in name or name.count("/") > 1
    return last_part(name) if is_path or "://" in name else name


def _cell(value: object) -> object:
    """Return a value for a table cell: a text on one line with Markdown escaped, and a dash for None."""
    if isinstance(value, Markdown) or not isinstance(value, str):
        return "–" if value is None else value
    text = " ".join(value.split()).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return _MARKDOWN.sub(r"\\\1", text)


def _share(value: float | None) -> str | None:
    """Return a share (a number from 0 to 1) as text with three decimals; None if ``value`` is None."""
    return None if value is None else f"{value:.3f}"


def _measured(row: Mapping[str, object], name: str) -> str | None:
    """Return a rate and its interval as text, such as "0.912 (0.880 to 0.940)"; None if ``row`` has no such rate.

    ``row`` is a JSON object in the file ``rubrics.json``. It holds the rates of one rubric (a criterion for responses),
    or it is the object ``right_answers`` with the share of right answers. ``name`` is the field with the rate, e.g.
    "pass_rate" for the share of the responses that satisfy a rubric. The interval is left out if ``row`` has none.
    """
    value, interval = row.get(name), row.get(f"{name}_interval")
    if not isinstance(value, int | float):
        return None
    span = f" ({interval[0]:.3f} to {interval[1]:.3f})" if isinstance(interval, list) else ""
    return f"{value:.3f}{span}"


def _code(text: str) -> Markdown:
    """Return a text as a Markdown code span in a form that a table cell may contain."""
    return Markdown("`" + " ".join(text.split()).replace("`", "'").replace("|", "\\|") + "`")
