"""Decides whether two commands belong to the same training, so that the second command can resume the first.

It also decides whether two evaluations have the same result, so that one may replace the other.

The two commands must have the same data, the same code of the user (such as a reward), and the same value of each
setting that changes the result. The second command may have more steps, and other log settings, threads, timeouts and
addresses. This module lists the settings that are not compared. All other settings are compared, including those that
are added later.
"""

import functools
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter

from groundtrace.rewards.recipes.registry import complete_options
from groundtrace.rewards.rows.records import Records
from groundtrace.rewards.rows.shards import Shards
from groundtrace.schemas.errors import UserError
from groundtrace.schemas.registry import plugin_files
from groundtrace.schemas.revision import own_digests
from groundtrace.schemas.text import printable
from groundtrace.trainer.settings import TrainerSettings
from groundtrace.trainer.weights_digest import settings_digests, weights_digest

UNUSED = {
    "sft": ("grpo", "rollout", "environment", "reward", "eval"),
    "grpo": ("sft", "eval"),
    "eval": ("sft", "grpo"),
}
"""For each command, the config sections that do not change the result, i.e. the weights or the evaluation: the command
does not read them, or reads them only for its validation. So :func:`identity` leaves them out, and a resumed training
may have other values in them.
"""
UNUSED_KINDS = {
    "sft": ("endpoint_kinds", "environments", "exports", "reward_recipes", "scorers"),
    "grpo": ("exports",),
    "eval": ("exports",),
}
"""For each command, the kinds of plug-ins (:data:`groundtrace.schemas.registry.KINDS`) whose code does not change the
result.
"""
OWN_CODE = "own_code"
"""The key of an identity whose value lists the files with the user's code, each as its name and a digest.

Checkpoints of earlier versions do not have this key.
"""
CONTENT = "content"
"""The key of an identity whose value is a digest of the values in the rows, such as answers and boxes.

Checkpoints of earlier versions do not have this key: their digest of the data covers only the ids of the rows.
"""
WEIGHTS = "weights"
"""The key of an identity whose value is a digest of the weights in the model's folder.

Identities of Hub models, and those of earlier versions, do not have this key. A Hub model has its revision in
``model.revision``.
"""
MODEL_FILES = "model_files"
"""The key of an identity whose value lists the other files of the model's folder that the loading reads, such as the
tokenizer and the chat template, each as its name and a digest.

Identities of Hub models, and those of earlier versions, do not have this key.
"""
FREE = {
    *("threads", "log", "machine", "validation", "max_idle_steps"),
    *("sft.steps", "sft.epochs", "grpo.steps", "grpo.epochs"),
    *("model.gradient_checkpointing", "reward.wait_s"),
    *("rollout.base_url", "rollout.served_name", "rollout.timeout_s"),
    *("environment.max_wait_s", "environment.steps_at_once"),
}
"""Keys and sections of the config that do not change the result of a training.

So they are not compared when a command resumes a training: their values may differ from those of the earlier command.
"""
EXPLAINING = ("validation.share", "validation.data", "validation.questions", "validation.samples")
"""Keys of an identity that are not compared, but shown if another key differs.

For example, another ``validation.share`` holds other rows out, so the rows to train on differ. Checkpoints of earlier
versions do not have these keys.
"""
NAMES = {
    "data": "the data",
    CONTENT: "the content of the rows",
    WEIGHTS: "the digest of the weights in model.path",
    "held_out": "the set of held-out questions",
    "batch_plan": "the batch plan",
}
"""The names of keys in messages that are not settings. They are shown after the settings, which may be their cause."""
RECIPE, OPTIONS = "reward.recipe", "reward.options."
"""The key of the reward recipe in an identity, and the beginning of the keys of its options."""
MAX_SHOWN_CHARS, MAX_SHOWN_KEYS = 200, 8
"""The maximum length of a value, or of the list of changed files, in a message, and the maximum number of keys."""
FREE_OF_ENDPOINTS = {
    *("base_url", "api_key_env", "api_key_file", "max_concurrency", "adaptive", "requests_per_minute"),
    *("tokens_per_minute", "max_bytes_in_flight", "connect_timeout_s", "read_timeout_s", "timeout_s", "hedge_after_s"),
    *("max_retries", "usd_per_million_tokens_in", "usd_per_million_tokens_out", "usd_per_million_tokens_cached"),
}
"""Keys of each endpoint in ``reward.endpoints`` that are not compared, because they do not change the result."""


