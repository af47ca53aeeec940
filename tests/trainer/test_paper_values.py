"""The resolved bundled configs, value by value: stated by the paper, declared in the header, or a listed default."""

import tomllib
from collections.abc import Iterator, Mapping
from typing import Any

import pytest
from pydantic import TypeAdapter

from groundtrace.config.config_file import EXTENDS
from groundtrace.config.settings import load_config
from groundtrace.inference.endpoint import is_embedded
from groundtrace.rewards.rows.settings import CONFIGS, config_file
from groundtrace.trainer.settings import TrainerSettings

from .paper_values import DEFAULTS, DEVIATIONS, OPTION_DEFAULTS, STATED

NAMES = sorted(STATED)
VARIANTS = {
    path.stem: path.stem.rpartition("-")[0]
    for path in sorted(CONFIGS.glob("*.toml"))
    if EXTENDS in tomllib.loads(path.read_text("utf-8"))
}
"""The variants of the papers' configs, each with the config that it extends."""
SECTIONS = ("model", "batch", "sft", "grpo", "rollout", "environment", "reward", "eval")
"""The sections that decide what is trained and evaluated. The other keys are seed, threads, log and plug-ins."""
MACHINE = ("base_url", "served_name", "timeout_s")
OPTIONS = "reward.options."


def leaves(values: Mapping[str, Any], path: str = "") -> Iterator[tuple[str, Any]]:
    for name, value in values.items():
        if isinstance(value, Mapping):
            yield from leaves(value, f"{path}{name}.")
        else:
            yield f"{path}{name}", value


def plain(settings: Any) -> dict[str, Any]:
    return TypeAdapter(type(settings)).dump_python(settings, mode="json")


def resolved(name: str) -> dict[str, Any]:
    """All values of a config after defaults, by dotted key; of endpoints only the models of the roles in use."""
    settings = load_config(TrainerSettings, config_file(name), [], CONFIGS)
    values = {section: plain(settings)[section] for section in SECTIONS}
    values["reward"]["options"] = plain(settings.reward.make_recipe().settings)  # type: ignore[attr-defined]
    ends = {end: settings.reward.endpoints[end] for end in settings.reward.played.values()}
    values["reward"]["endpoints"] = {end: {"model": each.model} for end, each in ends.items() if not is_embedded(each)}
    return {key: value for key, value in leaves(values) if key.rpartition(".")[2] not in MACHINE}


def text_of(name: str) -> str:
    return (CONFIGS / f"{name}.toml").read_text("utf-8")


def given(name: str) -> set[str]:
    """The keys that a config's file sets; a table in one line counts with its parts, too."""
    return {key for key, _ in leaves(tomllib.loads(text_of(name)))}


def header(name: str) -> str:
    return "\n".join(line for line in text_of(name).splitlines() if line.startswith("#"))


def is_declared(key: str, name: str) -> bool:
    """Whether the header names the key, an opening part of it, or ``reward.endpoints.*.model``."""
    words = set(header(name).replace(",", " ").split())
    parts = key.split(".")
    openings = {".".join(parts[:count]) for count in range(2, len(parts) + 1)}
    if parts[:2] == ["reward", "endpoints"]:
        openings.add(f"reward.endpoints.*.{parts[-1]}")
    return bool(openings & words)


def default_reason(key: str, name: str) -> str | None:
    option = key.removeprefix(OPTIONS).partition(".")[0]
    return OPTION_DEFAULTS[name].get(option) if key.startswith(OPTIONS) else DEFAULTS.get(key)


def test_every_bundled_paper_has_a_table() -> None:
    bundled = {path.stem for path in CONFIGS.glob("*.toml")} - {"embedded", "tiny"}
    assert set(STATED) == set(DEVIATIONS) == set(OPTION_DEFAULTS) == bundled - VARIANTS.keys()


