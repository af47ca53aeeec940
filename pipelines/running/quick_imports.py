"""Makes the import of Beam faster: during the import, the garbage collector is off, and pandas is not imported.

The command line uses this module to import the modules of a command. The worker processes on this machine use it to
import the modules of a run.
"""

import atexit
import gc
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.abc import MetaPathFinder


@contextmanager
def quick_imports() -> Iterator[None]:
    """Run the body of the ``with`` statement, which imports modules, without the garbage collector and without pandas.

    During the import of Beam the collector would free nothing, but take a quarter of the time. At the end, the function
    excludes the imported objects from later collections (``gc.freeze``). Otherwise the first full collection would
    take the time that was saved.

    In the body, ``import pandas`` raises ImportError. If pandas is installed, Beam imports it only for the type hints
    of Beam's data frames. The import of pandas takes a fifth of the time that the import of Beam takes. Recipes that
    use data frames still work: recipes are imported after the body, and ``apache_beam.dataframe`` then imports pandas
    itself.

    pyarrow tries to import pandas when it makes its first array. So this function makes an array after the body, while
    pandas is still blocked. Later, pyarrow imports pandas only in functions that need it, such as ``to_pandas``.
    """
    gc.disable()
    sys.meta_path.insert(0, _NoPandas)
    try:
        yield
        if arrow := sys.modules.get("pyarrow"):
            arrow.array([0])
        gc.freeze()
        atexit.register(gc.unfreeze)  # otherwise extension modules report what they hold as leaked
    finally:
        sys.meta_path.remove(_NoPandas)
        gc.enable()


class _NoPandas(MetaPathFinder):
    """Lets imports of pandas fail, as if pandas was not installed."""

    @classmethod
    def find_spec(cls, fullname: str, *_: object) -> None:
        """Raise ModuleNotFoundError if the module ``fullname`` is pandas, and otherwise let Python search for it."""
        if fullname == "pandas":
            raise ModuleNotFoundError(fullname, name=fullname)
