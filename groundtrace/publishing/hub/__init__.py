"""Publishes a finished run on the Hugging Face Hub.

:mod:`groundtrace.publishing.hub.sources` decides by licence which rows may be published.
:mod:`groundtrace.publishing.hub.shards` copies shards that cannot be published unchanged.
:mod:`groundtrace.publishing.hub.prepare` puts all files to publish in one folder.
:mod:`groundtrace.publishing.hub.card_check` checks the data card.
:mod:`groundtrace.publishing.hub.upload` uploads the files.
"""
