"""Provides one interface to every model, with a reply cache, retries and accounting."""
