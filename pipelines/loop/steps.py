"""Lists the steps of a loop: their commands, configs and folders, and the steps on which each of them depends.

The steps are: curate → make the tiny model (only for ``--model tiny``) → evaluation of the base model → SFT →
evaluation → second run of the pipeline, which measures the pass rates of the trained policy and writes the RL rows →
GRPO → evaluation. The list is computed from the loop's arguments and settings; this module reads and writes no files.
"""

import hashlib
import json
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

import tomli_w

from groundtrace.config.config_file import merged
from groundtrace.config.flat import flat_values
from groundtrace.pipelines.loop.questions import FOLDER, HELD, TRAIN
from groundtrace.pipelines.loop.settings import TINY, LoopSettings, StepSettings
from groundtrace.schemas.errors import UserError
from groundtrace.schemas.loop_step import step_environment

POLICY = "trained"
"""The name of the endpoint that serves the model after SFT, in the config of the pipeline run that makes the RL set."""
CURATE, MODEL, SFT, RL, GRPO = "curate", "model", "sft", "rl", "grpo"
EVALUATIONS = {"base": "eval-base", "SFT": "eval-sft", "GRPO": "eval-grpo"}
"""A dict from the name of each model to the name of the step that evaluates the model.

The page ``loop.html`` shows the results of the models under these names of the models.
"""
CONFIGS, LOGS, RECORDS = "configs", "logs", "steps"


@dataclass(frozen=True)
class Loop:
    """Holds the arguments and settings of ``beam loop``, which curates data, trains a model and evaluates it.

    Attributes:
        recipe: The name of a bundled pipeline, or the path of a pipeline's file.
        model: The model to train: a folder, an id of the Hugging Face Hub, or ``tiny``.
        out: The absolute path of the loop's folder.
        settings: The config of the loop.
        curation: The values of the curation's config that the user has set.
        sections: The names of the sections and keys that the recipe's config can have.
        recipe_sha256: The digest of the recipe's file.
        trainer_sha256: The digest of the trainer's config.
        code: A digest of the user's code that changes the result, for each step with such code, by the name of the
            step; ``eval`` for the evaluations (:mod:`groundtrace.pipelines.loop.own_code`).
        weights: A digest of the weights in the folder of the model to train; "" if the model is not a folder.
        per_step: The number of rows that one step of a training needs, by the name of the training.
        beside: The folders of the curation's config and of the configs that it extends. The plug-ins of both runs of
            the pipeline are searched there, because the config of a run is a copy in the loop's folder.
        defaults: The settings that apply where neither the loop's config nor the curation's config has a value
            (:func:`groundtrace.pipelines.loop.settings.defaults_of`).
    """

    recipe: str
    model: str
    out: Path
    settings: LoopSettings
    curation: Mapping[str, Any]
    sections: frozenset[str]
    recipe_sha256: str = ""
    trainer_sha256: str = ""
    code: Mapping[str, str] = field(default_factory=dict)
    weights: str = ""
    per_step: Mapping[str, int] = field(default_factory=dict)
    beside: tuple[str, ...] = ()
    defaults: LoopSettings = field(default_factory=LoopSettings)

    @property
    def base(self) -> str:
        """Return the model with which the training begins: its path, or its id on the Hugging Face Hub.

        For the model ``tiny``, it is the path of the folder into which a step of the loop writes this model.
        """
        return str(self.out / MODEL) if self.model == TINY else self.model

    @property
    def served_by(self) -> str:
        """Return the kind of the endpoint (model server) that serves the model after SFT in the second run of the
        pipeline, such as ``vllm``.
        """
        return self.settings.serve.kind or self.defaults.serve.kind or "vllm"

    @property
    def trainer_config(self) -> str:
        """Return the trainer's config: a path, or the name of a bundled config.

        Raises UserError if no config is set and the model has no default config.
        """
        config = self.settings.trainer.config or self.defaults.trainer.config
        if not config:
            raise UserError(
                f"trainer.config is not set: set trainer.config to a trainer's config for {self.model}, such as "
                "argos-lora"
            )
        return config


