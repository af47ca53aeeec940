"""The ``beam`` command."""
