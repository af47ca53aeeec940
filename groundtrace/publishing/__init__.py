"""Makes the outputs of a run for people and other programs: figures, data card, report, exports, the Hub, rewards."""
