"""Offers Groundtrace as a library: ``import groundtrace as gt``, then ``gt.run``, ``gt.preview``, ``gt.reload``,
``gt.open_run``, ``gt.verify`` or ``gt.reward``.

This module only re-exports names. Each name is imported at its first use, so that code which only reads a run does not
wait for the import of Beam.
"""

import importlib
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from groundtrace.config.settings import settings as settings
    from groundtrace.inference.settings import EndpointSettings as EndpointSettings
    from groundtrace.pipelines.running.comparing import diff as diff
    from groundtrace.pipelines.running.library import preview as preview
    from groundtrace.pipelines.running.library import reload as reload
    from groundtrace.pipelines.running.library import run as run
    from groundtrace.pipelines.running.rewarding import reward as reward
    from groundtrace.pipelines.running.settings import RunSettings as RunSettings
    from groundtrace.pipelines.running.verifying import verify as verify
    from groundtrace.publishing.molmo_messages import molmo_messages as molmo_messages
    from groundtrace.publishing.opened_run import OpenedRun as OpenedRun
    from groundtrace.publishing.opened_run import open_run as open_run
    from groundtrace.schemas.errors import UserError as UserError
    from groundtrace.schemas.run_summary import RunSummary as RunSummary
    from groundtrace.stages.plumbing.recipe import Ends as Ends
    from groundtrace.stages.plumbing.recipe import Recipe as Recipe
    from groundtrace.stages.plumbing.recipe import RunContext as RunContext

_NAMES = {
    "run": "groundtrace.pipelines.running.library",
    "preview": "groundtrace.pipelines.running.library",
    "reload": "groundtrace.pipelines.running.library",
    "verify": "groundtrace.pipelines.running.verifying",
    "reward": "groundtrace.pipelines.running.rewarding",
    "diff": "groundtrace.pipelines.running.comparing",
    "open_run": "groundtrace.publishing.opened_run",
    "molmo_messages": "groundtrace.publishing.molmo_messages",
    "OpenedRun": "groundtrace.publishing.opened_run",
    "RunSummary": "groundtrace.schemas.run_summary",
    "UserError": "groundtrace.schemas.errors",
    "Recipe": "groundtrace.stages.plumbing.recipe",
    "RunContext": "groundtrace.stages.plumbing.recipe",
    "Ends": "groundtrace.stages.plumbing.recipe",
    "RunSettings": "groundtrace.pipelines.running.settings",
    "EndpointSettings": "groundtrace.inference.settings",
    "settings": "groundtrace.config.settings",
}
__all__ = list(_NAMES)  # pyright: ignore[reportUnsupportedDunderAll]
_LINKED = ("schemas", "prompts", "stages", "pipelines", "data_cards")
"""Lists the packages at the top of the repository. In a checkout, this folder has a symbolic link to each of them; in
a wheel, this folder contains them.
"""


def _require_linked(home: Path) -> None:
    """Raise ImportError if a package in ``_LINKED``, such as ``schemas``, is not in the folder ``home``.

    ``home`` is the folder of the package ``groundtrace``. In a checkout of the repository, the packages in ``_LINKED``
    are at the top, and ``home`` has a symbolic link to each of them. The error is also raised if a link is broken, or
    is a plain file: some programs that unpack a zip file write links as plain files.
    """
    for folder in (home / name for name in _LINKED):
        if (folder / "__init__.py").is_file():
            continue
        found = "a broken link" if folder.is_symlink() else "a plain file" if folder.is_file() else "missing"
        raise ImportError(
            f"{folder} must be a link to ../{folder.name}, but it is {found}: this copy of the repository has lost "
            "its symbolic links. Clone the repository with `git clone -c core.symlinks=true`, or "
            "install Groundtrace's wheel"
        )


def __getattr__(name: str) -> Any:
    if name not in _NAMES:
        raise AttributeError(f"module 'groundtrace' has no attribute {name!r}: use one of {', '.join(__all__)}")
    from groundtrace.pipelines.running.beam_logs import without_beam_logs  # after the check of the links below

    with without_beam_logs():  # Beam logs during its import
        return getattr(importlib.import_module(_NAMES[name]), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


_require_linked(Path(__file__).parent)
