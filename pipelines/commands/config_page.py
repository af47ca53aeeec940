"""Writes the page docs/config.md, which describes the settings that each kind of config can have.

The text is made from the classes that define these settings. The command is
``python -m groundtrace.pipelines.commands.config_page``.
"""

from pathlib import Path

from groundtrace.config.reference import config_reference
from groundtrace.pipelines.grounded_cot import Settings
from groundtrace.pipelines.loop.settings import LoopSettings
from groundtrace.publishing.rewards.settings import RemoteRewardSettings
from groundtrace.rewards.recipes.registry import RECIPES
from groundtrace.trainer.settings import TrainerSettings

PAGE = Path(__file__).resolve().parents[2] / "docs" / "config.md"
_INTRODUCTION = """\
<!-- Written by `python -m groundtrace.pipelines.commands.config_page` from the settings; change those. -->

# Configs

A config is a TOML file, given with `--config FILE`; keys that are not in it keep their defaults. `--set a.b=c`
overrides one key, such as `--set difficulty.high=0.8`. If an entry is in the defaults, such as `[endpoints.coarse]`,
a config changes only the keys that it sets. A key whose default is *left out* has no value unless it is set.

`extends = "base.toml"` at the top of a config names another one, whose keys it changes; the path is relative to its
folder. A section changes only the keys that it sets, and a list is replaced as a whole. In a trainer's or a reward's
config it may also be the name of a bundled config, such as `extends = "argos"`. If your file names another
`reward.recipe` or `environment.kind` than the file that it extends, it does not inherit the `options` beside that key.

- [A pipeline's config](#a-pipelines-config): `beam run`, `beam preview` and `beam validate`
- [A trainer's config](#a-trainers-config): `trainer sft`, `trainer grpo` and `trainer eval`
- [A reward's config](#a-rewards-config): `beam serve-reward`, and rewards of other trainers ([rewards.md](rewards.md))
- [A loop's config](#a-loops-config): `beam loop` ([loop.md](loop.md))
"""


def config_page() -> str:
    """Return the text of docs/config.md, which is Markdown.

    It describes the configs of the main pipeline, of the trainer, of ``beam serve-reward`` (which computes rewards for
    other trainers), and of ``beam loop``.
    """
    return "\n".join(
        [
            _INTRODUCTION,
            "## A pipeline's config\n",
            "This is the config of `pipelines/grounded_cot.py`; another pipeline has the sections of its own stages.\n",
            config_reference(Settings, level=3),
            "## A trainer's config\n",
            config_reference(TrainerSettings, level=3),
            "### The options of each reward\n",
            "The keys of `[reward.options]` depend on `reward.recipe`.\n",
            *(_options_of(name) for name in RECIPES.ours),
            "## A reward's config\n",
            "It has the same section `[reward]` as a trainer's config.\n",
            config_reference(RemoteRewardSettings, level=3, without="reward"),
            "## A loop's config\n",
            config_reference(LoopSettings, level=3),
        ]
    )


def _options_of(recipe: str) -> str:
    """Return Markdown text that describes the settings of a reward recipe (the config section ``reward.options``)."""
    return f"#### {recipe}\n\n" + config_reference(RECIPES[recipe].Settings, level=5, path="reward.options")


if __name__ == "__main__":
    PAGE.write_text(config_page(), "utf-8")
