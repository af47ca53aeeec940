"""The verifier as a reward in other trainers, one module a trainer. Re-exports only: docs/rewards.md.

Trainers also load these modules by the path of their file.
"""
