"""Defines the content of ``run.json``, the summary of a finished run.

The code that writes the file and the code that reads the file use the same classes, which are defined here.
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from functools import reduce
from operator import add
from typing import Any

from groundtrace.schemas.blind_figures import BlindFigures
from groundtrace.schemas.checked import checked_value
from groundtrace.schemas.run_files import FileEntry
from groundtrace.schemas.usage import NOTHING, Usage

TRAINING_SETS = ("sft", "rl")


@dataclass(frozen=True)
class Counts:
    """Holds numbers of records. Each record of the input is counted in ``input``, and also in exactly one of ``sft``,
    ``rl`` and ``rejected``.

    ``sft`` and ``rl`` are the numbers of rows in these training sets. ``rejected`` maps the name of each stage (step of
    the pipeline) to a mapping: from each of the stage's reasons to the number of records.
    """

    input: int
    sft: int
    rl: int
    rejected: Mapping[str, Mapping[str, int]]

    @property
    def rejected_records(self) -> int:
        """Return the number of rejected records, summed over all stages (steps of the pipeline) and reasons."""
        return sum(sum(reasons.values()) for reasons in self.rejected.values())

    @property
    def by_reason(self) -> Counter[str]:
        """Return the number of records that were rejected for each reason, summed over all stages (steps of the
        pipeline).
        """
        return sum((Counter(reasons) for reasons in self.rejected.values()), Counter[str]())

    @property
    def kept(self) -> int:
        """Return the number of records that became rows of a training set (SFT or RL)."""
        return self.sft + self.rl

    def rows(self, name: str) -> int:
        """Return the number of rows of the training set ``name``, which is "sft" or "rl"."""
        return {"sft": self.sft, "rl": self.rl}[name]


@dataclass(frozen=True)
class StageFigures:
    """Holds the counts of a stage (a step of the pipeline) in a run, and the stage's description
    (:class:`groundtrace.stages.plumbing.stage.Stage`).

    ``read`` and ``kept`` are the numbers of records that entered and passed the stage. ``does`` describes the stage's
    work in one sentence; it is "" in a ``run.json`` that an earlier version of the code wrote. ``is_sample`` is True if
    the stage only reads a sample of the records and passes none on. ``for_target`` is True if the stage has an effect
    only in a run that ends with an exact number of rows. ``prompts`` are the names of its prompts, and ``reasons`` are
    its reasons to reject a record, each with its meaning. ``floors`` maps the name of a score to its minimum: the
    stage keeps no response with a lower score. Each scorer (code that checks one property of a response) gives a score
    with the scorer's name, such as ``spatial``. The name ``final`` is for the score of the whole response.

    ``wall_s`` is this stage's part of the run's duration: the time in which several stages work simultaneously is
    divided among them. ``in_flight_s`` is the sum of the durations of the stage's requests. Both are in seconds, and 0
    if the stage ran in other processes or on other machines. From these two values, a later run estimates its own
    duration.
    """

    read: int
    kept: int
    does: str = ""
    is_sample: bool = False
    for_target: bool = False
    prompts: tuple[str, ...] = ()
    reasons: Mapping[str, str] = field(default_factory=dict)
    wall_s: float = 0.0
    in_flight_s: float = 0.0
    floors: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class RoleLedger:
    """Holds the requests, tokens and costs of one role's calls; ``stages`` has them separately for each stage (step of
    the pipeline). A role is the job that a model does, such as judge or teacher.
    """

    stages: Mapping[str, Usage]

    @property
    def usage(self) -> Usage:
        """Return the requests, tokens and costs of this role (a model's job, such as judge), summed over all stages of
        the pipeline.
        """
        return reduce(add, self.stages.values(), NOTHING)


@dataclass(frozen=True)
class TruncatedReplies:
    """Holds the number of truncated replies that one stage (step of the pipeline) got from one role (a model's job,
    such as judge).

    ``replies`` is the number of all replies. ``truncated`` is the number of replies that are still truncated after the
    last request for them. ``max_tokens`` is the largest token limit of the requests for the truncated replies; the
    server may have used a lower limit. ``settings`` are config keys that limit the length of replies. If the user
    raises one of them, replies can be longer.
    """

    replies: int
    truncated: int
    max_tokens: int
    settings: tuple[str, ...]


@dataclass(frozen=True)
class TargetFigures:
    """Holds the result of a run with a target number of SFT rows. ``sft`` is the target number, and ``reached`` is True
    if the run has exactly this number of SFT rows.

    Such a run consists of waves (passes over the input). The waves take larger and larger random samples of the
    questions, until the target number is reached, or the questions or the budget are exhausted. ``waves`` holds three
    numbers for each wave: ``questions`` (available for the sample), ``drawn`` (questions in the sample), and
    ``accepted`` (SFT rows).
    """

    sft: int
    reached: bool
    waves: tuple[Mapping[str, int], ...]


@dataclass(frozen=True)
class BudgetFigures:
    """Holds a run's spending limits, and the amounts that it spent. ``usd`` (US dollars) and ``tokens`` are the limits;
    None means no limit. ``spent_usd`` and ``spent_tokens`` are the amounts.

    ``used_up`` is True if the budget did not suffice. ``left`` is the number of records that were not processed for
    this reason.
    """

    usd: float | None
    tokens: int | None
    spent_usd: float
    spent_tokens: int
    used_up: bool
    left: int


@dataclass(frozen=True)
class ReplacedFigures:
    """Describes an earlier finished run whose outputs this run replaced in the same folder. ``finished`` is the time at
    which the earlier run ended, and ``sft`` and ``rl`` are the numbers of its rows.

    ``changed`` lists what differs between the two runs, as (name, old value, new value). A name is a key of the config,
    or ``input``, ``records``, ``recipe`` or ``revision``. ``kept`` is True if the earlier outputs are kept in the
    subfolder ``previous``, because they have rows and differ from the new outputs.
    """

    finished: str
    sft: int
    rl: int
    changed: tuple[tuple[str, str, str], ...]
    kept: bool


@dataclass(frozen=True)
class PaidFigures:
    """Holds the total cost (``usd``), requests and tokens of all runs that used one run folder, including failed and
    stopped runs.

    ``runs`` is the number of these runs.
    """

    usd: float
    requests: int
    tokens: int
    runs: int


@dataclass(frozen=True)
class AnsweredFigures:
    """Holds how many replies of an endpoint (model server) named another model than the requested one.

    ``asked`` is the requested model. ``answered`` holds the number of replies for each other name. Such a name can be a
    dated version of the requested model, a path to it, or the name of a different model.
    """

    asked: str
    answered: Mapping[str, int]


@dataclass(frozen=True)
class RunSummary:
    """Holds the summary of a finished run, which is the content of ``run.json``.

    Attributes:
        recipe, makes: the name of the recipe (pipeline), and the recipe's description of its rows.
        recipe_file: the path of the recipe's Python file, if it is a user's own file; "" if the recipe is bundled, or
            if an earlier version of the code wrote ``run.json``. The code of this file must be executed only if the
            user names the file, because the run may be somebody else's.
        input: the value of ``--input``.
        counts: the numbers of records in the input, in the training sets, and among the rejected records.
        sets: the training sets that the recipe makes, with or without rows.
        stages: the stages that ran, in the recipe's order.
        ledger: the usage (requests, tokens, costs) of the calls, by role.
        finished, wall_s: the time at which the run ended, and its duration in seconds.
        revision, config_sha256: the commit of the code, and the hash of the config.
        changed: the settings of the stages that differ from the recipe's defaults, and all settings of the user's own
            stages. It maps each dotted key, such as ``verify.min_score``, to the texts ``value`` and ``default``. None
            if an earlier version of the code wrote ``run.json``.
        self_judged: whether the judge used the same endpoint (model server) as the teacher.
        self_checked: whether the detector was the same model as the pointer (the model that points at objects), whose
            points the detector checks.
        target: the result of a run that ends when it has a given number of SFT rows; None for other runs.
        budget: the spending limits and the amounts spent; None if the run had no limits.
        truncated: the counts of truncated replies, by role and stage; only for stages that have such replies.
        judges: for each scorer (check of a response), how well two judges agree; empty if the run had only one judge.
        roles: the model of each role (a model's job, such as judge).
        taken_over: the number of replies that were copied from the caches of other run folders, by folder.
        fresh_since: the time that ``--fresh`` set, as ISO text. The run did not use cached replies that are older than
            this time. None if the run used replies of any age.
        answered: the counts of replies in which the server named another model than the requested one, by endpoint.
        prompts: the prompts that the run may send, with their SHA-256.
        artifacts: the names of further files in the run folder.
        forecast: sums over the records of a preview (a run on the first records), such as the number of calls. The
            calls and costs of a full run are estimated from these sums. None if the run is not a preview.
        details: the most frequent explanation of the rejections, by stage and reason; one line each.
        replaced: the finished run that was in the folder before; None if the folder had no finished run.
        paid: the total costs of all runs of the run folder; None if an earlier version of the code wrote ``run.json``.
        files: the shards (Parquet files of rows) and artifacts, by their names in the run folder. A file without an
            entry here, or one that differs from its entry, is not from this run. None if an earlier version of the
            code wrote ``run.json``.
        blind: the reward that a policy (model in RL training) gets on the RL rows if it does not use the images. None
            if the run has no RL rows, or if its recipe names no reward.
        warnings: one sentence for each problem that makes the rows less suitable for their purpose.
    """

    recipe: str
    input: str
    counts: Counts
    stages: Mapping[str, StageFigures]
    ledger: Mapping[str, RoleLedger]
    roles: Mapping[str, str]
    prompts: Mapping[str, str]
    finished: str
    wall_s: float
    revision: str
    config_sha256: str
    self_judged: bool
    self_checked: bool = False
    makes: str = ""
    recipe_file: str = ""
    sets: tuple[str, ...] = TRAINING_SETS
    artifacts: tuple[str, ...] = ()
    judges: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    answered: Mapping[str, AnsweredFigures] = field(default_factory=dict)
    taken_over: Mapping[str, int] = field(default_factory=dict)
    fresh_since: str | None = None
    target: TargetFigures | None = None
    budget: BudgetFigures | None = None
    forecast: Mapping[str, float] | None = None
    details: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    truncated: Mapping[str, Mapping[str, TruncatedReplies]] = field(default_factory=dict)
    replaced: ReplacedFigures | None = None
    paid: PaidFigures | None = None
    files: Mapping[str, FileEntry] | None = None
    blind: BlindFigures | None = None
    warnings: tuple[str, ...] = ()
    changed: Mapping[str, Mapping[str, str]] | None = None

    def detail_of(self, reason: str) -> str:
        """Return the most frequent explanation of the rejections for ``reason``. Returns "" if they have no
        explanation.

        Only the stage (step of the pipeline) with the most rejections for this reason is considered.
        """
        stages = {stage: reasons.get(reason, 0) for stage, reasons in self.counts.rejected.items()}
        stage = max(stages, key=lambda name: stages[name], default="")
        return self.details.get(stage, {}).get(reason, "")

    @property
    def floors(self) -> dict[str, float]:
        """Return a mapping from the name of a score to its minimum: the run kept no response with a lower score.

        Each scorer (code that checks one property of a response) gives a score with the scorer's name, such as
        ``spatial``. The name ``final`` is for the score of the whole response.
        """
        return {name: floor for figures in self.stages.values() for name, floor in figures.floors.items()}

    @property
    def saved_usd(self) -> float:
        """Return how much the cache saved, in US dollars: the cost that the replies from the cache would have had
        otherwise.
        """
        return max(0.0, self.usage.worth_usd - self.usage.cost_usd)

    @property
    def usage(self) -> Usage:
        """Return the requests, tokens and costs of all calls of the run."""
        return reduce(add, (role.usage for role in self.ledger.values()), NOTHING)

    def to_fields(self) -> dict[str, Any]:
        """Return the content of ``run.json`` as a dict that can be written as JSON. Fields that are None are left
        out.
        """
        fields = asdict(self)
        fields["ledger"] = {
            role: asdict(ledger.usage) | {"stages": {name: asdict(usage) for name, usage in ledger.stages.items()}}
            for role, ledger in self.ledger.items()
        }
        fields["stages"] = {name: {"in": figures.pop("read"), **figures} for name, figures in fields["stages"].items()}
        if self.files is not None:
            fields["files"] = {
                name: {key: value for key, value in asdict(entry).items() if value is not None}
                for name, entry in self.files.items()
            }
        return {name: value for name, value in fields.items() if value is not None}

    @classmethod
    def from_fields(cls, fields: Mapping[str, Any]) -> "RunSummary":
        """Create a summary from ``fields``, the parsed content of a ``run.json``. An earlier version of the code may
        have written the file.

        Raises ValueError, TypeError, KeyError or AttributeError if the fields are not valid: if one of them has another
        type than the attribute, a whole number has more than 63 bits, or ``sets`` names other sets than the training
        sets. A ValueError names the field.
        """
        known = {name: fields[name] for name in cls.__dataclass_fields__ if name in fields}
        known["counts"] = Counts(**fields["counts"])
        known["counts"].by_reason  # noqa: B018 (raises if the counts are not numbers)
        known["stages"] = {name: _stage_figures(figures) for name, figures in fields["stages"].items()}
        known["ledger"] = {
            role: RoleLedger({name: Usage.of(usage) for name, usage in entry["stages"].items()})
            for role, entry in fields["ledger"].items()
        }
        for name in ("sets", "artifacts", "warnings"):
            if name in fields:
                known[name] = tuple(fields[name])
        if "answered" in fields:
            known["answered"] = {name: AnsweredFigures(**each) for name, each in fields["answered"].items()}
        if "truncated" in fields:
            known["truncated"] = {
                role: {
                    name: TruncatedReplies(**each | {"settings": tuple(each["settings"])}) for name, each in of.items()
                }
                for role, of in fields["truncated"].items()
            }
        if "target" in fields:
            known["target"] = TargetFigures(**fields["target"] | {"waves": tuple(fields["target"]["waves"])})
        if "budget" in fields:
            known["budget"] = BudgetFigures(**fields["budget"])
        if "replaced" in fields:
            changed = tuple((str(key), str(old), str(new)) for key, old, new in fields["replaced"]["changed"])
            known["replaced"] = ReplacedFigures(**fields["replaced"] | {"changed": changed})
        if "blind" in fields:
            known["blind"] = BlindFigures.of_fields(fields["blind"])
        if "files" in fields:
            known["files"] = {str(name): FileEntry(**entry) for name, entry in fields["files"].items()}
        if "paid" in fields:
            known["paid"] = PaidFigures(**fields["paid"])
        summary = checked_value(cls, asdict(cls(**known)))
        if not {*summary.sets} <= {*TRAINING_SETS}:
            raise ValueError(f"the field 'sets' must contain only {', '.join(TRAINING_SETS)}")
        return summary


def _stage_figures(figures: Mapping[str, Any]) -> StageFigures:
    known = {name: figures[name] for name in StageFigures.__dataclass_fields__ if name in figures}
    return StageFigures(**known | {"read": figures["in"], "prompts": tuple(figures.get("prompts", ()))})
