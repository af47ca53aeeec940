"""Stores the replies of models in a cache, so that no request has to be paid for twice. The cache is on one machine or
is shared by several machines.
"""
