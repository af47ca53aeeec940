"""Coordinates the processes of one machine that share an endpoint (an address of a model), a budget or a reply cache.
"""