def identity(
    command: str, settings: TrainerSettings, rows: Shards | Records, plan: str = "", held_out: str = ""
) -> dict[str, Any]:
    """Return a dict that describes what determines the result of a training or an evaluation.

    This is the command, the data, the model's weights, the code and the settings. A later command may resume the
    training, or replace the evaluation, only if it has the same identity. Settings have their dotted names as keys,
    e.g. ``{"grpo.group_size": 8}``. Settings that do not change the result are left out. The values are numbers,
    strings, booleans and lists. A model folder is an absolute path, so that the working directory does not matter. The
    value of :data:`WEIGHTS` is a digest of the weights in this folder, and that of :data:`MODEL_FILES` lists the other
    files that the loading reads, such as the tokenizer.
    Endpoints that the reward does not use are left out. The value of :data:`OWN_CODE` lists the files with the user's
    plug-ins that change the weights, and the files that these files import from their folders.

    ``command`` is ``sft``, ``grpo`` or ``eval``. ``rows`` are the rows of the data. ``plan`` is the batch plan (which
    kinds of rows fill a batch) as a text; "" without a plan. ``held_out`` is a text about the validation's questions:
    which they are, how many are asked, and how many times; "" without a validation. The result contains this text. It
    contains settings of the validation only to explain a difference (:data:`EXPLAINING`), because they do not change
    the weights.
    """
    values: Any = TypeAdapter(TrainerSettings).dump_python(settings, mode="json")
    path = Path(settings.model.path)
    values["model"]["path"] = str(path.resolve()) if path.is_dir() else settings.model.path
    played = set(settings.reward.played.values())
    values["reward"]["endpoints"] = {name: v for name, v in values["reward"]["endpoints"].items() if name in played}
    kept = {name: value for name, value in values.items() if name not in UNUSED[command]}
    data = f"{len(rows)} rows, {'' if isinstance(rows, Records) else 'ids '}sha256 {rows.sha256[:12]}"
    planned = {name: text for name, text in (("batch_plan", plan), ("held_out", held_out)) if text}
    code = {OWN_CODE: _own_code(command, kept)}
    content = {CONTENT: f"sha256 {rows.content_sha256[:12]}"} if isinstance(rows, Shards) else {}
    digest = weights_digest(path) if path.is_dir() else ""
    weights = {WEIGHTS: digest} if digest else {}
    weights |= {MODEL_FILES: files} if path.is_dir() and (files := settings_digests(path)) else {}
    shown = {name: values["validation"][name.partition(".")[2]] for name in EXPLAINING}
    rest = {**content, **weights, **planned, **code, **shown, **dict(_leaves(kept, ()))}
    return {"command": command, "data": data, **rest}


def _own_code(command: str, kept: Mapping[str, Any]) -> list[str]:
    """Return the files with the user's code that changes the weights, each as ``NAME DIGEST``.

    ``command`` is ``sft``, ``grpo`` or ``eval``, and ``kept`` are the sections of the config that this command uses.
    """
    used = {name: value for name, value in kept.items() if name not in FREE}
    kinds = {kind: parts for kind, parts in used["plugins"].items() if kind not in UNUSED_KINDS[command]}
    return [f"{name} {digest[:12]}" for name, digest in own_digests(plugin_files({**used, "plugins": kinds}))]


def difference(saved: Mapping[str, Any], now: Mapping[str, Any]) -> str | None:
    """Return a message about all keys in which two identities differ; None if they are equal.

    The message contains the keys with both values. If the user's code or the files of the model's folder differ, it
    contains the names of these files. At most :data:`MAX_SHOWN_KEYS` keys are shown. An identity is a dict of the data,
    code and settings that determine the result of a training. ``saved`` is the identity in a checkpoint, and ``now`` is
    that of the present command. If an earlier version wrote the checkpoint, its identity has no entry for the user's
    code, the content of the rows, the weights of the model or its other files, and these are not compared. An option
    of the reward that an identity does not contain has its default, because the config did not name it.
    """
    if saved.get(RECIPE) == now.get(RECIPE):
        saved, now = ({**each, **_all_options(each)} for each in (saved, now))
    unknown = {OWN_CODE, MODEL_FILES, *({CONTENT, WEIGHTS} - saved.keys())}
    keys = [key for key in dict.fromkeys((*now, *saved)) if key not in unknown and saved.get(key) != now.get(key)]
    found = []
    if any(key not in EXPLAINING for key in keys):
        shown = sorted((key for key in keys if key not in EXPLAINING or key in saved), key=NAMES.__contains__)
        found = [
            f"{NAMES.get(key, key)} was {_shown(saved.get(key))} and is now {_shown(now.get(key))}"
            for key in shown[:MAX_SHOWN_KEYS]
        ]
        found += [f"{len(shown) - MAX_SHOWN_KEYS} more differ"] if len(shown) > MAX_SHOWN_KEYS else []
    for key, what in ((MODEL_FILES, "the files in model.path have changed: "), (OWN_CODE, "your code has changed in ")):
        held, present = saved.get(key), now.get(key)
        if isinstance(held, list) and held != present:
            changed = sorted({str(each).rpartition(" ")[0] for each in {*map(str, held)} ^ {*(present or ())}})
            found.append(f"{what}{printable(', '.join(changed))[:MAX_SHOWN_CHARS]}")
    return "; ".join(found) or None


def _all_options(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return all options of the recipe in an identity by their dotted names, including those with defaults.

    An identity is a dict of all that determines the result of a training. A recipe is the code that computes the
    rewards of one paper. The result is empty if the identity has no recipe, as in SFT, or if its options are not valid
    for the present version of the recipe.
    """
    named: dict[str, Any] = {}
    for name, value in values.items():
        if name.startswith(OPTIONS):
            *path, last = name.removeprefix(OPTIONS).split(".")
            try:
                functools.reduce(lambda section, part: section.setdefault(part, {}), path, named)[last] = value
            except (AttributeError, TypeError):  # of two keys, one is the beginning of the other
                return {}
    try:
        options = complete_options(str(values[RECIPE]), named)
    except (KeyError, TypeError, AttributeError, UserError):
        return {}
    return dict(_leaves(options, ("reward", "options")))


def _leaves(values: Mapping[str, Any], path: tuple[str, ...]) -> Iterator[tuple[str, Any]]:
    for name, value in values.items():
        at = (*path, name)
        of_endpoint = at[:2] == ("reward", "endpoints") and len(at) == 4
        if ".".join(at) in FREE or (of_endpoint and name in FREE_OF_ENDPOINTS):
            continue
        if isinstance(value, Mapping):
            yield from _leaves(value, at)
        elif value is not None:
            yield ".".join(at), value


def _shown(value: Any) -> str:
    return "left out" if value is None else repr(value)[:MAX_SHOWN_CHARS]
