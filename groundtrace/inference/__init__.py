"""Sends requests to models, for all parts of this project: data pipelines, scorers of responses, and trainers. All
models have one interface. The package stores replies in a cache, repeats failed requests, and counts tokens and costs.
"""
