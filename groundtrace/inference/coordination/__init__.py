"""Coordinates the processes that share an endpoint, a budget or a reply cache on one machine."""
