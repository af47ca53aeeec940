"""Contains the stages, of which the pipelines consist. A stage does one job, such as filtering the questions.

Each stage is one Beam transform. Most files have one stage. The folder ``plumbing`` has the code that all stages share,
and the folder ``sources`` has the input formats.
"""

if __name__ != "groundtrace.stages":  # such as by a script with the repository's top on its path
    raise ImportError(
        "import this package as groundtrace.stages: under another name, Python would load its classes twice"
    )
