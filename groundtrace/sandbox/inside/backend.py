"""Matplotlib's backend in the sandbox: Agg, whose ``plt.show()`` shows the open figures to the call that runs."""

from matplotlib.backends.backend_agg import FigureCanvasAgg as FigureCanvas  # noqa: F401 (what a backend has to hold)

from . import holder


def show(*_: object, **__: object) -> None:
    """Show the open figures, in the order of their numbers, and close them."""
    holder.show_open_figures()