@pytest.mark.parametrize("name", VARIANTS)
def test_a_variant_has_the_values_of_its_paper_but_for_what_it_declares(name: str) -> None:
    paper, found = resolved(VARIANTS[name]), resolved(name)
    changed = {key for key in paper.keys() | found.keys() if paper.get(key) != found.get(key)}
    here = {key for key in given(name) if not key.startswith("machine.")} - {EXTENDS}
    assert changed == here, "a key that the variant sets is different, and every other value is inherited"
    undeclared = [key for key in changed if not is_declared(key, name)]
    assert not undeclared, f"the header of {name}.toml does not declare what it changes"
    assert changed <= {"model.path", "model.lora_rank", "sft.optimiser.lr", "grpo.optimiser.lr"}


@pytest.mark.parametrize("name", [name for name in VARIANTS if name.endswith("-lora")])
def test_adapters_have_ten_times_the_rates(name: str) -> None:
    paper, found = resolved(VARIANTS[name]), resolved(name)
    keys = ["grpo.optimiser.lr", *(["sft.optimiser.lr"] if VARIANTS[name] != "rucl" else [])]
    assert [found[key] for key in keys] == pytest.approx([10 * paper[key] for key in keys])


@pytest.mark.parametrize("name", NAMES)
def test_the_resolved_config_holds_what_the_paper_states(name: str) -> None:
    found = resolved(name)
    stated = {key: value for key, (value, _) in STATED[name].items() if key not in DEVIATIONS[name]}
    assert {key: found.get(key, "missing") for key in stated} == stated


@pytest.mark.parametrize("name", NAMES)
def test_deviations_are_real_and_declared(name: str) -> None:
    found = resolved(name)
    for key, (paper, ours, place) in DEVIATIONS[name].items():
        assert found[key] == ours != paper, (key, place)
        assert is_declared(key, name), f"the header of {name}.toml does not declare {key}"


@pytest.mark.parametrize("name", NAMES)
def test_every_other_value_is_declared_as_ours(name: str) -> None:
    """A value that the paper lacks is explained in the header if the file sets it; a default has its reason."""
    known = STATED[name].keys() | DEVIATIONS[name].keys()
    set_here = given(name)
    form = {"reward.recipe", "reward.roles.judge"}  # these say which reward it is
    others = [key for key in resolved(name) if key not in known | form]
    undeclared = [key for key in others if _is_given(key, set_here) and not is_declared(key, name)]
    assert not undeclared, f"neither stated by the paper nor declared in the header of {name}.toml"
    inherited = [key for key in others if not _is_given(key, set_here) and default_reason(key, name) is None]
    assert not inherited, "inherited without a reason in paper_values.py"


def _is_given(key: str, set_here: set[str]) -> bool:
    return any(key == each or key.startswith(f"{each}.") or each.startswith(f"{key}.") for each in set_here)


def test_no_reason_is_stale() -> None:
    """Each listed default is inherited by some config, and each option by its own."""
    inherited = {key for name in NAMES for key in resolved(name) if not _is_given(key, given(name))}
    assert DEFAULTS.keys() <= inherited, sorted(DEFAULTS.keys() - inherited)
    for name in NAMES:
        own = {key.removeprefix(OPTIONS).partition(".")[0] for key in resolved(name) if key.startswith(OPTIONS)}
        assert OPTION_DEFAULTS[name].keys() <= own


@pytest.mark.parametrize("name", NAMES)
def test_sft_and_rl_have_their_own_optimisers(name: str) -> None:
    settings = load_config(TrainerSettings, config_file(name), [], CONFIGS)
    assert settings.sft.optimiser is not settings.grpo.optimiser
    assert (settings.sft.optimiser.lr, settings.grpo.optimiser.lr) == LEARNING_RATES[name]


LEARNING_RATES = {
    "argos": (1e-5, 1e-5),
    "sail_rl": (1e-6, 1e-6),
    "ivgr": (1e-5, 1e-6),
    "ivgr-32b": (1e-5, 1e-6),
    "rucl": (1e-5, 1e-6),
    "codedance": (5e-5, 1e-6),
}
