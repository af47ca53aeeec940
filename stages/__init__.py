"""Contains the stages, of which the pipelines consist. A stage does one job for each question, such as filtering.

Each file has one stage, which is one Beam transform.
"""

if __name__ != "groundtrace.stages":  # such as by a script with the repository's top on its path
    raise ImportError(
        "import this package as groundtrace.stages: under another name, Python would load its classes twice"
    )
