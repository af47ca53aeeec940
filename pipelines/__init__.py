"""The recipes, one DAG in each file, and the ``beam`` command that runs them."""

if __name__ != "groundtrace.pipelines":  # such as by a script with the repository's top on its path
    raise ImportError("import it as groundtrace.pipelines: under a second name its classes would be other classes")
