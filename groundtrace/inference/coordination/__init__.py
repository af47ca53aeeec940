"""Coordinates the processes of one machine that share an endpoint (a model to which requests are sent), a budget or a
reply cache.
"""
