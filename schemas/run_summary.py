"""What ``run.json`` says of a run: the one type that writes it, and by which everything else reads it."""

import hashlib
from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from functools import reduce
from operator import add
from typing import Any

from groundtrace.schemas.usage import NOTHING, Usage

TRAINING_SETS = ("sft", "rl")
MAX_BLIND_SHARE = 1 / 3
"""Above this share of what looking earns, what a policy earns that never looks is warned of."""


@dataclass(frozen=True)
class Counts:
    """Records in and out: every one of ``input`` stands in exactly one of the others.

    ``rejected`` is by stage and reason.
    """

    input: int
    sft: int
    rl: int
    rejected: Mapping[str, Mapping[str, int]]

    @property
    def rejected_records(self) -> int:
        """How many records were rejected."""
        return sum(sum(reasons.values()) for reasons in self.rejected.values())

    @property
    def by_reason(self) -> Counter[str]:
        """How many were rejected for each reason, in all stages."""
        return sum((Counter(reasons) for reasons in self.rejected.values()), Counter[str]())

    @property
    def kept(self) -> int:
        """The rows of all training sets."""
        return self.sft + self.rl

    def rows(self, name: str) -> int:
        """The rows of a training set."""
        return {"sft": self.sft, "rl": self.rl}[name]


@dataclass(frozen=True)
class StageFigures:
    """What a stage counted, and what it says of itself (:class:`groundtrace.stages.plumbing.stage.Stage`).

    A run of earlier code has no word of its stages: ``does`` is then empty.
    """

    read: int
    kept: int
    does: str = ""
    is_sample: bool = False
    for_target: bool = False
    prompts: tuple[str, ...] = ()
    reasons: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class RoleLedger:
    """What one role's calls took, in each stage."""

    stages: Mapping[str, Usage]

    @property
    def usage(self) -> Usage:
        """In all stages together."""
        return reduce(add, self.stages.values(), NOTHING)


@dataclass(frozen=True)
class TruncatedReplies:
    """How many of the ``replies`` that a stage got from a role are ``truncated``: cut off and not asked for again.

    ``max_tokens`` is the largest budget that one of these was asked for with; a server may have cut it off before.
    ``settings`` are the keys of the config of which each, raised, gives them room.
    """

    replies: int
    truncated: int
    max_tokens: int
    settings: tuple[str, ...]


@dataclass(frozen=True)
class TargetFigures:
    """A run that was to end with so many SFT rows; of each wave the questions, those drawn, and the rows accepted."""

    sft: int
    reached: bool
    waves: tuple[Mapping[str, int], ...]


@dataclass(frozen=True)
class BudgetFigures:
    """What a run was allowed to spend (None: no bound), what it spent, and how many records were left when it ended."""

    usd: float | None
    tokens: int | None
    spent_usd: float
    spent_tokens: int
    used_up: bool
    left: int


@dataclass(frozen=True)
class ReplacedFigures:
    """The finished run whose outputs were replaced, when it ended, its rows, and what was ``changed`` since.

    ``changed`` are keys of the config, or ``input``, ``records``, ``recipe`` and ``revision``, with what they were and
    are. ``kept`` says that its outputs stand in RUN/previous: they have rows, and differ from those that replaced them.
    """

    finished: str
    sft: int
    rl: int
    changed: tuple[tuple[str, str, str], ...]
    kept: bool


@dataclass(frozen=True)
class PaidFigures:
    """What all ``runs`` of one run folder have paid together, the failed and stopped ones too."""

    usd: float
    requests: int
    tokens: int
    runs: int


@dataclass(frozen=True)
class BlindType:
    """The best constant ``answer`` to questions of one ``kind`` (``bool``, ``mcq``, ``count`` or another answer type),
    and what it earns a row, as a share of what looking can earn."""

    kind: str
    rows: int
    answer: str
    earned: float


@dataclass(frozen=True)
class BlindFigures:
    """What the best policy earns on the RL rows that never looks (:mod:`groundtrace.rewards.blindness`).

    Attributes:
        reward: the reward recipe that the rows are made for.
        rows: of the set.
        counted: those of them that rules can grade; of the others nothing is known.
        share: of what looking can earn on the counted rows; None where there are none.
        types: by kind of question.
    """

    reward: str
    rows: int
    counted: int
    share: float | None
    types: Mapping[str, BlindType] = field(default_factory=dict)

    @property
    def is_high(self) -> bool:
        """Whether not looking pays too well for a reward curve to tell of looking."""
        return self.share is not None and self.share > MAX_BLIND_SHARE

    @classmethod
    def of_fields(cls, fields: Mapping[str, Any]) -> "BlindFigures":
        """The figures that ``run.json`` holds."""
        return cls(**{**fields, "types": {name: BlindType(**each) for name, each in fields["types"].items()}})


