"""Sending a finished run to the Hugging Face Hub.

The way through it: :mod:`groundtrace.publishing.hub.sources` decides by licence which rows may go,
:mod:`groundtrace.publishing.hub.shards` copies the shards that must not go whole,
:mod:`groundtrace.publishing.hub.prepare` puts all that will be sent in one folder,
:mod:`groundtrace.publishing.hub.card_check` checks its card, and :mod:`groundtrace.publishing.hub.upload` sends it.
"""
