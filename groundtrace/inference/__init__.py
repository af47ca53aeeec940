"""Sends requests to models, for the stages, scorers and trainers of this project. All models have one interface. The
package stores replies in a cache, repeats failed requests, and counts tokens and costs.
"""
