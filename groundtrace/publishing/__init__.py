"""Publishes the results of a run (one execution of a pipeline): report, data card, web view, exports, rewards for other
trainers, and upload to the Hugging Face Hub.
"""
