"""Computes digests of the files, other than configs, that change the result of a step of ``beam loop``.

These are the user's recipe (a pipeline's file) with its prompts, the plug-ins, the files that they import, and the
weights of the model. A step whose digest has changed must be done again.
"""

import hashlib
import json
import sys
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from groundtrace.pipelines.running.plan.loading import is_bundled
from groundtrace.schemas.module_search import config_folders, current_folder
from groundtrace.schemas.registry import paths_in, plugin_files
from groundtrace.schemas.revision import own_digests
from groundtrace.schemas.user_modules import files_of_module
from groundtrace.trainer.identity import FREE, UNUSED, UNUSED_KINDS
from groundtrace.trainer.weights_digest import settings_digests, weights_digest


def run_code(recipe: Path, config: Mapping[str, Any]) -> str:
    """Return a digest of the user's code and prompts that a run of the pipeline uses; "" if there are none.

    ``recipe`` is the pipeline's file, without symbolic links. ``config`` holds the values of the run's config. The
    caller must have read this config after all other configs, because plug-ins are searched for in the folder of the
    most recently read config.
    """
    prompts = [] if is_bundled(recipe) else sorted((recipe.parent / "prompts").glob("*.yaml"))
    texts = [(file.name, hashlib.sha256(file.read_bytes()).hexdigest()) for file in prompts]
    own = set[tuple[Path, Path]]() if is_bundled(recipe) else {(recipe, recipe.parent)}
    return _digest([*_digests(own, config), *texts])


def training_code(command: str, config: Mapping[str, Any]) -> str:
    """Return a digest of the user's code that changes the result of a training or an evaluation; "" without such code.

    ``command`` is ``sft``, ``grpo`` or ``eval``. ``config`` holds the values of the trainer's config for this command.
    The caller must have read this config after all other configs, because plug-ins are searched for in the folder of
    the most recently read config.
    """
    used = {name: value for name, value in config.items() if name not in {*UNUSED[command], *FREE}}
    plugins = used.get("plugins", {})
    kinds = {kind: parts for kind, parts in plugins.items() if kind not in UNUSED_KINDS[command]}
    return _digest(_digests((), {**used, "plugins": kinds}))


def model_weights(model: str) -> str:
    """Return a digest of the weights, the tokenizer and the configs in a model's folder; "" if it is not a folder."""
    folder = Path(model)
    if not folder.is_dir():
        return ""
    return _digest([(weights_digest(folder), ""), *((file, "") for file in settings_digests(folder))])


def _digests(own: Collection[tuple[Path, Path]], config: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return the name and the SHA-256 of each file of the user's code: ``own``, the plug-ins that a config names, and
    the files that these files import.

    A plug-in that no part of this process has imported yet counts, too. It is not imported.
    """
    places = [*sys.path, *current_folder(), *config_folders()]
    named = {found for path in paths_in(config) for found in files_of_module(path.partition(":")[0], places)}
    return own_digests({*own, *plugin_files(config), *named})


def _digest(found: Collection[tuple[str, str]]) -> str:
    return hashlib.sha256(json.dumps(list(found)).encode()).hexdigest() if found else ""
