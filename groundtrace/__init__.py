"""Groundtrace as a library: ``import groundtrace as gt``; ``gt.run``, ``gt.preview``, ``gt.open_run``, ``gt.verify``.

Re-exports only; each name is imported when it is first used, so that looking into a run does not wait for Beam.
"""

import importlib
import importlib.util
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from inference.settings import EndpointSettings as EndpointSettings
    from pipelines.running.library import preview as preview
    from pipelines.running.library import run as run
    from pipelines.running.library import verify as verify
    from pipelines.running.settings import RunSettings as RunSettings
    from publishing.molmo_messages import molmo_messages as molmo_messages
    from publishing.opened import OpenedRun as OpenedRun
    from publishing.opened import open_run as open_run
    from schemas.config import settings as settings
    from schemas.errors import UserError as UserError
    from schemas.run_summary import RunSummary as RunSummary
    from stages.plumbing.recipe import Ends as Ends
    from stages.plumbing.recipe import Recipe as Recipe
    from stages.plumbing.recipe import RunContext as RunContext

_NAMES = {
    "run": "pipelines.running.library",
    "preview": "pipelines.running.library",
    "verify": "pipelines.running.library",
    "open_run": "publishing.opened",
    "molmo_messages": "publishing.molmo_messages",
    "OpenedRun": "publishing.opened",
    "RunSummary": "schemas.run_summary",
    "UserError": "schemas.errors",
    "Recipe": "stages.plumbing.recipe",
    "RunContext": "stages.plumbing.recipe",
    "Ends": "stages.plumbing.recipe",
    "RunSettings": "pipelines.running.settings",
    "EndpointSettings": "inference.settings",
    "settings": "schemas.config",
}
__all__ = list(_NAMES)  # pyright: ignore[reportUnsupportedDunderAll]
_PACKAGES = ("schemas", "prompts", "vision", "inference", "rewards", "stages", "trainer", "publishing", "pipelines")


def _refuse_shadows(home: Path) -> None:
    """Raises ImportError where another package stands in the way of one of ours: its names would be missing later."""
    for name in _PACKAGES:
        spec = importlib.util.find_spec(name)
        found = Path(spec.origin).resolve().parent if spec is not None and spec.origin else None
        if found != home / name:
            raise ImportError(
                f"groundtrace needs its own package {name}, and {found or 'a folder without __init__.py'} stands in "
                "its way: rename that one, or start Python from another folder"
            )


def __getattr__(name: str) -> Any:
    if name not in _NAMES:
        raise AttributeError(f"module 'groundtrace' has no attribute {name!r}; it has {', '.join(__all__)}")
    return getattr(importlib.import_module(_NAMES[name]), name)


_refuse_shadows(Path(__file__).resolve().parents[1])
