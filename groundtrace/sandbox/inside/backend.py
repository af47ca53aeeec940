"""Implements the drawing backend of matplotlib for the sandbox.

It is matplotlib's backend Agg, except that ``plt.show()`` adds the open figures to the images that the running code
shows. The model that wrote the code gets these images.
"""

from matplotlib.backends.backend_agg import FigureCanvasAgg as FigureCanvas  # noqa: F401 (what a backend has to hold)

from . import holder


def show(*_: object, **__: object) -> None:
    """Add the open figures to the images that the running code shows, and close the figures.

    The figures are added in the order of their figure numbers.
    """
    holder.show_open_figures()
