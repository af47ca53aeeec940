"""Sends requests to models. All models have one interface. The package stores replies in a cache, repeats failed
requests, and counts tokens and costs.
"""
