"""Contains the input formats, such as Parquet. A format reads the files of an input as numbered raw records (not yet
validated).
"""
