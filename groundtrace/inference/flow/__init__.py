"""Decides when requests to models are sent: it limits concurrency, rates and spending, repeats failed requests, and
handles servers that are down.
"""