@dataclass(frozen=True)
class Step:
    """Describes a step of a loop: the command, its config, and its result.

    Attributes:
        name: The name of the step, of its record and of its log.
        title: One line on what the step does, for people.
        command: The words of the command, such as ``beam run …``.
        folder: The folder into which the step writes its outputs.
        result: The file or folder whose existence shows that the step is finished.
        after: The names of the steps whose results this step reads.
        config: The values of the config file that the loop writes for this step; None for a step without such a file.
        depends_on: A text, such as the digest of the pipeline's file. The step must be done again if this text changes.
        starts_anew: What happens if the digest of the step (:func:`identities`) has changed since its folder was made.
            If True, the folder is moved away before the step begins. If False, the step works in this folder.
        resumes: Whether the command can continue in the folder if it did not finish, e.g. because it was killed. If
            False, the folder is moved away before the command is started again.
        environment: The environment variables that the command gets in addition to those of the loop
            (:mod:`groundtrace.schemas.loop_step`).
    """

    name: str
    title: str
    command: tuple[str, ...]
    folder: Path
    result: Path
    after: tuple[str, ...] = ()
    config: Mapping[str, Any] | None = None
    depends_on: str = ""
    starts_anew: bool = True
    resumes: bool = True
    environment: Mapping[str, str] = field(default_factory=dict)


def make_steps(loop: Loop, revision: str = "") -> tuple[Step, ...]:
    """Return the steps of ``beam loop`` (curation, trainings, evaluations) in the order in which they run.

    ``loop`` holds the arguments and settings of the loop. ``revision`` identifies the present weights of the model
    after SFT; "" as long as there is no such model. A model that was trained again has another revision, so that cached
    replies of the earlier model are not used for it. Raises UserError if the trainer's config is not set.
    """
    tiny = [_tiny(loop)] if loop.model == TINY else []
    first = (MODEL,) if tiny else ()
    sft, grpo = str(loop.out / SFT / "model"), str(loop.out / GRPO / "model")
    base, trained, last = EVALUATIONS.values()
    return (
        _curate(loop),
        *tiny,
        _evaluate(loop, base, "evaluation of the model before training", loop.base, first),
        _train(loop, SFT, "SFT on the verified traces", CURATE, loop.base, (CURATE, *first)),
        _evaluate(loop, trained, "evaluation after SFT", sft, (SFT,)),
        _rl(loop, sft, revision),
        _train(loop, GRPO, "GRPO on the questions inside the band", RL, sft, (RL, SFT)),
        _evaluate(loop, last, "evaluation after GRPO", grpo, (GRPO,)),
    )


def identities(loop: Loop, steps: Sequence[Step]) -> dict[str, str]:
    """Return a digest for each step of ``beam loop``, by name. A step must be done again if its digest has changed.

    ``steps`` are all steps of the ``loop`` in order. The digest of a step is made from its command, its config, its
    field ``depends_on``, and the digests of the steps whose results it reads. The digest does not change if the loop's
    folder, the recipe or the trainer's config is moved to another path. The contents of the recipe, of the trainer's
    config, of the user's code and of the model's weights are in ``depends_on``.
    """
    found: dict[str, str] = {}
    names = {loop.recipe: "RECIPE", loop.trainer_config: "CONFIG"}
    for step in steps:
        # --replace is left out, because loops of earlier versions ran the pipeline without it
        command = [names.get(word, word) for word in step.command if word != "--replace"]
        parts = [command, step.config, step.depends_on, [found[name] for name in step.after]]
        text = json.dumps(parts, sort_keys=True).replace(json.dumps(str(loop.out))[1:-1], "OUT")
        found[step.name] = hashlib.sha256(text.encode()).hexdigest()
    return found


def config_text(step: Step) -> str:
    """Return the config of a step of ``beam loop`` as TOML text.

    The step must have a config. This is the case for the two steps that run the pipeline (``curate`` and ``rl``).
    """
    assert step.config is not None
    return tomli_w.dumps(step.config)


def config_path(out: Path, name: str) -> Path:
    """Return the path of the config file that ``beam loop`` writes for one of its steps.

    ``out`` is the folder of the loop. ``name`` is the name of the step, such as ``curate``.
    """
    return out / CONFIGS / f"{name}.toml"


def log_path(out: Path, name: str) -> Path:
    """Return the path of the log file with the output of the command that a step of ``beam loop`` runs.

    ``out`` is the folder of the loop. ``name`` is the name of the step, such as ``sft``.
    """
    return out / LOGS / f"{name}.log"


def _curate(loop: Loop) -> Step:
    return _run(loop, CURATE, "curation: traces that the verifier keeps", loop.curation, ())


