"""The outputs of a run for people and for other programs: figures, data card, report, exports, the Hub, rewards."""
