"""Compares two finished runs: the size of each output set (sft, rl or rejected), records that ended in different output
sets, scores, and settings.
"""