def _rl(loop: Loop, model: str, revision: str) -> Step:
    """Return the step that measures the pass rates of the model after SFT, and makes the rows for RL.

    The rows are the training questions whose pass rates (shares of right answers) are in the pipeline's range to keep.
    ``model`` is the path of the model after SFT. ``revision`` identifies the present weights of this model.
    """
    kept = {name: value for name, value in loop.curation.items() if name != "difficulty"}
    if isinstance(attempt := kept.get("attempt"), Mapping):
        kept["attempt"] = {name: value for name, value in attempt.items() if name not in ("k", "k_min")}
    defaults = {name: values for name, values in loop.defaults.rl.set.items() if name in loop.sections}
    endpoint = {**loop.defaults.serve.endpoint, **loop.settings.serve.endpoint}
    endpoint |= {"kind": loop.served_by, "model": model, "revision": revision}
    own = {"allow_embedded": True, "endpoints": {POLICY: endpoint}, "roles": {"policy": POLICY}}
    sections = {"attempt": {"as_trained": True}, "split": {"sft_ratio": 0.0}}
    own |= {name: values for name, values in sections.items() if name in loop.sections}
    config = merged(merged(merged(defaults, kept), own), loop.settings.rl.set)
    return _run(loop, RL, "pass rates of the model after SFT, and the RL set", config, (SFT,))


def _run(loop: Loop, name: str, title: str, config: Mapping[str, Any], after: tuple[str, ...]) -> Step:
    """Return a step that runs the pipeline.

    ``name`` and ``title`` are the name of the step and a line on what it does. ``config`` holds the values of the
    config of the run. ``after`` holds the names of the steps whose results this step reads.

    The option ``--replace`` lets a run without rows replace an earlier run that has rows. Otherwise the next training
    would use rows of an earlier model or config. The earlier rows are kept in the subfolder ``previous``.
    """
    folder, data = loop.out / name, loop.out / FOLDER / TRAIN
    command = ("beam", "run", loop.recipe, "--input", str(data), "--output", str(folder))
    command += ("--config", str(config_path(loop.out, name)), "--replace")
    return Step(
        name,
        title,
        command,
        folder,
        folder / "run.json",
        after,
        config,
        loop.recipe_sha256 + loop.code.get(name, ""),
        starts_anew=False,
        environment=step_environment(name, loop.beside),
    )


def _tiny(loop: Loop) -> Step:
    folder = loop.out / MODEL
    command = ("trainer", "tiny", str(folder), "--data", str(loop.out / CURATE))
    return Step(
        MODEL, "a tiny model of random weights", command, folder, folder / "config.json", (CURATE,), resumes=False
    )


def _train(loop: Loop, name: str, title: str, data: str, model: str, after: tuple[str, ...]) -> Step:
    own: StepSettings = getattr(loop.settings, name)
    folder, gpus = loop.out / name, loop.settings.trainer.gpus
    command = _trainer(loop, name, loop.out / data, folder, model, own)
    command += ("--gpus", str(gpus)) if gpus > 1 else ()
    return Step(
        name,
        title,
        command,
        folder,
        folder / "model",
        after,
        depends_on=_trainer_files(loop, name, model),
        environment=step_environment(name),
    )


def _evaluate(loop: Loop, name: str, title: str, model: str, after: tuple[str, ...]) -> Step:
    folder = loop.out / name
    command = _trainer(loop, "eval", loop.out / FOLDER / HELD, folder, model, loop.settings.eval)
    return Step(
        name,
        title,
        command,
        folder,
        folder / "eval.json",
        after,
        depends_on=_trainer_files(loop, "eval", model),
        environment=step_environment("eval"),
    )


def _trainer_files(loop: Loop, command: str, model: str) -> str:
    """Return the digests of the files that a command of the trainer reads: its config, the user's code, the weights.

    The weights count only if ``model`` is the model of the user. Other models are results of steps.
    """
    return loop.trainer_sha256 + loop.code.get(command, "") + (loop.weights if model == loop.base else "")


def _trainer(loop: Loop, command: str, data: Path, output: Path, model: str, own: StepSettings) -> tuple[str, ...]:
    words = ("trainer", command, "--config", loop.trainer_config, "--data", str(data), "--output", str(output))
    overrides = {"model.path": model} | dict(flat_values(dict(own.set)))
    return (*words, *(word for key, value in overrides.items() for word in ("--set", f"{key}={_toml(value)}")))


def _toml(value: Any) -> str:
    """Return a value as text for ``--set``.

    A string is quoted only if ``--set`` would otherwise change it. For example, the string ``1`` without quotes would
    become a number.
    """
    text = json.dumps(value, ensure_ascii=False)
    if not isinstance(value, str) or value != value.strip() or not value.isprintable():
        return text
    try:
        tomllib.loads(f"x = {value}")
    except tomllib.TOMLDecodeError:
        return value
    return text


def sections_of(settings: type) -> frozenset[str]:
    """Return the names of the sections and keys at the top level of a pipeline's config.

    ``settings`` is the pipeline's settings class, whose fields have these names.
    """
    return frozenset(each.name for each in fields(settings))
