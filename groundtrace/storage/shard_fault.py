"""Defines the error for a shard (Parquet file of rows) that must not be read."""

from groundtrace.schemas.errors import UserError


class ShardFault(UserError):
    """Raised if a shard (Parquet file of rows) must not be read; the message has the fault and the remedy."""
