"""Contains the Beam code that all stages use, such as the base classes of stages, and the code that writes shards, i.e.
the Parquet files of rows.
"""
