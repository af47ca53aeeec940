"""Coordinates the processes of one machine that share an endpoint, a budget or a reply cache."""
