"""Compares the settings, models and prompts of two runs.

Some differences were not made by the user. Such differences are *folded*: they are hidden, unless the user requests all
settings. The rule is: a key that is in only one of the two configs is folded if it has its default value. For example,
a newer version of the code may have a new setting. The config of a run holds every setting with its value, so the new
key is in only one of the two configs, although the user did not set it.

Two runs may also have different recipes (pipelines). Then a setting, role (job of a model, such as teacher), floor
(minimum value) of a scorer, or prompt is folded if only one of the two runs has it. Settings of endpoints (model
servers) are the exception: they are folded only if they have their default values.
"""

import dataclasses
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from groundtrace.config.fields import default_of
from groundtrace.config.flat import flat_values
from groundtrace.inference.settings import EndpointSettings
from groundtrace.publishing.comparison.section import Section
from groundtrace.publishing.reading import read_config
from groundtrace.schemas.run_summary import RunSummary
from groundtrace.schemas.safe_files import own_file, read_json
from groundtrace.schemas.text import excerpt

ABSENT = "–"
_MISSING = object()
_SHORT = 12
"""The number of characters of a SHA-256 digest that a comparison shows."""
Defaults = Callable[[], Mapping[str, Any]]
"""A function that returns the default values of settings by dotted key, such as ``write.other_traces``."""


@dataclass(frozen=True)
class SettingChanges:
    """Holds the settings that differ between two runs, each as (name, value in A, value in B).

    ``folded`` are differences that the user did not make, such as the default of a new setting. They are shown only on
    request. ``shown`` are all other differences.
    """

    shown: tuple[tuple[str, str, str], ...]
    folded: tuple[tuple[str, str, str], ...]

    def section(self, all_of_them: bool) -> Section:
        """Return a table of the settings that differ between two runs.

        The table has the differences in ``shown``. If ``all_of_them`` is True, the table also has the differences in
        ``folded``, which the user did not make.
        """
        rows = [*self.shown, *(self.folded if all_of_them else ())]
        n = len(self.folded)
        more = "" if all_of_them or not n else f"and {n} further setting{'s' if n > 1 else ''} (--settings shows them)"
        note = "Input and models first, then the other settings, seeds and prompts."
        return Section("settings", "settings that differ", note, ("what", "A", "B"), rows, more)


def setting_changes(
    first: tuple[Path, RunSummary], second: tuple[Path, RunSummary], defaults: Defaults | None = None
) -> SettingChanges:
    """Return the settings, models and prompts that differ between two runs.

    ``first`` and ``second`` are the runs, each as a pair: the run folder, and the content of its ``run.json``.
    ``defaults`` is a function that returns the default values of the settings of the runs' recipe (pipeline). Its
    result maps dotted keys, such as ``write.other_traces``, to values. If ``defaults`` is None, the default values are
    unknown. The function is called only if both runs have the same recipe, and at least one key is in only one of the
    two configs. Raises :class:`groundtrace.publishing.reading.InspectError` for a damaged config.
    """
    (root_a, a), (root_b, b) = first, second
    values = [dict(flat_values(read_config(root))) for root in (root_a, root_b)]
    keys = sorted({*values[0], *values[1]}, key=_order)
    differ = [key for key in keys if values[0].get(key, _MISSING) != values[1].get(key, _MISSING)]
    alone = [key for key in differ if not all(key in each for each in values)]
    usual = defaults() if alone and defaults is not None and a.recipe == b.recipe else {}
    folded = {key for key in alone if _is_folded(key, values, usual, a.recipe != b.recipe)}
    changed = {key: (_text(values[0], key), _text(values[1], key)) for key in differ}
    rows = [(key, *changed[key]) for key in differ if key not in folded]
    named = (_roles(a, b), _floors(a, b, keys), _prompts(a, b))
    implied = [row for each in named for row in each if a.recipe != b.recipe and ABSENT in row]
    roles, floors, prompts = ([row for row in each if row not in implied] for each in named)
    models = [row for row in rows if _order(row[0])[0] <= _MODELS]
    return SettingChanges(
        (
            *_facts(first, second),
            *roles,
            *models,
            *(row for row in rows if row not in models),
            *floors,
            *prompts,
        ),
        (*((key, *changed[key]) for key in differ if key in folded), *implied),
    )


_INPUT, _MODELS, _OTHERS, _SEEDS = range(4)


def _order(key: str) -> tuple[int, str]:
    """Return the pair by which a setting is sorted: the number of the setting's group, and ``key``.

    ``key`` is the setting's dotted key. The groups are input, models (roles and endpoints), other settings, and seeds,
    in this order. A seed always belongs to the last group.
    """
    section, name = key.split(".")[0], key.rsplit(".", 1)[-1]
    if name == "seed" or name.endswith("_seed"):
        return _SEEDS, key
    return {"input": _INPUT, "roles": _MODELS, "endpoints": _MODELS}.get(section, _OTHERS), key


