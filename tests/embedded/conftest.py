"""The fixtures that ask the embedded engine, and save images for it."""

from ..inference.conftest import engine, medium

__all__ = ["engine", "medium"]
