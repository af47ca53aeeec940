"""Implements the drawing backend of matplotlib for the sandbox.

It is matplotlib's backend Agg, except that ``plt.show()`` adds the open figures to the images that the call shows.
"""

from matplotlib.backends.backend_agg import FigureCanvasAgg as FigureCanvas  # noqa: F401 (what a backend has to hold)

from . import holder


def show(*_: object, **__: object) -> None:
    """Add the open figures to the images that the call shows, in the order of their numbers, and close them."""
    holder.show_open_figures()
