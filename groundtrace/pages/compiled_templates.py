"""Keeps compiled Jinja templates on the disk, because a run needs longer to compile its templates than to fill them.

The compiled templates are in the folder ``__pycache__``, beside the package's compiled modules, and are trusted in the
same way.
"""

import sys
from importlib.resources.abc import Traversable
from pathlib import Path

import jinja2
from jinja2.bccache import Bucket


class CompiledTemplates(jinja2.FileSystemBytecodeCache):
    """Stores the compiled templates of one package.

    Before Jinja uses a stored template, it checks that three things are unchanged: the template's text (by a checksum),
    the version of Jinja, and the version of Python. As with Python's compiled modules, nothing is stored if Python is
    started with ``-B`` or if the folder cannot be written.
    """

    def load_bytecode(self, bucket: Bucket) -> None:
        """Load a stored template; if its file cannot be used, Jinja compiles the template again."""
        try:
            super().load_bytecode(bucket)
        except Exception:  # a damaged file may raise any error of pickle or marshal
            bucket.reset()

    def dump_bytecode(self, bucket: Bucket) -> None:
        """Store a compiled template, if this is possible."""
        if sys.dont_write_bytecode:
            return
        try:
            super().dump_bytecode(bucket)
        except OSError:  # a full disk or a folder that is read-only: the next process compiles the template again
            return


def compiled_templates(package: Traversable) -> CompiledTemplates | None:
    """Return the store of a package's compiled templates; None if the package is not in a folder, as in a zip file.

    ``package`` is the package's folder, as :func:`importlib.resources.files` returns it.
    """
    if not isinstance(package, Path):
        return None
    return CompiledTemplates(str(package / "__pycache__"), f"%s.{sys.implementation.cache_tag}.jinja")
