"""Defines the error for a shard (Parquet file of rows) that must not be read."""

from groundtrace.schemas.errors import UserError


class ShardFault(UserError):
    """Raised if a shard must not be read. The message names the file, and states the fault and the remedy."""
