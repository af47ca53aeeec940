"""Contains the Beam code that all stages share: for example, the base classes of stages, and the code that writes
shards (Parquet files of rows).
"""