def _is_folded(key: str, values: list[dict[str, Any]], usual: Mapping[str, Any], other_recipe: bool) -> bool:
    """Return whether a setting that only one of two configs has is folded (hidden by default).

    ``key`` is the dotted key of the setting, ``values`` are both configs, and ``usual`` are the default values of the
    recipe (pipeline). The setting of an endpoint (model server) is folded if it has its default value. Any other
    setting is folded if it has its default value, or if the two runs have different recipes (``other_recipe``).
    """
    value = next(each[key] for each in values if key in each)
    parts = key.split(".")
    if parts[0] == "endpoints" and len(parts) > 2:
        return endpoint_defaults().get(".".join(parts[2:]), _MISSING) == value
    return other_recipe or usual.get(key, _MISSING) == value


def endpoint_defaults() -> Mapping[str, Any]:
    """Return the default value of each setting of an endpoint (model server), by the setting's name.

    A tuple is returned as a list, as in a config file. Settings without a default value are left out.
    """
    fields = {field.name: default_of(field) for field in dataclasses.fields(EndpointSettings)}
    plain = {name: list(each) if isinstance(each, tuple) else each for name, each in fields.items()}
    return {name: each for name, each in plain.items() if each is not dataclasses.MISSING}


def _facts(first: tuple[Path, RunSummary], second: tuple[Path, RunSummary]) -> list[tuple[str, str, str]]:
    """Return the differences in recipe (pipeline), input and number of records, as (name, value in A, value in B).
    ``first`` and ``second`` are the runs A and B, each as a pair: the run folder, and the content of its ``run.json``.
    """
    (root_a, a), (root_b, b) = first, second
    found = [("recipe", a.recipe, b.recipe), ("input", a.input, b.input)]
    prints = _fingerprint(root_a), _fingerprint(root_b)
    if a.input == b.input and all(prints):
        found.append(("content of the input, SHA-256", prints[0][:_SHORT], prints[1][:_SHORT]))
    found.append(("records", str(a.counts.input), str(b.counts.input)))
    return [(name, of_a, of_b) for name, of_a, of_b in found if of_a != of_b]


def _floors(a: RunSummary, b: RunSummary, keys: Collection[str]) -> list[tuple[str, str, str]]:
    """Return the scorers' floors (minimum values) that differ, as (name, value in A, value in B).

    ``keys`` are the dotted keys of both configs. A floor that a config sets is left out, because the comparison shows
    this setting. What is left are floors in the code of the user's scorers. ``a`` and ``b`` are the contents of the
    runs' ``run.json``. A floor that only one run has differs, too. The result is empty if one ``run.json`` lists no
    floors, because a run of an earlier version did not write them.
    """
    if not (a.floors and b.floors):
        return []
    of_config = {"final", *(key.removeprefix("verify.floors.") for key in keys)}  # final: verify.min_score
    texts = [{name: f"{floor:g}" for name, floor in run.floors.items()} for run in (a, b)]
    return [
        (f"floor of {name}", texts[0].get(name, ABSENT), texts[1].get(name, ABSENT))
        for name in dict.fromkeys((*a.floors, *b.floors))
        if name not in of_config and a.floors.get(name) != b.floors.get(name)
    ]


def _fingerprint(root: Path) -> str:
    """Return the SHA-256 that identifies the content of a run's input.

    The SHA-256 is read from ``input.json`` in the run folder ``root``. If it cannot be read, the result is "".
    """
    try:
        return str(read_json(own_file(root, "input.json"))["fingerprint"])
    except (OSError, ValueError, KeyError, TypeError):
        return ""


def _roles(a: RunSummary, b: RunSummary) -> list[tuple[str, str, str]]:
    """Return the roles (jobs of a model, such as teacher) whose models differ, as (name, model in A, model in B)."""
    return [
        (f"model of the {role}", a.roles.get(role, ABSENT), b.roles.get(role, ABSENT))
        for role in dict.fromkeys((*a.roles, *b.roles))
        if a.roles.get(role) != b.roles.get(role)
    ]


def _prompts(a: RunSummary, b: RunSummary) -> list[tuple[str, str, str]]:
    """Return the prompts that only one run has, or whose texts differ, as (name, SHA-256 in A, SHA-256 in B)."""
    return [
        (f"prompt {name}", a.prompts.get(name, ABSENT)[:_SHORT], b.prompts.get(name, ABSENT)[:_SHORT])
        for name in sorted({*a.prompts, *b.prompts})
        if a.prompts.get(name) != b.prompts.get(name)
    ]


def _text(values: Mapping[str, Any], key: str) -> str:
    """Return the value of the setting ``key`` as a short text; a dash if the config lacks this setting. ``values``
    holds the settings of the config by their dotted keys.
    """
    return excerpt(values[key]) if key in values else ABSENT
