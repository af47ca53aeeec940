"""Publishes the results of a run (one execution of a pipeline).

The results are the report, the data card, the web view, exports, and rewards for other trainers. A run can also be
uploaded to the Hugging Face Hub.
"""
