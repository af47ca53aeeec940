"""Keeps compiled Jinja templates on the disk, because a run needs longer to compile its templates than to fill them.

The compiled templates are stored in the package's folder ``__pycache__``, which also holds the package's compiled
modules. They are trusted in the same way as these modules.
"""

import sys
from importlib.resources.abc import Traversable
from pathlib import Path
from types import CodeType

import jinja2
from jinja2.bccache import Bucket

_PARTS = frozenset({"name", "root", "blocks", "debug_info"})
"""The names that the code of every compiled template sets. Stored code without one of these names is not used."""


class CompiledTemplates(jinja2.FileSystemBytecodeCache):
    """Stores the compiled templates of one package.

    Before Jinja uses a stored template, it checks by a checksum that the text of the template is unchanged. The name
    of each file contains the versions of Python and Jinja, and a name for the options with which the template was
    compiled, such as ``autoescape``. As with Python's compiled modules, nothing is stored if Python is started with
    ``-B`` or if the folder cannot be written.
    """

    def load_bytecode(self, bucket: Bucket) -> None:
        """Load a stored template; if its file cannot be used, Jinja compiles the template again."""
        try:
            super().load_bytecode(bucket)
        except Exception:  # a damaged file may raise any error of pickle or marshal
            bucket.reset()
        if not isinstance(bucket.code, CodeType) or not _PARTS.issubset(bucket.code.co_names):
            bucket.reset()

    def dump_bytecode(self, bucket: Bucket) -> None:
        """Store a compiled template in the package's folder ``__pycache__``, so that it is not compiled again.

        All users of this machine may read the file. Nothing is stored if the folder cannot be written, or if Python was
        started with ``-B``.
        """
        if sys.dont_write_bytecode:
            return
        folder = Path(self.directory)
        try:
            folder.mkdir(exist_ok=True)
            super().dump_bytecode(bucket)
            (folder / (self.pattern % bucket.key)).chmod(0o644)
        except OSError:  # a full disk or a folder that is read-only: the next process compiles the template again
            return


def compiled_templates(package: Traversable, options: str) -> CompiledTemplates | None:
    """Return the store of a package's compiled templates; None if the package is not in a folder but in a zip file.

    ``package`` is the package's folder, as :func:`importlib.resources.files` returns it. ``options`` is a name for the
    options with which the templates are compiled, such as ``autoescape``. The name becomes a part of the file names. So
    if the templates are compiled with different options, ``options`` must be a different name.
    """
    if not isinstance(package, Path):
        return None
    versions = f"{options}.{sys.implementation.cache_tag}.jinja-{jinja2.__version__}"
    return CompiledTemplates(str(package / "__pycache__"), f"%s.{versions}")
