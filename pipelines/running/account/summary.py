"""Makes the summary of a run (``run.json``) from the counts and the usage of its waves.

A wave is one pass over the input. A run with a target number of SFT rows consists of one or more waves. Each wave uses
more questions than the wave before it, until the target is reached. There is one exception: if the budget is exhausted
in a wave that misses the target, a last wave uses the same questions once more. The reason is that the outputs of the
run are those of its last wave, and that a wave that misses the target keeps RL rows only if it is run as the last wave.

The costs come from the notes that the run's processes write on their requests.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from groundtrace.config.settings import config_sha256
from groundtrace.inference.flow.notes import paid_in
from groundtrace.pipelines.running.account.changed_settings import changed_settings
from groundtrace.pipelines.running.account.counts import RunCounts, agreements, ledger
from groundtrace.pipelines.running.account.spending import Spending
from groundtrace.pipelines.running.plan.budget import RunBudget
from groundtrace.pipelines.running.plan.loading import PipelineError, is_bundled
from groundtrace.pipelines.running.plan.plan import Plan
from groundtrace.prompts.loader import load_prompt
from groundtrace.schemas.run_files import FileEntry
from groundtrace.schemas.run_summary import (
    TRAINING_SETS,
    AnsweredFigures,
    BudgetFigures,
    RoleLedger,
    RunSummary,
    StageFigures,
    TargetFigures,
    TruncatedReplies,
)
from groundtrace.schemas.text import storable, utc_now
from groundtrace.schemas.usage import NOTHING
from groundtrace.stages.draw_questions import CUT, DRAW, OVER_QUOTA
from groundtrace.stages.plumbing.metrics import board
from groundtrace.stages.plumbing.stage import BUDGET
from groundtrace.stages.plumbing.stage_list import StageList

_SETTING = "max_tokens"


@dataclass(frozen=True)
class Wave:
    """Holds the result of one wave, which is one pass over the input.

    A run with a target number of SFT rows consists of one or more waves. Each wave uses all questions of the wave
    before it, and usually further questions. Other runs have one wave. ``figures`` holds the counts and the usage of
    the wave. ``files`` maps the path of each file that the wave wrote into the staging folder (the folder for new
    outputs) to its size and digest.
    """

    figures: RunCounts
    files: Mapping[str, FileEntry] = field(default_factory=dict)

    @property
    def questions(self) -> int:
        """Return the number of questions among which this wave (a pass over the input) could choose."""
        return self.figures.entered(DRAW.name)

    @property
    def drawn(self) -> int:
        """Return the number of questions that this wave (a pass over the input) used."""
        return self.figures.passed(DRAW.name)

    @property
    def accepted(self) -> int:
        """Return the number of SFT rows that this wave (a pass over the input) made. The number includes rows beyond
        the target number, which were dropped.
        """
        counts = self.figures.counts
        return counts.sft + counts.rejected.get(CUT.name, {}).get(OVER_QUOTA, 0)

    def summary(self) -> dict[str, Any]:
        """Return the entry of this wave (a pass over the input) in ``run.json``.

        The entry holds three numbers: the available questions, the used questions, and the SFT rows.
        """
        return {"questions": self.questions, "drawn": self.drawn, "accepted": self.accepted}


def summarise(plan: Plan, waves: Sequence[Wave], wall_s: float) -> RunSummary:
    """Return the summary of a run: its counts, costs and files, i.e. the content of ``run.json``.

    ``plan`` holds what the run needs, such as its recipe, settings, input and run folder. ``waves`` are its waves
    (passes over the input); the counts and files of the summary are those of the last wave. ``wall_s`` is the run's
    duration in seconds. Raises PipelineError if the last wave wrote more SFT rows than the target number.
    """
    arguments = plan.arguments
    figures, files = waves[-1].figures, waves[-1].files
    usage = ledger(figures.asked, paid_in(Path(plan.models.notes)))
    target = arguments.target_sft
    sft = figures.counts.sft
    if target is not None and sft > target:
        raise PipelineError(
            f"{arguments.pipeline} made {sft} SFT rows, more than --target-sft {target}, because its recipe does not "
            "use the stage CutToTarget: add this stage to the recipe, or remove --target-sft"
        )
    reached = None
    if target is not None:
        reached = TargetFigures(target, sft == target, tuple(wave.summary() for wave in waves))
    return RunSummary(
        recipe=plan.recipe.name,
        makes=plan.recipe.makes,
        recipe_file="" if is_bundled(plan.recipe_file) else storable(str(plan.recipe_file)),
        input=plan.input.name,
        counts=figures.counts,
        sets=tuple(name for name in TRAINING_SETS if (plan.folder.staging / name).is_dir()),
        stages=stage_figures(plan.stages, figures),
        ledger=usage,
        truncated=truncated_replies(figures.truncated, plan),
        judges=agreements(figures.labels),
        roles={role: plan.models.endpoint(role).model for role in plan.roles},
        answered=_answered(plan, figures),
        taken_over=figures.taken_over,
        fresh_since=plan.models.fresh_since or None,
        self_judged=plan.models.self_judging,
        self_checked=plan.models.self_checking,
        config_sha256=config_sha256(plan.settings),
        revision=plan.revision,
        changed=changed_settings(plan.settings),
        prompts={name: load_prompt(name).sha256 for name in plan.stages.prompts_sent(plan.models_asked, plan.settings)},
        artifacts=tuple(sorted(name for name in files if "/" not in name)),
        finished=utc_now(),
        wall_s=round(wall_s, 2),
        target=reached,
        budget=budget_figures(arguments.budget, usage, figures) if arguments.budget.bounded else None,
        forecast=figures.forecast if arguments.measure else None,
        paid=Spending(plan.folder.root).total(),
        files=files,
    )


def budget_figures(budget: RunBudget, usage: Mapping[str, RoleLedger], figures: RunCounts) -> BudgetFigures:
    """Return the entry of ``run.json`` on a run's budget: the limits, the amounts spent, and the rejected records.

    ``budget`` holds the limits in dollars and tokens. ``usage`` is the run's usage by role (such as teacher); its
    dollars and tokens are summed up. ``figures`` are the counts of the run: they show whether the budget was exhausted,
    and how many records were rejected for this reason.
    """
    spent = sum((role.usage for role in usage.values()), NOTHING)
    left = sum(reasons.get(BUDGET, 0) for reasons in figures.counts.rejected.values())
    spent_tokens = spent.tokens_in + spent.tokens_out
    return BudgetFigures(budget.usd, budget.tokens, spent.cost_usd, spent_tokens, figures.refused, left)


def _answered(plan: Plan, figures: RunCounts) -> dict[str, AnsweredFigures]:
    """Return, for each endpoint (model server), how many replies name another model than the requested one.

    The keys of the result are the names of the endpoints. A value holds the requested model, and the number of replies
    for each other model name. An endpoint is left out if all its replies name the requested model. ``plan`` holds the
    settings of the models, and ``figures`` the counts of the run.
    """
    found: dict[str, AnsweredFigures] = {}
    for role, models in figures.answered.items():
        name, asked = plan.models.endpoint_name(role), plan.models.endpoint(role).model
        before = found[name].answered if name in found else {}
        found[name] = AnsweredFigures(asked, dict((Counter(before) + Counter(models)).most_common()))
    return found


def stage_figures(stages: StageList, figures: RunCounts) -> dict[str, StageFigures]:
    """Return, by name, the counts and the description of each stage (step of the pipeline) that a record reached.

    The result has the order of ``stages``, which are the stages of the run. ``figures`` holds the numbers of records,
    rows and rejections.
    """
    live = board()
    return {
        stage.name: StageFigures(
            read=figures.entered(stage.name),
            kept=figures.passed(stage.name),
            does=stage.does,
            is_sample=stage.is_sample,
            for_target=stage.for_target,
            prompts=tuple(sorted({name for ask in stage.asks for name in ask.prompts})),
            reasons=stage.meanings,
            wall_s=round(live[stage.name].wall_s, 3) if stage.name in live else 0.0,
            in_flight_s=round(live[stage.name].in_flight_s, 3) if stage.name in live else 0.0,
            floors=stage.floors,
        )
        for stage in stages
        if figures.entered(stage.name)
    }


def truncated_replies(
    found: Mapping[tuple[str, str], tuple[int, int, int]], plan: Plan
) -> dict[str, dict[str, TruncatedReplies]]:
    """Return the numbers of truncated replies by role (such as teacher) and stage (pipeline step). The result also
    names the settings that the user can raise to avoid truncation.

    ``found`` is :attr:`RunCounts.truncated`: for each role and stage, the number of all replies, the number of
    truncated replies, and the largest limit of tokens that a truncated reply had. ``plan`` holds the settings of the
    run.

    A reply is truncated if it reaches its limit of tokens. The limit of a stage's first request is the stage's setting
    ``max_tokens``. If a truncated reply cannot be parsed, the stage repeats the request with twice the limit. The new
    limit is at most ``max_tokens_limit``, a setting of the endpoint (model server).

    The result always names ``max_tokens_limit``, because raising it always helps. Raising ``max_tokens`` helps only if
    no repeated request was truncated, i.e. if the largest limit of a truncated reply equals ``max_tokens``. Only in
    this case, the result names ``max_tokens``, too.
    """
    by_role: dict[str, dict[str, TruncatedReplies]] = {}
    for (role, stage), (replies, truncated, max_tokens) in found.items():
        section, own = _max_tokens_of(plan, stage)
        settings = [f"{section}.{_SETTING}"] if own == max_tokens else []
        settings.append(f"endpoints.{plan.roles[role]}.max_tokens_limit")
        by_role.setdefault(role, {})[stage] = TruncatedReplies(replies, truncated, max_tokens, tuple(settings))
    return by_role


def _max_tokens_of(plan: Plan, stage: str) -> tuple[str, int | None]:
    """Return the name of the config section of a stage (pipeline step), and the section's value of ``max_tokens``.

    ``stage`` is the name of the stage. The result is "" and None if the stage has no section. The second item is also
    None if the section lacks ``max_tokens``.
    """
    described = plan.stages.stage(stage)
    kind: type | None = None if described is None else described.settings
    for each in fields(plan.settings):
        section: Any = getattr(plan.settings, each.name)
        if kind is not None and isinstance(section, kind):
            return each.name, getattr(section, _SETTING, None)
    return "", None
