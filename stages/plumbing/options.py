"""Provides Beam options with cached views."""

import copy
from typing import Any, TypeVar

from apache_beam.options.pipeline_options import PipelineOptions

View = TypeVar("View", bound=PipelineOptions)


class Options(PipelineOptions):
    """Holds Beam options, and creates each view of these options only once.

    A view is an object of a subclass of ``PipelineOptions`` with the same values. Beam requests about seven views for
    each transform while it builds and translates a pipeline. Without this class, Beam would set up a parser of all the
    view's flags each time, which takes a fifth of the time of a small run. Views share their values with the options,
    so all views of one class are equivalent.
    """

    def view_as(self, cls: type[View]) -> View:
        """Return the view of these options as ``cls``, the same object each time."""
        views: dict[type, Any] = self.__dict__.setdefault("_views", {})
        if cls not in views:
            views[cls] = super().view_as(cls)
        return views[cls]

    def copied(self) -> "Options":
        """Return a copy of the options, for a runner that changes them."""
        return Options(list(self._flags or ()), **copy.deepcopy(self._all_options))

    def __getstate__(self) -> dict[str, Any]:
        # Views are created anew after unpickling: copies of them would have values of their own.
        return {name: value for name, value in super().__getstate__().items() if name != "_views"}
