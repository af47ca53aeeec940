"""Passes on a run's results: report, data card, web view, exports, rewards for other trainers, and the Hub."""
