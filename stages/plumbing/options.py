"""Provides Beam pipeline options that create each of their views only once, because creating a view is slow.

A view is an object of a subclass of Beam's ``PipelineOptions``. It has the same values as the options that created it.
"""

import copy
from typing import Any, TypeVar

from apache_beam.options.pipeline_options import PipelineOptions

View = TypeVar("View", bound=PipelineOptions)


class Options(PipelineOptions):
    """Holds Beam pipeline options, and creates each view of these options only once.

    A view is an object of a subclass of ``PipelineOptions`` with the same values. Beam requests about seven views for
    each transform while it builds and translates a pipeline. Without this class, Beam would set up a parser of all the
    view's flags each time, which takes a fifth of the time of a small run. A view shares its values with the options,
    so one view for each class is enough.
    """

    def view_as(self, cls: type[View]) -> View:
        """Return a view: an object of the class ``cls`` with the values of these options.

        Each call with the same class returns the same object.
        """
        views: dict[type, Any] = self.__dict__.setdefault("_views", {})
        if cls not in views:
            views[cls] = super().view_as(cls)
        return views[cls]

    def copied(self) -> "Options":
        """Return a copy of the options with the same values, for a runner that changes its options."""
        return Options(list(self._flags or ()), **copy.deepcopy(self._all_options))

    def __getstate__(self) -> dict[str, Any]:
        # Views are created anew after unpickling: copies of them would have values of their own.
        return {name: value for name, value in super().__getstate__().items() if name != "_views"}
