"""Sending a finished run to the Hugging Face Hub.

The way through it: :mod:`publishing.hub.sources` decides by licence which rows may go, :mod:`publishing.hub.shards`
copies the shards that must not go whole, :mod:`publishing.hub.prepare` puts all that will be sent in one folder,
:mod:`publishing.hub.card_check` checks its card, and :mod:`publishing.hub.upload` sends it.
"""
