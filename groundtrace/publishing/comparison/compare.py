"""Compares two finished runs. The terminal, an HTML page and Python programs show the same comparison."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import duckdb

from groundtrace.publishing.comparison.score_changes import (
    add_scores,
    other_traces,
    score_section,
    scores_differ,
)
from groundtrace.publishing.comparison.section import Section
from groundtrace.publishing.comparison.setting_changes import Defaults, SettingChanges, setting_changes
from groundtrace.publishing.comparison.sides import (
    MovedRecord,
    Overlap,
    add_ends,
    count_moved,
    moved_records,
    moved_section,
    overlap,
    sets_of,
    transitions,
    yields,
    yields_by_source,
)
from groundtrace.publishing.figures import funnel, role_costs
from groundtrace.publishing.reading import InspectError, one_line, open_several, read_summary
from groundtrace.schemas.run_summary import RunSummary
from groundtrace.schemas.text import counted

MAX_IN_HEADLINE = 3


@dataclass(frozen=True)
class ComparedRun:
    """Holds one of the two compared runs.

    ``letter`` is A or B. ``name`` is the run folder as the user wrote it. ``summary`` is the content of the run's
    ``run.json``.
    """

    letter: str
    name: str
    summary: RunSummary

    @property
    def facts(self) -> tuple[str, ...]:
        """Return the values that identify the run in the heading of the comparison.

        They are the run's name, its recipe (pipeline), its input, its end time, and the revision of the code.
        """
        return (self.name, self.summary.recipe, self.summary.input, self.summary.finished, self.summary.revision)


@dataclass(frozen=True)
class Comparison:
    """Holds the comparison of two runs.

    A record's side is the set in which the record ended (sft, rl or rejected). For a rejected record, the side also
    includes the stage and the reason of the rejection. A stage is a step of the pipeline.

    Attributes:
        runs: the two runs, A and B.
        same: the sentence "nothing differs: …" if the runs are equal; "" if something differs. Differences in settings
            that are usually hidden do not count.
        headline: one sentence with two parts: the number of records whose side differs, and the first settings that
            differ. It is "" if nothing differs.
        sections: the tables of differences, the most important first. If nothing differs, there is at most one table,
            with the differences in settings that are usually hidden.
        moved: the records whose side differs; only a part of them if the caller gave a limit.
        settings: the settings that differ.
    """

    runs: tuple[ComparedRun, ComparedRun]
    same: str
    headline: str
    sections: tuple[Section, ...]
    moved: tuple[MovedRecord, ...]
    settings: SettingChanges


def compare(
    first: tuple[str, Path],
    second: tuple[str, Path],
    *,
    limit: int | None = 20,
    all_settings: bool = False,
    defaults: Defaults | None = None,
) -> Comparison:
    """Compare two finished runs. ``first`` and ``second`` are the runs, each as a pair: the name that the tables show,
    and the run folder.

    A record ended differently if it is in another output set (sft, rl or rejected) or was rejected differently.
    ``limit`` is the maximum number of listed ids of these records; None lists all. If ``all_settings`` is True, the
    table of settings also shows differences that are usually hidden
    (:mod:`groundtrace.publishing.comparison.setting_changes`). ``defaults`` is a function that returns the default
    values of the recipe's settings by key (the recipe is the pipeline of both runs); None if they are unknown. Raises
    :class:`groundtrace.publishing.reading.InspectError` if a run cannot be read.
    """
    with opened_pair(first[1], second[1]) as (tables, a, b):
        runs = ComparedRun("A", first[0], a), ComparedRun("B", second[0], b)
        settings = setting_changes((first[1], a), (second[1], b), defaults)
        sets, ids = sets_of(a.sets, b.sets), overlap(tables)
        both, other = other_traces(tables)
        has_other_scores = scores_differ(tables)
        same = "" if settings.shown or other or has_other_scores or _has_other_ends(tables) else _same(a, b)
        if same:
            folded = (settings.section(True),) if all_settings and settings.folded else ()
            return Comparison(runs, same, "", folded, (), settings)
        moved = moved_records(tables, limit)
        total = count_moved(tables)
        sizes, sources = yields(tables, sets, ids), yields_by_source(tables, sets)
        sections = [
            sizes if sizes.differs or ids.only_a or ids.only_b else None,
            sources if sources is not None and sources.differs else None,
            transitions(tables),
            moved_section(moved, total),
            _with_traces(score_section(tables), both, other) if has_other_scores or other else None,
            settings.section(all_settings),
            _funnel(a, b),
            _rejections(a, b),
            _costs(a, b),
        ]
    shown = tuple(section for section in sections if section is not None and (section.rows or section.more))
    headline = _headline(total, ids, settings, a.revision == b.revision)
    return Comparison(runs, "", headline, shown, tuple(moved), settings)


def all_moved(first: Path, second: Path) -> list[MovedRecord]:
    """Return all records that ended differently in the two runs, and all records that only one run has read.

    ``first`` and ``second`` are the run folders. A record that both runs have read ended differently in two cases: the
    runs put it into different output sets (sft, rl or rejected), or they rejected it at different stages (pipeline
    steps), for different reasons or by different scorers (checks). Raises InspectError if a run cannot be read.
    """
    with opened_pair(first, second) as (tables, _, _):
        return moved_records(tables, alone=True)


@contextmanager
def opened_pair(first: Path, second: Path) -> Iterator[tuple[duckdb.DuckDBPyConnection, RunSummary, RunSummary]]:
    """Yield a database about both runs, and the summaries of both runs.

    ``first`` and ``second`` are the run folders. The database holds the output set (sft, rl or rejected) of each
    record, the stage (pipeline step) and reason of a rejection, and the scores.
    :func:`groundtrace.publishing.comparison.sides.add_ends` and
    :func:`groundtrace.publishing.comparison.score_changes.add_scores` define the tables. Raises
    :class:`groundtrace.publishing.reading.InspectError` if a run or a shard cannot be read.
    """
    a, b = (read_summary(run, digests=True) for run in (first, second))
    with open_several([(first, a), (second, b)]) as tables:
        try:
            add_ends(tables)
            add_scores(tables)
            yield tables, a, b
        except (duckdb.Error, MemoryError) as error:
            raise InspectError(
                f"cannot compare {first} with {second}, because their rows cannot be read ({one_line(error)}). If the "
                "memory ran out, use a machine with more memory. Otherwise, repeat both runs (their replies are cached)"
            ) from error


def _headline(moved: int, ids: Overlap, settings: SettingChanges, same_code: bool) -> str:
    """Return one sentence with the number of records that ended differently, and the first settings that differ.

    If ``same_code`` is False, the sentence also states that the code of the runs differs.

    A record ended differently in two cases: the runs put it into different sets (sft, rl or rejected), or they rejected
    it at different stages (pipeline steps), for different reasons or by different scorers (checks). ``moved`` is the
    number of these records, and ``ids`` holds how many record ids are in both runs. If no id is in both runs, the
    sentence states this instead of the number. ``settings`` are the settings that differ. For example, the result is "1
    of 3 ids ended elsewhere; attempt.k: 4 → 8".
    """
    shown = [f"{name}: {a} → {b}" for name, a, b in settings.shown[:MAX_IN_HEADLINE]]
    left = len(settings.shown) - len(shown)
    shown += [f"and {left} more"] if left else []
    ended = f"{moved} of {counted(ids.both, 'id')} ended elsewhere" if ids.both else "no id is in both runs"
    code = "" if same_code else ", but the code differs (see the revisions)"
    return f"{ended}; {', '.join(shown) or 'no setting differs'}{code}"


def _has_other_ends(tables: duckdb.DuckDBPyConnection) -> bool:
    """Return whether any record ended differently in the two runs, or is in only one of them.

    A record ended differently in two cases. The runs put it into different output sets (sft, rl or rejected). Or they
    rejected it at different stages (pipeline steps), for different reasons or by different scorers (checks). ``tables``
    is the database with the table ``pairs`` (:func:`groundtrace.publishing.comparison.sides.add_ends`).
    """
    return bool(tables.execute("SELECT exists(SELECT 1 FROM pairs WHERE is_changed)").fetchall()[0][0])


def _same(a: RunSummary, b: RunSummary) -> str:
    """Return the sentence that states that two runs do not differ. The sentence also contains the number of records in
    each output set (sft, rl, rejected). ``a`` and ``b`` are the contents of the ``run.json`` of the two runs.
    """
    ends = [*(f"{a.counts.rows(name)} {name}" for name in a.sets), f"{a.counts.rejected_records} rejected"]
    code = "" if a.revision == b.revision else ", by other versions of the code"
    return (
        f"nothing differs: {counted(a.counts.input, 'record')} ended alike ({', '.join(ends)}), with the same "
        f"settings, prompts, scores and traces{code}"
    )


def _with_traces(section: Section, both: int, other: int) -> Section:
    """Return the section (table) of scores with an additional line on how many SFT traces differ between the runs.

    A trace is a teacher's reasoning with its answer. ``both`` is the number of ids that are SFT rows in both runs.
    ``other`` is the number of ids among them whose traces differ. If ``both`` is 0, the line is left out.
    """
    more = f"{other} of the {counted(both, 'id')} that are SFT rows in both runs have another trace" if both else ""
    return Section(section.name, section.title, section.note, section.columns, section.rows, more)


def _funnel(a: RunSummary, b: RunSummary) -> Section:
    """Return a table of the stages (pipeline steps) whose numbers of read, kept or rejected records differ."""
    flows = [{flow.name: flow for flow in funnel(run)} for run in (a, b)]
    rows: list[Sequence[object]] = []
    for name in dict.fromkeys(name for side in flows for name in side):
        pairs = [tuple(getattr(side.get(name), part, "–") for side in flows) for part in ("read", "kept", "rejected")]
        if any(of_a != of_b for of_a, of_b in pairs):
            rows.append((name, *(cell for pair in pairs for cell in pair)))
    columns = ("stage", "in A", "in B", "kept A", "kept B", "rejected A", "rejected B")
    return Section("funnel", "funnel", "Only the stages whose numbers differ.", columns, rows)


def _rejections(a: RunSummary, b: RunSummary) -> Section:
    """Return a table of the reasons of rejection whose numbers of records differ between the runs ``a`` and ``b``."""
    counts = [
        {(stage, reason): n for stage, by in run.counts.rejected.items() for reason, n in by.items()} for run in (a, b)
    ]
    rows: list[Sequence[object]] = []
    for stage, reason in dict.fromkeys(key for side in counts for key in side):
        of_a, of_b = (side.get((stage, reason), 0) for side in counts)
        if of_a != of_b:
            rows.append((stage, reason, of_a, of_b, of_b - of_a))
    note = "Only the reasons whose numbers differ."
    return Section("rejections", "rejections", note, ("stage", "reason", "A", "B", "B − A"), rows)


def _costs(a: RunSummary, b: RunSummary) -> Section:
    """Return a table of the roles (jobs of a model, such as teacher) whose calls, tokens or costs differ."""
    costs = [{cost.role: cost for cost in role_costs(run)} for run in (a, b)]
    rows: list[Sequence[object]] = []
    for role in dict.fromkeys(role for side in costs for role in side):
        found = [side.get(role) for side in costs]
        pairs: list[list[object]] = [
            ["–" if cost is None else getattr(cost.usage, what) for cost in found]
            for what in ("calls", "tokens_in", "tokens_out")
        ]
        pairs.append(["–" if cost is None else f"{cost.usage.cost_usd:.4f}" for cost in found])
        if any(of_a != of_b for of_a, of_b in pairs):
            rows.append((role, *(cell for pair in pairs for cell in pair)))
    names = ("calls", "tokens in", "tokens out", "USD")
    note = "Only the roles whose numbers differ. Calls that the cache answered are counted, and cost nothing."
    return Section(
        "costs", "calls and cost by role", note, ("role", *(f"{name} {run}" for name in names for run in "AB")), rows
    )
