"""Holds the recipes, and the ``beam`` command that runs them.

A recipe is a Python file that describes a graph of stages. A stage is one of the steps by which questions about images
become training data.
"""

if __name__ != "groundtrace.pipelines":  # such as by a script with the repository's top on its path
    raise ImportError(
        "import this package as groundtrace.pipelines: under another name, Python would load its classes twice"
    )
