"""Holds the recipes and the ``beam`` command that runs them. A recipe is a graph of stages, in one file. It describes
how questions about images become training data.
"""

if __name__ != "groundtrace.pipelines":  # such as by a script with the repository's top on its path
    raise ImportError(
        "import this package as groundtrace.pipelines: under another name, Python would load its classes twice"
    )
