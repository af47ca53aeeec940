"""Holds the parts of bench_main_job.py: the inputs, the bare sides, the processes, and the kept figures."""