@dataclass(frozen=True)
class AnsweredFigures:
    """The model that an endpoint was ``asked`` for, and the others that its server named, with the number of replies.

    Servers answer a name with a dated one or with a path; another model may be behind it.
    """

    asked: str
    answered: Mapping[str, int]


@dataclass(frozen=True)
class FileEntry:
    """A file of the run: its size and SHA-256, and of a shard its rows and the digest of their ids in order."""

    size_bytes: int
    sha256: str
    rows: int | None = None
    ids_sha256: str | None = None

    @classmethod
    def of(cls, data: bytes) -> "FileEntry":
        """The entry of a file with that content."""
        return cls(len(data), hashlib.sha256(data).hexdigest())


@dataclass(frozen=True)
class RunSummary:
    """A finished run.

    Attributes:
        recipe, makes: the recipe's name and what it says of its rows.
        input: what ``--input`` named.
        sets: the training sets that the recipe makes, with or without rows.
        stages: those that ran, in the recipe's order.
        ledger: calls by role.
        truncated: by role and stage the replies that were cut off, where there are any.
        judges: how far two judges agreed, by scorer.
        roles: the model that played each role.
        taken_over: by run folder beside this one, how many of the replies were taken over from its cache.
        fresh_since: since when replies count for this run folder (``--fresh``); None where all do.
        answered: by endpoint, where its server named another model than the one asked for.
        prompts: those that the run may send, with their SHA-256.
        artifacts: the names of further files in the run folder.
        forecast: a preview's sums over its records; None for other runs.
        details: what the rejections say most often, by stage and reason; one line each.
        replaced: the finished run that stood in the folder before; None where there was none.
        paid: what was ever paid for the run folder; None for a run of earlier code.
        files: the shards and artifacts by their names in the run folder: what is there and is not among them, or is
            another, is not this run's. None for a run of earlier code.
        blind: what a policy earns on the RL rows that never looks; None where there are none, or they are for no
            reward.
        warnings: what its rows lack for what they are for, a sentence each.
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

    def detail_of(self, reason: str) -> str:
        """What is said most often of a reason, by the stage that gave it most often; "" where nothing is said."""
        stages = {stage: reasons.get(reason, 0) for stage, reasons in self.counts.rejected.items()}
        stage = max(stages, key=lambda name: stages[name], default="")
        return self.details.get(stage, {}).get(reason, "")

    @property
    def saved_usd(self) -> float:
        """What the replies from the cache would have cost."""
        return max(0.0, self.usage.worth_usd - self.usage.cost_usd)

    @property
    def usage(self) -> Usage:
        """What all calls took."""
        return reduce(add, (role.usage for role in self.ledger.values()), NOTHING)

    def to_fields(self) -> dict[str, Any]:
        """The content of ``run.json``; what the run has not is left out."""
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
        """The summary in a ``run.json``, also of earlier code.

        Raises ValueError, TypeError, KeyError or AttributeError for anything else.
        """
        known = {name: fields[name] for name in cls.__dataclass_fields__ if name in fields}
        known["counts"] = Counts(**fields["counts"])
        known["counts"].by_reason  # noqa: B018 (raises where the counts are none)
        known["stages"] = {name: _stage_figures(figures) for name, figures in fields["stages"].items()}
        known["ledger"] = {
            role: RoleLedger({name: Usage.of(usage) for name, usage in entry["stages"].items()})
            for role, entry in fields["ledger"].items()
        }
        for name in ("sets", "artifacts", "warnings"):
            if name in fields:
                known[name] = tuple(map(str, fields[name]))
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
        return cls(**known)


def _stage_figures(figures: Mapping[str, Any]) -> StageFigures:
    told = {name: figures[name] for name in StageFigures.__dataclass_fields__ if name in figures}
    return StageFigures(**told | {"read": figures["in"], "prompts": tuple(figures.get("prompts", ()))})
